/**
 * Has objects in stores that the databases do not know wait for the operator, as they may be those
 * of files that were stored after the databases were copied.
 */
import { join } from 'node:path';
import { databasesIn, hasTable, withDatabase } from '../../io/sqlite.ts';

/**
 * Marks every store of a service that does not run.
 * @param state folder of KV and the objects
 */
export async function holdStrays(state: string): Promise<void> {
  for (const path of await databasesIn(join(state, 'do/sealpin-Pin'))) {
    // What only reads leaves the file as it is.
    const hasStores = withDatabase(path, (database) => hasTable(database, 'object_sweep', 'inherited'), {
      readOnly: true,
    });
    if (hasStores)
      withDatabase(path, (database) => database.exec('UPDATE object_sweep SET inherited = 1, after = NULL'));
  }
}
