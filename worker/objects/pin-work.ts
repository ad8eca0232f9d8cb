/** What is done about one row of a `Pin` object: copying, checking and removing, each in steps of a few requests. */
import { leafBytes, openFile, type BlockSource } from '../../shared/ipfs/index.ts';
import { replicas, serviceId, type Env } from '../env.ts';
import { errorText, log } from '../log.ts';
import { heldBeside } from '../pinning/anchor.ts';
import { blockServiceOf, serviceOf, servicesOf } from '../pinning/configured.ts';
import { takesBlocks, type PinningService, type Replica } from '../pinning/contract.ts';
import type { ConfiguredService } from '../pinning/services.ts';
import { backoffMs, withJitter } from './alarm.ts';
import type { Breakers } from './breaker.ts';
import { SourceError } from '../pinning/source-error.ts';
import { copyBlocks, drain } from './copy-blocks.ts';
import type { Migrations } from './migrations.ts';
import { isLost, isMissing, isServiceFault, reasonOf } from './pin-faults.ts';
import { ownership } from './pin-ownership.ts';
import { wholeFile, type PinRow, type PinRows } from './pin-table.ts';

/** How long one request to a pinning service may take here, in ms. */
export const requestMs = 8_000;
/** How long the same may take where a pin gets its name back: the service may walk over the whole file. */
const renameMs = 60_000;
/** How long one step may take that copies or reads, and how much it does; less where the last attempt failed: the source is slow. */
const step = { ms: 60_000, bytes: 8 * leafBytes, slowBytes: leafBytes };
/** The longest wait for one block, in ms. */
const blockMs = 30_000;

/** Each pin is asked for once in this time, in ms: the last day of it is left to chance, so that not all are asked at once. */
const checkMs = { every: 7 * 86_400_000, spread: 86_400_000 };
/** When a pin is asked for again that was absent, and where every copy is gone, in ms. */
const absentMs = 3_600_000;
const damagedMs = 86_400_000;
/** After so many answers that a pin is absent it is lost. */
const absencesToLose = 2;
/** Into how many parts a file is divided, of which each check reads one; a file that is no longer than `wholeBytes` has one. */
const parts = { count: 16, wholeBytes: 16 * leafBytes };

export type WorkContext = {
  env: Env;
  rows: PinRows;
  breakers: Breakers;
  migrations: Migrations;
  /** The clock, in ms. */
  now(): number;
};

/** The outcome of removing a pin. `kept`: it is not ours, so it stays; `scheduled`: it is tried again later. */
export type Removal = 'unpinned' | 'kept' | 'scheduled';

/** What two removals amount to: the one that leaves more behind. */
export function leastDone(a: Removal, b: Removal): Removal {
  if (a === 'scheduled' || b === 'scheduled') return 'scheduled';
  return a === 'kept' || b === 'kept' ? 'kept' : 'unpinned';
}

/** The reads and requests to services that rows ask for. */
export class PinWork {
  readonly #o: WorkContext;

  constructor(context: WorkContext) {
    this.#o = context;
  }

  /** When a pin is checked that is in order now, in ms. */
  nextCheck(): number {
    return this.#o.now() + checkMs.every - Math.round(Math.random() * checkMs.spread);
  }

  /**
   * Does what the row asks for next. It does not throw: the row says what became of it, and when it is looked at again.
   * @param signal interrupts copying and reading, which then go on where they were
   */
  async next(found: PinRow, signal: AbortSignal): Promise<void> {
    const row = identified(found);
    if (row.state === 'unpinning') return void (await this.remove(row));
    if (row.state === 'lost' && row.wanted === 1 && this.#sources(row).length > 0)
      return await this.#attempt(row, signal, () => this.clear(row));
    const isCheck = row.state === 'live' || row.state === 'lost';
    await this.#attempt(row, signal, () => (isCheck ? this.#check(row, signal) : this.#copy(row, signal)));
  }

  /** Asks the service to remove our pin. If it does not (`scheduled`), the row says when to try again. */
  async remove(found: PinRow): Promise<Removal> {
    const { rows, breakers, now } = this.#o;
    const row = identified(found);
    const { service, request_id: requestId } = row;
    const attempts = row.attempts + 1;
    // Before the request goes out: an object that dies while it waits must find the row due.
    rows.change(row, { attempts, due: now() + backoffMs(attempts), request_id: requestId });
    let kept: boolean;
    try {
      kept = await this.#removeOurs(row);
      breakers.succeeded(service);
    } catch (error) {
      log({ event: 'pin.unpin', requestId, service, attempts, error: errorText(error) });
      if (isServiceFault(error)) breakers.failed(service, now(), error.retryAfterSeconds);
      return 'scheduled';
    }
    // Somebody may want it again by now.
    if (rows.find(row.cid, service)?.wanted === 1)
      rows.change(row, { state: 'wanted', attempts: 0, cursor: 0, due: now() });
    else rows.remove(row);
    return kept ? 'kept' : 'unpinned';
  }

  /**
   * Adds rows until as many services are to hold a file as `REPLICAS` says.
   * @param requestId of the request from which it follows @returns the services that were added
   */
  addHomes(cid: string, requestId: string | null): string[] {
    const { env, rows, now } = this.#o;
    const held = rows.ofCid(cid).filter(({ wanted }) => wanted === 1);
    const isOpen = (id: string) => rows.find(cid, id) === undefined && this.#o.migrations.targetOf(id) === undefined;
    const others = servicesOf(env).filter(({ id }) => isOpen(id));
    const added = others.slice(0, Math.max(0, replicas(env) - held.length)).map(({ id }) => id);
    for (const service of added) rows.add(cid, service, 'wanted', now(), requestId);
    return added;
  }

  /** Lets all bytes of a row be read and verified, from now on. */
  readAll(row: PinRow): void {
    this.#o.rows.change(row, { ...wholeFile, due: this.#o.now() });
  }

  /** Makes room for a copy of what is lost: a service may keep a damaged block instead of the one that it is sent. */
  async clear(row: PinRow): Promise<void> {
    const { rows, now } = this.#o;
    const service = this.#service(row);
    if (row.damaged !== null && takesBlocks(service) && service.discard !== undefined) {
      await this.#removeOurs(row);
      await service.discard(row.damaged, AbortSignal.timeout(requestMs));
    }
    const isCopied = this.#sources(row).length > 0;
    const state = isCopied ? 'wanted' : 'lost';
    rows.change(row, { state, damaged: null, cursor: 0, attempts: 0, due: now() + (isCopied ? 0 : damagedMs) });
  }

  /** Marks a service that gave a wrong block: it is asked last until all of the file was read from it and found right. */
  suspect(cid: string, service: string): void {
    const row = this.#o.rows.find(cid, service);
    if (row === undefined || row.suspect === 1 || row.state !== 'live') return;
    this.#o.rows.change(row, { suspect: 1 });
    this.readAll(row);
  }

  /** Makes an attempt, after which the row is due again, whatever happens. */
  async #attempt(row: IdentifiedRow, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const { rows, breakers, now } = this.#o;
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
      const reason = reasonOf(error);
      if (error instanceof SourceError || !isServiceFault(error)) {
        const isCopying = row.state === 'wanted' || row.state === 'copying';
        return rows.change(row, isCopying ? { state: 'failed', reason } : { reason });
      }
      breakers.failed(service, now(), error.retryAfterSeconds);
      rows.change(row, { reason, due: Math.max(due, breakers.openUntil(service)) });
    }
  }

  /** Copies the next piece of a file to a service, and pins it after the last one. */
  async #copy(row: PinRow, signal: AbortSignal): Promise<void> {
    const { rows, now } = this.#o;
    const { cid } = row;
    const sources = this.#sources(row);
    if (sources.length === 0) throw new SourceError('pinning_unavailable', 'no service that holds it can be asked');
    const target = this.#service(row);
    if (!takesBlocks(target)) return await this.#hold(row, target, sources, signal);
    let { cursor, was_there: wasThere } = row;
    if (row.state !== 'copying') {
      const held = await target.stat(cid, AbortSignal.timeout(requestMs));
      const isNew = row.checked_at === null && row.anchored === 0;
      const { pinned: _, ...own } = ownership(held, isNew ? undefined : row);
      ({ was_there: wasThere } = own);
      if (row.state === 'wanted') cursor = 0;
      rows.change(row, { ...own, state: 'copying', cursor });
    }
    const bytes = row.attempts > 0 ? step.slowBytes : step.bytes;
    const onMismatch = (id: string) => this.suspect(cid, id);
    const copied = await copyBlocks(cid, sources, target, {
      start: cursor,
      bytes,
      signal: limited(signal),
      onMismatch,
    });
    rows.change(row, { cursor: copied.end, bytes: copied.size, attempts: 0, due: now() });
    if (copied.end < copied.size) return;
    try {
      // The service's own time limits end it. It is not interrupted: a pin must not come after its removal.
      await target.pin(cid, { bytes: copied.size, beside: wasThere === 1, signal: new AbortController().signal });
    } catch (error) {
      if (isMissing(error)) rows.change(row, { cursor: 0 });
      throw error;
    }
    this.#arrived(row);
    // What was damaged here is read again: a service may keep the copy that it has.
    if (row.suspect === 1) this.readAll(row);
    this.settle(cid);
  }

  /** Has a service hold a file that gets it as a whole. One that is at work is asked again when the row is due. */
  async #hold(row: PinRow, target: Replica, sources: BlockSource[], signal: AbortSignal): Promise<void> {
    const { cid } = row;
    this.#o.rows.change(row, { state: 'copying', reason: null });
    const file = { cid, sources, onMismatch: (id: string) => this.suspect(cid, id) };
    if ((await target.hold(file, signal)) === 'held') this.#arrived(row);
  }

  /** Records that a service holds a file. */
  #arrived(row: PinRow): void {
    const { rows, now } = this.#o;
    const live = { state: 'live', cursor: 0, absences: 0, reason: null, checked_at: now() } as const;
    rows.change(row, { ...live, attempts: 0, due: this.nextCheck(), request_id: null });
  }

  /** Asks whether the pin is there, then reads and verifies a part of the file, in pieces. */
  async #check(row: PinRow, signal: AbortSignal): Promise<void> {
    const { rows, now } = this.#o;
    const { cid } = row;
    const service = this.#service(row);
    let { read_from: from, read_to: to } = row;
    if (from === null || to === null || to === wholeFile.read_to || !takesBlocks(service)) {
      if (await this.#isAbsent(row, service)) return this.#miss(row);
      rows.change(row, { absences: 0, checked_at: now() });
      if (rows.isFile(cid)) this.addHomes(cid, row.request_id);
    }
    if (!takesBlocks(service)) {
      // It says that it holds the file, and nobody can see more of it.
      const seen = { state: 'live', reason: null, read_from: null, read_to: null, suspect: 0, losses: 0 } as const;
      return rows.change(row, { ...seen, attempts: 0, due: this.nextCheck(), request_id: null });
    }
    let damaged: string | null = null;
    try {
      const file = await openFile(cid, [service], {
        signal: limited(signal),
        limits: { idleMs: blockMs },
        onMismatch: (_, block) => (damaged = block),
      });
      if (from === null || to === null) [from, to] = rangeOfPart(row.part, file.size);
      to = Math.min(to, file.size);
      const end = Math.min(to, from + (row.attempts > 0 ? step.slowBytes : step.bytes));
      await drain(file.read(from, end));
      // Meanwhile somebody may have asked for all of it to be read.
      if (rows.find(cid, row.service)?.read_to !== row.read_to) return;
      rows.change(row, { bytes: file.size, read_from: end, read_to: to, attempts: 0, due: now() });
      if (end < to) return;
    } catch (error) {
      if (isLost(error, row.attempts)) return this.#lose(row, error.code, damaged);
      throw error;
    }
    this.#endCheck(row, to);
  }

  /** Records that the bytes up to `to` were read. The whole file is verified with its last part. */
  #endCheck(row: PinRow, to: number): void {
    const { rows, now } = this.#o;
    const { bytes } = rows.find(row.cid, row.service) ?? row;
    const isWhole = to === bytes;
    const verified = isWhole ? { verified_at: now(), suspect: 0, losses: 0 } : {};
    const part = isWhole ? 0 : row.part + 1;
    const read = { read_from: null, read_to: null, request_id: null };
    rows.change(row, { ...read, ...verified, part, state: 'live', reason: null, due: this.nextCheck() });
    this.settle(row.cid);
  }

  async #isAbsent(row: PinRow, service: PinningService | Replica): Promise<boolean> {
    const signal = AbortSignal.timeout(requestMs);
    if (!takesBlocks(service)) return (await service.stat(row.cid, signal)) === 'absent';
    // Ours lies beside somebody else's, which may go at any time.
    if (row.was_there === 1)
      return (await heldBeside(service, row.cid, `sealpin:${serviceId(this.#o.env)}`, signal)) === 'absent';
    return (await service.stat(row.cid, signal)).pin === 'absent';
  }

  /** Records that a service says that it has no pin: the second time it counts as lost. */
  #miss(row: PinRow): void {
    const { rows, now } = this.#o;
    const absences = row.absences + 1;
    if (absences >= absencesToLose || row.state === 'lost') return this.#lose(row, 'pinning_lost');
    rows.change(row, { absences, checked_at: now(), attempts: 0, due: now() + absentMs });
  }

  /** Records that a service has lost a CID, or holds other bytes. Where there is another copy, it is copied again. */
  #lose(row: PinRow, reason: string, damaged: string | null = null): void {
    const { rows, now } = this.#o;
    log({ event: 'pin.lost', requestId: row.request_id ?? undefined, service: row.service, cid: row.cid, reason });
    const losses = row.losses + 1;
    const waitMs = this.#sources(row).length > 0 ? withJitter(backoffMs(losses)) : damagedMs;
    const lost = { state: 'lost', reason, damaged, losses, checked_at: now(), absences: 0, suspect: 1 } as const;
    rows.change(row, { ...lost, ...wholeFile, verified_at: null, attempts: 0, due: now() + waitMs });
  }

  /**
   * Removes a CID from services that are not to hold it any more, once the one that takes their place has it, and every byte was read
   * from there.
   */
  settle(cid: string): void {
    const { rows, now } = this.#o;
    const all = rows.ofCid(cid);
    const staying = all.filter(({ wanted, state }) => wanted === 1 && state === 'live');
    for (const row of all.filter(({ wanted, state }) => wanted === 0 && state !== 'unpinning')) {
      const replaces = all.filter(({ moved_from: from }) => from === row.service);
      const successor = staying.find((each) => replaces.length === 0 || replaces.includes(each));
      if (successor === undefined) continue;
      if (successor.verified_at !== null) {
        rows.change(row, { state: 'unpinning', attempts: 0, due: now(), moved_from: null });
        if (replaces.length > 0) rows.change(successor, { moved_from: null });
        // What the one that leaves was to replace may leave now.
        return this.settle(cid);
      }
      if (successor.read_from === null) this.readAll(successor);
    }
  }

  /** The other services that hold a CID and may be asked. */
  #sources({ cid, service, request_id: requestId }: PinRow): BlockSource[] {
    return this.sources(cid, { except: service, requestId });
  }

  /** The services that hold a CID and may be asked; those that gave a wrong block last. */
  sources(cid: string, o: { except?: string; requestId?: string | null } = {}): BlockSource[] {
    const { env, rows, breakers, now } = this.#o;
    const configured = new Set(
      servicesOf(env)
        .filter(takesBlocks)
        .map(({ id }) => id),
    );
    const ids = rows
      .ofCid(cid)
      .filter((row) => row.service !== o.except && row.state === 'live' && configured.has(row.service))
      .filter((row) => breakers.openUntil(row.service) <= now())
      .toSorted((a, b) => a.suspect - b.suspect)
      .map((row) => row.service);
    return ids.map((id) => this.#watched(blockServiceOf(env, id, o.requestId ?? undefined)));
  }

  /** A source whose failures open its breaker: 10,000 copies must not wait for one service each. */
  #watched(service: PinningService): BlockSource {
    const { breakers, now } = this.#o;
    const watch = async <T>(work: Promise<T>): Promise<T> => {
      try {
        return await work;
      } catch (error) {
        if (isServiceFault(error)) breakers.failed(service.id, now(), error.retryAfterSeconds);
        throw error;
      }
    };
    return {
      id: service.id,
      block: (cid, signal) => watch(service.block(cid, signal)),
      read: (cid, offset, length, signal) => watch(service.read(cid, offset, length, signal)),
    };
  }

  #service({ service, request_id: requestId }: PinRow): ConfiguredService {
    return serviceOf(this.#o.env, service, requestId ?? undefined);
  }

  /** Removes our part of a pin. @returns whether a pin that is not ours remains */
  async #removeOurs(row: PinRow): Promise<boolean> {
    const { cid, was_there: wasThere, other, anchored } = row;
    const service = this.#service(row);
    if (!takesBlocks(service)) {
      await service.unpin(cid, AbortSignal.timeout(requestMs));
      return false;
    }
    if (other !== null) await service.restoreName(cid, other, AbortSignal.timeout(renameMs));
    const beside = anchored === 1 ? await service.unpinBeside(cid, AbortSignal.timeout(requestMs)) : undefined;
    // Rows of the first version have no anchor: whether the pin from before theirs still exists is unknown.
    if (wasThere === 1) return beside !== 'absent';
    return (await service.unpin(cid, AbortSignal.timeout(requestMs))) === 'foreign';
  }
}

type IdentifiedRow = PinRow & { request_id: string };

/** What follows from no request has an ID of its own, until the row is in order. */
function identified(row: PinRow): IdentifiedRow {
  return { ...row, request_id: row.request_id ?? crypto.randomUUID() };
}

/** The signal, with the time limit of a step. */
function limited(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(step.ms)]);
}

/** The bytes of a part, of whole leaves. */
function rangeOfPart(part: number, bytes: number): [from: number, to: number] {
  const count = bytes <= parts.wholeBytes ? 1 : parts.count;
  const leaves = Math.ceil(bytes / leafBytes / count);
  const from = (part % count) * leaves * leafBytes;
  return [Math.min(from, bytes), Math.min(from + leaves * leafBytes, bytes)];
}
