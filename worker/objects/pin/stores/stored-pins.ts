/** CIDs in object stores, for the `Pin` object of each: nobody else changes an index. */
import { isSealpinError, SealpinError } from '../../../../shared/errors.ts';
import {
  blocksOf,
  decodeNode,
  digestBytes,
  leafBytes,
  openFile,
  parseCid,
  readBlock,
  type BlockSource,
} from '../../../../shared/ipfs/index.ts';
import { concat } from '../../../../shared/streams/concat.ts';
import { storeOf } from '../../../backends/configured.ts';
import type { ObjectStore } from '../../../backends/objects/store-contract.ts';
import { encodeIndex, indexOf, maxIndexBytes, tooManyNodes } from '../../../backends/objects/object-index.ts';
import type { DataObject, ObjectIndex, StoredObjects } from '../../../backends/objects/object-index.ts';
import { fixedLength } from '../../../backends/objects/fixed-length.ts';
import { sourceError, type SourceError } from '../../../backends/source-error.ts';
import { err, unwrap, type Result } from '../../result.ts';
import { WithContext } from '../../with-context.ts';
import type { CidQueue } from '../cid-queue.ts';
import type { StoreContext } from './object-rows.ts';
import { newObjectId } from './object-names.ts';
import { answered } from '../pin-faults.ts';
import { blockMs, requestMs, step } from '../pin-steps.ts';
import type { PinRow, PinRows } from '../pin-rows.ts';
import { timeLimit } from '../../../backends/time-limit.ts';

/** A file whose objects are stored: what its index says. */
export type Kept = { cid: string; service: string; file: StoredObjects };

/**
 * Time that a copy has for all of its bytes, in ms, before its objects are taken for those of one
 * that has ended.
 */
const copyMs = 7 * 86_400_000;
/** Time limit of reading all nodes of a file, in ms. */
const nodesMs = 60_000;
/**
 * Numbers of a copy for each leaf: an attempt to store a piece takes one of those of its first
 * leaf, so that none is used twice.
 */
const numbersOfLeaf = 100;

type StoredPinsContext = StoreContext & { rows: PinRows; queue: CidQueue };

export class StoredPins extends WithContext<StoredPinsContext> {
  /**
   * Writes the index of a file. Where another one of the same bytes is there and complete, that one
   * stays.
   */
  async keep({ cid, service, file }: Kept): Promise<Result> {
    const { env, queue, rows } = this.context;
    return await queue.interrupt(cid, async () => {
      const row = rows.find(cid, service);
      if (row === undefined || row.state === 'unpinning') return err('pinning_timeout', 'the upload timed out');
      return await answered({ event: 'object.keep', service }, async () => {
        await this.#keep(storeOf(env, service), row, file);
        return { ok: true };
      });
    });
  }

  /**
   * Tells whether a CID needs the objects of an upload. One whose row does not say which it has may
   * need them, and so may one whose index names them: `unsure`.
   */
  async holds(cid: string, service: string, id: string): Promise<'holds' | 'not' | 'unsure'> {
    const row = this.context.rows.find(cid, service);
    if (row?.object === id) return 'holds';
    if (row?.object === null) return 'unsure';
    // A row may be lost, or not say yet what was written; who reads follows the index.
    const store = storeOf(this.context.env, service);
    const index = await this.certain(store, cid);
    if (index === 'absent') return 'not';
    const isOther = index !== 'unusable' && index.id !== id;
    return isOther && (await store.isComplete(index, timeLimit(requestMs))) ? 'not' : 'unsure';
  }

  /** Returns those of some CIDs that no row needs at a store. */
  unneeded(service: string, cids: readonly string[]): string[] {
    const { rows } = this.context;
    return cids.filter((cid) => !rows.exists || rows.find(cid, service) === undefined);
  }

  /**
   * Removes the index of a CID that no row needs. One whose objects have a row stays: the row of a
   * file may be lost.
   */
  async removeStray(service: string, cid: string): Promise<Result> {
    const { env, queue, shard } = this.context;
    return await queue.interrupt(cid, async () => {
      if (this.unneeded(service, [cid]).length === 0) return { ok: true };
      return await answered({ event: 'object.stray', service }, async () => {
        const store = storeOf(env, service);
        const index = await this.certain(store, cid);
        if (typeof index === 'object' && (await (await shard(index.id)).objects.has(index.id))) return { ok: true };
        await store.removeIndex(cid, timeLimit(requestMs * 2));
        return { ok: true };
      });
    });
  }

  /**
   * Takes over the objects that an index names, where the row does not say so, as that of a
   * database that was restored.
   */
  async adopt({ cid, service, object: known }: Pick<PinRow, 'cid' | 'service' | 'object'>, id: string): Promise<void> {
    if (id === known) return;
    this.#checkPlace({ cid, service }, id);
    await unwrap((await this.context.shard(id)).objects.bind({ id, service, cid, isKnown: true }));
  }

  /**
   * Removes the index of a CID, then its objects: those of the row, and where that was in doubt,
   * those that the index names.
   * @throws overloaded while something is left
   */
  async remove(row: PinRow): Promise<void> {
    const { rows, env, shard } = this.context;
    const { cid, service, object } = row;
    const store = storeOf(env, service, row.request_id ?? undefined);
    const signal = timeLimit(requestMs * 2);
    const others = this.#elsewhere(row).filter(({ state }) => state !== 'unpinning');
    const isOfOther = (id?: string): boolean => others.some((each) => each.object === id);
    const isInDoubt = object === null || row.suspect === 1 || others.length > 0;
    const index = isInDoubt ? await this.certain(store, cid) : undefined;
    const named = typeof index === 'object' ? index.id : undefined;
    // Before the index goes, which is the only other place that knows it.
    if (object === null) rows.change(row, { object: named ?? null });
    // Under another name, the same bucket keeps what that one has.
    let isGone = isOfOther(named) || (await store.removeIndex(cid, signal));
    for (const id of new Set([object, named]))
      if (typeof id === 'string' && !isOfOther(id))
        isGone = (await unwrap((await shard(id)).objects.remove(id, service, cid))).isGone && isGone;
    if (!isGone) throw new SealpinError('overloaded', `${service} still has objects of ${cid}`);
  }

  /**
   * Copies the next piece of a file, and writes the index after the last one.
   * @returns whether that was the last one
   */
  async copy(found: PinRow, sources: readonly BlockSource[], signal: AbortSignal): Promise<boolean> {
    const { rows, env, now } = this.context;
    const { cid, service } = found;
    const store = storeOf(env, service, found.request_id ?? undefined);
    const options = { signal, limits: { idleMs: blockMs } };
    const file = await openFile(cid, sources, options).catch((error: unknown) => Promise.reject(sourceError(error)));
    const shapeOf = () => this.#shape(cid, sources, AbortSignal.any([signal, timeLimit(nodesMs)]));
    if (found.state !== 'copying' || found.object === null) {
      const id = newObjectId();
      // What no index can describe is refused before its bytes are sent.
      if (parseCid(cid).codec !== 'raw')
        encodeIndex(await indexOf(cid, { id, size: file.size, objects: [], ...(await shapeOf()) }));
      const before = found.object;
      rows.change(found, { state: 'copying', cursor: 0, object: id });
      if (before !== null) await unwrap((await this.context.shard(before)).objects.abandon(before));
    }
    const { object, cursor, attempts } = rows.find(cid, service) ?? found;
    const id = object ?? '';
    const { objects: calls } = await this.context.shard(id);
    const upload = { id, service, account: '', upload: cid };
    const { from } = await unwrap(calls.open(upload, { numbers: 1, forMs: copyMs }));
    const end = Math.min(file.size, cursor + (attempts > 1 ? step.slowBytes : step.bytes));
    if (cursor < end || file.size === 0) {
      const piece = pieceOf(file.read(cursor, end), end - cursor);
      const n = Math.floor(cursor / leafBytes) * numbersOfLeaf + (from % numbersOfLeaf);
      const body = { stream: piece.stream, length: end - cursor };
      await store.put(id, n, body, signal).catch((error: unknown) => Promise.reject(piece.failure() ?? error));
    }
    rows.change(found, { cursor: end, bytes: file.size });
    // Where the index fails, the attempt counts: the row waits.
    if (end < file.size) {
      rows.change(found, { attempts: 0, due: now() });
      return false;
    }
    const objects = await this.#objects(store, id, file.size, signal);
    const row = rows.find(cid, service);
    if (row === undefined) return false;
    await this.#keep(store, row, await indexOf(cid, { id, size: file.size, objects, ...(await shapeOf()) }));
    return true;
  }

  /** The rows of a CID at other stores. */
  #elsewhere({ cid, service }: Pick<PinRow, 'cid' | 'service'>): PinRow[] {
    return this.context.rows.ofCid(cid).filter((row) => row.service !== service && row.object !== null);
  }

  /**
   * Checks that objects are not those of another backend: what is removed from one of two names of
   * a bucket is gone at both. No two uploads have an `<id>` in common.
   * @throws misconfigured
   */
  #checkPlace(at: Pick<PinRow, 'cid' | 'service'>, id: string | undefined): void {
    const other = this.#elsewhere(at).find(({ object }) => object === id);
    if (other === undefined) return;
    throw new SealpinError('misconfigured', `${at.service} is the bucket and prefix of ${other.service}`, {
      hint: 'the operator must give each backend a bucket or a prefix of its own',
    });
  }

  async #keep(store: ObjectStore, row: PinRow, file: StoredObjects): Promise<void> {
    const { cid, service } = row;
    const signal = timeLimit(nodesMs);
    const before = row.object;
    // From now on the row of the objects asks here whether they are needed.
    await unwrap((await this.context.shard(file.id)).objects.bind({ id: file.id, service, cid, isKnown: false }));
    let { id } = file;
    let there: ObjectIndex | undefined;
    if (!(await store.putIndex(cid, file, false, signal))) {
      const found = await store.index(cid, signal).catch((error: unknown) => {
        if (isSealpinError(error, 'pinning_lost', 'content_mismatch')) return undefined;
        throw error;
      });
      there = found;
      this.#checkPlace(row, found?.id);
      const isGood = found !== undefined && row.suspect === 0 && (await store.isComplete(found, signal));
      if (isGood && found.id !== file.id) {
        ({ id } = found);
        await unwrap((await this.context.shard(id)).objects.bind({ id, service, cid, isKnown: true }));
      } else if (found?.id !== file.id) await store.putIndex(cid, file, true, signal);
    }
    this.context.rows.change(row, { object: id });
    for (const other of new Set([before, there?.id, file.id]))
      if (typeof other === 'string' && other !== id)
        await unwrap((await this.context.shard(other)).objects.abandon(other));
  }

  /** The index that a store has of a CID, where objects are removed for what it names. */
  async certain(store: ObjectStore, cid: string): Promise<ObjectIndex | 'absent' | 'unusable'> {
    try {
      return await store.index(cid, timeLimit(requestMs * 2), true);
    } catch (error) {
      if (isSealpinError(error, 'pinning_lost')) return 'absent';
      if (isSealpinError(error, 'content_mismatch')) return 'unusable';
      throw error;
    }
  }

  /**
   * The objects of a copy, as the store lists them. A piece begins where its number says, and ends
   * where the next one begins, which came only after it was stored; of several attempts at it the
   * longest has it.
   */
  async #objects(store: ObjectStore, id: string, size: number, signal: AbortSignal): Promise<DataObject[]> {
    const found = new Map<number, DataObject>();
    for (let after: string | undefined, isLast = false; !isLast;) {
      const page = await store.list(`data/${id}/`, after, signal);
      for (const { key, bytes } of page.objects) {
        const n = Number(key.slice(-8));
        const leaf = Math.floor(n / numbersOfLeaf);
        if (bytes >= (found.get(leaf)?.bytes ?? -1)) found.set(leaf, { n, bytes });
      }
      after = page.objects.at(-1)?.key;
      isLast = page.isLast || after === undefined;
    }
    const leaves = [...found.keys()].toSorted((a, b) => a - b);
    const objects = leaves.map((leaf, at) => {
      const { n = 0, bytes = 0 } = found.get(leaf) ?? {};
      const end = leaves[at + 1];
      return { n, bytes: Math.min(bytes, (end === undefined ? size : end * leafBytes) - leaf * leafBytes) };
    });
    if (objects.reduce((sum, { bytes }) => sum + bytes, 0) === size) return objects;
    throw new SealpinError('pinning_unavailable', `${store.id} does not list all that it has taken`, {
      reason: 'blob_unavailable',
      retryAfterSeconds: 1,
    });
  }

  /** The leaves of a file in order, and the blocks above them. */
  async #shape(cid: string, sources: readonly BlockSource[], signal: AbortSignal) {
    const options = { signal, limits: { idleMs: blockMs } };
    const blocks = new Map<string, Uint8Array>();
    try {
      for await (const block of blocksOf(cid, sources, options))
        if (block.cid.codec === 'dag-pb') blocks.set(block.cid.text, await readBlock(block.cid.text, sources, options));
      const digests: Uint8Array[] = [];
      const lengths: number[] = [];
      const add = async (text: string, bytes: number): Promise<void> => {
        const block = blocks.get(text);
        if (block === undefined) {
          if (digests.length * digestBytes > maxIndexBytes) throw tooManyNodes();
          digests.push(parseCid(text).digest);
          lengths.push(bytes);
        } else for (const link of decodeNode(block, cid)) await add(link.cid.text, link.fileBytes);
      };
      const root = parseCid(cid);
      await add(cid, root.codec === 'raw' ? (await openFile(cid, sources, options)).size : 0);
      return { blocks, leaves: { digests: concat(...digests), lengths } };
    } catch (error) {
      signal.throwIfAborted();
      throw sourceError(error);
    }
  }
}

/** A piece on its way, and the failure of its source, if that is why it ends early. */
function pieceOf(source: ReadableStream<Uint8Array>, length: number) {
  const { readable, writable } = fixedLength(length);
  let failure: SourceError | undefined;
  source.pipeTo(writable).catch((error: unknown) => (failure = sourceError(error)));
  return { stream: readable, failure: () => failure };
}
