/** The storage of a Durable Object over a database of SQLite here. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';

/** Makes the storage that the rows of objects use. */
export function storageOf(database: DatabaseSync): SqlStorage {
  const exec = (query: string, ...values: SQLInputValue[]): { toArray(): unknown[]; one(): unknown } => {
    if (query.trim().includes(';')) database.exec(query);
    const rows = query.trim().includes(';') ? [] : database.prepare(query).all(...values);
    return { toArray: () => rows, one: () => rows[0] };
  };
  return { exec } as unknown as SqlStorage;
}
