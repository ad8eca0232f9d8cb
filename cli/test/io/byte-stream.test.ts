import { describe, expect, test } from 'vitest';
import { bytesFrom, release } from '../../io/byte-stream.ts';

test('bytes that fill their buffer are released, and a part of a larger buffer is left alone', () => {
  const whole = Uint8Array.of(1, 2, 3);
  const part = new Uint8Array(8).subarray(2, 5);
  release(whole);
  release(part);
  expect(whole.length).toBe(0);
  expect(part.length).toBe(3);
});

describe('a byte stream out of pieces', () => {
  function from(pieces: readonly (Uint8Array | Error)[]): { stream: ReadableStream<Uint8Array>; cancelled: unknown[] } {
    const left = [...pieces];
    const cancelled: unknown[] = [];
    const next = async (): Promise<Uint8Array | undefined> => {
      const piece = left.shift();
      if (piece instanceof Error) throw piece;
      return piece;
    };
    return { stream: bytesFrom({ next, used: release, cancel: (reason) => void cancelled.push(reason) }), cancelled };
  }
  const byob = (stream: ReadableStream<Uint8Array>) => {
    const reader = stream.getReader({ mode: 'byob' });
    return async (bytes: number): Promise<number[] | undefined> => {
      const { done, value } = await reader.read(new Uint8Array(bytes));
      return done ? undefined : [...value];
    };
  };

  test('fills the buffer of a BYOB read, whatever the cuts, and then ends', async () => {
    const read = byob(from([Uint8Array.of(1), new Uint8Array(0), Uint8Array.of(2, 3, 4), Uint8Array.of(5)]).stream);
    expect(await read(3)).toEqual([1, 2, 3]);
    expect(await read(3)).toEqual([4, 5]);
    expect(await read(3)).toBeUndefined();
  });

  test('gives what came before a failure, and then the failure', async () => {
    const read = byob(from([Uint8Array.of(1, 2), new Error('broken')]).stream);
    expect(await read(3)).toEqual([1, 2]);
    await expect(read(3)).rejects.toThrow('broken');
  });

  test('gives a default reader piece by piece, also out of a shared buffer', async () => {
    const shared = Buffer.from([1, 2, 3, 4]);
    const chunks: number[][] = [];
    for await (const chunk of from([shared.subarray(0, 2), shared.subarray(2)]).stream) chunks.push([...chunk]);
    expect(chunks).toEqual([
      [1, 2],
      [3, 4],
    ]);
    expect([...shared]).toEqual([1, 2, 3, 4]);
  });

  test('reports each piece that was copied', async () => {
    const pieces = [new Uint8Array(2), new Uint8Array(2)];
    const read = byob(from(pieces).stream);
    await read(4);
    await read(1);
    expect(pieces.map(({ length }) => length)).toEqual([0, 0]);
  });

  test('passes a cancel on to its source', async () => {
    const { stream, cancelled } = from([Uint8Array.of(1)]);
    await stream.cancel('enough');
    expect(cancelled).toEqual(['enough']);
  });
});
