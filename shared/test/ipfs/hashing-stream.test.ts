import { describe, expect, it } from 'vitest';
import { leafBytes, hashingStream } from '../../ipfs/index.ts';
import { bytesOf, cidOfChunks, identical, pieces, randomBytes, streamOf } from './source.ts';

function byteStream(data: Uint8Array, size: number): ReadableStream<Uint8Array> {
  const rest = pieces(data, size);
  return new ReadableStream({
    type: 'bytes',
    pull(controller) {
      const next = rest.shift();
      if (next) controller.enqueue(next.slice());
      else {
        controller.close();
        controller.byobRequest?.respond(0);
      }
    },
  });
}

describe('hashingStream', () => {
  it.each([0, 1, leafBytes, leafBytes + 1, 2 * leafBytes + 77])(
    'passes %i bytes on and knows their CID, whatever the cut and the kind of stream',
    async (size) => {
      const data = randomBytes(size);
      const expected = { cid: await cidOfChunks([data]), bytes: size };
      const sources = [
        streamOf(data),
        streamOf(...pieces(data, 70_001)),
        byteStream(data, 65_536),
        new Response(data as Uint8Array<ArrayBuffer>).body!,
      ];
      for (const source of sources) {
        const { stream, result } = hashingStream(source);
        expect(identical(await bytesOf(stream), data)).toBe(true);
        expect(await result).toEqual(expected);
      }
    },
  );

  it('gives pieces of one leaf of a byte stream, and leaves the chunks of any other stream as they are', async () => {
    const data = randomBytes(2 * leafBytes + 5);
    const sizesOf = async (source: ReadableStream<Uint8Array>): Promise<number[]> => {
      const sizes: number[] = [];
      for await (const piece of hashingStream(source).stream) sizes.push(piece.length);
      return sizes;
    };
    expect(await sizesOf(byteStream(data, 99_999))).toEqual([leafBytes, leafBytes, 5]);
    const cut = pieces(data, 99_999);
    expect(await sizesOf(streamOf(...cut))).toEqual(cut.map(({ length }) => length));
  });

  it('fails as its source fails, in stream and result', async () => {
    let asked = 0;
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        asked += 1;
        if (asked > 3) throw new Error('the source broke');
        controller.enqueue(new Uint8Array(1000));
      },
    });
    const { stream, result } = hashingStream(source);
    await expect(bytesOf(stream)).rejects.toThrow('the source broke');
    await expect(result).rejects.toThrow('the source broke');
  });

  it('passes a cancel on, and has no result then', async () => {
    let reason: unknown;
    const source = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(leafBytes)),
      cancel: (why) => void (reason = why),
    });
    const { stream, result } = hashingStream(source);
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel(new Error('enough'));
    expect(reason).toEqual(new Error('enough'));
    await expect(result).rejects.toThrow('enough');
  });

  it('S90: reads no further than it is read, but for what is on its way', async () => {
    let produced = 0;
    const source = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          produced += 1;
          controller.enqueue(new Uint8Array(leafBytes));
        },
      },
      { highWaterMark: 0 },
    );
    const reader = hashingStream(source).stream.getReader();
    await reader.read();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(produced).toBeLessThanOrEqual(3);
    await reader.cancel();
  });
});
