/**
 * Metrics: one object for the whole service, which adds up what the isolates count. An isolate
 * lives for minutes and is one of many, so that counters in its memory would begin at 0 again and
 * again.
 */
import { DurableObject } from 'cloudflare:workers';
import type { Env } from '../../env.ts';
import type { Result } from '../result.ts';
import { all, hasTable, insert } from '../sql.ts';

const addToSum = 'ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value';

/** A sum. `labels`: as Prometheus writes them between braces, which also identifies it. */
export type Counter = { name: string; labels: string; value: number };

/** A pinning service that takes no new files: why, since when, when last seen; times in ms. */
export type Refusal = { service: string; code: string; since: number; seenAt: number };

/** The sums of all isolates, and what was seen of services that take no new files. */
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

  /**
   * Records that a service has just refused a file.
   * @param forMs how long that counts, unless it is seen again
   */
  async refused(service: string, code: string, forMs: number): Promise<Result> {
    this.#create();
    const seen = `INSERT INTO refusal (service, code, since, seen_at, until) VALUES (?1, ?2, ?3, ?3, ?3 + ?4)
      ON CONFLICT (service) DO UPDATE SET
        since = iif(until > ?3 AND code = ?2, since, ?3), code = ?2, seen_at = ?3, until = max(until, ?3 + ?4)`;
    this.#sql.exec(seen, service, code, Date.now(), forMs);
    return { ok: true };
  }

  /** Records that a service takes what it had refused. */
  async accepted(service: string): Promise<Result> {
    this.#create();
    this.#sql.exec('DELETE FROM refusal WHERE service = ?', service);
    return { ok: true };
  }

  /** The services that take no new files. */
  async refusals(): Promise<Result<{ refusals: Refusal[] }>> {
    const query = 'SELECT service, code, since, seen_at AS seenAt FROM refusal WHERE until > ?';
    return { ok: true, refusals: hasTable(this.#sql, 'refusal') ? all<Refusal>(this.#sql, query, Date.now()) : [] };
  }

  #create(): void {
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS counter (
        name TEXT NOT NULL, labels TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (name, labels)) WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS refusal (
        service TEXT PRIMARY KEY, code TEXT NOT NULL, since INTEGER NOT NULL, seen_at INTEGER NOT NULL,
        until INTEGER NOT NULL) WITHOUT ROWID`);
  }
}
