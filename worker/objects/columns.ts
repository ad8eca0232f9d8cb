/**
 * Columns of tables: what SQL says of each, and how its values are read, written, and shown in
 * JSON. Types of rows, shapes of the API and backups follow from one list of them.
 */
import { isoTime } from '../../shared/time.ts';
import { all, type SqlValue } from './sql.ts';

/** A column whose values are `T` here and `J` in JSON. */
export type Column<T, J = T> = {
  readonly name: string;
  /**
   * Definition of it in SQL. With `NOT NULL` a later one has a default, so that rows which are
   * there stay valid.
   */
  readonly definition: string;
  read(stored: SqlStorageValue): T;
  write(value: T): SqlValue;
  show(value: T): J;
  parse(json: J): T;
};

/** The columns of a table, by the names of members. */
export type Columns = Readonly<Record<string, Column<unknown, unknown>>>;

/** A row with its columns as members. */
export type RecordOf<C extends Columns> = { -readonly [K in keyof C]: ReturnType<C[K]['read']> };

/** Its members in JSON. */
export type JsonOf<C extends Columns> = { -readonly [K in keyof C]: ReturnType<C[K]['show']> };

/** An object of valibot: the names of its members, and which of them are optional. */
type Shape = { readonly entries: Readonly<Record<string, { readonly type: string }>> };
/** The members that columns and a shape have in common. */
type Common<C extends Columns, S extends Shape> = keyof C & keyof S['entries'];
type LeftOut<T, S extends Shape, K extends keyof T> = null extends T[K]
  ? S['entries'][K & string]['type'] extends 'optional'
    ? K
    : never
  : never;
/** Members in JSON, of which the optional ones are left out where they are null. */
type Viewed<T, S extends Shape> = { [K in keyof T as Exclude<K, LeftOut<T, S, K>>]: T[K] } & {
  [K in keyof T as LeftOut<T, S, K>]?: Exclude<T[K], null>;
};

const same = <T>(value: T): T => value;

/** A column whose values are the same in JSON, and in SQL unless something else is said of it. */
function plain<T>(name: string, definition: string, o: Partial<Pick<Column<T>, 'read' | 'write'>> = {}): Column<T> {
  const { read = (stored) => stored as T, write = (value) => value as SqlValue } = o;
  return { name, definition, read, write, show: same, parse: same };
}

export function text<T extends string = string>(name: string, definition = 'TEXT NOT NULL'): Column<T> {
  return plain(name, definition);
}

export function integer(name: string, definition = 'INTEGER NOT NULL'): Column<number> {
  return plain(name, definition);
}

/** A number that is 0 where there is no row. */
export function counter(name: string): Column<number> {
  return plain(name, 'INTEGER NOT NULL DEFAULT 0', { read: (stored) => (stored as number | null) ?? 0 });
}

/** One of some words, of which the row has the index: their order never changes. */
export function choice<T extends string>(name: string, choices: readonly T[]): Column<T> {
  const [first] = choices;
  if (first === undefined) throw new TypeError(`${name} has no choices`);
  const read = (stored: SqlStorageValue): T => choices[stored as number] ?? first;
  return plain(name, 'INTEGER NOT NULL', { read, write: (value) => choices.indexOf(value) });
}

/** A time: in ms since 1970, and as text in JSON. */
export function time(name: string): Column<number, string> {
  return { ...integer(name), show: isoTime, parse: Date.parse };
}

export function flag(name: string, definition = 'INTEGER NOT NULL'): Column<boolean> {
  return plain(name, definition, { read: (stored) => stored === 1, write: Number });
}

/** Bytes, none where the row has null; base64 in JSON. */
export function bytes(name: string, definition = 'BLOB NOT NULL'): Column<Uint8Array, string> {
  return {
    name,
    definition,
    read: (stored) => new Uint8Array((stored ?? new ArrayBuffer(0)) as ArrayBuffer),
    write: same,
    show: (value) => value.toBase64(),
    parse: (json) => Uint8Array.fromBase64(json),
  };
}

/** Words with spaces between them. */
export function words<T extends string>(name: string): Column<T[]> {
  return plain<T[]>(name, 'TEXT NOT NULL', {
    read: (stored) => (stored as string).split(' ').filter((word): word is T => word !== ''),
    write: (value) => value.join(' '),
  });
}

/** Anything, as JSON in a text. */
export function json<T>(name: string, definition = 'TEXT NOT NULL'): Column<T> {
  return plain(name, definition, {
    read: (stored) => JSON.parse(stored as string) as T,
    write: (value) => JSON.stringify(value),
  });
}

/** The same column, which may be null. */
export function optional<T, J>(column: Column<T, J>): Column<T | null, J | null> {
  return {
    name: column.name,
    definition: column.definition.replace(' NOT NULL', ''),
    read: (stored) => (stored === null ? null : column.read(stored)),
    write: (value) => (value === null ? null : column.write(value)),
    show: (value) => (value === null ? null : column.show(value)),
    parse: (value) => (value === null ? null : column.parse(value)),
  };
}

/** Columns as `CREATE TABLE` lists them. */
export function definitions(columns: Columns): string {
  return Object.values(columns)
    .map(({ name, definition }) => `${name} ${definition}`)
    .join(', ');
}

/**
 * Adds to a table the columns that it lacks: `CREATE TABLE IF NOT EXISTS` leaves it as it is.
 * @returns their names
 */
export function addColumns(sql: SqlStorage, table: string, columns: Columns): string[] {
  const known = all<{ name: string }>(sql, 'SELECT name FROM pragma_table_info(?)', table);
  const missing = Object.values(columns).filter((column) => known.every(({ name }) => name !== column.name));
  for (const { name, definition } of missing) sql.exec(`ALTER TABLE ${table} ADD COLUMN ${name} ${definition}`);
  return missing.map(({ name }) => name);
}

export function recordOf<C extends Columns>(columns: C, row: Readonly<Record<string, SqlStorageValue>>): RecordOf<C> {
  const members = Object.entries(columns).map(([member, column]) => [member, column.read(row[column.name] ?? null)]);
  return Object.fromEntries(members) as RecordOf<C>;
}

/** Reads the rows of a query, or of what a statement returns, as records. */
export function recordsOf<C extends Columns>(
  sql: SqlStorage,
  columns: C,
  query: string,
  ...values: SqlValue[]
): RecordOf<C>[] {
  return all(sql, query, ...values).map((row) => recordOf(columns, row));
}

/** Makes a row of the members that are given. */
export function rowOf<C extends Columns>(columns: C, record: Partial<RecordOf<C>>): Record<string, SqlValue> {
  const given = Object.entries(columns).filter(([member]) => record[member] !== undefined);
  return Object.fromEntries(given.map(([member, column]) => [column.name, column.write(record[member])]));
}

/** Puts into JSON the members of a record that a shape has, and no others. */
export function shown<C extends Columns, S extends Shape>(
  columns: C,
  shape: S,
  record: Pick<RecordOf<C>, Common<C, S>>,
): Pick<JsonOf<C>, Common<C, S>> {
  const members: Partial<Record<string, unknown>> = record;
  const common = Object.entries(columns).filter(([member]) => member in shape.entries);
  return Object.fromEntries(common.map(([member, column]) => [member, column.show(members[member])])) as Pick<
    JsonOf<C>,
    Common<C, S>
  >;
}

/** Does the same for a response of the API, where what is optional is never null. */
export function viewed<C extends Columns, S extends Shape>(
  columns: C,
  shape: S,
  record: Pick<RecordOf<C>, Common<C, S>>,
): Viewed<Pick<JsonOf<C>, Common<C, S>>, S> {
  const members = Object.entries(shown(columns, shape, record)).filter(
    ([member, value]) => value !== null || shape.entries[member]?.type !== 'optional',
  );
  return Object.fromEntries(members) as Viewed<Pick<JsonOf<C>, Common<C, S>>, S>;
}

/** Reads the members from JSON that are there. */
export function parsed<C extends Columns, M extends { readonly [K in keyof C]?: JsonOf<C>[K] | undefined }>(
  columns: C,
  members: M,
): Pick<RecordOf<C>, keyof C & keyof M> {
  const given = Object.entries(columns).filter(([member]) => members[member] !== undefined);
  const read = given.map(([member, column]) => [member, column.parse(members[member])] as const);
  return Object.fromEntries(read) as Pick<RecordOf<C>, keyof C & keyof M>;
}

/** Reads the members from JSON; those that are missing are null. */
export function given<C extends Columns>(
  columns: C,
  members: { readonly [K in keyof C]?: JsonOf<C>[K] | undefined },
): RecordOf<C> {
  const read = Object.entries(columns).map(([member, column]) => [member, column.parse(members[member] ?? null)]);
  return Object.fromEntries(read) as RecordOf<C>;
}
