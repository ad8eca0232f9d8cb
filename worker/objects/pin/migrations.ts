/**
 * Migrations: rules that what one service holds moves to another. Each `Pin` object has its own
 * share of a migration, so that no progress must be reported, and a rule also holds for uploads
 * that end at the old service later.
 */
import type { Migration as MigrationShape } from '../../../shared/api.ts';
import { StorageRows } from '../storage-rows.ts';
import { all, first } from '../sql.ts';
import { wholeFile, type PinRows } from './pin-rows.ts';

/**
 * Progress of a migration in one object, or in all of them. `total`: the CIDs that were at `from`
 * when it began, or are there now, if those are more; `startedAt` in ms. `left`: CIDs that `from`
 * still holds, or held when it was cancelled; `failed`: those of them that could not be copied so
 * far.
 */
export type Migration = Omit<MigrationShape, 'state' | 'startedAt'> & {
  state: 'running' | 'cancelled';
  startedAt: number;
};

/** The object that knows of every migration, so that one is asked where there is none. */
export const firstShard = '00';

/** `stayed`: how many had not moved when it was cancelled; null: an earlier version did so. */
type MigrationRow = Omit<Migration, 'left' | 'failed'> & { stayed: number | null };

type MigrationsOptions = { rows: PinRows; now(): number };

/** The migrations in an object's storage; one for each service that is left. */
export class Migrations extends StorageRows<MigrationsOptions> {
  /** Returns where what a service holds ends up; undefined: it stays. `begin` makes no circles. */
  targetOf(service: string): string | undefined {
    const next = this.#nextOf(service);
    return next === undefined ? undefined : (this.targetOf(next) ?? next);
  }

  /**
   * Begins a migration, in a transaction of the caller's, or goes on with it. The tables are there.
   * What is moving from `to` stays there, and what is moving from `from` to another service moves
   * to `to` instead.
   */
  begin(from: string, to: string): void {
    const { rows, now } = this.context;
    this.sql.exec(`DELETE FROM migration WHERE source = ? AND state = 'running'`, to);
    const known = this.#nextOf(from);
    if (known !== undefined && known !== to) this.cancel(from, known);
    const cids = rows.wantedAt(from);
    const begun = `INSERT OR REPLACE INTO migration (source, target, state, started_at, total)
      VALUES (?, ?, 'running', ?, ?)`;
    if (known !== to) this.sql.exec(begun, from, to, now(), cids.length);
    for (const cid of cids) this.move(cid, from, to);
  }

  move(cid: string, from: string, to: string): void {
    const { rows, now } = this.context;
    const existing = rows.find(cid, to);
    rows.change({ cid, service: from }, { wanted: 0 });
    rows.add(cid, to, 'wanted', now());
    const target = { cid, service: to };
    if (existing === undefined || existing.state === 'unpinning')
      rows.change(target, { wanted: 1, verified_at: null, moved_from: from });
    else {
      // What it holds already must be read as a whole before it is the only copy: its next check
      // may be of the last part.
      const read = existing.state === 'live' ? wholeFile : {};
      rows.change(target, { wanted: 1, verified_at: null, due: now(), ...read });
    }
  }

  /**
   * Ends a migration: what has not moved stays, and is removed from where it was moving to. A whole
   * copy is removed from there only once every byte was read from `from`, which may have lost it.
   * @returns whether there was one
   */
  cancel(from: string, to: string): boolean {
    const { rows, now } = this.context;
    if (this.#nextOf(from) !== to) return false;
    const leaving = rows.leaving(from);
    this.sql.exec(`UPDATE migration SET state = 'cancelled', stayed = ? WHERE source = ?`, leaving.length, from);
    for (const cid of leaving) {
      rows.change({ cid, service: from }, { wanted: 1 });
      const target = rows.find(cid, to);
      if (target?.moved_from !== from) continue;
      if (target.state === 'live') {
        rows.change(target, { wanted: 0 });
        const read = rows.find(cid, from)?.state === 'live' ? { ...wholeFile, due: now() } : {};
        rows.change({ cid, service: from }, { verified_at: null, ...read });
      } else rows.change(target, { state: 'unpinning', wanted: 0, moved_from: null, attempts: 0, due: now() });
    }
    return true;
  }

  /** Lists migrations and their progress. */
  list(): Migration[] {
    if (!this.context.rows.exists) return [];
    return this.#rows().map(({ stayed, ...migration }) => {
      const { from, to, state, total } = migration;
      const counts = `SELECT count(*) AS left, sum(there.state IN ('failed', 'lost')) AS failed FROM pin AS here
        LEFT JOIN pin AS there ON there.cid = here.cid AND there.service = ? WHERE here.service = ?`;
      const { left = 0, failed } = first<{ left: number; failed: number | null }>(this.sql, counts, to, from) ?? {};
      // What was stored since stays where it is.
      if (state === 'cancelled') return { ...migration, left: stayed ?? Math.min(left, total), failed: 0 };
      // What was stored since moves as well.
      return { ...migration, total: Math.max(total, left), left, failed: failed ?? 0 };
    });
  }

  /** Returns the service to which what another one holds moves first. */
  #nextOf(service: string): string | undefined {
    return this.#rows().find(({ from, state }) => from === service && state === 'running')?.to;
  }

  #rows(): MigrationRow[] {
    const columns = 'source AS "from", target AS "to", state, started_at AS startedAt, total, stayed';
    return this.context.rows.exists ? all(this.sql, `SELECT ${columns} FROM migration`) : [];
  }
}
