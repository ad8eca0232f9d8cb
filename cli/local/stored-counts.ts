/**
 * Counts of what the objects of a stopped service have at a pinning service, read from their files.
 */
import { join } from 'node:path';
import { databasesIn, hasTable, withDatabase } from '../io/sqlite.ts';
import type { StoredCounts } from './control.ts';

/**
 * Rows of `Account` and of `Pin` that name a service (worker/objects/account/tables.ts and pin.ts).
 */
const queries = {
  files: ['file', 'SELECT count(*) AS n FROM file WHERE service = ?'],
  deletions: ['pin', `SELECT count(*) AS n FROM pin WHERE service = ? AND state = 'unpinning'`],
} as const;

/**
 * Counts over every SQLite file below a folder.
 * @param dir `state/` of the local service; need not exist
 * @param service its id, as rows have it
 */
export async function countStoredAt(dir: string, service: string): Promise<StoredCounts> {
  const counts = { files: 0, deletions: 0 };
  for (const path of await databasesIn(join(dir, 'do')))
    withDatabase(path, (database) => {
      for (const field of ['files', 'deletions'] as const) {
        const [table, count] = queries[field];
        if (hasTable(database, table)) counts[field] += Number(database.prepare(count).get(service)?.['n'] ?? 0);
      }
    });
  return counts;
}
