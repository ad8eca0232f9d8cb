/** The rows of a `Pin` object: which service is to hold which CID, what was last seen of it there, and who needs it. */

import type { SurveyState } from '../../../shared/api.ts';
import { addColumns, definitions } from '../columns.ts';

/**
 * State of a CID at a service, as last seen. `wanted`: nothing yet; `copying`: the blocks of the first `cursor` bytes;
 * `live`: all of it; `lost`: it was live, and is missing or damaged; `failed`: it could not be copied, for a `reason`;
 * `unpinning`: it is being removed, and what the service does with late requests of ours is unknown. The values are
 * stored, so they never change.
 */
export type PinState = Exclude<SurveyState, 'damaged'>;

/**
 * A file of an account, or a part of an upload, that needs a CID. `service` is the one that its bytes were sent to. `requestId`: of the
 * request that adds or removes it, for the log.
 */
export type Reference = {
  cid: string;
  service: string;
  account: string;
  fileId: string;
  isPart?: boolean;
  /** Set if a backup has it, so that it is added for a denied CID as well. */
  isRestored?: boolean;
  requestId?: string | undefined;
};

/** A CID at a service. */
export type PinRow = {
  cid: string;
  service: string;
  /** State as last seen, see `PinState`. */
  state: PinState;
  /** Desired state: 1 if the service is to hold it, 0 if it is removed once other services hold it. */
  wanted: number;
  /** 1: a pin of somebody else's was there before ours. */
  was_there: number;
  /** 1: we may have a pin of our own besides it. */
  anchored: number;
  /** Time at which the row is looked at next, in ms, and the number of failures in a row. */
  due: number | null;
  attempts: number;
  /** The code of the error that it failed with, and its message; or what else is wrong. */
  reason: string | null;
  detail: string | null;
  /** Bytes of the file that are copied, and its length once that is known. */
  cursor: number;
  bytes: number | null;
  /** Time at which the service last said that it has the pin, and at which all bytes were last read from it, in ms. */
  checked_at: number | null;
  verified_at: number | null;
  /** Number of times the service said that it has no such pin, while its upload may not have made it. */
  absences: number;
  /**
   * The bytes that are to be read and verified, from `read_from` up to `read_to` (exclusive), as in `wholeFile`; with `nothingToRead`
   * the service is only asked; null: a part, when it is due.
   */
  read_from: number | null;
  read_to: number | null;
  /** Index of the part that a check reads next. */
  part: number;
  /** 1: it gave a wrong block, and is asked last until it is verified. */
  suspect: number;
  /** Number of losses in a row, since it was verified. */
  losses: number;
  /** The block that was wrong when it was lost, if one was. */
  damaged: string | null;
  /** The service that it replaces, where a migration made the row. */
  moved_from: string | null;
  /** At an object store: the `<id>` of its objects; null where no row says so. */
  object: string | null;
  /** ID of the request from which the work on it follows, or of the work itself; null if nothing is done. */
  request_id: string | null;
};

/** The bytes of a file whose length need not be known. */
export const wholeFile = { read_from: 0, read_to: Number.MAX_SAFE_INTEGER } as const;

/** A check that asks for the pin, and reads nothing. */
export const nothingToRead = { read_from: 0, read_to: 0 } as const;

/** Page of accounts: at most `limit`, beginning behind `after`. */
export type AccountsPage = { after?: string | undefined; limit: number };

type Key = Pick<PinRow, 'cid' | 'service'>;
type Changes = Partial<Omit<PinRow, keyof Key>>;

/** A service, and when the earliest of its rows is due, in ms. */
type Due = { service: string; due: number };

/** The columns that tables of earlier versions lack. Each has a default, so that old rows stay valid. */
const columns = {
  pin: [
    ['anchored', 'INTEGER NOT NULL DEFAULT 0'],
    ['wanted', 'INTEGER NOT NULL DEFAULT 1'],
    ['reason', 'TEXT'],
    ['cursor', 'INTEGER NOT NULL DEFAULT 0'],
    ['bytes', 'INTEGER'],
    ['checked_at', 'INTEGER'],
    ['verified_at', 'INTEGER'],
    ['absences', 'INTEGER NOT NULL DEFAULT 0'],
    ['read_from', 'INTEGER'],
    ['read_to', 'INTEGER'],
    ['part', 'INTEGER NOT NULL DEFAULT 0'],
    ['suspect', 'INTEGER NOT NULL DEFAULT 0'],
    ['losses', 'INTEGER NOT NULL DEFAULT 0'],
    ['damaged', 'TEXT'],
    ['moved_from', 'TEXT'],
    ['request_id', 'TEXT'],
    ['detail', 'TEXT'],
    ['object', 'TEXT'],
  ],
  reference: [['is_part', 'INTEGER NOT NULL DEFAULT 0']],
  migration: [['stayed', 'INTEGER']],
} as const;

/**
 * The tables of a new object. Each column is in its first statement: to add it afterwards takes a statement of its own, which the runtime
 * keeps prepared, some 5 KiB each, for as long as the object is awake.
 */
const tables = `
  CREATE TABLE IF NOT EXISTS pin (
    cid TEXT NOT NULL, service TEXT NOT NULL, state TEXT NOT NULL, was_there INTEGER NOT NULL, due INTEGER, attempts INTEGER NOT NULL,
    ${definitions(columns.pin)}, PRIMARY KEY (cid, service)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS reference (
    cid TEXT NOT NULL, service TEXT NOT NULL, account TEXT NOT NULL, file_id TEXT NOT NULL,
    ${definitions(columns.reference)}, PRIMARY KEY (cid, service, account, file_id)) WITHOUT ROWID;
`;

/** Later additions to the tables. Each statement may run again. */
const additions = `
  DROP INDEX IF EXISTS pin_due;
  CREATE INDEX IF NOT EXISTS pin_next ON pin (service, due);
  CREATE TABLE IF NOT EXISTS breaker (
    service TEXT PRIMARY KEY, failures INTEGER NOT NULL, open_until INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS migration (
    source TEXT PRIMARY KEY, target TEXT NOT NULL, state TEXT NOT NULL, started_at INTEGER NOT NULL, total INTEGER NOT NULL,
    ${definitions(columns.migration)}) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS removal (
    account TEXT NOT NULL, file_id TEXT NOT NULL, service TEXT NOT NULL, cid TEXT NOT NULL, status TEXT NOT NULL, due INTEGER,
    attempts INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (account, file_id, service)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS removal_due ON removal (due) WHERE due IS NOT NULL;
  CREATE INDEX IF NOT EXISTS removal_cid ON removal (cid);
`;

/** The rows in an object's storage. */
export class PinRows {
  readonly #sql: SqlStorage;
  #exists = false;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.reload();
  }

  /** Looks for the tables again, to be called after a transaction that creates them: it may have been rolled back. */
  reload(): void {
    this.#exists = this.#sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'pin'`).toArray().length > 0;
  }

  /** Tells whether there are tables: a question about an unknown CID writes nothing. */
  get exists(): boolean {
    return this.#exists;
  }

  /** Creates the tables with the first row. */
  create(): void {
    if (this.#exists) return;
    this.#sql.exec(tables);
    this.#sql.exec(additions);
    this.#exists = true;
  }

  /** Adds to the tables of an earlier version what they lack. @param checkMs when a row is looked at that had no time for it */
  upgrade(checkMs: () => number): void {
    if (!this.#exists) return;
    const added = (['pin', 'reference'] as const).flatMap((table) => addColumns(this.#sql, table, columns[table]));
    this.#sql.exec(additions);
    addColumns(this.#sql, 'migration', columns.migration);
    // Later versions may want again what is being removed.
    if (added.includes('wanted')) this.#sql.exec(`UPDATE pin SET wanted = 0 WHERE state = 'unpinning'`);
    if (added.length === 0) return;
    for (const key of this.#sql.exec<Key>('SELECT cid, service FROM pin WHERE due IS NULL').toArray())
      this.change(key, { due: checkMs() });
  }

  find(cid: string, service: string): PinRow | undefined {
    return this.#sql.exec<PinRow>('SELECT * FROM pin WHERE cid = ? AND service = ?', cid, service).toArray()[0];
  }

  /** The rows of a CID, at all services. */
  ofCid(cid: string): PinRow[] {
    return this.#sql.exec<PinRow>('SELECT * FROM pin WHERE cid = ?', cid).toArray();
  }

  /** Writes a row, unless there is one. */
  add(cid: string, service: string, state: PinState, due: number, requestId: string | null = null): void {
    this.#sql.exec(
      `INSERT INTO pin (cid, service, state, was_there, due, attempts, request_id) VALUES (?, ?, ?, 0, ?, 0, ?)
       ON CONFLICT DO NOTHING`,
      cid,
      service,
      state,
      due,
      requestId,
    );
  }

  change({ cid, service }: Key, changes: Changes): void {
    const names = Object.keys(changes);
    this.#sql.exec(
      `UPDATE pin SET ${names.map((name) => `${name} = ?`).join(', ')} WHERE cid = ? AND service = ?`,
      ...Object.values(changes),
      cid,
      service,
    );
  }

  remove({ cid, service }: Key): void {
    this.#sql.exec('DELETE FROM pin WHERE cid = ? AND service = ?', cid, service);
  }

  /** The earliest row of each service. */
  dues(): Due[] {
    return this.#sql
      .exec<Due>('SELECT service, min(due) AS due FROM pin WHERE due IS NOT NULL GROUP BY service')
      .toArray();
  }

  /** The row of a service that is due first. */
  firstDue(service: string, nowMs: number): PinRow | undefined {
    return this.#sql
      .exec<PinRow>('SELECT * FROM pin WHERE service = ? AND due <= ? ORDER BY due LIMIT 1', service, nowMs)
      .toArray()[0];
  }

  /** Counts the other pins of a service that have this reason, and are looked at before a time, as far as `limit`. */
  countBefore({ cid, service }: Key, o: { reason: string; beforeMs: number; limit: number }): number {
    const { reason, beforeMs, limit } = o;
    return this.#sql
      .exec<{ count: number }>(
        `SELECT count(*) AS count FROM
         (SELECT 1 FROM pin WHERE service = ? AND due < ? AND reason = ? AND cid <> ? LIMIT ?)`,
        service,
        beforeMs,
        reason,
        cid,
        limit,
      )
      .one().count;
  }

  /** Has the service asked within some time for its pins with this reason, each at a time of its own; null: for those in order. */
  askWithin(service: string, o: { reason: string | null; nowMs: number; ms: number }): void {
    const { reason, nowMs, ms } = o;
    const { read_from: from, read_to: to } = nothingToRead;
    this.#sql.exec(
      `UPDATE pin SET read_from = ?1, read_to = ?2, due = ?3 + abs(random() % ?4)
       WHERE service = ?5 AND due > ?3 + ?4 AND state = 'live' AND reason IS ?6 AND (read_from IS NULL OR read_to = ?2)`,
      from,
      to,
      nowMs,
      ms,
      service,
      reason,
    );
  }

  /** The CIDs that a service is to hold, also where one that is being removed comes back afterwards. */
  wantedAt(service: string): string[] {
    return this.#cids('service = ? AND wanted = 1', service);
  }

  /** The CIDs that a service still holds, and is to hold no longer than another one does not. */
  leaving(service: string): string[] {
    return this.#cids(`service = ? AND wanted = 0 AND state <> 'unpinning'`, service);
  }

  #cids(condition: string, service: string): string[] {
    const rows = this.#sql.exec<{ cid: string }>(`SELECT cid FROM pin WHERE ${condition}`, service);
    return rows.toArray().map(({ cid }) => cid);
  }

  addReference({ cid, service, account, fileId, isPart = false }: Reference): void {
    this.#sql.exec(
      `INSERT INTO reference (cid, service, account, file_id, is_part) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      cid,
      service,
      account,
      fileId,
      isPart ? 1 : 0,
    );
  }

  /** Removes a reference, wherever its bytes were sent to: they may have moved since. @returns whether it was a part's */
  removeReference({ cid, account, fileId }: Reference): { isPart: boolean } {
    const removed = this.#sql.exec<{ isPart: number }>(
      'DELETE FROM reference WHERE cid = ? AND account = ? AND file_id = ? RETURNING is_part AS isPart',
      cid,
      account,
      fileId,
    );
    return { isPart: removed.toArray().some(({ isPart }) => isPart === 1) };
  }

  /** The services at which pins are being removed. */
  removingAt(): string[] {
    if (!this.#exists) return [];
    const rows = this.#sql.exec<{ service: string }>(`SELECT DISTINCT service FROM pin WHERE state = 'unpinning'`);
    return rows.toArray().map(({ service }) => service);
  }

  /** The accounts that have a reference to a CID, in the order of their IDs, which come after `after`. */
  accountsOf(cid: string, { after = '', limit }: AccountsPage): string[] {
    const rows = this.#sql.exec<{ account: string }>(
      'SELECT DISTINCT account FROM reference WHERE cid = ? AND account > ? ORDER BY account LIMIT ?',
      cid,
      after,
      limit,
    );
    return rows.toArray().map(({ account }) => account);
  }

  isReferenced(cid: string): boolean {
    return this.#sql.exec('SELECT 1 FROM reference WHERE cid = ? LIMIT 1', cid).toArray().length > 0;
  }

  /** Tells whether a file needs the CID, and not only a part of an upload. */
  isFile(cid: string): boolean {
    return this.#sql.exec('SELECT 1 FROM reference WHERE cid = ? AND is_part = 0 LIMIT 1', cid).toArray().length > 0;
  }
}
