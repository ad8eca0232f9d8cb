/**
 * Objects in stores, as others call the `Pin` object that has their row. A row is written before
 * the first byte is sent, and removed when a listing is empty. Whether bytes are needed is not
 * decided here: a row asks the object of its CID.
 */
import { RpcTarget } from 'cloudflare:workers';
import { SealpinError } from '../../../../shared/errors.ts';
import { orLog } from '../../../log.ts';
import { storeOf } from '../../../backends/configured.ts';
import { backoffMs } from '../../alarm.ts';
import { err, unwrap, type Result } from '../../result.ts';
import type { NewObjects, ObjectBinding, ObjectOpening, ObjectRow, ObjectRows } from './object-rows.ts';
import type { StoreContext, WaitingStrays } from './object-rows.ts';
import { firstShard } from '../migrations.ts';
import { answered } from '../pin-faults.ts';
import { requestMs } from '../pin-steps.ts';
import { firstId, ObjectSweeps, sweepMs, sweptBelow } from './object-sweeps.ts';
import type { Kept, StoredPins } from './stored-pins.ts';
import { timeLimit } from '../../../backends/time-limit.ts';

/** Times in ms: until a row asks for the first time, and again; of a removal. */
const firstQuestionMs = 3_600_000;
const questionMs = 30 * 86_400_000;
const removeMs = 60_000;
/** Rows that one alarm looks at. */
const batch = 50;

type ObjectCallsContext = StoreContext & { rows: ObjectRows; pins: StoredPins; wake(): Promise<void> };

/** The calls, and what the alarm does for the rows. */
export class ObjectCalls extends RpcTarget {
  readonly #o: ObjectCallsContext;
  readonly #sweeps: ObjectSweeps;

  constructor(context: ObjectCallsContext) {
    super();
    this.#o = context;
    this.#sweeps = new ObjectSweeps(context);
  }

  /**
   * Writes the row of an upload that is about to send bytes, or gives it more time.
   * @returns the first of their numbers; `gone` where it is being removed, or was
   */
  async open(objects: NewObjects, o: ObjectOpening): Promise<Result<{ from: number }>> {
    const { numbers, forMs, isOngoing = false } = o;
    const { rows, now, wake } = this.#o;
    const checked = await this.#checked(objects);
    if (!checked.ok) return checked;
    const row = rows.find(objects.id);
    if (row?.state === 'removing' || (row === undefined && isOngoing)) return err('gone', 'the upload has ended');
    // One that has become a file asks when it is due: its end may be repeated.
    const due = row?.state === 'stored' ? row.due : Math.max(row?.due ?? 0, now() + forMs);
    const from = row?.parts ?? 0;
    if (row === undefined) rows.add({ ...objects, state: 'open', cid: null, parts: numbers, due });
    else rows.change(row.id, { parts: from + numbers, due });
    await wake();
    return { ok: true, from };
  }

  /**
   * Records whose bytes an upload has: from now on the object of that CID decides.
   * @param o.isKnown whether an index names the objects, so that their row may be lost
   * @returns `pinning_timeout` where they are removed, or have been
   */
  async bind({ id, service, cid, isKnown }: ObjectBinding): Promise<Result> {
    const { rows, now, wake } = this.#o;
    const checked = await this.#checked({ id, service });
    if (!checked.ok) return checked;
    const row = rows.find(id);
    const stored = { state: 'stored', cid, due: now() + firstQuestionMs, attempts: 0 } as const;
    if (row?.state === 'removing' || (row === undefined && !isKnown))
      return err('pinning_timeout', 'the upload timed out');
    if (row === undefined) rows.add({ id, service, account: '', upload: cid, parts: 0, ...stored });
    else rows.change(id, stored);
    await wake();
    return { ok: true };
  }

  /** Lets go of the objects of an upload that has ended, unless they have become a file. */
  async abandon(id: string): Promise<Result> {
    const { rows, now, wake } = this.#o;
    const row = rows.find(id);
    if (row?.state === 'open') rows.change(id, { state: 'removing', due: now(), attempts: 0 });
    else if (row !== undefined) rows.change(id, { due: now() });
    await wake();
    return { ok: true };
  }

  /**
   * Removes some objects of an upload that is open still: of one that has become a file nothing is
   * removed.
   */
  async drop(id: string, ns: readonly number[]): Promise<Result> {
    const row = this.#o.rows.find(id);
    if (row?.state !== 'open') return { ok: true };
    const { service } = row;
    return await answered({ event: 'object.drop', service }, async () => {
      const isGone = await storeOf(this.#o.env, service).removeData(id, timeLimit(removeMs), ns);
      return isGone ? { ok: true } : err('overloaded', 'objects are being removed', 5);
    });
  }

  /**
   * Removes all objects of an upload, whose index of a CID is gone. Those that another CID has
   * stay.
   * @returns whether a listing has shown that nothing is left
   */
  async remove(id: string, service: string, cid: string): Promise<Result<{ isGone: boolean }>> {
    const { rows, now } = this.#o;
    const checked = await this.#checked({ id, service });
    if (!checked.ok) return checked;
    const removing = { state: 'removing', due: now(), attempts: 0 } as const;
    const found = rows.find(id);
    if (found?.state === 'stored' && found.cid !== cid) return { ok: true, isGone: true };
    if (found === undefined) rows.add({ id, service, account: '', upload: '', cid: null, parts: 0, ...removing });
    else rows.change(id, removing);
    const row = rows.find(id);
    return { ok: true, isGone: row === undefined || (await this.#remove(row)) };
  }

  /** Tells whether a CID needs the objects of an upload. */
  async holds(cid: string, service: string, id: string): Promise<Result<{ answer: 'holds' | 'not' | 'unsure' }>> {
    return await answered({ event: 'object.holds', service }, async () => ({
      ok: true,
      answer: await this.#o.pins.holds(cid, service, id),
    }));
  }

  /** Makes a file of the objects of an upload, whose reference is there: its index is written. */
  async keep(kept: Kept): Promise<Result> {
    return await this.#o.pins.keep(kept);
  }

  /** Tells whether there is a row of an upload whose objects are to stay. */
  async has(id: string): Promise<boolean> {
    const row = this.#o.rows.find(id);
    return row !== undefined && row.state !== 'removing';
  }

  /** Sweeps a store from now on: what the first of these objects does for the indexes of all. */
  async watch(service: string): Promise<Result> {
    const checked = await this.#checked({ id: firstId, service });
    await this.#o.wake();
    return checked;
  }

  /** Returns those of some indexes that nothing needs; `remove`: which are removed. */
  async strays(service: string, cids: readonly string[], o: { remove: boolean }): Promise<Result<{ cids: string[] }>> {
    const { pins } = this.#o;
    const found = pins.unneeded(service, cids);
    for (const cid of o.remove ? found : []) {
      const removed = await pins.removeStray(service, cid);
      if (!removed.ok) return removed;
    }
    return { ok: true, cids: found };
  }

  /** The stores with objects of nobody that are too many to be removed without the operator. */
  waiting(): WaitingStrays[] {
    return this.#o.rows.waiting();
  }

  /**
   * Lets the objects of nobody that wait in a store be removed, from now on and once.
   * @returns those that wait at any store
   */
  async removeStrays(service?: string): Promise<Result<{ waiting: WaitingStrays[] }>> {
    const waiting = this.waiting();
    if (waiting.some((each) => each.service === service)) {
      this.#o.rows.changeSweep(service ?? '', { due: this.#o.now(), after: null, allowed: 1 });
      await this.#o.wake();
    }
    return { ok: true, waiting };
  }

  /** Does what is due, as far as one alarm can. It does not throw. */
  async work(): Promise<void> {
    const { rows, now } = this.#o;
    for (const sweep of rows.dueSweeps(now())) await this.#sweeps.run(sweep);
    for (const row of rows.due(now(), batch)) await (row.state === 'removing' ? this.#remove(row) : this.#ask(row));
  }

  /** Returns the time of the next work, in ms. */
  nextTime(): number | undefined {
    return this.#o.rows.nextTime();
  }

  /**
   * Checks that a store is where it was, and writes that down for the first row. Nothing is stored
   * under a prefix that belongs to another service: that one would remove it.
   */
  async #checked({ id, service }: Pick<ObjectRow, 'id' | 'service'>): Promise<Result> {
    const { env, rows, shard, now } = this.#o;
    return await answered({ event: 'object.place', service }, async () => {
      const store = storeOf(env, service);
      const sweep = rows.sweepOf(service);
      const place = sweep?.place;
      // What is about to happen may leave something behind.
      if (sweep !== undefined && sweep.unchanged > 0)
        rows.changeSweep(service, { due: Math.min(sweep.due, now() + sweepMs.every), unchanged: 0 });
      if (place === store.place) return { ok: true };
      if (place !== undefined)
        throw new SealpinError('backend_changed', `${service} was ${place}, and is ${store.place}`);
      if (!(await store.ownsPrefix(timeLimit(requestMs))))
        throw new SealpinError('misconfigured', `the prefix of ${service} belongs to another service`);
      const digits = id.slice(0, 2);
      // Before there is any index of ours.
      if (digits !== firstShard) await unwrap((await shard(firstId)).objects.watch(service));
      let inherited = 0;
      for (const start of sweptBelow(digits))
        if ((await store.list(start, undefined, timeLimit(requestMs))).objects.length > 0) inherited = 1;
      rows.addPlace(store, { digits, due: now() + Math.round(sweepMs.every * Math.random()), inherited });
      return { ok: true };
    });
  }

  /** Removes the objects of a row, then the row. */
  async #remove(row: ObjectRow): Promise<boolean> {
    const { env, rows, now } = this.#o;
    const attempts = row.attempts + 1;
    rows.change(row.id, { attempts, due: now() + backoffMs(attempts) });
    const removed = await orLog({ event: 'object.remove', service: row.service, attempts }, async () => {
      await unwrap(this.#checked(row));
      const isGone = await storeOf(env, row.service).removeData(row.id, timeLimit(removeMs));
      if (isGone) rows.remove(row.id);
      else rows.change(row.id, { attempts: 0, due: now() });
      return isGone;
    });
    return removed ?? false;
  }

  /**
   * Asks whether the objects of a row are needed; those of an upload that has not ended in time are
   * not.
   */
  async #ask({ id, service, cid, attempts: before }: ObjectRow): Promise<void> {
    const { rows, shard, now } = this.#o;
    const attempts = before + 1;
    const due = now() + backoffMs(attempts);
    rows.change(id, { attempts, due });
    await orLog({ event: 'object.ask', service, attempts }, async () => {
      const answer = cid === null ? 'not' : (await unwrap((await shard(cid)).objects.holds(cid, service, id))).answer;
      if (answer === 'holds' && cid !== null) await this.#tidy(id, service, cid);
      // Who has changed the row meanwhile knows more than the answer says.
      if (rows.find(id)?.due !== due) return;
      if (answer === 'not') rows.change(id, { state: 'removing', attempts: 0, due: now() });
      else rows.change(id, { attempts: 0, due: now() + (answer === 'holds' ? questionMs : firstQuestionMs) });
    });
  }

  /**
   * Removes the objects of an upload that its index does not name: those of requests that broke
   * off.
   */
  async #tidy(id: string, service: string, cid: string): Promise<void> {
    const store = storeOf(this.#o.env, service);
    const signal = timeLimit(removeMs);
    const index = await this.#o.pins.certain(store, cid);
    // Who has stored all in one request has numbered the objects from 0 on.
    if (typeof index === 'string' || index.id !== id || index.objects.every(({ n }, at) => n === at)) return;
    // What names objects that are not there proves nothing about others.
    if (!(await store.isComplete(index, signal))) return;
    const named = new Set(index.objects.map(({ n }) => n));
    const left: number[] = [];
    for (let after: string | undefined, isLast = false; !isLast;) {
      const page = await store.list(`data/${id}/`, after, signal);
      left.push(...page.objects.map(({ key }) => Number(key.slice(-8))).filter((n) => !named.has(n)));
      after = page.objects.at(-1)?.key;
      isLast = page.isLast || after === undefined;
    }
    if (left.length > 0 && !(await store.removeData(id, signal, left)))
      throw new SealpinError('overloaded', `${service} still has objects that no index names`);
  }
}
