/** Making what was deleted in the Durable Objects gone from their files. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/**
 * Rewrites every SQLite file below a folder without its free pages and without a write-ahead log. Nothing else may have
 * them open.
 */
export async function vacuum(dir: string): Promise<void> {
  const names = await readdir(dir, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  for (const name of names.filter((name) => name.endsWith('.sqlite'))) {
    const database = new DatabaseSync(join(dir, name));
    try {
      database.exec('PRAGMA secure_delete = ON; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);');
    } finally {
      database.close();
    }
  }
}
