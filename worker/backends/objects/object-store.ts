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

/** The store over a bucket. */
export function objectStore({ id: backend, prefix, serviceId, bucket }: StoreOptions): ObjectStore {
  const dataKey = (id: string, n?: number): string =>
    `${prefix}data/${id}/${n === undefined ? '' : String(n).padStart(8, '0')}`;
  const indexKey = (cid: string): string => `${prefix}cid/${cid}`;
  const lost = (what: string): SealpinError => new SealpinError('pinning_lost', `${backend} has no ${what}`);

  async function index(cid: string, signal: AbortSignal): Promise<ObjectIndex> {
    const stream = await bucket.get(indexKey(cid), undefined, signal);
    if (stream === undefined) throw lost(`index of ${cid}`);
    const tooLarge = () => new SealpinError('content_mismatch', `the index of ${cid} is too large`);
    return await decodeIndex(cid, await readAll(stream, maxIndexBytes, tooLarge));
  }

  /** Bytes of the data of a file: the objects that have them, one after the other. */
  function dataOf({ id, objects }: ObjectIndex, start: number, length: number, signal: AbortSignal) {
    const end = start + length;
    const pieces: { n: number; offset: number; length: number }[] = [];
    let position = 0;
    for (const { n, bytes } of objects) {
      const from = Math.max(start, position);
      const to = Math.min(end, position + bytes);
      if (from < to) pieces.push({ n, offset: from - position, length: to - from });
      position += bytes;
    }
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          for (;;) {
            const next = reader === undefined ? pieces.shift() : undefined;
            if (reader === undefined && next === undefined) return controller.close();
            if (next !== undefined) {
              const stream = await bucket.get(dataKey(id, next.n), next, signal);
              if (stream === undefined) throw lost(`object ${id}/${next.n}`);
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

  function source(root: string): BlockSource & Required<Pick<BlockSource, 'read'>> {
    let known: Promise<ObjectIndex> | undefined;
    async function load(signal: AbortSignal): Promise<ObjectIndex> {
      const loading = (known ??= index(root, signal));
      try {
        return await loading;
      } catch (error) {
        if (known === loading) known = undefined;
        // Readers take what is not of the file for a fault of the blocks, of which the index has
        // none.
        throw isSealpinError(error, 'content_mismatch') ? lost(`usable index of ${root}`) : error;
      }
    }
    return {
      id: backend,
      async block(text, signal) {
        const file = await load(signal);
        const node = file.blocks.get(text);
        if (node !== undefined) return node;
        const extent = file.extentOf(parseCid(text));
        if (extent === undefined) throw lost(`block ${text}`);
        const { start, length } = extent;
        const bytes = await readAll(dataOf(file, start, length, signal), maxBlockBytes, () => lost(`block ${text}`));
        if (bytes.length < length) throw lost(`whole block ${text}`);
        return bytes;
      },
      async read(text, offset, length, signal) {
        const file = await load(signal);
        const extent = file.extentOf(parseCid(text));
        // The leaves of a foreign shape are asked for one by one.
        if (extent === undefined || offset + length > extent.length) throw lost(`bytes of ${text} in one piece`);
        return dataOf(file, extent.start + offset, length, signal);
      },
    };
  }

  return {
    id: backend,
    takes: 'objects',
    place: `${bucket.place}/${prefix}`,
    async put(id, n, body, signal) {
      await bucket.put(dataKey(id, n), body, false, signal);
    },
    putIndex: async (cid, file, replace, signal) =>
      await bucket.put(indexKey(cid), encodeIndex(file), !replace, signal),
    index,
    async isComplete({ id, objects }, signal) {
      const sizes = new Map<string, number>();
      const key = dataKey(id);
      for (let after: string | undefined, isLast = false; !isLast;) {
        const page = await bucket.list(key, after, signal);
        for (const object of page.objects) sizes.set(object.key, object.bytes);
        after = page.objects.at(-1)?.key;
        isLast = page.isLast || after === undefined;
      }
      return objects.every(({ n, bytes }) => (sizes.get(dataKey(id, n)) ?? -1) >= bytes);
    },
    async stat(cid, signal) {
      return { pin: (await bucket.size(indexKey(cid), signal)) === undefined ? 'absent' : 'ours' };
    },
    removeIndex: (cid, signal) => bucket.removeAll(indexKey(cid), signal),
    async removeData(id, signal, ns) {
      if (ns === undefined) return await bucket.removeAll(dataKey(id), signal);
      let isGone = true;
      for (const n of ns) isGone = (await bucket.removeAll(dataKey(id, n), signal)) && isGone;
      return isGone;
    },
    listData: (start, after, signal) => bucket.list(`${prefix}data/${start}`, after, signal),
    idOf: (key) => /^([0-9a-f]{32})\/\d{8}$/.exec(key.slice(`${prefix}data/`.length))?.[1],
    async ownsPrefix(signal) {
      const key = `${prefix}service`;
      await bucket.put(key, new TextEncoder().encode(serviceId) as Uint8Array<ArrayBuffer>, true, signal);
      const stream = await bucket.get(key, undefined, signal);
      return new TextDecoder().decode(await readAll(stream ?? null, ownerBytes, () => lost('owner'))) === serviceId;
    },
    source,
    async ping(signal) {
      await bucket.list(`${prefix}service`, undefined, signal);
      return {};
    },
  };
}
