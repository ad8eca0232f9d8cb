/**
 * The anchor of a root: a node of this service's own above it. Kubo holds one recursive pin per
 * CID, with one name; where that pin is not ours, we pin the anchor instead, which keeps the whole
 * DAG below it even when the other pin is removed.
 */
import { bytesOfCid, cidOf, parseCid } from '../../shared/ipfs/index.ts';
import type { BlockImport } from './contract.ts';

/**
 * Tags of dag-pb (https://ipld.io/specs/codecs/dag-pb/spec/): PBNode.Links, PBNode.Data;
 * PBLink.Hash, .Name, .Tsize.
 */
const tags = { links: 0x12, data: 0x0a, hash: 0x0a, name: 0x12, size: 0x18 };

/** A dag-pb node with one link, to `root`, whose data is `owner`: at most 80 bytes of ASCII. */
export async function anchorOf(root: string, owner: string): Promise<{ cid: string; bytes: Uint8Array<ArrayBuffer> }> {
  const hash = bytesOfCid(parseCid(root));
  const data = new TextEncoder().encode(owner);
  if (data.length > 80) throw new RangeError('an owner has at most 80 bytes');
  const link = [tags.hash, hash.length, ...hash, tags.name, 0, tags.size, 0];
  const bytes = new Uint8Array([tags.links, link.length, ...link, tags.data, data.length, ...data]);
  return { cid: cidOf('dag-pb', new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))).text, bytes };
}

/**
 * Sends the anchor of a root, whose blocks are there already.
 * @returns the CID of the anchor, which is to be pinned
 */
export async function importAnchor(blocks: BlockImport, root: string, owner: string): Promise<string> {
  const { cid, bytes } = await anchorOf(root, owner);
  await blocks.write(parseCid(cid), bytes);
  await blocks.finish();
  return cid;
}
