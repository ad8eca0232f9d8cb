/** Files in a bucket (`docs/object-stores.md`): the one engine of all stores. */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { maxBlockBytes, parseCid, type BlockSource } from '../../../shared/ipfs/index.ts';
import { equalBytes } from '../../../shared/streams/equal-bytes.ts';
import { pulled } from '../../../shared/streams/pulled.ts';
import { readAll } from '../../../shared/streams/read-all.ts';
import { wholeBody } from '../http-failures.ts';
import type { Bucket } from './bucket.ts';
import { decodeIndex, encodeIndex, maxIndexBytes, type DataRange, type ObjectIndex } from './object-index.ts';
import type { ObjectStore } from './store-contract.ts';
import { repeated } from './store-requests.ts';

/** `prefix`: the beginning of all keys; by default services that share a bucket do not meet. */
export type StoreOptions = { id: string; serviceId: string; prefix?: string | undefined; bucket: Bucket };

/** The longest ID of a service. */
const ownerBytes = 64;
/** Number of responses of one read that may break off before it fails. */
const maxBreaks = 3;

/** A bucket, and the names of what lies in it. */
type BucketNames = {
  /** The name of the backend. */
  id: string;
  bucket: Bucket;
  dataKey(id: string, n?: number): string;
  indexKey(cid: string): string;
};

/** The store over a bucket. */
export function objectStore({ id, serviceId, prefix = `sealpin-${serviceId}/`, bucket }: StoreOptions): ObjectStore {
  const dataKey = (data: string, n?: number): string =>
    `${prefix}data/${data}/${n === undefined ? '' : String(n).padStart(8, '0')}`;
  const indexKey = (cid: string): string => `${prefix}cid/${cid}`;
  const place: BucketNames = { id, bucket, dataKey, indexKey };
  return {
    id,
    takes: 'objects',
    place: `${bucket.place}/${prefix}`,
    async put(data, n, body, signal) {
      await bucket.put(dataKey(data, n), body, false, signal);
    },
    putIndex: async (cid, file, replace, signal) =>
      await bucket.put(indexKey(cid), encodeIndex(file), !replace, signal),
    index: (cid, signal, isCertain) => readIndex(place, cid, signal, isCertain),
    isComplete: (file, signal) => isComplete(place, file, signal),
    stat: (cid, signal) => stat(place, cid, signal),
    removeIndex: (cid, signal) => bucket.removeAll(indexKey(cid), signal),
    async removeData(data, signal, ns) {
      if (ns === undefined) return await bucket.removeAll(dataKey(data), signal);
      let isGone = true;
      for (const n of ns) isGone = (await bucket.removeAll(dataKey(data, n), signal)) && isGone;
      return isGone;
    },
    async list(start, after, signal) {
      const { objects, ...page } = await bucket.list(
        `${prefix}${start}`,
        after === undefined ? undefined : `${prefix}${after}`,
        signal,
      );
      return { ...page, objects: objects.map((each) => ({ ...each, key: each.key.slice(prefix.length) })) };
    },
    async ownsPrefix(signal) {
      const key = `${prefix}service`;
      const own = new TextEncoder().encode(serviceId) as Uint8Array<ArrayBuffer>;
      const owner = () => readSmall(place, key, { bytes: ownerBytes, tooLarge: () => lost(place, 'owner') }, signal);
      let found = await owner();
      if (found === undefined) {
        await bucket.put(key, own, true, signal);
        found = await owner();
      }
      return new TextDecoder().decode(found) === serviceId;
    },
    source: (root) => sourceAt(place, root),
    async ping(signal) {
      await bucket.list(`${prefix}service`, undefined, signal);
      return (await bucket.warning?.(prefix, signal)) ?? {};
    },
  };
}

function lost({ id }: BucketNames, what: string): SealpinError {
  return new SealpinError('pinning_lost', `${id} has no ${what}`);
}

async function readIndex(place: BucketNames, cid: string, signal: AbortSignal, isCertain = false) {
  const tooLarge = () => new SealpinError('content_mismatch', `the index of ${cid} is too large`);
  const read = () => readSmall(place, place.indexKey(cid), { bytes: maxIndexBytes, tooLarge }, signal);
  const bytes = await read();
  if (bytes === undefined) throw lost(place, `index of ${cid}`);
  if (isCertain && !equalBytes(bytes, (await read()) ?? new Uint8Array()))
    throw new SealpinError('pinning_unavailable', `${place.id} gives another index of ${cid} the second time`);
  return await decodeIndex(cid, bytes);
}

/** An object that fits into memory, asked for again where it broke off; undefined: none. */
async function readSmall(
  { id, bucket }: BucketNames,
  key: string,
  most: { bytes: number; tooLarge: () => SealpinError },
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  return await repeated(id, signal, async (limited) => {
    const stream = await bucket.get(key, undefined, limited);
    return stream && (await wholeBody(id, stream, most.bytes, most.tooLarge));
  });
}

async function stat(place: BucketNames, cid: string, signal: AbortSignal): ReturnType<ObjectStore['stat']> {
  try {
    const index = await readIndex(place, cid, signal);
    return (await isComplete(place, index, signal)) ? { pin: 'ours', object: index.id } : { pin: 'absent' };
  } catch (error) {
    if (isSealpinError(error, 'pinning_lost', 'content_mismatch')) return { pin: 'absent' };
    throw error;
  }
}

async function isComplete(
  { bucket, dataKey }: BucketNames,
  { id, objects }: Pick<ObjectIndex, 'id' | 'objects'>,
  signal: AbortSignal,
): Promise<boolean> {
  const [only, ...others] = objects;
  // Most files are one object, and a listing costs more.
  if (only !== undefined && others.length === 0)
    return ((await bucket.size(dataKey(id, only.n), signal)) ?? -1) >= only.bytes;
  const sizes = new Map<string, number>();
  const key = dataKey(id);
  for (let after: string | undefined, isLast = false; !isLast;) {
    const page = await bucket.list(key, after, signal);
    for (const object of page.objects) sizes.set(object.key, object.bytes);
    after = page.objects.at(-1)?.key;
    isLast = page.isLast || after === undefined;
  }
  return objects.every(({ n, bytes }) => (sizes.get(dataKey(id, n)) ?? -1) >= bytes);
}

function bytesIn(ranges: readonly DataRange[]): number {
  return ranges.reduce((sum, { length }) => sum + length, 0);
}

type Piece = { n: number; offset: number; length: number };

/** Place of bytes of the data of a file. */
function piecesOf(objects: ObjectIndex['objects'], { start, length }: DataRange): Piece[] {
  const end = start + length;
  const pieces: Piece[] = [];
  let position = 0;
  for (const { n, bytes } of objects) {
    const from = Math.max(start, position);
    const to = Math.min(end, position + bytes);
    if (from < to) pieces.push({ n, offset: from - position, length: to - from });
    position += bytes;
  }
  return pieces;
}

/** Bytes of the data of a file: the objects that have them, one after the other. */
function dataOf(place: BucketNames, { id, objects }: ObjectIndex, ranges: readonly DataRange[], signal: AbortSignal) {
  const rest = [...ranges];
  const pieces: Piece[] = [];
  let open: { piece: Piece; reader: ReadableStreamDefaultReader<Uint8Array> } | undefined;
  let breaks = 0;
  async function begin(piece: Piece): Promise<typeof open> {
    const { n } = piece;
    const stream = await repeated(place.id, signal, (limited) =>
      place.bucket.get(place.dataKey(id, n), piece, limited),
    );
    if (stream === undefined) throw lost(place, `object ${id}/${n}`);
    return { piece, reader: stream.getReader() };
  }
  /**
   * The next bytes of the piece that is open; undefined at its end, and where it must be opened
   * again.
   */
  async function next({ piece, reader }: NonNullable<typeof open>): Promise<Uint8Array | undefined> {
    try {
      const { value } = await reader.read();
      if (value === undefined) return undefined;
      piece.offset += value.length;
      piece.length -= value.length;
      return value;
    } catch (cause) {
      signal.throwIfAborted();
      breaks += 1;
      if (breaks > maxBreaks)
        throw new SealpinError('pinning_unavailable', `${place.id} broke off its response`, { cause });
      // It continues behind what came.
      if (piece.length > 0) pieces.unshift(piece);
      return undefined;
    }
  }
  return pulled({
    async next() {
      for (;;) {
        for (let range; pieces.length === 0 && (range = rest.shift()) !== undefined;)
          pieces.push(...piecesOf(objects, range));
        const piece = open === undefined ? pieces.shift() : undefined;
        if (piece !== undefined) open = await begin(piece);
        if (open === undefined) return undefined;
        const value = await next(open);
        if (value !== undefined) return value;
        open = undefined;
      }
    },
    cancel: (reason) => open?.reader.cancel(reason),
  });
}

/** The file of a CID as a source. */
function sourceAt(place: BucketNames, root: string): BlockSource & Required<Pick<BlockSource, 'read'>> {
  let known: Promise<ObjectIndex> | undefined;
  async function load(signal: AbortSignal): Promise<ObjectIndex> {
    const loading = (known ??= readIndex(place, root, signal));
    try {
      return await loading;
    } catch (error) {
      if (known === loading) known = undefined;
      // Readers take what is not of the file for a fault of the blocks, of which the index has
      // none.
      throw isSealpinError(error, 'content_mismatch') ? lost(place, `usable index of ${root}`) : error;
    }
  }
  return {
    id: place.id,
    async block(text, signal) {
      const file = await load(signal);
      const node = file.blocks.get(text);
      if (node !== undefined) return node;
      const ranges = file.rangesOf(parseCid(text));
      if (ranges === undefined) throw lost(place, `block ${text}`);
      const length = bytesIn(ranges);
      const stream = dataOf(place, file, ranges, signal);
      const bytes = await readAll(stream, maxBlockBytes, () => lost(place, `block ${text}`));
      if (bytes.length < length) throw lost(place, `whole block ${text}`);
      return bytes.subarray(0, length);
    },
    async read(text, offset, length, signal) {
      const file = await load(signal);
      const ranges = file.rangesOf(parseCid(text), offset, length) ?? [];
      if (bytesIn(ranges) < length) throw lost(place, `all of these bytes of ${text}`);
      return dataOf(place, file, ranges, signal);
    },
  };
}
