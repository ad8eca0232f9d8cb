/**
 * The rows of a `Pin` object: which service is to hold which CID, what was last seen of it there,
 * who needs it, and what the operator denies.
 */

import type { SurveyState } from '../../../shared/api.ts';
import { dayMs, hourMs } from '../../../shared/time.ts';
import { addColumns, counter, definitions, integer, optional, text, type RecordOf } from '../columns.ts';
import { all, count, exists, first, hasTable, insert, list, update } from '../sql.ts';
import { StorageRows } from '../storage-rows.ts';

/**
 * State of a CID at a service, as last seen. `wanted`: nothing yet; `copying`: the blocks of the
 * first `cursor` bytes; `live`: all of it; `lost`: it was live, and is missing or damaged;
 * `failed`: it could not be copied, for a `reason`; `unpinning`: it is being removed, and what the
 * service does with late requests of ours is unknown. The values are stored, so they never change.
 */
export type PinState = Exclude<SurveyState, 'damaged'>;

/**
 * A file of an account, or a part of an upload, that needs a CID. `service` is the one that its
 * bytes were sent to. `requestId`: of the request that adds or removes it, for the log.
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

/** The bytes of a file whose length need not be known. */
export const wholeFile = { read_from: 0, read_to: Number.MAX_SAFE_INTEGER } as const;

/** A check that asks for the pin, and reads nothing. */
export const nothingToRead = { read_from: 0, read_to: 0 } as const;

/** Tells whether all bytes of a row are being read. */
export function isReadingAll({ read_from: from, read_to: to }: Pick<PinRow, 'read_from' | 'read_to'>): boolean {
  return from !== null && to === wholeFile.read_to;
}

/** Page of accounts: at most `limit`, beginning behind `after`. */
export type AccountsPage = { after?: string | undefined; limit: number };

/** A service, and when the earliest of its rows is due, in ms. */
type Due = { service: string; due: number };

const keyColumns = { cid: text('cid'), service: text('service') };

/** The columns that tables of the first version have. */
const firstColumns = {
  /** State as last seen, see `PinState`. */
  state: text<PinState>('state'),
  /** 1: a pin of somebody else's was there before ours. */
  was_there: integer('was_there'),
  /** Time at which the row is looked at next, in ms, and the number of failures in a row. */
  due: optional(integer('due')),
  attempts: integer('attempts'),
};

const laterColumns = {
  /** 1: we may have a pin of our own besides it. */
  anchored: counter('anchored'),
  /** Desired state: 1: it is to be held; 0: it is removed once other services hold it. */
  wanted: integer('wanted', 'INTEGER NOT NULL DEFAULT 1'),
  /** The code of the error that it failed with; or what else is wrong. */
  reason: optional(text('reason')),
  /** Bytes of the file that are copied, and its length once that is known. */
  cursor: counter('cursor'),
  bytes: optional(integer('bytes')),
  /**
   * Time at which the service last said that it has the pin, and at which all bytes were last read
   * from it, in ms.
   */
  checked_at: optional(integer('checked_at')),
  verified_at: optional(integer('verified_at')),
  /**
   * Number of times the service said that it has no such pin, while its upload may not have made
   * it.
   */
  absences: counter('absences'),
  /**
   * The bytes that are to be read and verified, from `read_from` up to `read_to` (exclusive), as in
   * `wholeFile`; with `nothingToRead` the service is only asked; null: a part, when it is due.
   */
  read_from: optional(integer('read_from')),
  read_to: optional(integer('read_to')),
  /** Index of the part that a check reads next. */
  part: counter('part'),
  /** 1: it gave a wrong block, and is asked last until it is verified. */
  suspect: counter('suspect'),
  /** Number of losses in a row, since it was verified. */
  losses: counter('losses'),
  /** The block that was wrong when it was lost, if one was. */
  damaged: optional(text('damaged')),
  /** The service that it replaces, where a migration made the row. */
  moved_from: optional(text('moved_from')),
  /** ID of the request from which the work follows, or of the work; null if nothing is done. */
  request_id: optional(text('request_id')),
  /** The message of the error. */
  detail: optional(text('detail')),
  /** At an object store: the `<id>` of its objects; null where no row says so. */
  object: optional(text('object')),
  /**
   * Time until which a pin may come whose requester is gone, in ms; null: none may. While one is
   * requested, far ahead.
   */
  late_until: optional(integer('late_until')),
};

/** A CID at a service. */
export type PinRow = RecordOf<typeof keyColumns & typeof firstColumns & typeof laterColumns>;
type Key = RecordOf<typeof keyColumns>;
type Changes = Partial<Omit<PinRow, keyof Key>>;

const ofReferences = {
  is_part: counter('is_part'),
  /** 1: the upload that refers to it may be about to pin it. */
  pinning: counter('pinning'),
};
const stayed = { stayed: optional(integer('stayed')) };

/**
 * The tables of a new object. Each column is in its first statement: to add it afterwards takes a
 * statement of its own, which the runtime keeps prepared, some 5 KiB each, for as long as the
 * object is awake.
 */
const tables = `
  CREATE TABLE IF NOT EXISTS pin (
    ${definitions({ ...keyColumns, ...firstColumns, ...laterColumns })}, PRIMARY KEY (cid, service)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS reference (
    cid TEXT NOT NULL, service TEXT NOT NULL, account TEXT NOT NULL, file_id TEXT NOT NULL,
    ${definitions(ofReferences)}, PRIMARY KEY (cid, service, account, file_id)) WITHOUT ROWID;
`;

/** Later additions to the tables. Each statement may run again. */
const additions = `
  DROP INDEX IF EXISTS pin_due;
  CREATE INDEX IF NOT EXISTS pin_next ON pin (service, due);
  CREATE TABLE IF NOT EXISTS breaker (
    service TEXT PRIMARY KEY, failures INTEGER NOT NULL, open_until INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS migration (
    source TEXT PRIMARY KEY, target TEXT NOT NULL, state TEXT NOT NULL, started_at INTEGER NOT NULL,
      total INTEGER NOT NULL,
    ${definitions(stayed)}) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS removal (
    account TEXT NOT NULL, file_id TEXT NOT NULL, service TEXT NOT NULL, cid TEXT NOT NULL,
      status TEXT NOT NULL, due INTEGER,
    attempts INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (account, file_id, service)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS removal_due ON removal (due) WHERE due IS NOT NULL;
  CREATE INDEX IF NOT EXISTS removal_cid ON removal (cid);
  CREATE TABLE IF NOT EXISTS denied (cid TEXT PRIMARY KEY, created_at INTEGER NOT NULL) WITHOUT ROWID;
`;

const oneReference = 'cid = ? AND service = ? AND account = ? AND file_id = ?';

/**
 * The beginning of a query with the services of a table as `each`, and a null after them. It goes
 * from one to the next in an index: GROUP BY and DISTINCT would read every row.
 * @param where of the rows, such as `cid = ?1`, for which an index goes on with the service
 */
function servicesIn(table: 'pin' | 'reference', where = 'true'): string {
  return `WITH RECURSIVE each (service) AS (
    SELECT min(service) FROM ${table} WHERE ${where} UNION ALL
    SELECT (SELECT min(service) FROM ${table} WHERE ${where} AND ${table}.service > each.service) FROM each
    WHERE each.service IS NOT NULL)`;
}

/**
 * The longest that a service is left alone, and that nobody looks at a row, in ms: earlier versions
 * waited for as long as a service asked, be it decades.
 */
const leftAloneMs = { breaker: 1.5 * hourMs, due: 7 * dayMs };

/** Statements that end longer waits. The runtime keeps none of them prepared. */
function soonerThan(nowMs: number): string {
  const soon = nowMs + leftAloneMs.breaker;
  return `UPDATE breaker SET open_until = ${soon} WHERE open_until > ${soon};
    ${servicesIn('pin')} UPDATE pin SET due = ${soon}
      WHERE service IN (SELECT service FROM each) AND due > ${nowMs + leftAloneMs.due};`;
}

/** The rows in an object's storage. */
export class PinRows extends StorageRows {
  #exists = hasTable(this.sql, 'pin');

  /**
   * Looks for the tables again, to be called after a transaction that creates them: it may have
   * been rolled back.
   */
  reload(): void {
    this.#exists = hasTable(this.sql, 'pin');
  }

  /** Tells whether there are tables: a question about an unknown CID writes nothing. */
  get exists(): boolean {
    return this.#exists;
  }

  /** Creates the tables with the first row. */
  create(): void {
    if (this.#exists) return;
    this.sql.exec(tables);
    this.sql.exec(additions);
    this.#exists = true;
  }

  /** Adds to the tables of an earlier version what they lack, and ends its longest waits. */
  upgrade(nowMs: number): void {
    if (!this.#exists) return;
    const added = [...addColumns(this.sql, 'pin', laterColumns), ...addColumns(this.sql, 'reference', ofReferences)];
    this.sql.exec(additions + soonerThan(nowMs));
    addColumns(this.sql, 'migration', stayed);
    // Later versions may want again what is being removed.
    if (added.includes('wanted')) this.sql.exec(`UPDATE pin SET wanted = 0 WHERE state = 'unpinning'`);
    if (added.length === 0) return;
    for (const key of all<Key>(this.sql, 'SELECT cid, service FROM pin WHERE due IS NULL'))
      this.change(key, { due: nowMs + Math.round(Math.random() * leftAloneMs.due) });
  }

  find(cid: string, service: string): PinRow | undefined {
    return first<PinRow>(this.sql, 'SELECT * FROM pin WHERE cid = ? AND service = ?', cid, service);
  }

  /** The rows of a CID, at all services. */
  ofCid(cid: string): PinRow[] {
    return all<PinRow>(this.sql, 'SELECT * FROM pin WHERE cid = ?', cid);
  }

  /** Writes a row, unless there is one. */
  add(cid: string, service: string, state: PinState, due: number, requestId: string | null = null): void {
    const row = { cid, service, state, was_there: 0, due, attempts: 0, request_id: requestId };
    insert(this.sql, 'pin', row, 'ON CONFLICT DO NOTHING');
  }

  change({ cid, service }: Key, changes: Changes): void {
    update(this.sql, 'pin', changes, 'cid = ? AND service = ?', cid, service);
  }

  remove({ cid, service }: Key): void {
    this.sql.exec('DELETE FROM pin WHERE cid = ? AND service = ?', cid, service);
  }

  /** The earliest row of each service. */
  dues(): Due[] {
    const earliest = '(SELECT min(due) FROM pin WHERE pin.service = each.service AND due IS NOT NULL) AS due';
    const query = `SELECT service, ${earliest} FROM each WHERE service IS NOT NULL AND due IS NOT NULL`;
    return all(this.sql, `${servicesIn('pin')} ${query}`);
  }

  /** The row of a service that is due first. */
  firstDue(service: string, nowMs: number): PinRow | undefined {
    const query = 'SELECT * FROM pin WHERE service = ? AND due <= ? ORDER BY due LIMIT 1';
    return first<PinRow>(this.sql, query, service, nowMs);
  }

  /**
   * Counts the other pins of a service that have this reason, and are looked at before a time, as
   * far as `limit`.
   */
  countBefore({ cid, service }: Key, o: { reason: string; beforeMs: number; limit: number }): number {
    const some = '(SELECT 1 FROM pin WHERE service = ? AND due < ? AND reason = ? AND cid <> ? LIMIT ?)';
    return count(this.sql, some, service, o.beforeMs, o.reason, cid, o.limit);
  }

  /**
   * Has the service asked within some time for its pins with this reason, each at a time of its
   * own; null: for those in order.
   */
  askWithin(service: string, { reason, nowMs, ms }: { reason: string | null; nowMs: number; ms: number }): void {
    const { read_from: from, read_to: to } = nothingToRead;
    const spread = `UPDATE pin SET read_from = ?1, read_to = ?2, due = ?3 + abs(random() % ?4)
      WHERE service = ?5 AND due > ?3 + ?4 AND state = 'live' AND reason IS ?6
        AND (read_from IS NULL OR read_to = ?2)`;
    this.sql.exec(spread, from, to, nowMs, ms, service, reason);
  }

  /** The CIDs that a service is to hold, also where one that is being removed comes back. */
  wantedAt(service: string): string[] {
    return this.#cids('service = ? AND wanted = 1', service);
  }

  /** The CIDs that a service still holds, and is to hold no longer than another one does not. */
  leaving(service: string): string[] {
    return this.#cids(`service = ? AND wanted = 0 AND state <> 'unpinning'`, service);
  }

  #cids(condition: string, service: string): string[] {
    return list(this.sql, `SELECT cid FROM pin WHERE ${condition}`, service);
  }

  /**
   * Writes a reference.
   * @param isPinning whether its upload is about to pin the CID
   * @returns whether it was there already
   */
  addReference({ cid, service, account, fileId, isPart = false }: Reference, isPinning: boolean): boolean {
    const isThere = exists(this.sql, `reference WHERE ${oneReference}`, cid, service, account, fileId);
    const row = { cid, service, account, file_id: fileId, is_part: Number(isPart), pinning: Number(isPinning) };
    insert(this.sql, 'reference', row, 'ON CONFLICT DO UPDATE SET pinning = max(pinning, excluded.pinning)');
    return isThere;
  }

  /** Some of the references whose uploads may be about to pin a CID. */
  pinning({ cid, service }: Key): Pick<Reference, 'account' | 'fileId'>[] {
    const query =
      'SELECT account, file_id AS fileId FROM reference WHERE cid = ? AND service = ? AND pinning = 1 LIMIT 20';
    return all(this.sql, query, cid, service);
  }

  /** Records that the upload of a reference has ended. */
  endPinning({ cid, service }: Key, { account, fileId }: Pick<Reference, 'account' | 'fileId'>): void {
    update(this.sql, 'reference', { pinning: 0 }, oneReference, cid, service, account, fileId);
  }

  /**
   * Removes a reference, wherever its bytes were sent to: they may have moved since.
   * @returns whether it was a part's
   */
  removeReference({ cid, account, fileId }: Reference): { isPart: boolean } {
    const statement = `${servicesIn('reference', 'cid = ?1')} DELETE FROM reference
      WHERE cid = ?1 AND account = ?2 AND file_id = ?3 AND service IN (SELECT service FROM each) RETURNING is_part`;
    return { isPart: list(this.sql, statement, cid, account, fileId).includes(1) };
  }

  /** The services at which pins are being removed. */
  removingAt(): string[] {
    return this.#exists ? list(this.sql, `SELECT DISTINCT service FROM pin WHERE state = 'unpinning'`) : [];
  }

  /**
   * The accounts that have a reference to a CID, in the order of their IDs, which come after
   * `after`.
   */
  accountsOf(cid: string, { after = '', limit }: AccountsPage): string[] {
    const query = 'SELECT DISTINCT account FROM reference WHERE cid = ? AND account > ? ORDER BY account LIMIT ?';
    return list(this.sql, query, cid, after, limit);
  }

  isReferenced(cid: string): boolean {
    return exists(this.sql, 'reference WHERE cid = ?', cid);
  }

  /** Tells whether a file needs the CID, and not only a part of an upload. */
  isFile(cid: string): boolean {
    return exists(this.sql, 'reference WHERE cid = ? AND is_part = 0', cid);
  }

  /** Puts a CID on the denylist: its bytes are neither served nor stored. */
  deny(cid: string, nowMs: number): void {
    insert(this.sql, 'denied', { cid, created_at: nowMs }, 'ON CONFLICT DO NOTHING');
  }

  allow(cid: string): void {
    this.sql.exec('DELETE FROM denied WHERE cid = ?', cid);
  }

  /** Returns when a CID was put on the denylist, in ms; undefined if it is not on it. */
  deniedSince(cid: string): number | undefined {
    return list<number>(this.sql, 'SELECT created_at FROM denied WHERE cid = ?', cid)[0];
  }
}
