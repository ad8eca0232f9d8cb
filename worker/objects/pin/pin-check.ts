/** Check of a pin and its bytes: what a row says is asked and read, not believed. */
import { leafBytes, openFile, type IpfsFile } from '../../../shared/ipfs/index.ts';
import { serviceId } from '../../env.ts';
import { log, orLog } from '../../log.ts';
import { anchorOf } from '../../backends/anchor.ts';
import {
  isReadable,
  readableOf,
  takesBlocks,
  type PinningService,
  type HostedService,
} from '../../backends/contract.ts';
import type { ObjectStore } from '../../backends/objects/store-contract.ts';
import { blockAtBreaks } from '../../backends/network.ts';
import { backoffMs, lastRetryMs, withJitter } from '../alarm.ts';
import { WithContext } from '../with-context.ts';
import { drain } from './copy-blocks.ts';
import { LackingPins, underreplicated } from './lacking-pins.ts';
import { isLost, isMissing } from './pin-faults.ts';
import type { PinSources } from './pin-sources.ts';
import { nothingToRead, wholeFile, type PinRow } from './pin-rows.ts';
import { blockMs, limited, pinningNow, requestMs, step, type WorkContext } from './pin-steps.ts';
import { timeLimit } from '../../backends/time-limit.ts';

/**
 * Waits before a pin that an upload may be about to make is asked for again, after the first and
 * the second time, in ms.
 */
const unsettledMs = [60_000, 3_600_000] as const;
/** Wait before a pin that lacks all copies is asked for again, in ms. */
const damagedMs = 86_400_000;
/**
 * Parts into which a file is divided, of which each check reads one; a file that is no longer than
 * `wholeBytes` has one.
 */
const parts = { count: 16, wholeBytes: 16 * leafBytes };

/** What a row says of a pin that is not there, or whose bytes are not. */
const lost = { state: 'lost', detail: null, verified_at: null, suspect: 1, ...wholeFile } as const;

/** State of our pin. `replaced`: somebody else's pin is there, and ours is not beside it. */
type Seen = { pin: 'ours' | 'absent' | 'replaced'; lacks?: string | undefined };

/** A service whose bytes can be read. */
type Open = PinningService | ObjectStore;

type CheckContext = WorkContext & {
  sources: PinSources;
  work: {
    addBackends(cid: string, requestId: string | null): void;
    nextCheck(): number;
    settle(cid: string): void;
  };
};

/** The checks of rows that say that a service has a CID, or had it. */
export class PinCheck extends WithContext<CheckContext> {
  readonly #lacking = new LackingPins(this.context);

  /** Asks whether the pin is there, then reads and verifies a part of the file, in pieces. */
  async next(row: PinRow, signal: AbortSignal): Promise<void> {
    const { rows, sources } = this.context;
    const service = sources.service(row);
    if (!isReadable(service)) return await this.#ask(row, service, signal);
    const { read_from: from, read_to: to } = row;
    let seen: Seen | undefined;
    const isAskedOnly = to === nothingToRead.read_to;
    if (from === null || to === null || to === wholeFile.read_to || isAskedOnly) {
      seen = await this.#see(row, service);
      if (seen.pin === 'absent' && isUnsettled(row)) return this.#postpone(row);
      if (seen.pin === 'absent') this.#recordAbsence(row);
      // The first look confirms what the answer to the pin has said: the file's tags stay as they
      // are. A repair wants to know when.
      else if (from === null || !isAskedOnly || row.reason !== null) this.#seen(row);
      if (seen.pin === 'ours' && isAskedOnly) return await this.#end(row, service, seen, signal);
    }
    let damaged: string | null = null;
    try {
      const file = await openFile(row.cid, [blockAtBreaks(readableOf(service, row.cid))], {
        signal: limited(signal),
        limits: { idleMs: blockMs },
        onMismatch: (_, block) => (damaged = block),
      });
      if (seen !== undefined && seen.pin !== 'ours' && takesBlocks(service))
        await this.#pinAgain(row, service, { bytes: file.size, seen });
      const end = await this.#read(rows.find(row.cid, row.service) ?? row, file);
      if (end !== undefined) await this.#endRead(row, service, end, seen, signal);
    } catch (error) {
      if (isMissing(error)) return this.#recordLoss(row, 'pinning_lost');
      if (isLost(error, row.attempts)) return this.#recordLoss(row, error.code, damaged);
      throw error;
    }
  }

  /** Asks a service of which nobody can see more than what it says. */
  async #ask(row: PinRow, service: HostedService, signal: AbortSignal): Promise<void> {
    const { rows, now } = this.context;
    const seen = await service.stat(row.cid, limited(signal));
    if (seen === 'absent') return this.#recordLoss(row, 'pinning_lost');
    // It is at work on what it had said that it holds.
    if (seen === 'pending')
      return rows.change(row, { state: 'copying', cursor: 0, checked_at: now(), read_from: null, read_to: null });
    this.#seen(row);
    rows.change(row, { suspect: 0, losses: 0 });
    this.#inOrder(row);
  }

  async #see(row: PinRow, service: Open): Promise<Seen> {
    const { env, rows, stored } = this.context;
    const signal = timeLimit(requestMs);
    if (!takesBlocks(service)) {
      const held = await service.stat(row.cid, signal);
      if (held.pin === 'absent') return { pin: 'absent' };
      await stored.adopt(row, held.object);
      rows.change(row, { object: held.object });
      return { pin: 'ours' };
    }
    // Ours lies beside somebody else's, which may go at any time.
    if (row.was_there === 1) {
      const anchor = await anchorOf(row.cid, `sealpin:${serviceId(env)}`);
      return { pin: (await service.stat(anchor.cid, signal)).pin === 'absent' ? 'replaced' : 'ours' };
    }
    const held = await service.stat(row.cid, signal);
    if (held.pin === 'absent') return { pin: 'absent' };
    if (held.pin === 'foreign') return { pin: 'replaced' };
    return { pin: 'ours', lacks: held.lacks };
  }

  /** Records that the service has just said that the pin is there. */
  #seen(row: PinRow): void {
    const { rows, work, now } = this.context;
    rows.change(row, { absences: 0, checked_at: now() });
    if (rows.isFile(row.cid)) work.addBackends(row.cid, row.request_id);
  }

  /** Records that the pin is not there, whatever may be left of its bytes. */
  #recordAbsence(row: PinRow): void {
    const { rows, now } = this.context;
    rows.change(row, { ...lost, reason: 'pinning_lost', checked_at: now() });
  }

  /** Leaves a pin alone that an upload may be about to make. */
  #postpone(row: PinRow): void {
    const { rows, now } = this.context;
    const waitMs = unsettledMs[row.absences] ?? 0;
    rows.change(row, { absences: row.absences + 1, attempts: 0, due: now() + waitMs });
  }

  /**
   * Makes our pin of bytes that the service still has: beside the pin that somebody else has made
   * of them, if one is there.
   */
  async #pinAgain(row: PinRow, service: PinningService, o: { bytes: number; seen: Seen }): Promise<void> {
    const { rows, now } = this.context;
    const beside = o.seen.pin === 'replaced';
    // Before the request goes out: a removal must find what was made, or may have been made before.
    rows.change(row, { was_there: beside ? 1 : 0, anchored: 1 });
    // As for a copy, the service's own time limits end it.
    const pin = { bytes: o.bytes, beside, signal: new AbortController().signal };
    await pinningNow(this.context, row, () => service.pin(row.cid, pin));
    rows.change(row, { state: 'live', reason: null, detail: null, checked_at: now(), ...(beside ? {} : wholeFile) });
  }

  /** Reads the next piece. @returns where the reading ends, if this was the last piece */
  async #read(row: PinRow, file: IpfsFile): Promise<number | undefined> {
    const { rows, now } = this.context;
    const { read_from: from, read_to: to } = row;
    const [start, stop] = from === null || to === null ? rangeOfPart(row.part, file.size) : [from, to];
    const until = Math.min(stop, file.size);
    const end = Math.min(until, start + (row.attempts > 0 ? step.slowBytes : step.bytes));
    await drain(file.read(start, end));
    // Meanwhile somebody may have asked for all of it to be read.
    if (rows.find(row.cid, row.service)?.read_to !== to) return undefined;
    rows.change(row, { bytes: file.size, read_from: end, read_to: until, attempts: 0, due: now() });
    return end < until ? undefined : until;
  }

  /**
   * Records that the bytes up to `to` were read. The whole file is verified with its last part.
   * @param before what the service has said in this step; undefined: it is asked again, as the
   * pieces before may have taken hours
   */
  async #endRead(row: PinRow, service: Open, to: number, before: Seen | undefined, signal: AbortSignal): Promise<void> {
    const { rows, now } = this.context;
    const seen = before ?? (await this.#see(row, service));
    const { bytes, read_to: until } = rows.find(row.cid, row.service) ?? row;
    if (before === undefined) {
      if (seen.pin !== 'ours') return rows.change(row, { ...wholeFile, due: now() });
      // Meanwhile somebody may have asked for all of it to be read.
      if (until !== to) return;
      this.#seen(row);
    }
    const isWhole = to === bytes;
    const verified = isWhole ? { verified_at: now(), suspect: 0, losses: 0 } : {};
    rows.change(row, { ...verified, part: isWhole ? 0 : row.part + 1 });
    // What was lost while nobody had a copy is copied from here, and does not wait for a day.
    for (const other of isWhole ? rows.ofCid(row.cid) : [])
      if (other.state === 'lost' && other.due !== null && other.due > now() + lastRetryMs * 2)
        rows.change(other, { due: now() });
    await this.#end(row, service, seen, signal);
  }

  /** Records that a pin is in order, or has the service make the copies that it lacks. */
  async #end(row: PinRow, service: Open, { lacks }: Seen, signal: AbortSignal): Promise<void> {
    const { cid } = row;
    this.#inOrder(row);
    this.context.work.settle(cid);
    if (lacks === undefined) return row.reason === underreplicated ? this.#lacking.ended(row) : undefined;
    const requestId = row.request_id ?? undefined;
    log({ event: 'pin.lacks', requestId, service: row.service, cid, lacks });
    this.#lacking.found(row, lacks);
    if (!takesBlocks(service)) return;
    const line = { event: 'pin.recover', requestId, service: row.service, cid };
    await orLog(line, async () => await service.recover?.(cid, signal));
  }

  #inOrder(row: PinRow): void {
    const { rows, work } = this.context;
    const read = { read_from: null, read_to: null, request_id: null };
    rows.change(row, { ...read, state: 'live', reason: null, detail: null, attempts: 0, due: work.nextCheck() });
  }

  /**
   * Records that a service has lost a CID, or holds other bytes. Where there is another copy, it is
   * copied again.
   */
  #recordLoss(row: PinRow, reason: string, damaged: string | null = null): void {
    const { rows, sources, now } = this.context;
    log({ event: 'pin.lost', requestId: row.request_id ?? undefined, service: row.service, cid: row.cid, reason });
    const losses = row.losses + 1;
    const waitMs = sources.besides(row).length > 0 ? withJitter(backoffMs(losses)) : damagedMs;
    const loss = { reason, damaged, losses, absences: 0, attempts: 0, due: now() + waitMs };
    rows.change(row, { ...lost, ...loss, checked_at: now() });
  }
}

/**
 * Tells whether the upload that makes the pin may still be running: nobody has seen the pin, asked
 * for a check, or written the index that makes it at a store.
 */
function isUnsettled(row: PinRow): boolean {
  if (row.object !== null) return false;
  return row.checked_at === null && row.absences < unsettledMs.length && row.read_to === nothingToRead.read_to;
}

/** The bytes of a part, of whole leaves. */
function rangeOfPart(part: number, bytes: number): [from: number, to: number] {
  const count = bytes <= parts.wholeBytes ? 1 : parts.count;
  const leaves = Math.ceil(bytes / leafBytes / count);
  const from = (part % count) * leaves * leafBytes;
  return [Math.min(from, bytes), Math.min(from + leaves * leafBytes, bytes)];
}
