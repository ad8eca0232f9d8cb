/** The index of a file in an object store (`docs/object-stores.md`). */
import { SealpinError } from '../../../shared/errors.ts';
import {
  cidOf,
  decodeNode,
  digestBytes,
  leafBytes,
  linksPerNode,
  maxBlockBytes,
  parseCid,
  sha256,
  treeOf,
  type Cid,
} from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { hex } from '../../../shared/crypto/bytes.ts';

/** An object with bytes of a file: its number, and how many bytes of it count. */
export type DataObject = { n: number; bytes: number };

/** Bytes that follow each other in the data of a file. */
export type DataRange = { start: number; length: number };

/**
 * The leaves of a file in the order of its data. `lengths`: of each, where they are not those of
 * the profile.
 */
type Leaves = { digests: Uint8Array; lengths?: readonly number[] | undefined };

/** A file in a store. `nodes`: the blocks above its leaves, where they do not follow from these. */
export type StoredObjects = {
  /** 32 hexadecimal digits. */
  id: string;
  /** Bytes of the file. */
  size: number;
  objects: readonly DataObject[];
  leaves: Leaves;
  nodes: readonly Uint8Array[];
};

/** A verified index: with the blocks above the leaves by their CID. */
export type ObjectIndex = StoredObjects & {
  blocks: ReadonlyMap<string, Uint8Array>;
  /**
   * Ranges of the data, as few as can be, with some bytes of a block, or of all that is below a
   * node, in their order; by default with all of them. Undefined where the file has no such block.
   */
  rangesOf(cid: Cid, offset?: number, length?: number): DataRange[] | undefined;
};

/** The largest index, and the most bytes of the nodes in one. */
export const maxIndexBytes = 16 * 1_048_576;
export const maxNodesBytes = 4 * 1_048_576;

const magic = new TextEncoder().encode('sealpin');
const objectIdBytes = 16;
/** Bytes of the profile's nodes that link to leaves: any node above them has more of the file. */
const lowNodeBytes = linksPerNode * leafBytes;

/** The bytes of an index. @throws invalid_request where they would be too many */
export function encodeIndex({ id, size, objects, leaves, nodes }: StoredObjects): Uint8Array<ArrayBuffer> {
  const { digests, lengths } = leaves;
  const idPart = Uint8Array.from({ length: objectIdBytes }, (_, at) =>
    Number.parseInt(id.slice(at * 2, at * 2 + 2), 16),
  );
  const sizePart = new Uint8Array(8);
  new DataView(sizePart.buffer).setBigUint64(0, BigInt(size));
  const parts: Uint8Array[] = [magic, Uint8Array.of(lengths === undefined ? 1 : 2), idPart, sizePart];
  parts.push(numbers(objects.length, ...objects.flatMap(({ n, bytes }) => [n, bytes])));
  if (lengths === undefined) parts.push(digests);
  else {
    parts.push(numbers(lengths.length));
    for (const [at, length] of lengths.entries())
      parts.push(digests.subarray(at * digestBytes, (at + 1) * digestBytes), numbers(length));
    parts.push(numbers(nodes.length));
    for (const node of nodes) parts.push(numbers(node.length), node);
    if (nodes.reduce((sum, node) => sum + node.length, 0) > maxNodesBytes) throw tooManyNodes();
  }
  const bytes = concat(...parts);
  if (bytes.length > maxIndexBytes) throw tooManyNodes();
  return bytes;
}

/** The error for a file whose index would be too large. */
export function tooManyNodes(): SealpinError {
  return new SealpinError('invalid_request', 'the file has too many small blocks for an object store', {
    reason: 'foreign_layout',
    hint: 'store its bytes as they are, or make the CAR with larger blocks',
  });
}

function numbers(...values: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(values.length * 4);
  const view = new DataView(bytes.buffer);
  for (const [at, value] of values.entries()) view.setUint32(at * 4, value);
  return bytes;
}

/**
 * Reads an index and checks it against the CID in its key.
 * @throws content_mismatch where it is not that of the file
 */
export async function decodeIndex(cid: string, bytes: Uint8Array): Promise<ObjectIndex> {
  try {
    const stored = parse(bytes);
    return stored.leaves.lengths === undefined ? await profiled(cid, stored) : await linked(parseCid(cid), stored);
  } catch (cause) {
    throw new SealpinError('content_mismatch', `the index of ${cid} is not that of this file`, { cause });
  }
}

/** Refuses an index for a reason that only the log shows. */
function require(isRight: boolean, what: string): asserts isRight {
  if (!isRight) throw new RangeError(what);
}

function parse(bytes: Uint8Array): StoredObjects {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = magic.length + 1;
  /** Takes so many bytes. */
  const take = (length: number): Uint8Array => {
    require(at + length <= bytes.length, 'it ends too soon');
    at += length;
    return bytes.slice(at - length, at);
  };
  const number = (): number => (take(4), view.getUint32(at - 4));
  /** Reads a count of parts of so many bytes at least, before memory is taken for them. */
  const count = (least: number): number => {
    const value = number();
    require(value * least <= bytes.length - at, 'it ends too soon');
    return value;
  };
  const kind = bytes[magic.length];
  require(magic.every((byte, index) => bytes[index] === byte) && (kind === 1 || kind === 2), 'it is of no known kind');
  const id = hex(take(objectIdBytes));
  take(8);
  const size = Number(view.getBigUint64(at - 8));
  const objects = Array.from({ length: count(8) }, () => ({ n: number(), bytes: number() }));
  let leaves: Leaves;
  let nodes: Uint8Array[] = [];
  if (kind === 1) leaves = { digests: take(Math.max(1, Math.ceil(size / leafBytes)) * digestBytes) };
  else {
    const each = Array.from({ length: count(digestBytes + 4) }, () => ({
      digest: take(digestBytes),
      length: number(),
    }));
    leaves = { digests: concat(...each.map(({ digest }) => digest)), lengths: each.map(({ length }) => length) };
    nodes = Array.from({ length: count(4) }, () => take(number()));
  }
  require(at === bytes.length, 'it has bytes behind its end');
  const dataBytes = leaves.lengths?.reduce((sum, length) => sum + length, 0) ?? size;
  require(objects.reduce((sum, object) => sum + object.bytes, 0) === dataBytes, 'its objects have other bytes');
  return { id, size, objects, leaves, nodes };
}

/** An index of kind 1: all blocks above the leaves follow from their digests. */
async function profiled(cid: string, stored: StoredObjects): Promise<ObjectIndex> {
  const { size, leaves } = stored;
  const blocks = new Map<string, Uint8Array>();
  const extents = new Map<string, DataRange>();
  let end = 0;
  const root = await treeOf(leaves.digests, size, {
    onNode(node, block, length) {
      if (length <= lowNodeBytes) end += length;
      blocks.set(node.text, block);
      extents.set(node.text, { start: end - length, length });
    },
  });
  require(root.text === cid, 'its leaves are those of another file');
  const leafAt = finderOf(leaves.digests);
  return {
    ...stored,
    blocks,
    rangesOf(block, offset = 0, length = Infinity) {
      const leaf = block.codec === 'raw' ? leafAt(block.digest) : undefined;
      const start = (leaf ?? 0) * leafBytes;
      const whole = leaf === undefined ? extents.get(block.text) : { start, length: Math.min(leafBytes, size - start) };
      return whole && [{ start: whole.start + offset, length: Math.min(length, whole.length - offset) }];
    },
  };
}

/** An index of kind 2: every block that is linked to from the root on is there. */
async function linked(root: Cid, stored: StoredObjects): Promise<ObjectIndex> {
  const { size, leaves, nodes } = stored;
  const { digests, lengths = [] } = leaves;
  const blocks = new Map<string, Uint8Array>();
  for (const node of nodes) blocks.set(cidOf('dag-pb', await sha256(node)).text, node);
  const leafAt = finderOf(digests);
  const checked = new Set<string>();

  function check(cid: Cid, fileBytes: number): void {
    if (cid.codec === 'raw') {
      const leaf = leafAt(cid.digest);
      require(leaf !== undefined && lengths[leaf] === fileBytes && fileBytes <= maxBlockBytes, `it lacks ${cid.text}`);
      return;
    }
    const block = blocks.get(cid.text);
    require(block !== undefined, `it lacks ${cid.text}`);
    const links = decodeNode(block, root.text);
    require(links.reduce((sum, link) => sum + link.fileBytes, 0) === fileBytes, `${cid.text} has other bytes`);
    // A node that is linked to again, by other bytes, was refused above.
    if (checked.has(cid.text)) return;
    checked.add(cid.text);
    for (const link of links) check(link.cid, link.fileBytes);
  }
  check(root, size);

  return { ...stored, blocks, rangesOf: rangesBelow(root.text, blocks, { leafAt, lengths }) };
}

/** Finds the data below blocks of another shape; leaves that follow each other are one range. */
function rangesBelow(
  root: string,
  blocks: ReadonlyMap<string, Uint8Array>,
  { leafAt, lengths }: { leafAt: ReturnType<typeof finderOf>; lengths: readonly number[] },
): ObjectIndex['rangesOf'] {
  const starts: number[] = [];
  let end = 0;
  for (const length of lengths) {
    starts.push(end);
    end += length;
  }

  /** @returns whether the block is there */
  function add(ranges: DataRange[], { codec, digest, text }: Cid, from: number, to: number): boolean {
    const leaf = codec === 'raw' ? leafAt(digest) : undefined;
    if (leaf !== undefined) {
      const start = (starts[leaf] ?? 0) + from;
      const length = Math.min(to, lengths[leaf] ?? 0) - from;
      const last = ranges.at(-1);
      if (last !== undefined && last.start + last.length === start) last.length += length;
      else ranges.push({ start, length });
      return true;
    }
    const block = blocks.get(text);
    let position = 0;
    for (const { cid, fileBytes } of block === undefined ? [] : decodeNode(block, root)) {
      const next = position + fileBytes;
      if (next > from && position < to) add(ranges, cid, Math.max(0, from - position), to - position);
      position = next;
    }
    return block !== undefined;
  }

  return (cid, offset = 0, length = Infinity) => {
    const ranges: DataRange[] = [];
    return add(ranges, cid, offset, offset + length) ? ranges : undefined;
  };
}

/** Finds the number of a leaf by its digest. The table is made for the first question. */
function finderOf(digests: Uint8Array): (digest: Uint8Array) => number | undefined {
  const textOf = (digest: Uint8Array) => String.fromCharCode(...digest);
  let table: Map<string, number> | undefined;
  return (digest) => {
    if (table === undefined) {
      table = new Map();
      for (let at = digests.length - digestBytes; at >= 0; at -= digestBytes)
        table.set(textOf(digests.subarray(at, at + digestBytes)), at / digestBytes);
    }
    return table.get(textOf(digest));
  };
}

/**
 * The index of a file whose bytes lie in the order of its leaves, or in another one.
 * @param blocks above the leaves, more than are needed perhaps
 * @returns of kind 1 where that describes it, which needs no nodes
 */
export async function indexOf(
  cid: string,
  { blocks, ...stored }: Omit<StoredObjects, 'nodes'> & { blocks: ReadonlyMap<string, Uint8Array> },
): Promise<StoredObjects> {
  const { size, leaves } = stored;
  const { digests, lengths } = leaves;
  const count = Math.max(1, Math.ceil(size / leafBytes));
  const isEven = lengths?.every((length, at) => length === Math.min(leafBytes, size - at * leafBytes)) ?? true;
  if (isEven && digests.length === count * digestBytes && (await treeOf(digests, size)).text === cid)
    return { ...stored, leaves: { digests }, nodes: [] };
  const nodes = new Map<string, Uint8Array>();
  const open = [cid];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const block = blocks.get(name);
    if (block === undefined || nodes.has(name)) continue;
    nodes.set(name, block);
    open.push(...decodeNode(block, cid).map((link) => link.cid.text));
  }
  return { ...stored, leaves: { digests, lengths: lengths ?? [] }, nodes: [...nodes.values()] };
}
