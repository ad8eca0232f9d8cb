/** The homes of a CID, as those who ask a `Pin` object see them. */
import type { PinRow, PinState } from './pin-table.ts';
import type { Removal } from './pin-work.ts';

/** What is known of a CID at one service; times in ms. */
export type Home = { service: string; state: PinState; checkedAt: number | null; verifiedAt: number | null };

/** What became of a CID at one service. */
export type RemovedHome = { service: string; status: Removal };

/** The order in which services are asked for blocks. */
export function trust({ state, suspect }: PinRow): number {
  return (state === 'live' ? 0 : 2) + suspect;
}

/** What a row says of a home. */
export function homeOf({ service, state, checked_at: checkedAt, verified_at: verifiedAt }: PinRow): Home {
  return { service, state, checkedAt, verifiedAt };
}
