/** Databases of SQLite on the disk. */
import type { PathLike } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync, type DatabaseSyncOptions } from 'node:sqlite';
import { ifMissing } from '../errno.ts';

/** Opens a database, and closes it after its use. */
export function withDatabase<T>(path: PathLike, use: (database: DatabaseSync) => T, options: DatabaseSyncOptions = {}) {
  const database = new DatabaseSync(path, options);
  try {
    return use(database);
  } finally {
    database.close();
  }
}

/** Checks that a database has a table, and that column in it, if one is named. */
export function hasTable(database: DatabaseSync, table: string, column?: string): boolean {
  const columns = database.prepare('SELECT 1 FROM pragma_table_info(?1) WHERE ?2 IS NULL OR name = ?2');
  return columns.get(table, column ?? null) !== undefined;
}

/** The databases below a folder; none where it is missing. */
export async function databasesIn(folder: string): Promise<string[]> {
  const names = await ifMissing(readdir(folder, { recursive: true }), []);
  return names.filter((name) => name.endsWith('.sqlite')).map((name) => join(folder, name));
}
