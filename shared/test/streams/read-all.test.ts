import { describe, expect, test } from 'vitest';
import { concat } from '../../streams/concat.ts';
import { readAll } from '../../streams/read-all.ts';

const tooLarge = () => new Error('too large');

/** Gives the chunks one by one and records whether it was cancelled. */
function webStream(chunks: readonly Uint8Array[]): { stream: ReadableStream<Uint8Array>; isCancelled(): boolean } {
  let index = 0;
  let cancelled = false;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[index];
        index += 1;
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, isCancelled: () => cancelled };
}

const parts = [Uint8Array.of(1, 2), Uint8Array.of(), Uint8Array.of(3)];

describe('readAll', () => {
  test('returns the bytes of a stream of exactly the limit', async () => {
    const { stream, isCancelled } = webStream(parts);
    expect(await readAll(stream, 3, tooLarge)).toEqual(Uint8Array.of(1, 2, 3));
    expect(isCancelled()).toBe(false);
  });

  test('throws the error of the caller and cancels the stream when it gives more', async () => {
    const { stream, isCancelled } = webStream(parts);
    await expect(readAll(stream, 2, tooLarge)).rejects.toThrow('too large');
    expect(isCancelled()).toBe(true);
  });

  test('does not wait for the cancel, nor report its error', async () => {
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(Uint8Array.of(1, 2, 3)),
      cancel: () => Promise.reject(new Error('cancel')),
    });
    await expect(readAll(stream, 2, tooLarge)).rejects.toThrow('too large');
  });

  test('passes on the error of the stream', async () => {
    const stream = new ReadableStream<Uint8Array>({
      pull: () => Promise.reject(new Error('broken')),
    });
    await expect(readAll(stream, 2, tooLarge)).rejects.toThrow('broken');
  });

  test('reads any other source of chunks, which it leaves when that gives too much', async () => {
    let left = false;
    async function* source() {
      try {
        yield* parts;
      } finally {
        left = true;
      }
    }
    expect(await readAll(source(), 3, tooLarge)).toEqual(Uint8Array.of(1, 2, 3));
    left = false;
    await expect(readAll(source(), 1, tooLarge)).rejects.toThrow('too large');
    expect(left).toBe(true);
  });

  test('reads a missing body as no bytes', async () => {
    expect(await readAll(null, 0, tooLarge)).toEqual(new Uint8Array(0));
  });
});

test('concat joins arrays into a new one', () => {
  const first = Uint8Array.of(1);
  const whole = concat(first, Uint8Array.of(), Uint8Array.of(2, 3));
  expect(whole).toEqual(Uint8Array.of(1, 2, 3));
  expect(concat(first)).not.toBe(first);
  expect(concat()).toHaveLength(0);
});
