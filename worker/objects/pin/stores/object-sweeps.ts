/**
 * Objects in stores that belong to nothing: a part that arrived late, an index whose file is gone,
 * what a lost database leaves. They are found by listing.
 */
import { log, orLog } from '../../../log.ts';
import type { ListedObject } from '../../../backends/objects/bucket.ts';
import { storeOf } from '../../../backends/configured.ts';
import type { ObjectStore } from '../../../backends/objects/store-contract.ts';
import { timeLimit } from '../../../backends/time-limit.ts';
import { SealpinError } from '../../../../shared/errors.ts';
import { askInBatches } from '../../batches.ts';
import { unwrap } from '../../result.ts';
import { WithContext } from '../../with-context.ts';
import { firstShard } from '../migrations.ts';
import { shardName } from '../shard-names.ts';
import type { ObjectRows, StoreContext, Sweep } from './object-rows.ts';

/**
 * The interval of sweeps, the longest where nothing changes, that of the parts of a long one, and
 * the age from which an object is a stray, in ms.
 */
export const sweepMs = { every: 86_400_000, longest: 7 * 86_400_000, part: 60_000, strayAge: 86_400_000 };
/**
 * Pages that one sweep lists, those of indexes counting as many, since other objects are asked
 * about these; and the most that it removes by itself.
 */
const sweepPages = 20;
const pagesOfIndexes = 5;
const removalLimits = { objects: 100, share: 0.05 };
/** Time limit of the requests of one sweep, in ms. */
const listMs = 60_000;

type ObjectSweepsContext = StoreContext & { rows: ObjectRows };

/** The sweeps of an object. */
export class ObjectSweeps extends WithContext<ObjectSweepsContext> {
  /**
   * Compares what a store has below the digits of this object with the rows. What has none, and is
   * old, is removed, unless it is so much, or was there before the rows, that the operator must say
   * so.
   */
  async run(sweep: Sweep): Promise<void> {
    const { env, rows, now } = this.context;
    const { service, allowed, inherited } = sweep;
    const next = now() + sweepMs.every;
    rows.changeSweep(service, { due: next });
    await orLog({ event: 'object.sweep', service }, async () => {
      const store = storeOf(env, service);
      const signal = timeLimit(listMs);
      if (store.place !== rows.sweepOf(service)?.place || !(await store.ownsPrefix(signal)))
        throw new SealpinError('misconfigured', 'the prefix is another one, or belongs to another service');
      const { strays, unknown, listed, last, isLast } = await this.#straysIn(store, sweep, signal);
      const count = [...strays.values()].reduce((sum, each) => sum + each, 0);
      const isFew = inherited === 0 && (count <= removalLimits.objects || count <= listed * removalLimits.share);
      const isSafe = allowed === 1 || isFew;
      if (count > 0) log({ event: 'object.strays', service, count, listed, removed: isSafe });
      if (isSafe) await this.#removeStrays(service, [...strays.keys()]);
      const current = rows.sweepOf(service);
      // What the operator has said meanwhile is for a sweep that begins now.
      if (current?.due !== next) return;
      const isWhole = sweep.after === null && isLast;
      const isAsBefore = isWhole && unknown === 0 && listed === sweep.listed && current.unchanged === sweep.unchanged;
      const unchanged = isAsBefore ? sweep.unchanged + 1 : 0;
      const waiting = (sweep.after === null ? 0 : sweep.waiting) + (isSafe ? 0 : count);
      rows.changeSweep(service, {
        due: now() + (isLast ? Math.min(sweepMs.every * 2 ** unchanged, sweepMs.longest) : sweepMs.part),
        listed,
        unchanged,
        after: isLast ? null : last,
        waiting,
        ...(isLast && { allowed: 0 }),
        // What there was before is known once all of it has a row, or may go.
        ...(((isLast && allowed === 1) || (isWhole && unknown === 0)) && { inherited: 0 }),
      });
    });
  }

  /**
   * Objects that a sweep finds which nothing needs, and which are old, as many pages as one sweep
   * lists.
   * @returns how many there are of each `<id>`, or CID; `unknown`: those of any age
   */
  async #straysIn(store: ObjectStore, { digits, after }: Sweep, signal: AbortSignal) {
    const strays = new Map<string, number>();
    const seen = { unknown: 0, listed: 0, last: after };
    let pages = sweepPages;
    for (const start of sweptBelow(digits, after)) {
      for (let isEnd = false; !isEnd;) {
        if (pages <= 0) return { strays, ...seen, isLast: false };
        const behind = seen.last?.startsWith(start) === true ? seen.last : undefined;
        const page = await store.list(start, behind, signal);
        const unneeded = new Set(await this.#unneeded(store.id, page.objects));
        for (const { key, storedAt } of page.objects) {
          const name = nameIn(key);
          if (name === undefined || !unneeded.has(name)) continue;
          seen.unknown += 1;
          if (page.now - storedAt > sweepMs.strayAge) strays.set(name, (strays.get(name) ?? 0) + 1);
        }
        seen.listed += page.objects.length;
        seen.last = page.objects.at(-1)?.key ?? seen.last;
        pages -= start === 'cid/' ? pagesOfIndexes : 1;
        isEnd = page.isLast;
      }
    }
    return { strays, ...seen, isLast: true };
  }

  /** Returns the `<id>`s and CIDs in the keys of objects that no row needs. */
  async #unneeded(service: string, objects: readonly ListedObject[]): Promise<string[]> {
    const names = [...new Set(objects.flatMap(({ key }) => nameIn(key) ?? []))];
    const ids = names.filter((name) => isId(name) && this.context.rows.find(name) === undefined);
    return [...ids, ...(await this.#straysOf(service, names, { remove: false }))];
  }

  async #removeStrays(service: string, names: readonly string[]): Promise<void> {
    const { rows, now } = this.context;
    const removing = { account: '', upload: '', cid: null, parts: 0, state: 'removing', due: now() } as const;
    for (const id of names.filter(isId)) if (rows.find(id) === undefined) rows.add({ id, service, ...removing });
    await this.#straysOf(service, names, { remove: true });
  }

  /**
   * Asks the objects of some CIDs about their indexes.
   * @param names `<id>`s among them are left out
   */
  async #straysOf(service: string, names: readonly string[], o: { remove: boolean }): Promise<string[]> {
    const shards = new Map<string, string[]>();
    for (const cid of names.filter((name) => !isId(name))) {
      const shard = await shardName(cid);
      shards.set(shard, [...(shards.get(shard) ?? []), cid]);
    }
    const ask = async (cids: readonly string[]) => {
      const { objects } = await this.context.shard(cids[0] ?? '');
      return (await unwrap(objects.strays(service, cids, o))).cids;
    };
    return (await askInBatches([...shards.values()], ask)).flat();
  }
}

/** An `<id>` whose row the first object has. */
export const firstId = firstShard.repeat(16);

/**
 * Beginnings of the keys that the sweep of an object lists, in their order: the first one also
 * looks at the indexes, which no digits divide.
 * @param after the last key that was listed
 */
export function sweptBelow(digits: string, after: string | null = null): (`data/${string}` | 'cid/')[] {
  const data = `data/${digits}` as const;
  const isBehindIndexes = after !== null && after > 'cid0';
  return digits === firstShard && !isBehindIndexes ? ['cid/', data] : [data];
}

/** The `<id>` or the CID in a key; undefined in that of something else. */
function nameIn(key: string): string | undefined {
  const [, id, cid] = /^(?:data\/([0-9a-f]{32})\/\d{8}|cid\/(b[a-z2-7]{58}))$/.exec(key) ?? [];
  return id ?? cid;
}

function isId(name: string): boolean {
  return name.length === firstId.length;
}
