/**
 * Files in a bucket (`docs/object-stores.md`): the one engine of all stores, over the few requests
 * that a bucket takes.
 */
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { maxBlockBytes, parseCid, type BlockSource } from '../../../shared/ipfs/index.ts';
import { readAll } from '../../../shared/streams/read-all.ts';
import type { Bucket } from './bucket.ts';
import { decodeIndex, encodeIndex, maxIndexBytes, type ObjectIndex } from './object-index.ts';
import type { ObjectStore } from './store-contract.ts';

export type StoreOptions = { id: string; prefix: string; serviceId: string; bucket: Bucket };

/** The longest ID of a service. */
const ownerBytes = 64;

/** A bucket, and the names of what lies in it. */
type Place = {
  /** The name of the backend. */
  id: string;
  bucket: Bucket;
  dataKey(id: string, n?: number): string;
  indexKey(cid: string): string;
};

/** The store over a bucket. */
export function objectStore({ id, prefix, serviceId, bucket }: StoreOptions): ObjectStore {
  const dataKey = (data: string, n?: number): string =>
    `${prefix}data/${data}/${n === undefined ? '' : String(n).padStart(8, '0')}`;
  const indexKey = (cid: string): string => `${prefix}cid/${cid}`;
  const place: Place = { id, bucket, dataKey, indexKey };
  return {
    id,
    takes: 'objects',
    place: `${bucket.place}/${prefix}`,
    async put(data, n, body, signal) {
      await bucket.put(dataKey(data, n), body, false, signal);
    },
    putIndex: async (cid, file, replace, signal) =>
      await bucket.put(indexKey(cid), encodeIndex(file), !replace, signal),
    index: (cid, signal) => readIndex(place, cid, signal),
    isComplete: (file, signal) => isComplete(place, file, signal),
    async stat(cid, signal) {
      return { pin: (await bucket.size(indexKey(cid), signal)) === undefined ? 'absent' : 'ours' };
    },
    removeIndex: (cid, signal) => bucket.removeAll(indexKey(cid), signal),
    async removeData(data, signal, ns) {
      if (ns === undefined) return await bucket.removeAll(dataKey(data), signal);
      let isGone = true;
      for (const n of ns) isGone = (await bucket.removeAll(dataKey(data, n), signal)) && isGone;
      return isGone;
    },
    listData: (start, after, signal) => bucket.list(`${prefix}data/${start}`, after, signal),
    idOf: (key) => /^([0-9a-f]{32})\/\d{8}$/.exec(key.slice(`${prefix}data/`.length))?.[1],
    async ownsPrefix(signal) {
      const key = `${prefix}service`;
      const own = new TextEncoder().encode(serviceId) as Uint8Array<ArrayBuffer>;
      let owner = await bucket.get(key, undefined, signal);
      if (owner === undefined) {
        await bucket.put(key, own, true, signal);
        owner = await bucket.get(key, undefined, signal);
      }
      const text = await readAll(owner ?? null, ownerBytes, () => lost(place, 'owner'));
      return new TextDecoder().decode(text) === serviceId;
    },
    source: (root) => sourceAt(place, root),
    async ping(signal) {
      await bucket.list(`${prefix}service`, undefined, signal);
      return {};
    },
  };
}

function lost({ id }: Place, what: string): SealpinError {
  return new SealpinError('pinning_lost', `${id} has no ${what}`);
}

async function readIndex(place: Place, cid: string, signal: AbortSignal): Promise<ObjectIndex> {
  const stream = await place.bucket.get(place.indexKey(cid), undefined, signal);
  if (stream === undefined) throw lost(place, `index of ${cid}`);
  const tooLarge = () => new SealpinError('content_mismatch', `the index of ${cid} is too large`);
  return await decodeIndex(cid, await readAll(stream, maxIndexBytes, tooLarge));
}

async function isComplete(
  { bucket, dataKey }: Place,
  { id, objects }: Pick<ObjectIndex, 'id' | 'objects'>,
  signal: AbortSignal,
): Promise<boolean> {
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

type Piece = { n: number; offset: number; length: number };

/** Where bytes of the data of a file are. */
function piecesOf(objects: ObjectIndex['objects'], start: number, length: number): Piece[] {
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
function dataOf(
  place: Place,
  { id, objects }: ObjectIndex,
  range: { start: number; length: number },
  signal: AbortSignal,
): ReadableStream<Uint8Array> {
  const pieces = piecesOf(objects, range.start, range.length);
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const next = reader === undefined ? pieces.shift() : undefined;
          if (reader === undefined && next === undefined) return controller.close();
          if (next !== undefined) {
            const stream = await place.bucket.get(place.dataKey(id, next.n), next, signal);
            if (stream === undefined) throw lost(place, `object ${id}/${next.n}`);
            reader = stream.getReader();
          }
          const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
          if (value !== undefined) return controller.enqueue(value);
          if (done) reader = undefined;
        }
      },
      cancel: async (reason) => reader?.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The file of a CID as a source. */
function sourceAt(place: Place, root: string): BlockSource & Required<Pick<BlockSource, 'read'>> {
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
      const extent = file.extentOf(parseCid(text));
      if (extent === undefined) throw lost(place, `block ${text}`);
      const stream = dataOf(place, file, extent, signal);
      const bytes = await readAll(stream, maxBlockBytes, () => lost(place, `block ${text}`));
      if (bytes.length < extent.length) throw lost(place, `whole block ${text}`);
      return bytes;
    },
    async read(text, offset, length, signal) {
      const file = await load(signal);
      const extent = file.extentOf(parseCid(text));
      // The leaves of a foreign shape are asked for one by one.
      if (extent === undefined || offset + length > extent.length) throw lost(place, `bytes of ${text} in one piece`);
      return dataOf(place, file, { start: extent.start + offset, length }, signal);
    },
  };
}
