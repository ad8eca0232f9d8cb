/** The pins of a CID, as those who ask a `Pin` object see them. */
import type { PinRow } from './pin-rows.ts';

/** State of a CID at one service; times in ms. `reason`: what is wrong with it, as its row says. */
export type BackendPin = Pick<PinRow, 'service' | 'state' | 'reason'> & SeenAt;

/** Times of a row, in ms, by the names that callers have for them. */
export type SeenAt = { checkedAt: number | null; verifiedAt: number | null };

/** The services that may have blocks of a CID, in the order in which they are asked. */
export function byReadPriority(rows: readonly PinRow[]): string[] {
  const rank = ({ state, suspect }: PinRow): number => (state === 'live' ? 0 : 2) + suspect;
  const held = rows.filter(({ state }) => state === 'live' || state === 'lost');
  return held.toSorted((a, b) => rank(a) - rank(b)).map(({ service }) => service);
}

/** Makes a pin of its row. */
export function backendPin({ service, state, reason, ...row }: PinRow): BackendPin {
  return { service, state, reason, checkedAt: row.checked_at, verifiedAt: row.verified_at };
}
