/**
 * Has objects in stores that the databases do not know wait for the operator, as they may be those
 * of files that were stored after the databases were copied.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/**
 * Marks every store of a service that does not run.
 * @param state folder of KV and the objects
 */
export function holdStrays(state: string): void {
  const folder = join(state, 'do/sealpin-Pin');
  for (const name of existsSync(folder) ? readdirSync(folder) : [])
    if (name.endsWith('.sqlite') && hasStores(join(folder, name))) {
      const database = new DatabaseSync(join(folder, name));
      database.exec('UPDATE object_sweep SET inherited = 1, after = NULL');
      database.close();
    }
}

function hasStores(path: string): boolean {
  // What only reads leaves the file as it is.
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const column = database.prepare(`SELECT 1 FROM pragma_table_info('object_sweep') WHERE name = 'inherited'`);
    return column.get() !== undefined;
  } finally {
    database.close();
  }
}
