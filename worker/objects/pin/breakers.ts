/**
 * Circuit breakers: while a service does not respond, it is asked once in a while, and not for each
 * of its rows.
 */
import { backoffMs, soonest, withJitter } from '../alarm.ts';
import { StorageRows } from '../storage-rows.ts';
import { first, insert } from '../sql.ts';
import type { PinRow, PinRows } from './pin-rows.ts';

type BreakerRow = { failures: number; open_until: number };

/** The breakers in storage, one for each service that did not answer its last request. */
export class Breakers extends StorageRows {
  /** Returns the time until which a service is not asked, in ms; 0 if it may be. */
  openUntil(service: string): number {
    return this.#row(service)?.open_until ?? 0;
  }

  /**
   * Records that a service did not respond.
   * @param retryAfterSeconds what it asked for, if it did
   */
  failed(service: string, nowMs: number, retryAfterSeconds = 0): void {
    const row = this.#row(service);
    // Requests that were under way together fail together.
    const failures = row === undefined ? 1 : row.failures + (row.open_until <= nowMs ? 1 : 0);
    const openUntil = nowMs + Math.max(withJitter(backoffMs(failures)), retryAfterSeconds * 1000);
    const known = `ON CONFLICT (service) DO UPDATE SET failures = excluded.failures,
      open_until = max(open_until, excluded.open_until)`;
    insert(this.sql, 'breaker', { service, failures, open_until: openUntil }, known);
  }

  /** Records that a service responded. */
  succeeded(service: string): void {
    if (this.#row(service) !== undefined) this.sql.exec('DELETE FROM breaker WHERE service = ?', service);
  }

  /** The row that has been due for the longest, of the services that may be asked. */
  dueRow(rows: PinRows, nowMs: number): PinRow | undefined {
    const [first] = rows
      .dues()
      .filter(({ service, due }) => due <= nowMs && this.openUntil(service) <= nowMs)
      .toSorted((a, b) => a.due - b.due);
    return first && rows.firstDue(first.service, nowMs);
  }

  /** Returns the time at which the next row can be looked at, in ms. */
  next(rows: PinRows): number | undefined {
    return soonest(...rows.dues().map(({ service, due }) => Math.max(due, this.openUntil(service))));
  }

  /** Lets every service be asked at once. */
  reset(): void {
    this.sql.exec('DELETE FROM breaker');
  }

  #row(service: string): BreakerRow | undefined {
    return first(this.sql, 'SELECT failures, open_until FROM breaker WHERE service = ?', service);
  }
}
