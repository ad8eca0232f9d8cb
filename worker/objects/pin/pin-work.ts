/** Work on a row: copying, checking and removing, in steps of a few requests. */
import type { BlockSource } from '../../../shared/ipfs/index.ts';
import { replicas } from '../../env.ts';
import { errorText, log } from '../../log.ts';
import { backendOf, servicesOf } from '../../backends/configured.ts';
import { takesBlocks, type HostedService } from '../../backends/contract.ts';
import { backoffMs, withJitter } from '../alarm.ts';
import { isRefusal } from '../metrics/seen-refusals.ts';
import { SourceError } from '../../backends/source-error.ts';
import { err, type Result } from '../result.ts';
import { WithContext } from '../with-context.ts';
import { beingRemoved } from './cid-queue.ts';
import { copyBlocks } from './copy-blocks.ts';
import { isBeingPinned, isSpare, isSure, readableOf } from './last-copy.ts';
import { PinCheck } from './pin-check.ts';
import { onFailure } from '../../backends/on-failure.ts';
import { answered, detailOf, isMissing, isServiceFault, reasonOf } from './pin-faults.ts';
import { ownership, type Ownership } from './pin-ownership.ts';
import { PinSources } from './pin-sources.ts';
import { lateMs, limited, pinningNow, repairedMs, requestMs, step } from './pin-steps.ts';
import type { Removal, WorkContext } from './pin-steps.ts';
import { isReadingAll, nothingToRead, wholeFile, type PinRow, type Reference } from './pin-rows.ts';
import { timeLimit } from '../../backends/time-limit.ts';

/**
 * Each pin is asked for once in this time, in ms: the last day of it is left to chance, so that not
 * all are asked at once.
 */
const checkMs = { every: 7 * 86_400_000, spread: 86_400_000 };
/** Wait before a new pin is asked for, in ms. */
const soonMs = 5_000;
/** Wait before accounts are asked again whether their uploads have ended, in ms. */
const uploadsMs = 60_000;
/** Wait before a copy is tried again if nobody has the file, in ms. */
const noCopyMs = 86_400_000;

/** The reads and requests to services that rows ask for. */
export class PinWork extends WithContext<WorkContext> {
  /** Sources that are asked for the blocks of CIDs. */
  readonly sources = new PinSources(this.context);
  readonly #check = new PinCheck({ ...this.context, sources: this.sources, work: this });

  /** Returns the time of the next check of a pin that is in order, in ms. */
  nextCheck(): number {
    return this.context.now() + checkMs.every - Math.round(Math.random() * checkMs.spread);
  }

  /**
   * Does what the row asks for next. It does not throw: the row says what became of it, and when it
   * is looked at again.
   * @param signal interrupts copying and reading, which then go on where they were
   */
  async next(found: PinRow, signal: AbortSignal): Promise<void> {
    const row = identified(found);
    if (row.state === 'unpinning') return void (await this.remove(row));
    if (row.wanted === 0 && this.context.rows.pinning(row).length > 0) return await this.#leave(row);
    if (row.state === 'lost' && row.wanted === 1 && this.sources.besides(row).length > 0)
      return await this.#attempt(row, signal, async () => {
        await this.sources.readDamaged(row, signal);
        await this.clear(row);
      });
    const isCheck = row.state === 'live' || row.state === 'lost';
    await this.#attempt(row, signal, () => (isCheck ? this.#check.next(row, signal) : this.#copy(row, signal)));
  }

  /**
   * Asks the service to remove our pin. If it does not (`scheduled`), the row says when to try
   * again.
   */
  async remove(found: PinRow): Promise<Removal> {
    const { rows, breakers, now } = this.context;
    const row = identified(found);
    const { service, request_id: requestId } = row;
    const attempts = row.attempts + 1;
    // Before the request goes out: an object that dies while it waits must find the row due.
    rows.change(row, { attempts, due: now() + backoffMs(attempts), request_id: requestId });
    let kept: boolean;
    try {
      if (!(await isSpare({ ...this.context, sources: this.sources }, row))) {
        this.#doubt(row);
        this.settle(row.cid);
        return 'scheduled';
      }
      kept = await onFailure(this.#removeOurs(row), (error) => {
        if (isServiceFault(error)) breakers.failed(service, now(), error.retryAfterSeconds);
      });
      breakers.succeeded(service);
    } catch (error) {
      log({ event: 'pin.unpin', requestId, service, attempts, error: errorText(error) });
      return 'scheduled';
    }
    const { wanted, late_until: lateUntil } = rows.find(row.cid, service) ?? row;
    if (wanted === 0 && lateUntil !== null && lateUntil > now()) {
      // Whose object has died before its end was written has that time from now on.
      const due = Math.min(lateUntil, now() + lateMs);
      rows.change(row, { attempts: 0, due, late_until: due });
      return 'scheduled';
    }
    // Somebody may want it again by now.
    if (wanted === 1) rows.change(row, { state: 'wanted', attempts: 0, cursor: 0, due: now() });
    else rows.remove(row);
    const status = kept ? 'kept' : 'unpinned';
    this.context.removed(row.cid, service, status);
    return status;
  }

  /**
   * Asks a backend what it holds of a CID that is to be referred to.
   * @returns also why the caller must come again
   */
  async look({ cid, service, requestId }: Reference, row: PinRow | undefined): Promise<Result<{ seen: Looked }>> {
    const { env, stored } = this.context;
    return await answered({ event: 'pin.stat', service, requestId }, async () => {
      const backend = backendOf(env, service, requestId);
      const isOrdered = backend.takes === 'blocks' && backend.ordersRequests === true;
      if (row?.state === 'unpinning' && !isOrdered) return beingRemoved();
      // The service keeps it instead of the one that is sent.
      const isDamaged = row?.state === 'lost' && row.damaged !== null && backend.takes === 'blocks';
      if (isDamaged && (await this.clear(row)))
        return err('pinning_unavailable', 'a damaged block was removed: send the bytes again', 1);
      if (backend.takes === 'objects') {
        const held = await backend.stat(cid, timeLimit(requestMs));
        const known = row?.object ?? null;
        const object = held.pin === 'ours' ? held.object : known;
        if (object !== null) await stored.adopt({ cid, service, object: known }, object);
        // Where its bytes are in doubt, those of the next upload take their place.
        const pinned = held.pin === 'ours' && object === known && row?.state === 'live' && row.suspect === 0;
        return { ok: true, seen: { was_there: 0, anchored: 0, pinned, object } };
      }
      const held = await backend.stat(cid, timeLimit(requestMs));
      if (row?.state === 'unpinning' && held.pin !== 'absent') return beingRemoved();
      return { ok: true, seen: { ...ownership(held, row), object: null } };
    });
  }

  /**
   * Writes the rows of a reference, in a transaction of the caller's.
   * @param row from before
   * @param own what the service holds
   */
  recordReference(reference: Reference, row: PinRow | undefined, { pinned, ...own }: Looked): void {
    const { rows, migrations, now } = this.context;
    const { cid, service, isPart = false, requestId = null } = reference;
    rows.add(cid, service, 'live', this.nextCheck());
    const isNew = !pinned && (row === undefined || row.read_from === null);
    const look = isNew ? { ...nothingToRead, due: this.soon() } : {};
    rows.change({ cid, service }, { ...own, ...look, wanted: 1 });
    // The request of an attempt before, which has ended somehow, may be on its way.
    if (rows.addReference(reference, !pinned) && !pinned) rows.change({ cid, service }, { late_until: now() + lateMs });
    // What is being removed is copied again afterwards.
    for (const each of rows.ofCid(cid))
      if (each.state === 'unpinning' && migrations.targetOf(each.service) === undefined)
        rows.change(each, { wanted: 1 });
    const target = migrations.targetOf(service);
    if (target !== undefined) migrations.move(cid, service, target);
    if (!isPart) this.addBackends(cid, requestId);
    // The upload that follows is to repair it, and may fail.
    if (row === undefined || row.state === 'live') return;
    this.readAll(row);
    rows.change(row, { state: 'live', checked_at: null, attempts: 0, due: now() + repairedMs });
  }

  /**
   * Adds rows until as many services are to hold a file as `REPLICAS` says.
   * @param requestId of the request from which it follows
   */
  addBackends(cid: string, requestId: string | null): void {
    const { env, rows, now } = this.context;
    const configured = new Set(servicesOf(env).map(({ id }) => id));
    const held = rows.ofCid(cid).filter(({ wanted, service }) => wanted === 1 && configured.has(service));
    const isOpen = (id: string) =>
      rows.find(cid, id) === undefined && this.context.migrations.targetOf(id) === undefined;
    const others = servicesOf(env).filter(({ id }) => isOpen(id));
    const added = others.slice(0, Math.max(0, replicas(env) - held.length));
    for (const { id } of added) rows.add(cid, id, 'wanted', now(), requestId);
  }

  /** Lets all bytes of a row be read and verified, from now on. */
  readAll(row: PinRow): void {
    this.context.rows.change(row, { ...wholeFile, due: this.context.now() });
  }

  /**
   * Makes room for a copy of what is lost: a service may keep a damaged block instead of the one
   * that it is sent. One reading that was wrong removes nothing: it may be the last copy.
   * @returns whether a block was removed
   */
  async clear(row: PinRow): Promise<boolean> {
    const { rows, now } = this.context;
    const { damaged } = row;
    const service = this.sources.service(row);
    const blocks = takesBlocks(service) ? service : undefined;
    const isDamaged = damaged !== null && (await blocks?.isDamaged?.(damaged, timeLimit(requestMs))) === true;
    if (isDamaged) {
      await this.#removeOurs(row);
      await blocks?.discard?.(damaged, timeLimit(requestMs));
    }
    const [state, waitMs] = this.sources.besides(row).length > 0 ? ['wanted' as const, 0] : ['lost' as const, noCopyMs];
    rows.change(row, { state, damaged: null, cursor: 0, attempts: 0, due: now() + waitMs });
    return isDamaged;
  }

  /** Looks whether the uploads have ended that may pin what a service is not to hold any more. */
  async #leave(row: PinRow): Promise<void> {
    const { rows, now } = this.context;
    rows.change(row, { due: now() + uploadsMs });
    if (await isBeingPinned(this.context, row)) return;
    rows.change(row, { due: now() });
    this.settle(row.cid);
  }

  /**
   * Has a service asked for what it may have as a whole, as the answer to a copy or a removal may
   * be lost: nobody is known to have another copy.
   */
  #doubt(row: PinRow): PinRow {
    const doubt = { state: 'lost', damaged: null, ...wholeFile } as const;
    this.context.rows.change(row, doubt);
    return { ...row, ...doubt };
  }

  /** Makes an attempt, after which the row is due again, whatever happens. */
  async #attempt(row: IdentifiedRow, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const { rows, breakers, now } = this.context;
    const { service, request_id: requestId } = row;
    const attempts = row.attempts + 1;
    const due = now() + withJitter(backoffMs(attempts));
    rows.change(row, { attempts, due, request_id: requestId });
    try {
      await work();
      breakers.succeeded(service);
    } catch (error) {
      if (signal.aborted) return rows.change(row, { attempts: row.attempts, due: now() });
      log({ event: 'pin.attempt', requestId, service, state: row.state, attempts, error: errorText(error) });
      const failure = { reason: reasonOf(error), detail: detailOf(error) };
      const isCopying = row.state !== 'live' && row.state !== 'lost';
      if (isCopying && !(error instanceof SourceError) && isRefusal(failure.reason))
        this.context.refused(service, failure.reason);
      if (error instanceof SourceError || !isServiceFault(error))
        return rows.change(row, isCopying ? { state: 'failed', ...failure } : failure);
      breakers.failed(service, now(), error.retryAfterSeconds);
      rows.change(row, { ...failure, due: Math.max(due, breakers.openUntil(service)) });
    }
  }

  /** Copies the next piece of a file to a service, and pins it after the last one. */
  async #copy(row: PinRow, signal: AbortSignal): Promise<void> {
    const { rows, now } = this.context;
    const { cid } = row;
    const sources = this.sources.besides(row);
    if (sources.length === 0 && !rows.ofCid(cid).some(({ state }) => state === 'live'))
      return await this.#check.next(this.#doubt(row), signal);
    if (sources.length === 0) throw new SourceError('pinning_unavailable', 'no service that holds it can be asked');
    const target = this.sources.service(row);
    if (target.takes === 'objects') {
      if (!(await this.context.stored.copy(row, sources, limited(signal)))) return;
      this.#recordLive(row);
      return this.settle(cid);
    }
    if (!takesBlocks(target)) return await this.#hold(row, target, sources, signal);
    let { cursor, was_there: wasThere } = row;
    if (row.state !== 'copying') {
      const held = await target.stat(cid, timeLimit(requestMs));
      const isNew = row.checked_at === null && row.anchored === 0;
      const { pinned: _, ...own } = ownership(held, isNew ? undefined : row);
      ({ was_there: wasThere } = own);
      if (row.state === 'wanted') cursor = 0;
      rows.change(row, { ...own, state: 'copying', cursor });
    }
    const bytes = row.attempts > 0 ? step.slowBytes : step.bytes;
    const onMismatch = (id: string) => this.sources.markSuspect(cid, id);
    const piece = { start: cursor, bytes, signal: limited(signal), onMismatch };
    const copied = await copyBlocks(cid, sources, target, piece);
    rows.change(row, { cursor: copied.end, bytes: copied.size });
    // Where the pin fails, the attempt counts: the row waits.
    if (copied.end < copied.size) return rows.change(row, { attempts: 0, due: now() });
    try {
      // The service's own time limits end it. It is not interrupted: a pin must not come after its
      // removal.
      const o = { bytes: copied.size, beside: wasThere === 1, signal: new AbortController().signal };
      await pinningNow(this.context, row, () => target.pin(cid, o));
    } catch (error) {
      if (isMissing(error)) rows.change(row, { cursor: 0 });
      throw error;
    }
    this.#recordLive(row);
    // What was damaged here is read again: a service may keep the copy that it has.
    if (row.suspect === 1) this.readAll(row);
    this.settle(cid);
  }

  /**
   * Sends a file to a service that gets files as a whole. One that is at work is asked again when
   * the row is due.
   */
  async #hold(row: PinRow, target: HostedService, sources: BlockSource[], signal: AbortSignal): Promise<void> {
    const { cid } = row;
    this.context.rows.change(row, { state: 'copying', reason: null, detail: null });
    const file = { cid, sources, onMismatch: (id: string) => this.sources.markSuspect(cid, id) };
    const held = await pinningNow(this.context, row, () => target.hold(file, signal));
    if (held === 'held') this.#recordLive(row);
    else this.#recordTaken(row);
  }

  /**
   * Returns the time at which a pin that has just been made is asked for again: another service may
   * make its own of the same bytes at the same moment.
   */
  soon(): number {
    return this.context.now() + withJitter(soonMs);
  }

  /** Records that a service holds a file. */
  #recordLive(row: PinRow): void {
    const { rows, now } = this.context;
    this.#recordTaken(row);
    const live = { state: 'live', cursor: 0, absences: 0, reason: null, detail: null, checked_at: now() } as const;
    rows.change(row, { ...live, ...nothingToRead, attempts: 0, due: this.soon(), request_id: null });
  }

  /** Records that a service takes what it had refused. */
  #recordTaken({ service, reason }: PinRow): void {
    if (isRefusal(reason)) this.context.refused(service, null);
  }

  /**
   * Removes a CID from services that are not to hold it any more, once the one that takes their
   * place has it, every byte was read from there, and no upload may be about to pin it.
   */
  settle(cid: string): void {
    const { rows, now } = this.context;
    const all = rows.ofCid(cid);
    const staying = readableOf(this.context, all).filter(({ wanted, state }) => wanted === 1 && state === 'live');
    for (const row of all.filter(({ wanted, state }) => wanted === 0 && state !== 'unpinning')) {
      const replaces = all.filter(({ moved_from: from }) => from === row.service);
      const candidates = staying.filter((each) => replaces.length === 0 || replaces.includes(each));
      const safe = candidates.find((each) => each.verified_at !== null && isSure(each));
      const successor = safe ?? candidates[0];
      if (successor === undefined) continue;
      const isSafe = safe !== undefined;
      if (isSafe && rows.pinning(row).length > 0) rows.change(row, { due: Math.min(row.due ?? Infinity, this.soon()) });
      else if (isSafe) {
        rows.change(row, { state: 'unpinning', attempts: 0, due: now(), moved_from: null });
        if (replaces.length > 0) rows.change(successor, { moved_from: null });
        // What the one that leaves was to replace may leave now.
        return this.settle(cid);
      } else if (!isReadingAll(successor)) this.readAll(successor);
    }
  }

  /** Removes our part of a pin. @returns whether a pin that is not ours remains */
  async #removeOurs(row: PinRow): Promise<boolean> {
    const { cid, was_there: wasThere, anchored } = row;
    const service = this.sources.service(row);
    if (service.takes === 'objects') {
      await this.context.stored.remove(row);
      return false;
    }
    if (!takesBlocks(service)) {
      // A DELETE of a client waits for the first attempt.
      await service.unpin(cid, timeLimit(row.attempts > 0 ? step.ms : requestMs));
      return false;
    }
    const beside = anchored === 1 ? await service.unpinBeside(cid, timeLimit(requestMs)) : undefined;
    // Rows of the first version have no anchor: whether the pin from before theirs still exists is
    // unknown.
    if (wasThere === 1) return beside !== 'absent';
    const unpinned = await service.unpin(cid, timeLimit(requestMs));
    // Where another service has pinned the same bytes at the same moment, the adapter has put ours
    // beside its pin.
    if (unpinned !== 'removed' && anchored === 0) await service.unpinBeside(cid, timeLimit(requestMs));
    return unpinned === 'foreign';
  }
}

/** Returns what a backend holds of a CID, and at a store the `<id>` of its objects. */
type Looked = Ownership & Pick<PinRow, 'object'>;

type IdentifiedRow = PinRow & { request_id: string };

/** Gives work that follows from no request an ID of its own, until the row is in order. */
function identified(row: PinRow): IdentifiedRow {
  return { ...row, request_id: row.request_id ?? crypto.randomUUID() };
}
