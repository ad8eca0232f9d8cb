/** CARs of files whose blocks are not those of the profile, the way other programs make them. */
import { carHeader, carSection, cidOf, encodeNode, sha256, type Cid, type Link } from '../../../shared/ipfs/index.ts';

/** Links of a node. */
export const linksPerNode = 20_000;

/** A CAR of a file in leaves of so many bytes, with each block once. */
export async function foreignCar(bytes: Buffer, leafBytes = 100_000): Promise<Uint8Array<ArrayBuffer>> {
  const sections: Uint8Array[] = [];
  const written = new Set<string>();
  const write = (cid: Cid, block: Uint8Array): void => {
    if (!written.has(cid.text)) sections.push(carSection(cid, block.length), block);
    written.add(cid.text);
  };
  let level: Link[] = [];
  for (let at = 0; at < bytes.length; at += leafBytes) {
    const leaf = bytes.subarray(at, at + leafBytes);
    const cid = cidOf('raw', await sha256(new Uint8Array(leaf)));
    write(cid, leaf);
    level.push({ cid, fileBytes: leaf.length, dagBytes: leaf.length });
  }
  do {
    const above: Link[] = [];
    for (let at = 0; at < level.length; at += linksPerNode) {
      const links = level.slice(at, at + linksPerNode);
      const node = encodeNode(links);
      const cid = cidOf('dag-pb', await sha256(node));
      write(cid, node);
      const sum = (of: 'fileBytes' | 'dagBytes') => links.reduce((all, each) => all + each[of], 0);
      above.push({ cid, fileBytes: sum('fileBytes'), dagBytes: node.length + sum('dagBytes') });
    }
    level = above;
  } while (level.length > 1);
  const [root] = level;
  if (root === undefined) throw new RangeError('a file without bytes has no node');
  return new Uint8Array(Buffer.concat([carHeader(root.cid), ...sections]));
}
