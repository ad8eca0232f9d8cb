import { describe, expect, it } from 'vitest';
import { acquireReader, byteReader, pieceReader } from '../../streams/reader.ts';

const bytes = Uint8Array.from({ length: 10 }, (_, index) => index + 1);

/** The same bytes in chunks of three, as a byte stream and as another one. */
function streams(cancelled: unknown[] = []): Record<'byte' | 'default', ReadableStream<Uint8Array>> {
  const cancel = (reason: unknown) => void cancelled.push(reason);
  const chunks = () => [bytes.slice(0, 3), bytes.slice(3, 6), new Uint8Array(), bytes.slice(6, 9), bytes.slice(9)];
  const rest = chunks();
  const others = chunks().filter((chunk) => chunk.length > 0);
  return {
    byte: new ReadableStream({
      type: 'bytes',
      pull(controller) {
        const next = others.shift();
        if (next) controller.enqueue(new Uint8Array(next));
        else {
          controller.close();
          controller.byobRequest?.respond(0);
        }
      },
      cancel,
    }),
    default: new ReadableStream<Uint8Array>({
      pull(controller) {
        const next = rest.shift();
        if (next) controller.enqueue(next);
        else controller.close();
      },
      cancel,
    }),
  };
}

async function piecesOf(stream: ReadableStream<Uint8Array>): Promise<number[][]> {
  const reader = pieceReader(stream, 4);
  const pieces: number[][] = [];
  for (let piece = await reader.next(); piece; piece = await reader.next()) pieces.push([...piece]);
  return pieces;
}

describe('acquireReader', () => {
  it('takes a byte stream with a BYOB reader, and any other with a default reader', () => {
    expect(acquireReader(streams().byte).byob).toBe(true);
    expect(acquireReader(streams().default).byob).toBe(false);
  });

  it('throws for a locked stream of either kind', () => {
    for (const stream of Object.values(streams())) {
      acquireReader(stream);
      expect(() => acquireReader(stream)).toThrow(TypeError);
    }
  });
});

describe('byteReader', () => {
  it.each(['byte', 'default'] as const)('reads by length, whatever the cuts: %s', async (kind) => {
    const reader = byteReader(streams()[kind]);
    expect([...(await reader.read(4))]).toEqual([1, 2, 3, 4]);
    expect([...(await reader.read(1))]).toEqual([5]);
    expect([...(await reader.read(100))]).toEqual([6, 7, 8, 9, 10]);
    expect([...(await reader.read(100))]).toEqual([]);
  });

  it('gives the memory of a chunk back once all of it is copied', async () => {
    const given: number[][] = [];
    const memory = {
      take: (length: number) => new Uint8Array(length),
      giveBack: (chunk: Uint8Array) => void given.push([...chunk]),
    };
    const reader = byteReader(streams().default, memory);
    await reader.read(4);
    expect(given).toEqual([[1, 2, 3]]);
    await reader.read(100);
    expect(given.slice(1).filter((chunk) => chunk.length > 0)).toEqual([[4, 5, 6], [7, 8, 9], [10]]);
  });
});

describe('pieceReader', () => {
  it('fills buffers from a byte stream, and leaves other chunks as they are', async () => {
    const chunks = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]];
    expect(await piecesOf(streams().default)).toEqual(chunks);
    expect(await piecesOf(streams().byte)).toEqual([
      [1, 2, 3, 4],
      [5, 6, 7, 8],
      [9, 10],
    ]);
  });

  it('passes a cancel on', async () => {
    const cancelled: unknown[] = [];
    for (const stream of Object.values(streams(cancelled))) await pieceReader(stream, 4).cancel('enough');
    expect(cancelled).toEqual(['enough', 'enough']);
  });
});
