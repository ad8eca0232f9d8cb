/** No call of the SDK holds what has passed through it, beside a signal that is never aborted. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, expect, test } from 'vitest';
import { first } from '../../testkit/present.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import { cidOf, connect, fetchBlob, generateKeys, open, receive, seal, type Connection, type Keys } from '../index.ts';

const mib = 2 ** 20;
const count = 24;
const { signal } = new AbortController();

let service: Service;
let connection: Connection;
let keys: Keys;
beforeAll(async () => {
  setFlagsFromString('--expose-gc');
  service = await sharedService();
  connection = connect({ service: service.url, apiKey: (await service.account()).apiKey });
  keys = await generateKeys();
});

/** Chunks that have passed, and the most bytes of them that were held at once. */
class Passed {
  #chunks: { readonly reference: WeakRef<Uint8Array>; readonly bytes: number }[] = [];
  #unseen = 0;
  bytes = 0;
  mostHeld = 0;

  async see(chunk: Uint8Array): Promise<void> {
    this.#chunks.push({ reference: new WeakRef(chunk), bytes: chunk.length });
    this.bytes += chunk.length;
    this.#unseen += chunk.length;
    if (this.#unseen < 6 * mib) return;
    this.#unseen = 0;
    // What a reference was asked for in this turn is kept to its end.
    await new Promise((resolve) => setImmediate(resolve));
    runInNewContext('gc()');
    this.#chunks = this.#chunks.filter(({ reference }) => reference.deref() !== undefined);
    const held = this.#chunks.reduce((sum, { bytes }) => sum + bytes, 0);
    this.mostHeld = Math.max(this.mostHeld, held);
  }
}

/** A stream whose chunks are seen as they are made. */
function made(passed?: Passed): ReadableStream<Uint8Array> {
  let index = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        const chunk = new Uint8Array(mib).fill((index += 1));
        controller.enqueue(chunk);
        if (index === count) controller.close();
        await passed?.see(chunk);
      },
    },
    { highWaterMark: 0 },
  );
}

async function read(passed: Passed | undefined, { stream }: { stream: ReadableStream<Uint8Array> }): Promise<void> {
  for await (const chunk of stream) await passed?.see(chunk);
}

const calls: Record<string, (passed: Passed) => Promise<unknown>> = {
  cidOf: (passed) => cidOf(made(passed), { signal }),
  seal: async (passed) => read(undefined, await seal(made(passed), { to: { keys: keys.recipient }, signal })),
  'the result of seal': async (passed) => read(passed, await seal(made(), { to: { keys: keys.recipient }, signal })),
  async open(passed) {
    const sealed = await seal(made(), { to: { keys: keys.recipient } });
    await read(passed, await open(sealed.stream, { with: { keys: keys.privateKey }, signal }));
  },
  async get(passed) {
    const { fileId } = await connection.put(made(), { name: 'large' });
    await read(passed, await connection.get(fileId, { signal }));
  },
  send: (passed) => connection.send({ source: made(passed), name: 'large', size: count * mib }, { signal }),
  async 'receive and fetchBlob'(passed) {
    const { link, files } = await connection.send({ source: made(), name: 'large', size: count * mib });
    const received = await receive(link, { signal });
    await read(passed, await first(received.files).open({ signal }));
    await read(passed, await fetchBlob(first(files).cid, { from: service.url, signal }));
  },
};

test.each(Object.entries(calls))('%s', async (_, call) => {
  const passed = new Passed();
  await call(passed);
  expect(passed.bytes).toBeGreaterThanOrEqual(count * mib);
  expect(passed.mostHeld).toBeLessThan((count / 3) * mib);
});
