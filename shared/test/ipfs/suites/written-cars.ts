import { carBytesOf, carOfBytes, carReader, cidBuilder, cidFromBytes, leafBytes, sha256 } from '../../../ipfs/index.ts';
import { byteReader } from '../../../streams/reader.ts';
import { equal, type Tool } from '../../../../testkit/assertions.ts';
import { randomBytes, streamOf } from '../source.ts';
import { present } from '../../../../testkit/present.ts';

/** The pieces of the CAR of some bytes, and what the writer says of the file. */
async function written(...chunks: Uint8Array[]) {
  const taken: number[] = [];
  const digest = (block: Uint8Array): Promise<Uint8Array> => sha256(block);
  const car = carOfBytes(byteReader(streamOf(...chunks)), { digest, onTaken: (bytes) => taken.push(bytes) });
  const pieces: Uint8Array[] = [];
  for (;;) {
    const next = await car.next();
    if (next.done) return { pieces, taken, root: next.value };
    pieces.push(next.value);
  }
}

/** The CIDs in a CAR, each block of which has the hash in its CID. */
async function verified(pieces: readonly Uint8Array[]): Promise<string[]> {
  const reader = carReader(streamOf(...pieces));
  const cids: string[] = [];
  for (let block = await reader.next(); block; block = await reader.next()) {
    const cid = present(cidFromBytes(block.cid));
    equal(await sha256(block.bytes), cid.digest, `the digest of ${cid.text}`);
    cids.push(cid.text);
  }
  return cids;
}

/** The CAR of bytes whose CID is not known yet. */
export function writtenCars(tool: Tool): void {
  for (const bytes of [1, leafBytes, leafBytes + 1, 3 * leafBytes + 1234])
    tool.test(
      `carOfBytes writes every block of a file of ${bytes} bytes, the root last, and as many bytes as were foretold`,
      async () => {
        const data = randomBytes(bytes);
        const builder = cidBuilder();
        await builder.write(data);
        const expected = await builder.finish();
        const { pieces, taken, root } = await written(data.slice(0, 1000), data.slice(1000));
        equal(root, expected);
        const cids = await verified(pieces);
        equal(cids.at(-1), expected.cid, 'the last block');
        equal(cids.length, taken.length + (taken.length > 1 ? 1 : 0), 'the number of blocks');
        equal(
          taken.reduce((sum, each) => sum + each, 0),
          bytes,
          'the bytes taken',
        );
        equal(
          pieces.reduce((sum, piece) => sum + piece.length, 0),
          await carBytesOf(bytes),
          'the bytes of the CAR',
        );
      },
    );

  tool.test('carBytesOf foretells the nodes of more than one level', async () => {
    const leaf = new Uint8Array(leafBytes);
    let left = 1026;
    const source = { read: async () => (left-- > 0 ? leaf : new Uint8Array(0)) };
    const car = carOfBytes(source, { digest: () => new Uint8Array(32), onTaken: () => undefined });
    let bytes = 0;
    for await (const piece of car) bytes += piece.length;
    equal(bytes, await carBytesOf(1026 * leafBytes));
  });
}
