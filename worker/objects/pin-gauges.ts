/** What the operator's metrics show of one `Pin` object. */

/** `lateMs`: how long the earliest of its tasks is overdue, in ms. */
export type PinGauges = { pins: { service: string; state: string; count: number }[]; lateMs: number };

/** Reads the gauges of an object that has its tables. */
export function pinGauges(sql: SqlStorage, nowMs: number): PinGauges {
  const rows = sql
    .exec<{ service: string; state: string; count: number; due: number | null }>(
      'SELECT service, state, count(*) AS count, min(due) AS due FROM pin GROUP BY service, state',
    )
    .toArray();
  return {
    pins: rows.map(({ service, state, count }) => ({ service, state, count })),
    lateMs: Math.max(0, ...rows.map(({ due }) => nowMs - (due ?? nowMs))),
  };
}
