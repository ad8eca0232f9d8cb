/** Marks in the databases of a service, which a copy of it needs. */
import { join } from 'node:path';
import { AccountList, BackupPage, parseResponse } from '../../../shared/api.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { jsonOf } from '../../io/json-text.ts';
import { databasesIn, hasTable, withDatabase } from '../../io/sqlite.ts';
import type { Workerd } from '../miniflare.ts';

/** Asks the Worker as its operator. @param path of the request, with its query */
export type AskWorker = (path: string) => ReturnType<Workerd['ask']>;

/**
 * Marks every account of a running service as backed up, so that the receipts of later deletions
 * say so, by asking for a page of its backup.
 * @param marked accounts that were marked before
 * @returns all of them
 * @throws service_answer
 */
export async function markRunning(ask: AskWorker, marked: ReadonlySet<string> = new Set()): Promise<Set<string>> {
  const all = new Set<string>();
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const query = new URLSearchParams({ limit: '100', ...(cursor !== '' && { cursor }) });
    const page: AccountList = parseResponse(AccountList, await askOperatorApi(ask, `accounts?${query.toString()}`));
    for (const { id } of page.accounts) all.add(id);
    ({ cursor } = page);
  }
  for (const id of all) {
    if (marked.has(id)) continue;
    const found = await askOperatorApi(ask, `accounts/${id}/backup?limit=1`);
    // One that was deleted meanwhile has no receipts any more.
    if (found !== undefined) parseResponse(BackupPage, found);
  }
  return all;
}

/** @returns undefined where there is no such thing */
async function askOperatorApi(ask: AskWorker, path: string): Promise<unknown> {
  const response = await ask(`/v1/operator/${path}`);
  if (response.status === 200) return await jsonOf(response);
  if (response.status === 404) return undefined;
  if (response.status === 507) throw new SealpinError('disk_full');
  throw new SealpinError('service_answer', `the service did not mark its accounts (status ${response.status})`);
}

/**
 * Marks every account of a service that does not run. What an earlier version wrote counts as
 * marked.
 * @param state folder of KV and the objects
 */
export async function markStopped(state: string): Promise<void> {
  for (const path of await databasesIn(join(state, 'do/sealpin-Account')))
    withDatabase(path, (database) => {
      if (hasTable(database, 'account', 'backed_up'))
        database.exec('UPDATE account SET backed_up = 1 WHERE backed_up = 0');
    });
}

/**
 * Has objects in stores that the databases do not know wait for the operator, as they may be those
 * of files that were stored after the databases were copied. The service does not run.
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
