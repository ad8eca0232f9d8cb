/**
 * A lock on a folder: at most one process has it, such as the local service of a data directory.
 */
import { DatabaseSync } from 'node:sqlite';
import { SealpinError } from '../../shared/errors.ts';
import { sqliteCodeOf, sqliteCodes } from '../errno.ts';

/**
 * Locks a folder until it is released or this process ends. The lock is the operating system's
 * (through SQLite), so that a killed process leaves none behind.
 * @param path of the lock file, in an existing directory
 * @throws already_running when another process holds it
 */
export function lock(path: string): { release(): void } {
  const database = new DatabaseSync(path);
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    database.close();
    if (sqliteCodeOf(error) === sqliteCodes.busy) throw new SealpinError('already_running');
    throw error;
  }
  return { release: () => database.close() };
}
