import { createCipheriv, createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { cidBuilder, leafBytes } from '../../ipfs/index.ts';
import { startModule } from '../../../testkit/workerd.ts';
import vectors from './vectors/ipip-499.json' with { type: 'json' };
import { present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const [full, over] = vectors.files
  .filter((vector) => vector.seed === 'v1-2025-seed')
  .map(({ cid, bytes }) => ({ cid, bytes: present(bytes) }));

/** The bytes of both vectors; the second has one more. */
function* pieces(bytes: number): Generator<Uint8Array> {
  const cipher = createCipheriv('chacha20', createHash('sha256').update('v1-2025-seed').digest(), Buffer.alloc(16));
  const zeros = Buffer.alloc(leafBytes);
  for (let at = 0; at < bytes; at += leafBytes) yield cipher.update(zeros.subarray(0, Math.min(leafBytes, bytes - at)));
}

describe('the CID of a long stream', () => {
  it('S74: IPIP-499 unixfs-v1-2025: 1 GiB fills one node, one byte more begins another', async () => {
    // Of zeros, whose leaves are hashed once, the short form tries both (`suites/trees.ts`).
    for (const vector of long ? [present(full), present(over)] : [present(over)]) {
      const builder = cidBuilder();
      for (const piece of pieces(vector.bytes)) await builder.write(piece);
      expect(await builder.finish()).toEqual(vector);
    }
  });

  it.runIf(long)('S74: the same in workerd, from the body of a request', async () => {
    const worker = await startModule('shared/test/ipfs/isolate.ts');
    try {
      for (const vector of [present(full), present(over)]) {
        const source = pieces(vector.bytes);
        const body = new ReadableStream<Uint8Array>({
          pull(controller) {
            const { done, value } = source.next();
            if (done) controller.close();
            else controller.enqueue(value);
          },
        });
        const init: RequestInit & { duplex: 'half' } = {
          method: 'POST',
          body: body as ReadableStream<Uint8Array<ArrayBuffer>>,
          duplex: 'half',
        };
        expect(await (await fetch(worker.url, init)).json()).toEqual(vector);
      }
    } finally {
      await worker.close();
    }
  });
});
