/**
 * Removes deleted data from the files of the Durable Objects. Miniflare keeps an object in
 * `do/<class>/<id>.sqlite`, in WAL mode: pages from before a deletion stay in `….sqlite-wal` until
 * the log is truncated (sqlite.org/wal.html).
 */
import { rm, stat } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { damagedFile, isDamage, sqliteCodeOf, sqliteCodes } from '../errno.ts';
import { databasesIn, hasTable, withDatabase } from '../io/sqlite.ts';
import { databaseFiles, logBytesOf, stampOf, writtenAt, type Stamps } from './snapshot/state-files.ts';

/** Miniflare's own file next to those of the objects. */
const ownFile = 'metadata.sqlite';

/** @throws config_invalid when the file is damaged; it is left unchanged */
function withSound<T>(path: string, use: (database: DatabaseSync) => T, timeout = 0): T {
  try {
    return withDatabase(path, use, { timeout });
  } catch (error) {
    throw isDamage(error) ? damagedFile(path, error) : error;
  }
}

/**
 * A page that was split or merged keeps copies of rows in its free space; only writing all pages
 * again removes them.
 */
const rewriteSql = 'PRAGMA secure_delete = ON; VACUUM';

/** A database may be larger than the memory. SQLite removes its temporary file as it opens it. */
function rewrite(path: string): void {
  const sql = `PRAGMA temp_store = FILE; ${rewriteSql}; PRAGMA wal_checkpoint(TRUNCATE)`;
  withSound(path, (database) => database.exec(sql));
}

/**
 * Has SQLite put its temporary files into a folder. Without it they would be in one of the system.
 * @param folder is there, for its owner only
 */
export function putTemporariesInto(folder: string): void {
  withDatabase(':memory:', (database) =>
    database.exec(`PRAGMA temp_store_directory = '${folder.replaceAll("'", "''")}'`),
  );
}

/**
 * Rewrites closed SQLite files below a folder without free pages and logs.
 * @param known stamps by path below the folder: a file that still has its own is left as it is
 * @returns those of the files now, for the next time
 * @throws config_invalid, and what SQLite throws for a full disk, after the other files were tried
 */
export async function vacuum(dir: string, known: Stamps = {}): Promise<Stamps> {
  const stamps: Record<string, string> = {};
  const failures: unknown[] = [];
  for (const path of await databasesIn(dir)) {
    const name = relative(dir, path);
    try {
      if (known[name] !== stampOf(path)) rewrite(path);
    } catch (error) {
      failures.push(error);
      continue;
    }
    const stamp = stampOf(path);
    // Where times are whole seconds, a write may have the time of the rewrite before it.
    if (writtenAt(stamp) % 1000 !== 0) stamps[name] = stamp;
  }
  if (failures.length > 0) throw failures[0];
  return stamps;
}

/**
 * Does the same for the files whose write-ahead log still holds pages, as a crash leaves them.
 * Nothing else may have them open.
 * @throws config_invalid when one of them is damaged
 */
export async function vacuumLogged(dir: string): Promise<void> {
  for (const path of await databasesIn(dir)) {
    if (logBytesOf(path) > 0) rewrite(path);
  }
}

/**
 * The largest database that is rewritten while it is in use: about a tenth of a second. A row of a
 * file takes 1 KiB.
 */
const maxLiveBytes = 32 * 2 ** 20;

/**
 * Removes deleted rows from a database that workerd has open but does not use meanwhile: a write of
 * workerd at the same time would fail with SQLITE_BUSY. The free pages of a database over 32 MiB
 * stay until it is closed.
 * @param timeoutMs how long to wait for readers and writers
 * @returns false when they did not release it in time
 */
export async function vacuumLive(path: string, timeoutMs: number): Promise<boolean> {
  const { size } = await stat(path);
  return withSound(
    path,
    (database) => {
      try {
        if (size <= maxLiveBytes) database.exec(`PRAGMA temp_store = MEMORY; ${rewriteSql}`);
      } catch (error) {
        if (sqliteCodeOf(error) === sqliteCodes.busy) return false;
        throw error;
      }
      return database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.['busy'] === 0;
    },
    timeoutMs,
  );
}

/**
 * Removes the files of objects that stand for nothing: a request for one makes workerd create an
 * empty database. Nothing else may have them open.
 * @param dir of the objects of a class
 * @param table that every other object of the class has
 */
export async function removeEmpty(dir: string, table: string): Promise<void> {
  for (const path of await databasesIn(dir)) {
    if (basename(path) === ownFile) continue;
    const isEmpty = withSound(path, (database) => !hasTable(database, table));
    if (isEmpty) for (const file of databaseFiles(path)) await rm(file, { force: true });
  }
}
