/** Ownership of a pin that a service holds. A pin that is not ours is never touched. */
import type { Held } from '../../backends/contract.ts';
import type { PinRow } from './pin-rows.ts';

/** Ownership of a pin, and whether the one that is to be made is there already. */
export type Ownership = Pick<PinRow, 'was_there' | 'anchored'> & { pinned: boolean };

/**
 * The ownership from what the service holds now and the row from before. `was_there`: the pin is
 * not ours, so that ours goes beside it. @param row undefined where we have never had a pin there
 */
export function ownership(held: Held, row: PinRow | undefined): Ownership {
  // What is gone may have been replaced by a pin of somebody else's before, so that ours was made
  // beside it.
  if (held.pin === 'absent') return { was_there: 0, anchored: row === undefined ? 0 : 1, pinned: false };
  const beside = { was_there: 1, anchored: 1, pinned: false };
  if (held.pin === 'foreign') return beside;
  // A pin under our name may be somebody else's, from before; and one without a name is anybody's.
  if (row?.was_there === 1 || (row === undefined && held.pin === 'unknown')) return beside;
  const pinned = row !== undefined && held.lacks === undefined;
  return { was_there: 0, anchored: row?.anchored ?? 0, pinned };
}

/**
 * Plan for pinning the bytes of a reference: `beside` a pin that is not ours; not at all, where
 * ours is `pinned` already. `denied`: they are on the denylist, and the reference is one of a
 * backup.
 */
export type PinPlan = { beside: boolean; pinned: boolean; denied: boolean };
