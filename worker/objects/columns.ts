/** Columns that a version adds to tables which earlier ones have made. `CREATE TABLE IF NOT EXISTS` leaves those as they are. */

/** A column: its name and what SQL says of it. With `NOT NULL` it has a default, so that rows which are there stay valid. */
export type Column = readonly [name: string, definition: string];

/** Columns as `CREATE TABLE` lists them. */
export function definitions(columns: readonly Column[]): string {
  return columns.map((column) => column.join(' ')).join(', ');
}

/** Adds to a table the columns that it lacks. @returns their names */
export function addColumns(sql: SqlStorage, table: string, columns: readonly Column[]): string[] {
  const rows = sql.exec<{ name: string }>('SELECT name FROM pragma_table_info(?)', table).toArray();
  const missing = columns.filter(([name]) => !rows.some((row) => row.name === name));
  for (const [name, definition] of missing) sql.exec(`ALTER TABLE ${table} ADD COLUMN ${name} ${definition}`);
  return missing.map(([name]) => name);
}
