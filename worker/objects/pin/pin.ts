/**
 * Pin: who refers to which CID, and which pinning services hold it. 256 objects hold all CIDs, by
 * the first byte of SHA-256 of the CID's text. A set of references, never a counter, so that adding
 * and removing can be repeated. Only `Account` calls methods that add and remove.
 *
 * Each CID has a row for each service, with what is desired and what was last seen there
 * (`pin-rows.ts`), which the alarm brings together (`pin-work.ts`). One operation at a time per
 * CID; a request interrupts the alarm's.
 */
import { DurableObject } from 'cloudflare:workers';
import type { RemovedPin, SurveyState } from '../../../shared/api.ts';
import type { Env } from '../../env.ts';
import { Alarm, backoffMs, everyStep, soonest } from '../alarm.ts';
import type { MetricsBinding } from '../metrics/metrics-binding.ts';
import { tellRefusal } from '../metrics/seen-refusals.ts';
import { BlockIndex } from './block-index.ts';
import { BlockRoots } from './block-roots.ts';
import { Breakers } from './breakers.ts';
import { CidQueue, waitMs } from './cid-queue.ts';
import { firstShard, Migrations, type Migration } from './migrations.ts';
import { ObjectCalls } from './stores/object-calls.ts';
import { ObjectRows } from './stores/object-rows.ts';
import type { PinPlan } from './pin-ownership.ts';
import { PinRows, type AccountsPage, type PinRow, type Reference } from './pin-rows.ts';
import { PinRemovals, type RemovalLog } from './pin-removals.ts';
import { leastDone, settledMs, type Removal, type UploadLog } from './pin-steps.ts';
import { PinWork } from './pin-work.ts';
import { shardName } from './shard-names.ts';
import { StoredPins } from './stores/stored-pins.ts';
import { verifyPins } from './pin-verification.ts';
import { backendPin, byReadPriority, countedPins, makeAllDue, pinCounts, surveyedPins } from './pin-survey.ts';
import type { BackendPin, PinGauges, SurveyedPin, SurveyPage } from './pin-survey.ts';
import { err, unwrap, type Result } from '../result.ts';

/** Limits of one alarm: time, and requests, of Cloudflare's 1,000; a step makes some six. */
const turn = { ms: 20_000, requests: 600, ofStep: 6 };
/** The objects of this class, as one of them asks others, and those of accounts. */
type PinObjects = MetricsBinding & {
  PIN: { getByName(name: string): Pick<Pin, 'addBlocks' | 'removeBlocks' | 'objects' | 'migrations'> };
  ACCOUNT: { getByName(name: string): RemovalLog & { readonly pending: UploadLog } };
};

/** One of the 256 objects that hold the references to pins. */
export class Pin extends DurableObject<Env & PinObjects> {
  readonly #sql = this.ctx.storage.sql;
  readonly #alarm = new Alarm(this.ctx.storage);
  readonly #rows = new PinRows(this.#sql);
  readonly #breakers = new Breakers(this.#sql);
  readonly #blocks = new BlockRoots(this.#sql);
  readonly #migrations = new Migrations(this.#sql, { rows: this.#rows, now: () => this.now() });
  readonly #removals = new PinRemovals(this.#sql, {
    report: (account, fileId, pins) => this.env.ACCOUNT.getByName(account).unreferred(fileId, pins),
    now: () => this.now(),
  });
  readonly #queue = new CidQueue();
  readonly #stores = {
    env: this.env,
    shard: async (text: string) => this.env.PIN.getByName(await shardName(text)),
    now: () => this.now(),
    wake: () => this.#wake(),
  };
  readonly #stored = new StoredPins({ ...this.#stores, rows: this.#rows, queue: this.#queue });
  readonly #objects = new ObjectCalls({ ...this.#stores, rows: new ObjectRows(this.#sql), pins: this.#stored });
  readonly #work = new PinWork({
    env: this.env,
    rows: this.#rows,
    breakers: this.#breakers,
    migrations: this.#migrations,
    stored: this.#stored,
    removed: (cid, service, status) => this.#removals.note(cid, service, status),
    refused: (service, code) => this.ctx.waitUntil(tellRefusal(this.env, service, code)),
    uploadsOf: (account) => this.env.ACCOUNT.getByName(account).pending,
    now: () => this.now(),
  });
  readonly #index = new BlockIndex(this.#sql, {
    shard: (name) => this.env.PIN.getByName(name),
    isFile: (cid) => this.#rows.isFile(cid),
    sources: (cid, requestId) => this.#work.sources.of(cid, { requestId }),
    markSuspect: (cid, service) => this.#work.sources.markSuspect(cid, service),
    now: () => this.now(),
  });
  #creating: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env & PinObjects) {
    super(ctx, env);
    this.#rows.upgrade(Date.now());
    if (!this.#rows.exists) return;
    this.#index.create(Date.now());
    // Rows of earlier versions are checked as well, and nothing has set an alarm for them.
    void ctx.blockConcurrencyWhile(() => this.#wake());
  }

  /** Calls about what lies in object stores. */
  get objects(): ObjectCalls {
    return this.#objects;
  }

  /** The clock, in ms. */
  protected now(): number {
    return Date.now();
  }

  /**
   * Adds a reference, and asks the service whose pin of the CID it holds. `beside`: it is not ours,
   * so ours must be made beside it; `pinned`: ours is there already, from an earlier reference. In
   * the same transaction, the other services that are to hold a file get their rows.
   * @returns `forbidden` for a CID on the denylist, unless the reference is one of a backup;
   * `overloaded`, and what the service fails with
   */
  async addReference(reference: Reference): Promise<Result<PinPlan>> {
    const { cid, service, isPart = false, isRestored = false } = reference;
    return await this.#queue.interrupt<PinPlan>(cid, async () => {
      if (!this.#rows.exists) await this.#create();
      const denied = this.#rows.deniedSince(cid) !== undefined;
      if (denied && !isRestored)
        return err('forbidden', 'the operator of this service has put these bytes on its denylist');
      let row = this.#rows.find(cid, service);
      if (row?.state === 'unpinning') {
        await this.#work.remove(row);
        row = this.#rows.find(cid, service);
      }
      const looked = await this.#work.look(reference, row);
      if (!looked.ok) return looked;
      const { seen } = looked;
      this.ctx.storage.transactionSync(() => {
        this.#work.recordReference(reference, row, seen);
        if (!isPart) this.#index.add(cid, this.now() + settledMs, reference.requestId);
      });
      await this.#alarm.by(Math.max(this.now() + settledMs, this.#nextTime() ?? Infinity));
      return { ok: true, beside: seen.was_there === 1, pinned: seen.pinned, denied };
    });
  }

  /**
   * Removes a reference, and with the last one the pins at all services.
   * @returns what became of it at each service; `unpinned`: nothing is left to do for it
   */
  async removeReference(reference: Reference): Promise<Result<{ status: Removal; pins: RemovedPin[] }>> {
    const { cid, service, requestId = null } = reference;
    return await this.#queue.interrupt<{ status: Removal; pins: RemovedPin[] }>(cid, async () => {
      if (!this.#rows.exists) return { ok: true, status: 'unpinned', pins: [{ service, status: 'unpinned' }] };
      const removed = { state: 'unpinning', wanted: 0, attempts: 0, due: this.now(), request_id: requestId } as const;
      const { rows, isLast, isFirst } = this.ctx.storage.transactionSync(() => {
        const { isPart } = this.#rows.removeReference(reference);
        const isLast = !this.#rows.isReferenced(cid);
        if (!this.#rows.isFile(cid)) this.#index.remove(cid);
        const rows = this.#rows.ofCid(cid);
        if (isLast) for (const row of rows) this.#rows.change(row, removed);
        const isFirst = isLast && !isPart && this.#removals.begin(reference, rows);
        return { rows, isLast, isFirst };
      });
      await this.#wake();
      const remove = async (row: PinRow): Promise<RemovedPin> => {
        const status = isLast ? await this.#work.remove({ ...row, ...removed }) : 'unpinned';
        return { service: row.service, status };
      };
      const pins = await Promise.all(rows.map((row) => remove(row)));
      await this.#wake();
      const answer =
        this.#removals.answer(reference, isFirst) ?? (pins.length > 0 ? pins : [{ service, status: 'unpinned' }]);
      return { ok: true, status: answer.map((pin) => pin.status).reduce(leastDone, 'unpinned'), pins: answer };
    });
  }

  /** The services at which removals are under way. */
  async removing(): Promise<Result<{ services: string[] }>> {
    return { ok: true, services: this.#rows.removingAt() };
  }

  /**
   * The services that hold the CID of a file, in the order in which they are to be asked; none: it
   * is not stored here. `gone`: it was, and is being removed.
   * @returns `content_denied`
   */
  async services(cid: string): Promise<Result<{ services: string[]; gone: boolean }>> {
    if (!this.#rows.exists) return { ok: true, services: [], gone: false };
    if (this.#rows.deniedSince(cid) !== undefined) return err('content_denied');
    const rows = this.#rows.ofCid(cid);
    // What only a part of an upload needs is not served: it counts for nobody yet, and the denylist
    // has not seen its file.
    const isStored = rows.length > 0 && this.#rows.isFile(cid);
    const gone = !this.#rows.isReferenced(cid) && rows.some(({ state }) => state === 'unpinning');
    return { ok: true, services: isStored ? byReadPriority(rows) : [], gone };
  }

  /** Remembers blocks as those below a root. */
  async addBlocks(root: string, cids: readonly string[]): Promise<Result> {
    this.ctx.storage.transactionSync(() => this.#blocks.add(root, cids));
    return { ok: true };
  }

  /** The roots that a block is below, whether they are stored or not. */
  async rootsOf(cid: string): Promise<Result<{ roots: string[] }>> {
    return { ok: true, roots: this.#blocks.of(cid) };
  }

  /** Forgets the blocks below a root. */
  async removeBlocks(root: string): Promise<Result> {
    this.#blocks.remove(root);
    return { ok: true };
  }

  /**
   * Puts a CID on the denylist, or takes it off. Once it is there, no reference is added any more.
   * @returns a page of the accounts that refer to it, whose files are to be denied as well
   */
  async deny(cid: string, denied: boolean, page: AccountsPage): Promise<Result<{ accounts: string[] }>> {
    return await this.#queue.interrupt<{ accounts: string[] }>(cid, async () => {
      if (!denied && !this.#rows.exists) return { ok: true, accounts: [] };
      if (!this.#rows.exists) await this.#create();
      if (denied) this.#rows.deny(cid, this.now());
      else this.#rows.allow(cid);
      return { ok: true, accounts: this.#rows.accountsOf(cid, page) };
    });
  }

  /** Returns the time at which a CID was put on the denylist, in ms. @returns `not_found` */
  async denied(cid: string): Promise<Result<{ createdAt: number }>> {
    const createdAt = this.#rows.exists ? this.#rows.deniedSince(cid) : undefined;
    return createdAt === undefined ? err('not_found', 'this CID is not on the denylist') : { ok: true, createdAt };
  }

  /** Returns its numbers for the operator's metrics. */
  async gauges(): Promise<Result<PinGauges>> {
    const pins = this.#rows.exists ? pinCounts(this.#sql) : [];
    const lateMs = Math.max(0, this.now() - (this.#nextTime() ?? Infinity));
    return { ok: true, pins, strays: this.#objects.waiting(), lateMs };
  }

  /** Returns the state of a CID at each service. */
  async pins(cid: string): Promise<Result<{ pins: BackendPin[] }>> {
    return { ok: true, pins: this.#rows.exists ? this.#rows.ofCid(cid).map((row) => backendPin(row)) : [] };
  }

  /** Marks a service that gave a wrong block: it is asked last until all of the CID is verified. */
  async markSuspect(cid: string, service: string): Promise<Result> {
    if (!this.#rows.exists) return { ok: true };
    this.#work.sources.markSuspect(cid, service);
    await this.#wake();
    return { ok: true };
  }

  /**
   * Reads all bytes of a CID from each service that holds it, and compares them.
   * @returns whether that is done; otherwise it goes on
   */
  async verify(cid: string): Promise<Result<{ pins: BackendPin[]; isDone: boolean }>> {
    if (!this.#rows.exists) return { ok: true, pins: [], isDone: true };
    const isDone = await verifyPins(cid, {
      rows: this.#rows,
      work: this.#work,
      mayAsk: (service) => this.#breakers.openUntil(service) <= this.now(),
      begun: () => this.#wake(),
      step: (row) => this.#step(row),
      ended: () => this.#queue.ended(cid),
      now: () => this.now(),
    });
    return { ok: true, pins: this.#rows.ofCid(cid).map((row) => backendPin(row)), isDone };
  }

  /** A page of pins in a state. */
  async survey(page: SurveyPage): Promise<Result<{ pins: SurveyedPin[] }>> {
    return { ok: true, pins: this.#rows.exists ? surveyedPins(this.#sql, page) : [] };
  }

  /**
   * Makes every pin due, as soon as services respond.
   * @returns how many there are by what was last seen of them
   */
  async repair(): Promise<Result<{ counts: Partial<Record<SurveyState, number>> }>> {
    if (!this.#rows.exists) return { ok: true, counts: {} };
    this.#breakers.reset();
    makeAllDue(this.#sql, this.now());
    await this.#wake();
    return { ok: true, counts: countedPins(this.#sql) };
  }

  /**
   * Begins to move what a service holds to another one; can be repeated. An object without rows
   * asks the first one later.
   */
  async migrate(from: string, to: string): Promise<Result> {
    // What the first object said may be from before this migration.
    await this.#creating;
    if (!this.#rows.exists && !this.#isFirst()) return { ok: true };
    if (!this.#rows.exists) await this.#create();
    this.ctx.storage.transactionSync(() => this.#migrations.begin(from, to));
    await this.#wake();
    return { ok: true };
  }

  /** Ends a migration. What has moved stays where it is now; the rest stays where it was. */
  async cancelMigration(from: string, to: string): Promise<Result<{ found: boolean }>> {
    const found = this.ctx.storage.transactionSync(() => this.#migrations.cancel(from, to));
    await this.#wake();
    return { ok: true, found };
  }

  async migrations(): Promise<Result<{ migrations: Migration[] }>> {
    return { ok: true, migrations: this.#migrations.list() };
  }

  /** Copies, checks and removes what is due, as much as one event can. */
  override async alarm(): Promise<void> {
    const isDone = await everyStep('pin.alarm', [
      () => this.#workOnRows(),
      () => this.#objects.work(),
      () => (this.#rows.exists ? this.#removals.flush() : undefined),
      () => this.#alarm.reset(this.#nextTime()),
    ]);
    if (!isDone) await this.#alarm.reset(this.now() + backoffMs(1));
  }

  /** Does what is due for pins and their blocks, for as long as one alarm may. */
  async #workOnRows(): Promise<void> {
    const until = Date.now() + turn.ms;
    for (let requests = 0; requests < turn.requests && Date.now() < until;) {
      const row = this.#rows.exists ? this.#breakers.dueRow(this.#rows, this.now()) : undefined;
      const root = row === undefined && this.#rows.exists ? this.#index.firstDue() : undefined;
      if (row !== undefined) await this.#step(row);
      else if (root !== undefined) requests += await this.#indexBlocks(root);
      else break;
      requests += turn.ofStep;
    }
  }

  /** Creates the tables, once. */
  async #create(): Promise<void> {
    this.#creating ??= this.#createTables().finally(() => (this.#creating = undefined));
    await this.#creating;
  }

  /** Creates the tables, with the rules that the first object got while this one had none. */
  async #createTables(): Promise<void> {
    const known = this.#isFirst() ? undefined : await unwrap(this.env.PIN.getByName(firstShard).migrations());
    try {
      this.ctx.storage.transactionSync(() => {
        this.#rows.create();
        this.#index.create(this.now());
        const running = known?.migrations.filter(({ state }) => state === 'running') ?? [];
        for (const { from, to } of running) this.#migrations.begin(from, to);
      });
    } finally {
      this.#rows.reload();
    }
  }

  /** Tells whether this is the object that knows of every migration. */
  #isFirst(): boolean {
    return this.ctx.id.equals(this.env.PIN.idFromName(firstShard));
  }

  /** Returns the time of the next work, in ms. */
  #nextTime(): number | undefined {
    const ofObjects = this.#objects.nextTime();
    if (!this.#rows.exists) return ofObjects;
    return soonest(ofObjects, this.#breakers.next(this.#rows), this.#index.nextTime(), this.#removals.nextTime());
  }

  async #wake(): Promise<void> {
    await this.#alarm.by(this.#nextTime());
  }

  /** Does what is due next for a row, unless somebody is at work on the CID. */
  async #step({ cid, service }: PinRow): Promise<void> {
    const done = await this.#queue.inBackground(cid, async (signal) => {
      const row = this.#rows.find(cid, service);
      if (row === undefined || row.due === null || row.due > this.now()) return;
      await this.#work.next(row, signal);
    });
    if (!done.ok) this.#rows.change({ cid, service }, { due: this.now() + waitMs });
  }

  /** Brings the rows of the blocks below a root in order. @returns how many requests it made */
  async #indexBlocks(root: string): Promise<number> {
    let requests = 0;
    const done = await this.#queue.inBackground(root, async (signal) => {
      requests = await this.#index.next(root, signal);
    });
    if (!done.ok) this.#index.postpone(root, waitMs);
    return requests;
  }
}
