/** `npm run restore`: accounts into a service that lacks them. It can be repeated. */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { untilAnswered } from '../client/attempts.ts';
import { jsonOrUndefined } from '../client/service-http.ts';
import { failRead } from '../cli/errno.ts';
import { countText } from '../cli/terminal/size.ts';
import { AccountList, RestoredPage } from '../shared/api.ts';
import { isSealpinError, otherwise, SealpinError } from '../shared/errors.ts';
import { fileName, Manifest, manifestName, noProgress, pagesIn, progressOf } from './service-backup.ts';
import type { DoctorContext } from './check-deployment.ts';
import { operatorApi, type OperatorApi } from './operator-api.ts';
import { reasonOf, restoreSecret, type Wrangler } from './wrangler.ts';

/** A service, and the wrangler that sets its secrets. */
type RestoreTarget = { url: string; token: string; wrangler: Wrangler };

/**
 * Restores a backup with a `RESTORE_TOKEN` that the service has for that time only: it is deleted
 * after a failure and a signal, too.
 * @returns the exit code, as of `restore`
 * @throws usage, service_unreachable, interrupted, and what the service responds
 */
export async function restoreService(
  { url, token, wrangler }: RestoreTarget,
  dir: string,
  context: DoctorContext,
): Promise<number> {
  const { signal, print } = context;
  await manifestIn(dir);
  await operatorApi(url, token, { signal, print }).get('/v1/operator/accounts?limit=1', AccountList);
  const restoreToken = randomBytes(32).toString('hex');
  let exit: number;
  let isDeleted = false;
  try {
    print(`  wrangler sets ${restoreSecret} …`);
    const { ok, stderr } = await wrangler(['secret', 'put', restoreSecret], restoreToken);
    signal.throwIfAborted();
    if (!ok) throw new SealpinError('service_unreachable', `wrangler secret put failed: ${reasonOf(stderr)}`);
    exit = await restore(operatorApi(url, token, { restoreToken, signal, print }), dir, context);
  } finally {
    const { ok, stderr } = await wrangler(['secret', 'delete', restoreSecret]);
    isDeleted = ok;
    if (ok) print(`  wrangler deleted ${restoreSecret}`);
    else
      print(
        `✗ ${restoreSecret} may still be set: ${reasonOf(stderr)}\n  → npx wrangler secret delete ${restoreSecret}`,
      );
  }
  return isDeleted ? exit : 1;
}

const restoreAgain =
  '→ put another copy of each such file there and run this again; where the service that was backed up is still ' +
  `there, remove ${manifestName} and run npm run backup with this folder`;

/**
 * Restores a backup. @returns the exit code: 1 where bytes of files or whole accounts are missing
 * @throws usage, interrupted, and what the service responds
 */
export async function restore(api: OperatorApi, dir: string, { print, signal }: DoctorContext): Promise<number> {
  const { accounts } = await manifestIn(dir);
  let [missing, isIncomplete] = [0, false];
  for (const account of accounts) {
    const unpinned = await restoreAccount(api, account, dir, signal);
    if (unpinned === undefined) print(`– ${account} is there already, and stays as it is`);
    else if (unpinned === 'incomplete') {
      isIncomplete = true;
      const path = join(dir, fileName(account));
      print(`✗ ${account} was not restored: ${path} is missing, unreadable or incomplete`);
    } else {
      missing += unpinned.length;
      print(`${unpinned.length === 0 ? '✓' : '✗'} ${account}${unpinned.map((id) => `\n  → no bytes: ${id}`).join('')}`);
    }
  }
  if (isIncomplete) print(restoreAgain);
  if (missing === 0) return isIncomplete ? 1 : 0;
  const lacking = `the pinning services lack the bytes of ${countText(missing, 'file')}`;
  print(`${lacking}: restore their repository, then POST /v1/operator/repair`);
  return 1;
}

async function manifestIn(dir: string): Promise<Manifest> {
  const path = join(dir, manifestName);
  if (!existsSync(path))
    throw new SealpinError('usage', `${dir} holds no complete backup`, { hint: 'run npm run backup with it again' });
  const manifest = v.safeParse(Manifest, jsonOrUndefined(await readFile(path, 'utf8').catch(failRead(path))));
  if (!manifest.success)
    throw new SealpinError('usage', `${path} is damaged, or of another version`, {
      hint: 'restore it with the version that wrote it, or a newer one',
    });
  return manifest.output;
}

/**
 * @returns the IDs of files without bytes; undefined where the service has the account; incomplete:
 * its file cannot be read or lacks pages, and none was sent
 */
async function restoreAccount(api: OperatorApi, account: string, dir: string, signal: AbortSignal) {
  const path = join(dir, fileName(account));
  const progress = await otherwise(progressOf(path, account), 'file_unreadable', noProgress);
  if (progress.next !== null) return 'incomplete';
  const unpinned: string[] = [];
  for await (const { line, after } of pagesIn(path, account)) {
    try {
      unpinned.push(...(await putPage(api, account, line, signal)).unpinned);
    } catch (error) {
      // Where it was being restored, its first page would be taken again. Another SERVICE_ID has
      // a hint.
      if (after === null && isSealpinError(error, 'conflict') && error.hint === undefined) return undefined;
      throw error;
    }
  }
  return unpinned;
}

/** Sends a page, again while the service does not know the token yet that was set for it. */
function putPage(api: OperatorApi, account: string, page: string, signal: AbortSignal): Promise<RestoredPage> {
  const isTemporary = (error: unknown) => isSealpinError(error, 'not_found', 'unauthorized');
  const put = () => api.put(`/v1/operator/accounts/${account}/backup`, page, RestoredPage);
  return untilAnswered(put, { signal, isTemporary });
}
