/** The storage of a Durable Object over a database of SQLite here. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';

/** What rows of pins use of an object's storage. */
export function storageOf(database: DatabaseSync): SqlStorage {
  const exec = (query: string, ...values: SQLInputValue[]): { toArray(): unknown[] } => {
    if (query.trim().includes(';')) database.exec(query);
    const rows = query.trim().includes(';') ? [] : database.prepare(query).all(...values);
    return { toArray: () => rows };
  };
  return { exec } as unknown as SqlStorage;
}
