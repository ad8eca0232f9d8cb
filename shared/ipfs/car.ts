/**
 * CARv1 files (https://ipld.io/specs/transport/car/carv1/): writing one, and reading the verified
 * file in one.
 */
import { SealpinError } from '../errors.ts';
import { bytesOfCid, cidBytes, parseCid, type Cid } from './cid.ts';
import type { BlockSource } from './block-source.ts';
import { blocksOf, openDag, openFile, type BlockIterator, type OpenOptions } from './file.ts';
import { varintOf } from './varint.ts';
import type { Block } from './walk.ts';
import { pulled } from '../streams/pulled.ts';
import { withStop } from '../streams/timing.ts';

/** The type of a CAR (https://www.iana.org/assignments/media-types/application/vnd.ipld.car). */
export const carType = 'application/vnd.ipld.car';

/** Selection of the blocks of a file for a CAR. */
export type CarOptions = OpenOptions & {
  /** `block`: the root alone; `entity` and `all`: the file. */
  scope?: 'block' | 'entity' | 'all' | undefined;
  /**
   * Bytes as `entity-bytes` of the trustless gateway specification: inclusive, negative ones from
   * the end.
   */
  entityBytes?: { from: number; to?: number | undefined } | undefined;
  /** Repeats a block that the file repeats (`dups=y`); true when undefined. */
  dups?: boolean | undefined;
  /**
   * Puts each block after those that it links to, as a service stores them; else before
   * (`order=dfs`).
   */
  leavesFirst?: boolean | undefined;
};

/**
 * A CAR of a file, its blocks in depth-first order, parents before children unless `leavesFirst`.
 * Every block is verified before it goes out, but for leaves with `passLeaves`. The stream fails as
 * `openFile` when a block is missing; a CAR does not show that it is complete, so its reader must
 * check that.
 */
export function carOf(cid: string, sources: readonly BlockSource[], o: CarOptions = {}): ReadableStream<Uint8Array> {
  let blocks: BlockIterator | undefined;
  const sent = new Set<string>();
  const { stop, signal } = withStop(o.signal);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!blocks) {
        const dag = await openDag(cid, sources, { ...o, signal });
        const [start, end] = o.scope === 'block' ? [0, 0] : range(dag.root.size, o.entityBytes);
        const inOrder = dag.blocks(start, end);
        blocks = o.leavesFirst === true ? leavesFirst(inOrder) : inOrder;
        controller.enqueue(carHeader(parseCid(cid)));
      }
      let block = await blocks.next();
      if (o.dups === false) {
        while (block && sent.has(block.cid.text)) block = await blocks.next();
        if (block) sent.add(block.cid.text);
      }
      if (block) {
        controller.enqueue(carSection(block.cid, block.bytes.length));
        if (block.bytes.length > 0) controller.enqueue(block.bytes);
        return;
      }
      blocks.close();
      controller.close();
    },
    cancel(reason) {
      stop(reason);
      blocks?.close(reason);
    },
  });
}

/**
 * Bytes of the CAR that `carOf` makes with `dups` false. Of the leaves none is fetched, but for a
 * root. Fails as `openFile`.
 */
export async function carLength(cid: string, sources: readonly BlockSource[], o: OpenOptions = {}): Promise<number> {
  let bytes = carHeader(parseCid(cid)).length;
  for await (const block of blocksOf(cid, sources, o))
    bytes += carSection(block.cid, block.blockBytes).length + block.blockBytes;
  return bytes;
}

/**
 * The verified bytes of a file from a CAR that begins with its root and is in depth-first order.
 * Blocks that are not of the file are skipped, within bounds. The stream fails with
 * content_mismatch when the CAR is incomplete or wrong, otherwise as `openFile`.
 */
export function fileFromCar(
  cid: string,
  car: ReadableStream<Uint8Array>,
  o: OpenOptions = {},
): ReadableStream<Uint8Array> {
  let unread: ReadableStream<Uint8Array> | undefined = car;
  const source: BlockSource = {
    id: 'CAR',
    block: () => Promise.reject(new SealpinError('content_mismatch', 'the CAR is incomplete')),
    async car() {
      if (!unread) throw new SealpinError('content_mismatch', 'the CAR is incomplete');
      const stream = unread;
      unread = undefined;
      return stream;
    },
  };
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const { stop, signal } = withStop(o.signal);
  return pulled({
    async next() {
      reader ??= (await openFile(cid, [source], { ...o, signal })).read().getReader();
      return (await reader.read()).value;
    },
    cancel(reason) {
      stop(reason);
      return (reader ?? unread)?.cancel(reason);
    },
    ahead: 1,
  });
}

/**
 * Holds each node back until the last block below it is out: as many at a time as the tree has
 * levels.
 */
function leavesFirst(blocks: BlockIterator): BlockIterator {
  const open: Block[] = [];
  let ahead: Block | undefined;
  return {
    close: (reason) => blocks.close(reason),
    async next() {
      for (;;) {
        ahead ??= await blocks.next();
        const top = open.at(-1);
        if (top && (ahead === undefined || ahead.start >= top.start + top.fileBytes)) return open.pop();
        const block = ahead;
        ahead = undefined;
        if (block?.cid.codec !== 'dag-pb') return block;
        open.push(block);
      }
    },
  };
}

/**
 * Resolves `entity-bytes`: from start up to end, exclusive; an empty range when it lies outside of
 * the file.
 */
function range(size: number, o: { from: number; to?: number | undefined } | undefined): [start: number, end: number] {
  const from = o?.from ?? 0;
  const to = o?.to ?? size - 1;
  const start = from < 0 ? Math.max(0, size + from) : from;
  const end = Math.min(size, (to < 0 && o?.to !== undefined ? size + to : to) + 1);
  return start < end ? [start, end] : [0, 0];
}

/**
 * The empty identity CID in binary, `bafkqaaa`: version 1, raw, identity, length 0. Its block is
 * the CID itself.
 */
const emptyIdentity = Uint8Array.of(1, 0x55, 0, 0);

/**
 * The header of a CAR: `{roots: [root], version: 1}` in DAG-CBOR, a map of two, its keys in order,
 * the CID as tag 42 over a zero byte and its bytes.
 * @param root where it is not known yet, the header names the empty identity CID, because CARv1
 * wants a root
 */
export function carHeader(root?: Cid): Uint8Array<ArrayBuffer> {
  const textString = (word: string) => [0x60 + word.length, ...new TextEncoder().encode(word)];
  const cid = [0, ...(root === undefined ? emptyIdentity : bytesOfCid(root))];
  const byteString = cid.length < 24 ? [0x40 + cid.length] : [0x58, cid.length];
  const map = [0xa2, ...textString('roots'), 0x81, 0xd8, 0x2a, ...byteString, ...cid, ...textString('version'), 1];
  return Uint8Array.from([map.length, ...map]);
}

/**
 * Makes the prefix of a block in a CAR: the length of the section as an unsigned varint, and the
 * CID.
 */
export function carSection(cid: Cid, blockBytes: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from([...varintOf(cidBytes + blockBytes), ...bytesOfCid(cid)]);
}

/**
 * The roots that the header of a CARv1 names, in binary: CIDs of any kind. Only the canonical form
 * is read, in which every program writes it: the map of `carHeader`, with any number of roots.
 * @param header as `CarReader.header` gives it
 * @returns undefined when it is in another form
 */
export function rootsOf(header: Uint8Array): Uint8Array[] | undefined {
  let at = rootsKey.length;
  if (!rootsKey.every((byte, index) => header[index] === byte)) return undefined;
  /** A head of CBOR: its major type, and its argument of up to one byte. */
  const head = (): { type: number; value: number } => {
    const byte = header[at++] ?? 0xff;
    const short = byte & 0x1f;
    return { type: byte >> 5, value: short === 24 ? (header[at++] ?? 0) : short < 24 ? short : -1 };
  };
  const { type, value: count } = head();
  if (type !== cbor.array || count < 0) return undefined;
  const roots: Uint8Array[] = [];
  while (roots.length < count) {
    const tag = head();
    const bytes = head();
    const isLink = tag.type === cbor.tag && tag.value === linkTag && bytes.type === cbor.bytes && bytes.value > 0;
    if (!isLink || at + bytes.value > header.length) return undefined;
    roots.push(header.slice(at + 1, at + bytes.value));
    at += bytes.value;
  }
  return roots;
}

/** CBOR of a map of two whose first key is "roots". */
const rootsKey = [0xa2, 0x65, 0x72, 0x6f, 0x6f, 0x74, 0x73];
/**
 * Major types of CBOR (RFC 8949 section 3.1), and the tag of links in DAG-CBOR
 * (https://ipld.io/specs/codecs/dag-cbor/spec/#links).
 */
const cbor = { bytes: 2, array: 4, tag: 6 };
const linkTag = 42;
