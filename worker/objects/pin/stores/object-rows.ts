/** Rows of what stores have below `data/<id>/`, each in the `Pin` of the first byte of `<id>`. */
import type { Env } from '../../../env.ts';
import type { Result } from '../../result.ts';
import { addColumns, counter, definitions, type RecordOf } from '../../columns.ts';
import { StorageRows } from '../../storage-rows.ts';
import { all, first, hasTable, insert, least, update } from '../../sql.ts';

/** Time in which an upload of one request must have ended, in ms. */
export const uploadMs = 86_400_000;

/** An upload, or a copy, whose objects are stored. */
export type NewObjects = {
  /** 32 hexadecimal digits. */
  id: string;
  service: string;
  /** The account and the ID of the file that it is to be; of a copy, nobody's and the CID. */
  account: string;
  upload: string;
};

/**
 * `open`: bytes may come; `stored`: the index of `cid` names it, or is about to; `removing`:
 * nothing of it is to be left. `parts`: the first number that is free. `due`: when somebody must
 * look at it, in ms.
 */
export type ObjectRow = NewObjects & {
  state: 'open' | 'stored' | 'removing';
  cid: string | null;
  parts: number;
  due: number;
  attempts: number;
};

/**
 * When what begins with the digits of this object is compared with the rows next, in ms, and behind
 * which key that begins.
 */
export type Sweep = RecordOf<typeof laterColumns> & {
  service: string;
  digits: string;
  due: number;
  after: string | null;
};

/**
 * What an upload is about to do: send so many objects, and rest for so many ms at most.
 * `isOngoing`: it has stored some already.
 */
export type ObjectOpening = { numbers: number; forMs: number; isOngoing?: boolean };

/** Objects, and the CID whose bytes they are. */
export type ObjectBinding = { id: string; service: string; cid: string; isKnown: boolean };

/** Objects of a store that belong to nothing, and wait for the operator as they are many. */
export type WaitingStrays = { service: string; objects: number };

/**
 * The calls of the object that has a row, or is responsible for a CID, as another one makes them.
 */
type ObjectShard = {
  open(objects: NewObjects, o: ObjectOpening): PromiseLike<Result<{ from: number }>>;
  bind(o: ObjectBinding): PromiseLike<Result>;
  remove(id: string, service: string, cid: string): PromiseLike<Result<{ isGone: boolean }>>;
  abandon(id: string): PromiseLike<Result>;
  holds(cid: string, service: string, id: string): PromiseLike<Result<{ answer: 'holds' | 'not' | 'unsure' }>>;
  has(id: string): PromiseLike<boolean>;
  watch(service: string): PromiseLike<Result>;
  strays(service: string, cids: readonly string[], o: { remove: boolean }): PromiseLike<Result<{ cids: string[] }>>;
};

/** Context of all that works on objects in stores. */
export type StoreContext = {
  env: Env;
  /** The object that is responsible for a CID, or for an `<id>`. */
  shard(text: string): Promise<{ readonly objects: ObjectShard }>;
  /** The clock, in ms. */
  now(): number;
};

/** A store that objects are in, and where it was when the first one was stored. */
type StorePlace = { service: string; place: string };

/** Columns that tables of before lack. */
const laterColumns = {
  /** Objects that wait for the operator, and whether they may be removed now (1). */
  waiting: counter('waiting'),
  allowed: counter('allowed'),
  /**
   * 1: there were objects before the first row, as those of a database that was lost: any without a
   * row waits for the operator.
   */
  inherited: counter('inherited'),
  /** Objects that the last one found, and how many in a row have found everything as before. */
  listed: counter('listed'),
  unchanged: counter('unchanged'),
};

const tables = `
  CREATE TABLE IF NOT EXISTS object (
    id TEXT PRIMARY KEY, service TEXT NOT NULL, state TEXT NOT NULL, account TEXT NOT NULL,
      upload TEXT NOT NULL, cid TEXT,
    parts INTEGER NOT NULL, due INTEGER NOT NULL, attempts INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS object_due ON object (due);
  CREATE TABLE IF NOT EXISTS object_sweep (
    service TEXT PRIMARY KEY, place TEXT NOT NULL, digits TEXT NOT NULL, due INTEGER NOT NULL, after TEXT,
      ${definitions(laterColumns)}) WITHOUT ROWID;
`;

/** The rows in an object's storage. Their tables come with the first one. */
export class ObjectRows extends StorageRows {
  #exists = hasTable(this.sql, 'object_sweep');

  constructor(sql: SqlStorage) {
    super(sql);
    if (this.#exists) addColumns(sql, 'object_sweep', laterColumns);
  }

  find(id: string): ObjectRow | undefined {
    return this.#exists ? first(this.sql, 'SELECT * FROM object WHERE id = ?', id) : undefined;
  }

  /** Returns the sweep of a store, and where that was; undefined where nothing was stored there. */
  sweepOf(service: string): (Sweep & StorePlace) | undefined {
    if (!this.#exists) return undefined;
    return first(this.sql, 'SELECT * FROM object_sweep WHERE service = ?', service);
  }

  /** Writes down where a store is. @param first its first sweep */
  addPlace(
    { id: service, place }: { id: string; place: string },
    first: Pick<Sweep, 'digits' | 'due' | 'inherited'>,
  ): void {
    if (!this.#exists) this.sql.exec(tables);
    this.#exists = true;
    insert(this.sql, 'object_sweep', { service, place, ...first }, 'ON CONFLICT DO NOTHING');
  }

  /** Writes a row, whose store has a place. */
  add(row: Omit<ObjectRow, 'attempts'>): void {
    insert(this.sql, 'object', { ...row, attempts: 0 });
  }

  change(id: string, changes: Partial<Omit<ObjectRow, 'id'>>): void {
    update(this.sql, 'object', changes, 'id = ?', id);
  }

  remove(id: string): void {
    this.sql.exec('DELETE FROM object WHERE id = ?', id);
  }

  /** The rows that have been due for the longest. */
  due(nowMs: number, limit: number): ObjectRow[] {
    if (!this.#exists) return [];
    return all(this.sql, 'SELECT * FROM object WHERE due <= ? ORDER BY due LIMIT ?', nowMs, limit);
  }

  /** The sweeps that are due. */
  dueSweeps(nowMs: number): Sweep[] {
    return this.#exists ? all(this.sql, 'SELECT * FROM object_sweep WHERE due <= ?', nowMs) : [];
  }

  changeSweep(service: string, changes: Partial<Omit<Sweep, 'service' | 'digits'>>): void {
    update(this.sql, 'object_sweep', changes, 'service = ?', service);
  }

  /** The stores with objects that wait for the operator. */
  waiting(): WaitingStrays[] {
    if (!this.#exists) return [];
    return all(this.sql, 'SELECT service, waiting AS objects FROM object_sweep WHERE waiting > 0');
  }

  /** Returns the time of the next work, in ms. */
  nextTime(): number | undefined {
    if (!this.#exists) return undefined;
    return least(this.sql, 'due', '(SELECT min(due) AS due FROM object UNION ALL SELECT min(due) FROM object_sweep)');
  }
}
