/** Choice of the next row of a `Pin` object: those of a service that does not respond wait. */
import type { Breakers } from './breakers.ts';
import type { PinRow, PinRows } from './pin-rows.ts';

/** The row that has been due for the longest, of the services that may be asked. */
export function dueRow(rows: PinRows, breakers: Breakers, nowMs: number): PinRow | undefined {
  const [first] = rows
    .dues()
    .filter(({ service, due }) => due <= nowMs && breakers.openUntil(service) <= nowMs)
    .toSorted((a, b) => a.due - b.due);
  return first && rows.firstDue(first.service, nowMs);
}

/** Returns the times at which the first row of each service can be looked at, in ms. */
export function dueTimes(rows: PinRows, breakers: Breakers): number[] {
  return rows.dues().map(({ service, due }) => Math.max(due, breakers.openUntil(service)));
}
