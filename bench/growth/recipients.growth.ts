/** The cost of an age file by its recipients: writing it, opening it as the last of them, and the size of its header. */
import { randomBytes } from 'node:crypto';
import { encrypt, generateKeyPair, open, parseIdentities, parseRecipients } from '../../shared/crypto/index.ts';
import { nodeBackend as backend } from '../../cli/keys/node-backend.ts';
import { at, line, textOf } from './series.ts';
import type { Axis, Growth, Run, Series } from './series.ts';

const x: Axis = { what: 'recipients', base: 10 };
const counts = [1, 3, 10, 30, 100, 300, 1000];
const plaintext = new Uint8Array(randomBytes(1024));

export const growth: Growth = { run: recipients };

async function* recipients({ quick, step }: Run): AsyncGenerator<Series> {
  const used = quick ? counts.slice(0, 3) : counts;
  const pairs = await Promise.all(Array.from({ length: Math.max(...used) }, () => generateKeyPair(backend)));
  const sealing = line('encrypting', 'time', 'ms');
  const opening = line('opening, as the last recipient', 'time', 'ms');
  const header = line('header', 'size', 'KiB');
  for (const count of used) {
    const own = pairs.slice(0, count);
    const keys = own.map(({ recipient }) => recipient);
    const to = parseRecipients(keys.join('\n'));
    const last = parseIdentities(own.at(-1)?.privatePem ?? '');
    const seal = async () =>
      bytesOf((await encrypt(new Blob([plaintext]).stream(), { format: 'age', recipients: to, backend })).stream);
    const container = await seal();
    const unseal = async () => {
      const opened = await open(new Blob([new Uint8Array(container)]).stream(), { backend });
      if (!('decrypt' in opened)) throw new Error(`it is ${opened.kind}`);
      return bytesOf(await opened.decrypt(last));
    };
    if (!(await unseal()).equals(plaintext)) throw new Error('the decrypted bytes are wrong');
    const runs: [number, number][] = [];
    for (let round = quick ? 1 : 9; round >= 0; round -= 1) {
      step(`recipients: ${textOf(count, x)}, ${round} to go`);
      runs.push([await perCallMs(seal), await perCallMs(unseal)]);
    }
    // The first run warms up the compiler.
    const kept = runs.slice(1);
    sealing.points.push(
      at(
        count,
        kept.map(([ms]) => ms),
      ),
    );
    opening.points.push(
      at(
        count,
        kept.map(([, ms]) => ms),
      ),
    );
    header.points.push(at(count, [headerBytes(container) / 1024]));
  }
  yield {
    name: 'recipients',
    title: 'An age file of 1 KiB for more and more recipients (P-256), in Node',
    x,
    lines: [sealing, opening, header],
  };
}

/** The time of one call in ms, over enough calls for the clock. */
async function perCallMs(act: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  let calls = 0;
  do {
    await act();
    calls += 1;
  } while (performance.now() - begun < 50);
  return (performance.now() - begun) / calls;
}

/** Up to the end of the MAC's line, the only one that begins with three dashes and a space. */
function headerBytes(container: Buffer): number {
  return container.indexOf('\n', container.indexOf('\n--- ') + 1) + 1;
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  return Buffer.from(await new Response(stream).arrayBuffer());
}
