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

/** Chunks that have passed, and the bytes of them that are held near the end. */
class Passed {
  readonly #chunks: { readonly reference: WeakRef<Uint8Array>; readonly bytes: number }[] = [];
  bytes = 0;
  held: number | undefined;

  async see(chunk: Uint8Array): Promise<void> {
    this.#chunks.push({ reference: new WeakRef(chunk), bytes: chunk.length });
    this.bytes += chunk.length;
    if (this.bytes < 0.8 * count * mib || this.held !== undefined) return;
    this.held = 0;
    // What a reference was asked for in this turn is kept to its end.
    await new Promise((resolve) => setImmediate(resolve));
    // Once: it takes tenths of a second where many files have run.
    runInNewContext('gc()');
    for (const { reference, bytes } of this.#chunks) if (reference.deref() !== undefined) this.held += bytes;
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

/** What was sent last, or is for the calls that read it. */
let sent: ReturnType<Connection['send']> | undefined;
const large = () => (sent ??= connection.send({ source: made(), name: 'large', size: count * mib }));

const calls: Record<string, (passed: Passed) => Promise<unknown>> = {
  cidOf: (passed) => cidOf(made(passed), { signal }),
  seal: async (passed) => read(undefined, await seal(made(passed), { to: { keys: keys.recipient }, signal })),
  'the result of seal': async (passed) => read(passed, await seal(made(), { to: { keys: keys.recipient }, signal })),
  async open(passed) {
    const sealed = await seal(made(), { to: { keys: keys.recipient } });
    await read(passed, await open(sealed.stream, { with: { keys: keys.privateKey }, signal }));
  },
  send: (passed) => (sent = connection.send({ source: made(passed), name: 'large', size: count * mib }, { signal })),
  async get(passed) {
    const { files } = await large();
    await read(passed, await connection.get(first(files).fileId, { signal }));
  },
  async receive(passed) {
    const received = await receive((await large()).link, { signal });
    await read(passed, await first(received.files).open({ signal }));
  },
  async fetchBlob(passed) {
    const { files } = await large();
    await read(passed, await fetchBlob(first(files).cid, { from: service.url, signal }));
  },
};

test.each(Object.entries(calls))('%s', async (_, call) => {
  const passed = new Passed();
  await call(passed);
  expect(passed.bytes).toBeGreaterThanOrEqual(count * mib);
  expect(passed.held).toBeLessThan((count / 3) * mib);
});
