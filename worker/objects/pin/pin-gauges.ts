/** Numbers of one `Pin` object for the operator's metrics. */
import { all } from '../sql.ts';
import type { WaitingStrays } from './stores/object-rows.ts';

/** Number of pins at a service in a state. */
type PinCount = { service: string; state: string; count: number };

/** `lateMs`: how long its alarm should have rung already, in ms. */
export type PinGauges = { pins: PinCount[]; strays: WaitingStrays[]; lateMs: number };

/** Counts the pins of an object that has its tables. */
export function pinCounts(sql: SqlStorage): PinCount[] {
  return all(sql, 'SELECT service, state, count(*) AS count FROM pin GROUP BY service, state');
}
