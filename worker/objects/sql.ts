/** Statements on an object's storage. Names of tables and columns are ours, never a user's. */

/** A value that a statement takes. */
export type SqlValue = SqlStorageValue | Uint8Array;

type Row = Record<string, SqlStorageValue>;
/** Values of columns, by their names. */
type Values = Readonly<Record<string, SqlValue>>;

export function all<T extends Row>(sql: SqlStorage, query: string, ...values: SqlValue[]): T[] {
  return sql.exec<T>(query, ...values).toArray();
}

/** The first row of a query, or of what a statement returns. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the type of the row, as `exec` takes it
export function first<T extends Row>(sql: SqlStorage, query: string, ...values: SqlValue[]): T | undefined {
  return all<T>(sql, query, ...values)[0];
}

/** The only column of a query. */
export function list<T extends SqlStorageValue>(sql: SqlStorage, query: string, ...values: SqlValue[]): T[] {
  return all<Record<string, T>>(sql, query, ...values).flatMap((row) => Object.values(row));
}

/** Tells whether there are rows. @param from such as `file WHERE file_id = ?` */
export function exists(sql: SqlStorage, from: string, ...values: SqlValue[]): boolean {
  return first(sql, `SELECT 1 FROM ${from} LIMIT 1`, ...values) !== undefined;
}

/** Tells whether there is a table. */
export function hasTable(sql: SqlStorage, name: string): boolean {
  return exists(sql, 'sqlite_master WHERE name = ?', name);
}

/** Counts rows. @param from as for `exists` */
export function count(sql: SqlStorage, from: string, ...values: SqlValue[]): number {
  return list<number>(sql, `SELECT count(*) FROM ${from}`, ...values)[0] ?? 0;
}

/**
 * The smallest value of a column, such as the next time at which a row is due.
 * @param from as for `exists`
 */
export function least(sql: SqlStorage, column: string, from: string, ...values: SqlValue[]): number | undefined {
  return list<number | null>(sql, `SELECT min(${column}) FROM ${from}`, ...values)[0] ?? undefined;
}

/** The largest one. */
export function greatest(sql: SqlStorage, column: string, from: string, ...values: SqlValue[]): number | undefined {
  return list<number | null>(sql, `SELECT max(${column}) FROM ${from}`, ...values)[0] ?? undefined;
}

/**
 * Writes a row.
 * @param rest of the statement, such as `ON CONFLICT DO NOTHING RETURNING id`
 * @returns what it returns
 */
export function insert(sql: SqlStorage, table: string, row: Values, rest = ''): Row | undefined {
  const names = Object.keys(row).join(', ');
  const values = Object.values(row);
  const places = values.map(() => '?').join(', ');
  return first(sql, `INSERT INTO ${table} (${names}) VALUES (${places}) ${rest}`, ...values);
}

/**
 * Overwrites a secret with zeros before it is replaced or removed, so that the page of the database
 * is overwritten, and not only given back. @param where as for `update`
 */
export function overwrite(sql: SqlStorage, table: string, column: string, where: string, ...values: SqlValue[]): void {
  const zeros = `${column} = zeroblob(length(${column}))`;
  sql.exec(`UPDATE ${table} SET ${zeros} WHERE (${where}) AND ${column} IS NOT NULL`, ...values);
}

/** Changes columns of rows. @param where such as `id = ?` */
export function update(sql: SqlStorage, table: string, changes: Values, where: string, ...values: SqlValue[]): void {
  const names = Object.keys(changes).map((name) => `${name} = ?`);
  sql.exec(`UPDATE ${table} SET ${names.join(', ')} WHERE ${where}`, ...Object.values(changes), ...values);
}
