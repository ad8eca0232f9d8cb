import { hashingStream, leafBytes } from '../../../ipfs/index.ts';
import { chunksOf } from '../../../streams/read-all.ts';
import { equal, ok, type Tool } from '../../../../testkit/assertions.ts';
import { isWebKit } from '../../../../testkit/browsers/engine.ts';
import { byteStream } from '../../crypto/streams.ts';
import { bytesOf, cidOfChunks, identical, pieces, randomBytes, streamOf } from '../source.ts';
import { present } from '../../../../testkit/present.ts';

/** Returns the reason of a rejected promise, as text. */
async function rejection(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'it does not fail',
    (thrown: unknown) => (thrown instanceof Error ? thrown.message : 'no error'),
  );
}

async function sizesOf(source: ReadableStream<Uint8Array>): Promise<number[]> {
  const sizes: number[] = [];
  for await (const piece of chunksOf(hashingStream(source).stream)) sizes.push(piece.length);
  return sizes;
}

/** Bytes that are hashed while they pass. */
export function hashingStreams(tool: Tool): void {
  for (const size of [0, 1, leafBytes, leafBytes + 1, 2 * leafBytes + 77])
    tool.test(`passes ${size} bytes on and knows their CID, whatever the cut and the kind of stream`, async () => {
      const data = randomBytes(size);
      const expected = { cid: await cidOfChunks([data]), bytes: size };
      const sources = [
        streamOf(data),
        streamOf(...pieces(data, 70_001)),
        present(new Response(data as Uint8Array<ArrayBuffer>).body),
        byteStream(data, 65_536),
      ];
      for (const source of sources) {
        const { stream, result } = hashingStream(source);
        ok(identical(await bytesOf(stream), data), 'the bytes pass');
        equal(await result, expected);
      }
    });

  tool.test('leaves the chunks of a stream as they are, and gives those of a byte stream a leaf each', async () => {
    const data = randomBytes(2 * leafBytes + 5);
    const cut = pieces(data, 99_999);
    equal(
      await sizesOf(streamOf(...cut)),
      cut.map(({ length }) => length),
    );
    // WebKitGTK 2.50 has no byte streams.
    if (!isWebKit) equal(await sizesOf(byteStream(data, 99_999)), [leafBytes, leafBytes, 5], 'of a byte stream');
  });

  tool.test('fails as its source fails, in stream and result', async () => {
    let asked = 0;
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        asked += 1;
        if (asked > 3) throw new Error('the source broke');
        controller.enqueue(new Uint8Array(1000));
      },
    });
    const { stream, result } = hashingStream(source);
    equal(await rejection(bytesOf(stream)), 'the source broke', 'the stream');
    equal(await rejection(result), 'the source broke', 'the result');
  });

  tool.test('passes a cancel on, and has no result then', async () => {
    let reason: unknown;
    const source = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(leafBytes)),
      cancel: (why) => void (reason = why),
    });
    const { stream, result } = hashingStream(source);
    const reader = stream.getReader();
    await reader.read();
    const enough = new Error('enough');
    await reader.cancel(enough);
    ok(reason === enough, 'the source gets the reason');
    equal(await rejection(result), 'enough', 'the result');
  });

  tool.test('S90: reads no further than it is read, but for what is on its way', async () => {
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
    ok(produced <= 3, `the source was asked ${produced} times`);
    await reader.cancel();
  });
}
