/** `npm run backup`: every account into a folder, one page a line. It resumes where it stopped. */
import { existsSync } from 'node:fs';
import { appendFile, mkdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { AccountId, AccountList, BackupPage } from '../shared/api.ts';
import { queryOf } from '../cli/remote/client.ts';
import { pages } from '../cli/remote/pages.ts';
import { countText } from '../cli/terminal/size.ts';
import { otherwise, SealpinError } from '../shared/errors.ts';
import type { DoctorContext } from './check-deployment.ts';
import type { OperatorApi } from './operator-api.ts';

/** Manifest of a folder with a complete backup. */
export const Manifest = v.strictObject({
  format: v.literal('sealpin-backup/v1'),
  service: v.string(),
  createdAt: v.string(),
  accounts: v.array(AccountId),
});
export type Manifest = v.InferOutput<typeof Manifest>;

/** The names in a folder. */
export const manifestName = 'backup.json';
export const fileName = (account: string): string => `${account}.ndjson`;

/**
 * Writes a backup.
 * @param service its origin, for the manifest
 * @returns the exit code
 * @throws usage, and what the service responds
 */
export async function backup(api: OperatorApi, service: string, dir: string, { print }: DoctorContext) {
  if (existsSync(join(dir, manifestName)))
    throw new SealpinError('usage', `${dir} holds a complete backup`, { hint: 'name another folder for a new one' });
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const accounts: string[] = [];
  for (const account of await accountIds(api)) {
    const count = await backUpAccount(api, account, dir);
    if (count !== undefined) accounts.push(account);
    print(count === undefined ? `– ${account} was deleted` : `✓ ${account}: ${countText(count, 'page')}`);
  }
  const manifest: Manifest = { format: 'sealpin-backup/v1', service, createdAt: new Date().toISOString(), accounts };
  await writeFile(join(dir, manifestName), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
  print(`accounts in ${dir}: ${accounts.length}; the bytes of their files are at the pinning services`);
  return 0;
}

async function accountIds(api: OperatorApi): Promise<string[]> {
  const ids: string[] = [];
  const found = pages('accounts', (page) => api.get(`/v1/operator/accounts${queryOf(page)}`, AccountList));
  for await (const { items } of found) ids.push(...items.map(({ id }) => id));
  return ids;
}

/** @returns how many pages there are; undefined where the account is no longer there */
async function backUpAccount(api: OperatorApi, account: string, dir: string): Promise<number | undefined> {
  const path = join(dir, fileName(account));
  const partial = `${path}.part`;
  if (existsSync(path)) return (await readFile(path, 'utf8')).split('\n').length - 1;
  let { pages, next, pair } = await progressOf(partial);
  while (next !== null) {
    const query = queryOf({ limit: 100, cursor: next });
    const asked = api.get(`/v1/operator/accounts/${account}/backup${query}`, BackupPage);
    const page: BackupPage | undefined = await otherwise(asked, 'not_found', undefined);
    if (page === undefined) {
      await rm(partial, { force: true });
      return undefined;
    }
    if (next !== undefined && page.pair !== pair) {
      // The key pair was replaced: what was sealed before does not go with what comes now.
      await rm(partial);
      ({ pages, next, pair } = noProgress);
      continue;
    }
    await appendFile(partial, `${JSON.stringify(page)}\n`, { mode: 0o600 });
    pages += 1;
    ({ next, pair } = page);
  }
  await rename(partial, path);
  return pages;
}

/**
 * Pages that are there. `next`: where to go on; undefined: at the beginning, null: at the end.
 * `pair`: the account's key pair under which they are sealed.
 */
type BackupProgress = { pages: number; next: string | null | undefined; pair: string | undefined };

const noProgress: BackupProgress = { pages: 0, next: undefined, pair: undefined };

/** The pages that are there, without a line that was cut off. */
async function progressOf(path: string): Promise<BackupProgress> {
  if (!existsSync(path)) return noProgress;
  const text = await readFile(path, 'utf8');
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  await truncate(path, Buffer.byteLength(whole));
  const lines = whole.split('\n').slice(0, -1);
  const last = lines.at(-1);
  if (last === undefined) return noProgress;
  const { next, pair } = v.parse(BackupPage, JSON.parse(last));
  return { pages: lines.length, next, pair };
}
