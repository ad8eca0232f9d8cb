/**
 * Metrics: one object for the whole service, which adds up what the isolates count. An isolate lives for minutes and is one of many, so
 * that counters in its memory would begin at 0 again and again.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Env } from '../../env.ts';
import type { Result } from '../result.ts';
import { all, insert } from '../sql.ts';

/** A sum. `labels`: as Prometheus writes them between braces, which also identifies it. */
export type Counter = { name: string; labels: string; value: number };

const addToSum = 'ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value';

/** The sums of all isolates. */
export class Metrics extends DurableObject<Env> {
  readonly #sql = this.ctx.storage.sql;

  /** Adds to the sums what an isolate has counted since it did so last. */
  async add(counted: readonly Counter[]): Promise<Result> {
    this.ctx.storage.transactionSync(() => {
      this.#create();
      for (const counter of counted) insert(this.#sql, 'counter', counter, addToSum);
    });
    return { ok: true };
  }

  /** All sums, by name and labels. */
  async read(): Promise<Result<{ counters: Counter[] }>> {
    this.#create();
    const counters = all<Counter>(this.#sql, 'SELECT name, labels, value FROM counter ORDER BY name, labels');
    return { ok: true, counters };
  }

  #create(): void {
    this.#sql.exec(`CREATE TABLE IF NOT EXISTS counter (
      name TEXT NOT NULL, labels TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (name, labels)) WITHOUT ROWID`);
  }
}
