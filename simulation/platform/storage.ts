/**
 * The storage of one Durable Object: SQLite in memory, and its alarm. What was written since the
 * last commit is one transaction, which a crash takes back.
 */
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import type { Random } from '../host/random.ts';

type Value = ArrayBuffer | string | number | null;
type CursorRow = Record<string, Value>;

/** The rows of a statement that has run, as the product takes them. */
function cursorOf(rows: CursorRow[]) {
  return {
    toArray: () => rows,
    one(): CursorRow {
      const [first, ...others] = rows;
      if (first === undefined || others.length > 0)
        throw new Error(`Expected exactly one result from SQL query, but got ${first ? 'multiple' : 'no'} results.`);
      return first;
    },
    [Symbol.iterator]: () => rows.values(),
  };
}

type StorageOptions = {
  random: Random;
  /** Called before each query. */
  step(): void;
  /** Called when something is written that is not committed yet. */
  changed(): void;
};

export class Storage {
  readonly #o: StorageOptions;
  readonly #database = new DatabaseSync(':memory:');
  readonly #statements = new Map<string, StatementSync>();
  /** Knowledge of the schema since it changed last. */
  readonly #schema = { settled: new Set<string>(), rows: new Map<string, CursorRow[]>(), tables: [] as string[] };
  #schemas = 0;
  #alarm: { set: number | null; committed: number | null } = { set: null, committed: null };
  #isOpen = false;
  #depth = 0;
  /** Set while the alarm runs: then none is set, unless it sets another one. */
  isRinging = false;
  readonly sql = { exec: (query: string, ...values: unknown[]) => this.#exec(query, values) };

  constructor(options: StorageOptions) {
    this.#o = options;
    const random = (): bigint => BigInt(options.random.below(2 ** 32)) * 2n ** 20n;
    this.#database.function('random', { deterministic: false }, random);
  }

  /** Tells whether something is written that is not committed. */
  get isDirty(): boolean {
    return this.#isOpen;
  }

  /** The time of the alarm that a crash would leave, in ms. */
  get committedAlarm(): number | null {
    return this.#alarm.committed;
  }

  /** A number that grows with each row that is written, and each change of the schema. */
  get changes(): number {
    return this.#schemas + Number(this.read('SELECT total_changes() AS count')[0]?.['count']);
  }

  /** Runs a query for those who check, outside of all objects. */
  read(query: string): Record<string, SQLOutputValue>[] {
    return this.#prepared(query).all();
  }

  /** The names of its tables. */
  tables(): readonly string[] {
    const { tables } = this.#schema;
    if (tables.length === 0)
      tables.push(...this.read(`SELECT name FROM sqlite_master WHERE type = 'table'`).map(({ name }) => String(name)));
    return tables;
  }

  /** The rows of a table, for those who check; none where it has no such table. */
  rows(table: string, { columns = '*', where = '1' } = {}): Record<string, SQLOutputValue>[] {
    return this.tables().includes(table) ? this.read(`SELECT ${columns} FROM "${table}" WHERE ${where}`) : [];
  }

  /** Makes what was written last. */
  commit(): void {
    if (this.#isOpen) this.#database.exec('COMMIT');
    this.#isOpen = false;
    this.#alarm.committed = this.#alarm.set;
  }

  /** Gives its memory back. */
  close(): void {
    this.#statements.clear();
    this.#database.close();
  }

  /** Takes back what was not committed. */
  rollback(): void {
    if (this.#isOpen) this.#database.exec('ROLLBACK');
    this.#isOpen = false;
    this.#schemaChanged();
    this.#depth = 0;
    this.isRinging = false;
    this.#alarm.set = this.#alarm.committed;
  }

  transactionSync<T>(work: () => T): T {
    this.#begin();
    const name = `point${(this.#depth += 1)}`;
    this.#database.exec(`SAVEPOINT ${name}`);
    try {
      const result = work();
      this.#database.exec(`RELEASE ${name}`);
      return result;
    } catch (error) {
      this.#database.exec(`ROLLBACK TO ${name}; RELEASE ${name}`);
      this.#schemaChanged();
      throw error;
    } finally {
      this.#depth -= 1;
    }
  }

  async getAlarm(): Promise<number | null> {
    return this.isRinging ? null : this.#alarm.set;
  }

  async setAlarm(time: number | Date): Promise<void> {
    this.#setAlarm(Number(time));
  }

  async deleteAlarm(): Promise<void> {
    this.#setAlarm(null);
  }

  async deleteAll(): Promise<void> {
    this.#begin();
    this.#statements.clear();
    this.#schemaChanged();
    // What depends on a table goes first.
    const kinds = ['trigger', 'view', 'table'] as const;
    for (const kind of kinds)
      for (const { name } of this.read(
        `SELECT name FROM sqlite_master WHERE type = '${kind}' AND name NOT LIKE 'sqlite%'`,
      ))
        this.#database.exec(`DROP ${kind} "${String(name)}"`);
    this.#schemaChanged();
  }

  #setAlarm(time: number | null): void {
    this.#begin();
    this.isRinging = false;
    this.#alarm.set = time;
  }

  #begin(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#database.exec('BEGIN');
    this.#o.changed();
  }

  #exec(query: string, values: unknown[]): ReturnType<typeof cursorOf> {
    this.#o.step();
    const kind = queryKind(query);
    if (!kind.isRead) this.#begin();
    if (kind.isDefinition || (values.length === 0 && kind.isList)) {
      this.#define(query);
      return cursorOf([]);
    }
    return cursorOf(kind.isOfSchema ? this.#ofSchema(query, values) : this.#rowsOf(query, values));
  }

  #rowsOf(query: string, values: unknown[]): CursorRow[] {
    const rows = this.#prepared(query).all(...values.map(bound));
    for (const row of rows) give(row);
    return rows as CursorRow[];
  }

  /** Rows of a query about the schema, which are the same until it changes. */
  #ofSchema(query: string, values: unknown[]): CursorRow[] {
    const { rows } = this.#schema;
    const name = `${query} ${values.join(' ')}`;
    let known = rows.get(name);
    if (known === undefined) rows.set(name, (known = this.#rowsOf(query, values)));
    return known.map((row) => ({ ...row }));
  }

  /**
   * Runs statements that may change the schema, but for those that have changed nothing before:
   * objects run them whenever they wake.
   */
  #define(query: string): void {
    const { settled } = this.#schema;
    if (settled.has(query)) return;
    const version = (): unknown => this.read('PRAGMA schema_version')[0]?.['schema_version'];
    const [before, changes] = [version(), this.changes];
    this.#database.exec(query);
    if (version() !== before) this.#schemaChanged();
    else if (this.changes === changes && onlyDefines(query)) settled.add(query);
  }

  #schemaChanged(): void {
    const { settled, rows, tables } = this.#schema;
    this.#schemas += 1;
    settled.clear();
    rows.clear();
    tables.splice(0);
  }

  #prepared(query: string): StatementSync {
    let statement = this.#statements.get(query);
    if (statement === undefined) this.#statements.set(query, (statement = this.#database.prepare(query)));
    return statement;
  }
}

/** Properties of a query, by its text. `isList`: it has several statements. */
type QueryKind = { isRead: boolean; isDefinition: boolean; isList: boolean; isOfSchema: boolean };

const kindsOfQueries = new Map<string, QueryKind>();

function queryKind(query: string): QueryKind {
  let kind = kindsOfQueries.get(query);
  if (kind !== undefined) return kind;
  kind = {
    isRead: /^\s*SELECT\b/i.test(query),
    isDefinition: /^\s*(CREATE|DROP|ALTER)\b/i.test(query),
    isList: /;\s*\S/.test(query),
    isOfSchema: /\b(FROM|JOIN) (sqlite_master|pragma_table_info)\b/i.test(query),
  };
  kindsOfQueries.set(query, kind);
  return kind;
}

/** Tells whether each of some statements creates or drops what may be there, or not. */
function onlyDefines(query: string): boolean {
  const each = query.split(';').filter((text) => text.trim() !== '');
  return each.every((text) => /^\s*(CREATE\b.*?\bIF NOT EXISTS|DROP\b.*?\bIF EXISTS)\b/is.test(text));
}

function bound(value: unknown): SQLInputValue {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return value as SQLInputValue;
}

/** Makes a row one that workerd gives: bytes are an `ArrayBuffer` of their own. */
function give(row: Record<string, unknown>): void {
  for (const name in row) {
    const value = row[name];
    if (value instanceof Uint8Array) row[name] = value.slice().buffer;
  }
}
