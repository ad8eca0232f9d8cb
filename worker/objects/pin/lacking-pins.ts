/**
 * Pins that a service holds with too few copies: when each is looked at again, so that a service is
 * not asked for all of them at once.
 */
import { dayMs, hourMs } from '../../../shared/time.ts';
import { printable } from '../../backends/printable.ts';
import { withJitter } from '../alarm.ts';
import { WithContext } from '../with-context.ts';
import type { WorkContext } from './pin-steps.ts';
import { nothingToRead, type PinRow } from './pin-rows.ts';

/** Reason in a row of a pin that the service holds with too few copies. */
export const underreplicated = 'underreplicated';

/**
 * Waits before a pin is looked at again, in ms: after `firstMs`, then twice that, and so on up to
 * `lastMs`, and from the beginning once the service says something else of it; but only once in
 * `othersMs` where enough others are looked at before.
 */
const waits = { firstMs: 60_000, lastMs: hourMs, othersMs: dayMs };
/** Number of pins of an object and a service that are enough. */
const scouts = 4;
/**
 * Time for one pin, in ms, when a service is asked for many: with 256 objects some 25 pins a
 * second.
 */
const eachMs = 10_000;

/** The pins of an object that lack copies. */
export class LackingPins extends WithContext<Pick<WorkContext, 'rows' | 'now'>> {
  /** Times until which pins of a service are looked at, since one has its copies again, in ms. */
  readonly #wakingUntil = new Map<string, number>();

  /**
   * Records that a pin was seen to lack copies. Where it is the only one, the others are asked for
   * within a day.
   */
  found(row: PinRow, lacks: string): void {
    const { rows, now } = this.context;
    const nowMs = now();
    if (row.reason !== underreplicated && this.#count(row, Infinity, 1) === 0)
      rows.askWithin(row.service, { reason: null, nowMs, ms: waits.othersMs });
    const detail = printable(lacks);
    const attempts = detail === row.detail ? row.attempts : 0;
    const soon = nowMs + withJitter(Math.min(waits.firstMs * 2 ** Math.min(attempts, 20), waits.lastMs));
    const isScout = this.#count(row, soon, scouts) < scouts;
    const due = isScout ? soon : nowMs + withJitter(waits.othersMs);
    const lacking = { reason: underreplicated, detail, attempts: attempts + 1, due };
    rows.change(row, { ...nothingToRead, ...lacking, checked_at: nowMs });
  }

  /**
   * Has the others looked at soon, since one of them has its copies again: a peer is back, or was
   * replaced.
   */
  ended(row: PinRow): void {
    const { rows, now } = this.context;
    const nowMs = now();
    if ((this.#wakingUntil.get(row.service) ?? 0) > nowMs) return;
    const ms = Math.max(waits.firstMs, this.#count(row, Infinity) * eachMs);
    this.#wakingUntil.set(row.service, nowMs + ms);
    rows.askWithin(row.service, { reason: underreplicated, nowMs, ms });
  }

  /**
   * Counts the others that are looked at before a time.
   * @param most a larger number is not needed
   */
  #count(row: PinRow, beforeMs: number, most = 1_000_000): number {
    const limit = Math.min(beforeMs, Number.MAX_SAFE_INTEGER);
    return this.context.rows.countBefore(row, { reason: underreplicated, beforeMs: limit, limit: most });
  }
}
