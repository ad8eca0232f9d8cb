/**
 * The CAR of a file that is not known yet: it is made while the bytes come, leaves first and the
 * root last.
 */
import type { ByteReader } from '../streams/reader.ts';
import type { SizedCid } from './builder.ts';
import { carHeader, carSection } from './car.ts';
import { cidOf, type Cid } from './cid.ts';
import { leafBytes } from './profile.ts';
import { treeBuilder, treeOf, digestBytes, type Digest } from './tree.ts';

/**
 * Writes the CAR of a file in Sealpin's layout. Its header names no root, because the root is known
 * at the end only.
 * @param source the bytes of the file; at least one
 * @param o.digest SHA-256 of a block
 * @param o.onTaken called with the length of each leaf once the reader of the CAR asks for what
 * comes after it
 * @returns the root
 */
export async function* carOfBytes(
  source: Pick<ByteReader, 'read'>,
  o: { digest: Digest; onTaken(bytes: number): void },
): AsyncGenerator<Uint8Array<ArrayBuffer>, SizedCid> {
  const nodes: { cid: Cid; block: Uint8Array }[] = [];
  const tree = treeBuilder({ digest: o.digest, onNode: (cid, block) => void nodes.push({ cid, block }) });
  let bytes = 0;
  yield carHeader();
  for (;;) {
    const leaf = (await source.read(leafBytes)) as Uint8Array<ArrayBuffer>;
    const { length } = leaf;
    if (length === 0) break;
    const cid = cidOf('raw', await o.digest(leaf));
    yield carSection(cid, length);
    // Its memory may be given away by the reader.
    yield leaf;
    o.onTaken(length);
    bytes += length;
    await tree.add(cid, length);
    yield* sections(nodes);
  }
  const root = await tree.finish();
  yield* sections(nodes);
  return { cid: root.text, bytes };
}

/** Takes the nodes out of the list. */
function* sections(nodes: { cid: Cid; block: Uint8Array }[]): Generator<Uint8Array<ArrayBuffer>> {
  for (const { cid, block } of nodes.splice(0)) {
    yield carSection(cid, block.length);
    yield new Uint8Array(block);
  }
}

/** Bytes of the CAR that `carOfBytes` makes of a file with so many bytes, at least one. */
export async function carBytesOf(fileBytes: number): Promise<number> {
  const leaves = Math.ceil(fileBytes / leafBytes);
  // The length of a node depends on the lengths below it only, not on the digests.
  const digest = (): Uint8Array => new Uint8Array(digestBytes);
  const leaf = cidOf('raw', digest());
  const sectionOf = (cid: Cid, bytes: number): number => carSection(cid, bytes).length + bytes;
  const lastBytes = fileBytes - (leaves - 1) * leafBytes;
  let bytes = carHeader().length + (leaves - 1) * sectionOf(leaf, leafBytes) + sectionOf(leaf, lastBytes);
  await treeOf(new Uint8Array(leaves * digestBytes), fileBytes, {
    digest,
    onNode: (cid, block) => void (bytes += sectionOf(cid, block.length)),
  });
  return bytes;
}
