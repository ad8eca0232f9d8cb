/** What the steps share that are made for rows of a `Pin` object: what they are given, how long they take, how removals end. */
import { leafBytes } from '../../../shared/ipfs/index.ts';
import type { Env } from '../../env.ts';
import type { Breakers } from './breaker.ts';
import type { Migrations } from './migrations.ts';
import type { PinRows } from './pin-table.ts';

/** How long one request to a pinning service may take here, in ms. */
export const requestMs = 8_000;
/** How long one step may take that copies or reads, and how much it does; less where the last attempt failed: the source is slow. */
export const step = { ms: 60_000, bytes: 8 * leafBytes, slowBytes: leafBytes };
/** The longest wait for one block, in ms. */
export const blockMs = 30_000;

/** When an upload is copied to other services: by then its root is pinned, as a rule. */
export const settledMs = 1_000;
/** When the bytes of an upload are checked that are to repair a row, in ms: it has ended by then, as a rule. */
export const repairedMs = 60_000;

export type WorkContext = {
  env: Env;
  rows: PinRows;
  breakers: Breakers;
  migrations: Migrations;
  /** Takes note of what became of a CID at a service, in the step that removes the row. */
  removed(cid: string, service: string, status: Removal): void;
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

/** The signal, with the time limit of a step. */
export function limited(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(step.ms)]);
}
