/**
 * Interior nodes: UnixFS files in dag-pb whose links are their parts in order, and no other kind.
 */
import { decode, encode } from '@ipld/dag-pb';
import { UnixFS } from 'ipfs-unixfs';
import { CID } from 'multiformats/cid';
import { SealpinError } from '../errors.ts';
import { bytesOfCid, cidFromBytes, type Cid } from './cid.ts';
import { varintOf } from './varint.ts';

/**
 * A link to a part: `fileBytes` of the file lie below it, and its blocks have `dagBytes` together.
 */
export type Link = { cid: Cid; fileBytes: number; dagBytes: number };

/** The block of a node with these links. */
export function encodeNode(links: readonly Link[]): Uint8Array {
  return encode({
    Data: fileMessage(links.map((link) => link.fileBytes)),
    Links: links.map((link) => ({ Name: '', Tsize: link.dagBytes, Hash: CID.decode(bytesOfCid(link.cid)) })),
  });
}

/**
 * Tags of UnixFS (https://specs.ipfs.tech/unixfs/#data-format): Type with the value File, filesize,
 * blocksizes.
 */
const fieldTags = { type: [0x08, 0x02], fileSize: 0x18, blockSize: 0x20 };

/**
 * The UnixFS message of a node. `UnixFS.marshal` leaves bytes of sizes from 2 up to 4 GiB unwritten
 * (protons-runtime 7.1.2).
 */
function fileMessage(blockSizes: readonly number[]): Uint8Array {
  const fileSize = blockSizes.reduce((sum, size) => sum + size, 0);
  const sizes = blockSizes.flatMap((size) => [fieldTags.blockSize, ...varintOf(size)]);
  return Uint8Array.from([...fieldTags.type, fieldTags.fileSize, ...varintOf(fileSize), ...sizes]);
}

/**
 * The links of a verified block. A fault in it is the fault of the program that wrote the file: no
 * other source helps.
 * @param name the CID of the file, for errors
 * @throws invalid_cid when the block is not a node of a file, or contradicts itself
 */
export function decodeNode(block: Uint8Array, name: string): Link[] {
  try {
    const node = decode(block);
    if (!node.Data) throw new RangeError('no UnixFS data');
    const file = UnixFS.unmarshal(node.Data);
    if (file.type !== 'file') throw new RangeError(`a ${file.type}, not a file`);
    if (file.data?.length) throw new RangeError('bytes of the file in an interior node');
    if (node.Links.length === 0 || node.Links.length !== file.blockSizes.length)
      throw new RangeError('links and sizes differ in number');
    return node.Links.map((link, i) => {
      const cid = cidFromBytes(link.Hash.bytes);
      const fileBytes = Number(file.blockSizes[i]);
      if (!cid) throw new RangeError(`a link to ${link.Hash.toString()}`);
      if (!Number.isSafeInteger(fileBytes) || fileBytes < 1) throw new RangeError('a part of no bytes');
      return { cid, fileBytes, dagBytes: link.Tsize ?? 0 };
    });
  } catch (cause) {
    throw new SealpinError('invalid_cid', `${name} does not name a file as Sealpin stores them`, {
      reason: 'foreign_layout',
      cause,
    });
  }
}

/**
 * Lists the links of a verified dag-pb block, in order and with repetitions, whether it is a node
 * of a file or not.
 * @throws invalid_cid when the block is not dag-pb, or links to a CID of a kind that Sealpin does
 * not accept
 */
export function linksOf(block: Uint8Array): Cid[] {
  try {
    return decode(block).Links.map(({ Hash }) => {
      const cid = cidFromBytes(Hash.bytes);
      if (!cid) throw new RangeError(`it links to ${Hash.toString()}`);
      return cid;
    });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'not dag-pb';
    throw new SealpinError('invalid_cid', `the block is not a node as Sealpin stores them: ${why}`, {
      reason: 'foreign_layout',
      cause,
    });
  }
}
