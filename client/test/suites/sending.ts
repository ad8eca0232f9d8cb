import { decryptPayload } from '../../../shared/crypto/index.ts';
import { chunksOf } from '../../../shared/streams/read-all.ts';
import { equal, fails, type Tool } from '../../../testkit/assertions.ts';
import { sealAndStore, type StorePayload } from '../../sending.ts';
import { sentOnce } from '../../sent-once.ts';
import { pattern, watched } from '../bytes.ts';
import { present } from '../../../testkit/present.ts';

const cid = `bafkrei${'a'.repeat(52)}`;

async function joined(chunks: AsyncIterable<Uint8Array | Blob>): Promise<Uint8Array> {
  const parts: BlobPart[] = [];
  for await (const chunk of chunks) parts.push(chunk as BlobPart);
  return new Blob(parts).bytes();
}

/** Files on their way to a link, without a service. */
export function sending(tool: Tool): void {
  tool.test('each file is sealed under a key of its own, which the parcel has', async () => {
    const payloads: Uint8Array[] = [];
    const store: StorePayload = async (payload) => {
      payloads.push(await joined(chunksOf(payload)));
      return { fileId: crypto.randomUUID(), cid };
    };
    const plaintexts = [pattern(100_000), pattern(0), pattern(5)];
    const files = plaintexts.map((source, index) => ({ source, name: `${index}` }));
    const { parcel } = await sealAndStore(files, { store, remove: async () => undefined, note: 'x' });
    equal(new Set(parcel.files.map(({ fileKey }) => fileKey.join())).size, 3);
    for (const [index, { fileKey, size }] of parcel.files.entries()) {
      const plaintext = decryptPayload(new Blob([payloads[index] as BlobPart]).stream(), { fileKey });
      equal(await new Response(plaintext).bytes(), present(plaintexts[index]));
      equal(size, present(plaintexts[index]).length);
    }
  });

  tool.test('a stream that is longer or shorter than was said is refused, and what was stored removed', async () => {
    const store: StorePayload = async (payload) => {
      // `Response` reads it in fewer words, but Firefox and WebKit then fail with another error
      // than the stream.
      await joined(chunksOf(payload));
      return { fileId: 'first', cid };
    };
    for (const size of [4, 6]) {
      const removed: string[] = [];
      const files = [
        { source: 'x', name: 'x' },
        { source: watched([pattern(5)]).stream, name: 'y', size },
      ];
      const remove = async (fileIds: readonly string[]) => removed.push(...fileIds);
      await fails('invalid_request', () => sealAndStore(files, { store, remove }), `${size}`);
      equal(removed, ['first']);
    }
  });

  tool.test('a part can be read again until the next one is, and no longer', async () => {
    const bytes = pattern(1000);
    const parts = sentOnce(watched([bytes.slice(0, 300), bytes.slice(300, 301), bytes.slice(301)]).stream, 1000);
    equal(await joined(parts.read(0, 400)), bytes.slice(0, 400));
    equal(await joined(parts.read(0, 400)), bytes.slice(0, 400));
    equal(await joined(parts.read(250, 650)), bytes.slice(250, 650));
    equal(await joined(parts.read(650, 1000)), bytes.slice(650));
    await fails('service_answer', () => joined(parts.read(649, 1000)));
    await parts.end();
  });

  tool.test('while a part is sent the next one is read, and no further one', async () => {
    const bytes = pattern(1000);
    let given = 0;
    const stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          controller.enqueue(bytes.slice(given, given + 50));
          given += 50;
          if (given === bytes.length) controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    // Its chunks are used again at once, for something else.
    const parts = sentOnce(stream, 1000, {
      take: (length) => new Uint8Array(length),
      giveBack: (chunk) => chunk.fill(0),
    });
    for (const [start, ahead] of [
      [0, 400],
      [200, 600],
      [400, 800],
      [600, 1000],
    ] as const) {
      // prettier-ignore
      equal(await joined(parts.read(start, start + 200)), bytes.slice(start, start + 200));
      await new Promise((resolve) => setTimeout(resolve));
      equal(given, ahead);
    }
    // A service that keeps half of a part lets no more be kept than one that keeps all of it.
    equal(await joined(parts.read(700, 900)), bytes.slice(700, 900));
    equal(await joined(parts.read(900, 1000)), bytes.slice(900));
    await parts.end();
  });

  tool.test('what fails while it is read ahead fails the part that it belongs to', async () => {
    const { stream } = watched([pattern(300)]);
    const parts = sentOnce(stream, 1000);
    equal(await joined(parts.read(0, 200)), pattern(200));
    const failure = await joined(parts.read(200, 400)).catch((error: unknown) => error);
    equal(failure instanceof TypeError, true);
  });
}
