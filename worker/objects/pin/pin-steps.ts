/** Common parts of the steps for rows: context, time limits, and the end of removals. */
import { leafBytes, type BlockSource } from '../../../shared/ipfs/index.ts';
import { dayMs } from '../../../shared/time.ts';
import type { Env } from '../../env.ts';
import type { Breakers } from './breakers.ts';
import type { Migrations } from './migrations.ts';
import type { PinRow, PinRows } from './pin-rows.ts';
import type { Result } from '../result.ts';
import { onFailure } from '../../backends/on-failure.ts';
import { timeLimit } from '../../backends/time-limit.ts';

/** Time limit of one request to a pinning service here, in ms. */
export const requestMs = 8_000;
/** Limits of one step that copies or reads; fewer bytes after a failure: the source is slow. */
export const step = { ms: 60_000, bytes: 8 * leafBytes, slowBytes: leafBytes };
/** The longest wait for one block, in ms. */
export const blockMs = 30_000;

/**
 * Wait before an upload is copied to other services, in ms: by then its root is pinned, as a rule.
 */
export const settledMs = 1_000;
/**
 * Wait before the bytes of an upload that repairs a row are checked, in ms: it has ended by then,
 * as a rule.
 */
export const repairedMs = 60_000;

/** Time within which a request arrives whose sender has died, in ms. */
export const lateMs = 60_000;

/** The object of an account, as it is asked for those of some uploads that may still pin. */
export type UploadLog = { storing(fileIds: readonly string[]): PromiseLike<Result<{ fileIds: string[] }>> };

/** Steps for rows of object stores (`stores/stored-pins.ts`). */
type StoreSteps = {
  adopt(row: Pick<PinRow, 'cid' | 'service' | 'object'>, id: string): Promise<void>;
  copy(row: PinRow, sources: readonly BlockSource[], signal: AbortSignal): Promise<boolean>;
  remove(row: PinRow): Promise<void>;
};

export type WorkContext = {
  env: Env;
  rows: PinRows;
  breakers: Breakers;
  migrations: Migrations;
  /** CIDs in object stores. */
  stored: StoreSteps;
  /** Takes note of what became of a CID at a service, in the step that removes the row. */
  removed(cid: string, service: string, status: Removal): void;
  /** Notes that a service has refused a file, with the code, or takes files again (null). */
  refused(service: string, code: string | null): void;
  /** The uploads of an account. */
  uploadsOf(account: string): UploadLog;
  /** The clock, in ms. */
  now(): number;
};

/** The outcome of a removal. `kept`: the pin is not ours; `scheduled`: it is tried again. */
export type Removal = 'unpinned' | 'kept' | 'scheduled';

/** Combines two removals: returns the one that leaves more behind. */
export function leastDone(a: Removal, b: Removal): Removal {
  if (a === 'scheduled' || b === 'scheduled') return 'scheduled';
  return a === 'kept' || b === 'kept' ? 'kept' : 'unpinned';
}

/** The signal, with the time limit of a step. */
export function limited(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, timeLimit(step.ms)]);
}

/**
 * Asks a service for a pin. Until it has answered, however long that takes, and for a while where
 * it failed or has only taken the request, the row says that it may still take effect: what is
 * removed then is removed once more.
 */
export async function pinningNow<T>({ rows, now }: WorkContext, row: PinRow, pin: () => Promise<T>): Promise<T> {
  const late = (): number => now() + lateMs;
  // One operation at a time for each CID: what was running before has ended, or died.
  const before = row.late_until === null ? null : Math.min(row.late_until, late());
  rows.change(row, { late_until: now() + dayMs });
  const pinned = await onFailure(pin(), () => rows.change(row, { late_until: late() }));
  rows.change(row, { late_until: pinned === 'requested' ? late() : before });
  return pinned;
}
