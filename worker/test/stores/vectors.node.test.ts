/**
 * The copies of buckets that `contrib/rescue.py` is tested with: what lies in a bucket for ever is
 * read by the adapters as well, and refused by them.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openFile } from '../../../shared/ipfs/index.ts';
import { sendS3 } from '../../../testkit/object-stores/s3-requests.ts';
import { startVersitygw } from '../../../testkit/object-stores/versitygw.ts';
import { startWorker } from '../../../testkit/workerd.ts';
import { ci } from '../../../testkit/long-run.ts';
import type { AdapterContext } from '../../backends/contract.ts';
import type { ObjectStore } from '../../backends/objects/store-contract.ts';
import { r2Adapter } from '../../backends/r2/r2.ts';
import { s3Adapter } from '../../backends/s3/s3.ts';
import { costlyKinds, kinds, missing, type Kind } from './store-under-test.ts';

/** Bytes in base64, or so many bytes of a text that is repeated. */
type Content = string | { repeat: string; bytes: number };
type Named = { name: string; prefix: string; cid: string };

const vectors = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../../shared/test/vectors/object-stores/copies.json'), 'utf8'),
) as {
  objects: Record<string, Content>;
  files: (Named & { sha256: string })[];
  refused: (Named & { objects: Record<string, Content | null> })[];
};

const bytesOf = (content: Content): Buffer =>
  typeof content === 'string' ? Buffer.from(content, 'base64') : Buffer.alloc(content.bytes, content.repeat);

type Filled = {
  storeAt(prefix: string): ObjectStore;
  put(key: string, bytes: Uint8Array<ArrayBuffer> | null): Promise<unknown>;
  close(): Promise<void>;
};

const context = { id: 'store', serviceId: 'tested', fetch } as unknown as AdapterContext;

const start: Readonly<Record<Kind, () => Promise<Filled>>> = {
  async r2() {
    const contents = 'export default {}';
    const { miniflare, close } = await startWorker(() => ({
      modules: [{ type: 'ESModule', path: '/worker.js', contents }],
      r2Buckets: ['BUCKET'],
    }));
    const bucket = (await miniflare.getR2Bucket('BUCKET')) as unknown as R2Bucket;
    // Miniflare's proxy does not say what it has.
    const bound = new Proxy(bucket, { has: () => true });
    return {
      storeAt: (prefix) =>
        r2Adapter.make({ binding: 'BUCKET', prefix }, { ...context, bindingOf: () => bound }) as ObjectStore,
      put: (key, bytes) => (bytes === null ? bucket.delete(key) : bucket.put(key, bytes)),
      close,
    };
  },
  async s3() {
    const { url, bucket, region, keyId, secret, close, ...gateway } = await startVersitygw();
    const at = { ...gateway, url, bucket, region, keyId, secret };
    const options = { url, bucket, region, keySecret: 'KEY', secretSecret: 'SECRET' };
    const secretOf = (name: string): string => (name === 'KEY' ? keyId : secret);
    return {
      storeAt: (prefix) => s3Adapter.make({ ...options, prefix }, { ...context, secretOf }) as ObjectStore,
      put: (key, bytes) => (bytes === null ? sendS3(at, 'DELETE', key) : sendS3(at, 'PUT', key, { body: bytes })),
      close,
    };
  },
};

const signal = new AbortController().signal;

/** Reads a file and gives its digest. */
async function digestOf(store: ObjectStore, cid: string): Promise<string> {
  const hash = createHash('sha256');
  const { read } = await openFile(cid, [store.source(cid)], { signal });
  for await (const chunk of read()) hash.update(chunk);
  return hash.digest('hex');
}

// In the short form, R2 is read by `files.node.test.ts` alone.
describe.each(ci ? kinds : costlyKinds)('%s', (kind) => {
  const why = missing(kind);
  it.skipIf(why !== undefined)(`gives every file of a copy, and none that is not proven${why ?? ''}`, async () => {
    const { storeAt, put, close } = await start[kind]();
    const all = async (objects: Record<string, Content | null>): Promise<void> => {
      for (const [key, content] of Object.entries(objects))
        await put(key, content === null ? null : new Uint8Array(bytesOf(content)));
    };
    try {
      await all(vectors.objects);
      for (const { name, prefix, cid, sha256 } of vectors.files)
        expect(await digestOf(storeAt(prefix), cid), name).toBe(sha256);
      // What is believed is decided above the buckets.
      for (const { name, prefix, cid, objects } of kind === 's3' ? vectors.refused : []) {
        await all(objects);
        const read = digestOf(storeAt(prefix), cid).then(
          () => 'read',
          () => 'refused',
        );
        expect(await read, name).toBe('refused');
        await all(Object.fromEntries(Object.keys(objects).map((key) => [key, vectors.objects[key] ?? null])));
      }
    } finally {
      await close();
    }
  });
});
