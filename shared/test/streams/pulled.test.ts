/**
 * Streams made of others: nobody's cancel is lost, nothing is read ahead, and failures go both
 * ways.
 */
import { describe, expect, test } from 'vitest';
import { sliceStream } from '../../crypto/payload/span.ts';
import { hashingStream } from '../../ipfs/index.ts';
import { ByteSource } from '../../streams/byte-source.ts';
import { observed, peeked, pulled } from '../../streams/pulled.ts';
import { readAll } from '../../streams/read-all.ts';

type Stream = ReadableStream<Uint8Array>;

/**
 * A stream of chunks of one byte, which records how many were asked for and what it was cancelled
 * with.
 */
function counting(chunks = 3, failure?: Error) {
  const cancelled: unknown[] = [];
  let asked = 0;
  const stream: Stream = new ReadableStream(
    {
      pull(controller) {
        asked += 1;
        if (asked <= chunks) return controller.enqueue(Uint8Array.of(asked));
        if (failure === undefined) return controller.close();
        throw failure;
      },
      cancel: (reason) => void cancelled.push(reason),
    },
    { highWaterMark: 0 },
  );
  return { stream, cancelled, asked: () => asked };
}

/** Each way to wrap a stream, and the chunks that it asks for before somebody reads. */
const wrappers: Record<string, { wrap: (stream: Stream) => Stream | Promise<Stream>; ahead: number }> = {
  pulled: { wrap: pulledFrom, ahead: 0 },
  'pulled, a chunk ahead': { wrap: (stream) => pulledFrom(stream, 1), ahead: 1 },
  observed: { wrap: (stream) => observed(stream, {}), ahead: 0 },
  'peeked at nothing': { wrap: async (stream) => (await peeked(stream, 0)).stream, ahead: 0 },
  'peeked at its start': { wrap: async (stream) => (await peeked(stream)).stream, ahead: 1 },
  'observed and peeked': { wrap: async (stream) => (await peeked(observed(stream, {}), 2)).stream, ahead: 2 },
  'the rest of a source': { wrap: (stream) => new ByteSource(stream).rest(), ahead: 1 },
  sliceStream: { wrap: (stream) => sliceStream(stream, 0, 3), ahead: 1 },
  hashingStream: { wrap: (stream) => hashingStream(stream).stream, ahead: 0 },
};

function pulledFrom(stream: Stream, ahead?: number): Stream {
  const reader = stream.getReader();
  return pulled({
    next: async () => (await reader.read()).value,
    cancel: (reason) => reader.cancel(reason),
    ...(ahead === undefined ? {} : { ahead }),
  });
}

/** Waits until everything has run that could run without somebody who reads. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

describe.each(Object.entries(wrappers))('%s', (_, { wrap, ahead }) => {
  test.each([0, 1, 2])('hands a cancel on, with its reason, after %d reads', async (reads) => {
    const source = counting();
    const reader = (await wrap(source.stream)).getReader();
    for (let read = 0; read < reads; read += 1) await reader.read();
    await reader.cancel('enough');
    expect(source.cancelled).toEqual(['enough']);
  });

  test('asks for as little in advance as it says', async () => {
    const source = counting();
    const stream = await wrap(source.stream);
    await settled();
    expect(source.asked()).toBe(ahead);
    await stream.cancel();
  });

  test('fails with the error of its source, and cancels nothing then', async () => {
    const failure = new Error('broken');
    const source = counting(2, failure);
    await expect((async () => readAll(await wrap(source.stream), 100, Error))()).rejects.toBe(failure);
    expect(source.cancelled).toEqual([]);
  });

  test('gives every byte, in order', async () => {
    expect([...(await readAll(await wrap(counting().stream), 100, Error))]).toEqual([1, 2, 3]);
  });
});

describe('observed', () => {
  test.each(['onChunk', 'onEnd'] as const)(
    'cancels its source with the error of %s, and fails with that',
    async (at) => {
      const failure = new Error('unwanted');
      const source = counting(at === 'onEnd' ? 0 : 2);
      const refuse = () => {
        throw failure;
      };
      await expect(readAll(observed(source.stream, { [at]: refuse }), 100, Error)).rejects.toBe(failure);
      await settled();
      expect(source.cancelled).toEqual(at === 'onEnd' ? [] : [failure]);
    },
  );

  test('fails with the error that is made of the first', async () => {
    const onFail = (error: unknown) => new Error('translated', { cause: error });
    const stream = observed(counting(0, new Error('broken')).stream, { onFail });
    await expect(readAll(stream, 100, Error)).rejects.toMatchObject({
      message: 'translated',
      cause: { message: 'broken' },
    });
  });

  test('waits for what is done with a chunk before it continues', async () => {
    const order: string[] = [];
    const stream = observed(counting(1).stream, {
      async onChunk() {
        await settled();
        order.push('looked at');
      },
    });
    await readAll(stream, 100, Error);
    order.push('read');
    expect(order).toEqual(['looked at', 'read']);
  });

  test('is told once of a cancel, while a read is pending too', async () => {
    const told: unknown[] = [];
    const source = counting();
    const { promise: passed, resolve: pass } = Promise.withResolvers<void>();
    const stream = observed(source.stream, { onChunk: () => passed, onCancel: (reason) => void told.push(reason) });
    const reader = stream.getReader();
    const pending = reader.read();
    await settled();
    await reader.cancel('left');
    pass();
    await Promise.all([pending, settled()]);
    expect(told).toEqual(['left']);
    expect(source.cancelled).toEqual(['left']);
  });
});

describe('peeked', () => {
  test.each([
    [0, [], false],
    [1, [1], false],
    [3, [1, 2, 3], false],
    [4, [1, 2, 3], true],
  ])('of %d bytes reads the chunks up to there', async (bytes, read, isAll) => {
    const peek = await peeked(counting().stream, bytes);
    expect({ start: peek.start.map(([byte]) => byte), isAll: peek.isAll }).toEqual({ start: read, isAll });
    expect(peek.startBytes).toBe(read.length);
    expect([...(await readAll(peek.stream, 100, Error))]).toEqual([1, 2, 3]);
    expect(peek.start).toEqual([]);
  });
});
