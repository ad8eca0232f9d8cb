/** `npm run backup`: every account into a folder, one page a line. It resumes where it stopped. */
import { createReadStream, existsSync } from 'node:fs';
import { appendFile, readdir, rename, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { jsonOrUndefined } from '../client/service-http.ts';
import { AccountId, AccountList, BackupPage } from '../shared/api.ts';
import { errnoOf, readFailure, writeFailure } from '../cli/errno.ts';
import { holdFolder, lockName } from '../cli/io/held-folder.ts';
import { writeSmall } from '../cli/io/output-file.ts';
import { syncDirectory, syncFile } from '../cli/io/unfinished.ts';
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
 * @throws usage; conflict while another run has the folder, or it has accounts of another service;
 * disk_full, file_unwritable, and what the service responds
 */
export async function backup(api: OperatorApi, service: string, dir: string, { print }: DoctorContext) {
  if (existsSync(join(dir, manifestName)))
    throw new SealpinError('usage', `${dir} holds a complete backup`, { hint: 'name another folder for a new one' });
  const accounts: string[] = [];
  const ids = await accountIds(api);
  const held = await holdFolder(dir);
  if (held === undefined)
    throw new SealpinError('conflict', `another backup into ${dir} is running`, { hint: 'wait for its end' });
  try {
    const pinsOf = await serviceIn(dir);
    for (const account of ids) {
      const count = await backUpAccount(api, account, dir, pinsOf);
      if (count !== undefined) accounts.push(account);
      print(count === undefined ? `– ${account} was deleted` : `✓ ${account}: ${countText(count, 'page')}`);
    }
    await syncDirectory(dir);
    const manifest: Manifest = { format: 'sealpin-backup/v1', service, createdAt: new Date().toISOString(), accounts };
    const text = new TextEncoder().encode(`${JSON.stringify(manifest, null, 2)}\n`);
    const environment = { cwd: dir, stdout: process.stdout };
    await writeSmall(join(dir, manifestName), text, { force: false, environment, fileOnly: true });
  } catch (error) {
    throw error instanceof Error && 'syscall' in error ? writeFailure(dir, error) : error;
  } finally {
    // Windows keeps a file that is open; the next run takes it over.
    await rm(join(dir, lockName), { force: true }).catch(() => undefined);
    held.release();
  }
  print(`accounts in ${dir}: ${accounts.length}; the bytes of their files are at the pinning services`);
  return 0;
}

/** The `pinsOf` of the accounts that an earlier run has left in a folder. */
async function serviceIn(dir: string): Promise<string | undefined> {
  for (const name of await readdir(dir))
    if (/\.ndjson(?:\.part)?$/.test(name))
      for await (const { pinsOf } of pagesIn(join(dir, name), name.slice(0, name.indexOf('.')))) return pinsOf;
  return undefined;
}

async function accountIds(api: OperatorApi): Promise<string[]> {
  const ids: string[] = [];
  const found = pages('accounts', (page) => api.get(`/v1/operator/accounts${queryOf(page)}`, AccountList));
  for await (const { items } of found) ids.push(...items.map(({ id }) => id));
  return ids;
}

/**
 * @param pinsOf of the service whose accounts the folder has; undefined: of any
 * @returns how many pages there are; undefined where the account is no longer there
 */
async function backUpAccount(api: OperatorApi, account: string, dir: string, pinsOf: string | undefined) {
  const path = join(dir, fileName(account));
  const partial = `${path}.part`;
  const whole = await progressOf(path, account);
  if (whole.next === null) return whole.pages;
  const before = await progressOf(partial, account);
  let { pages, next, pair } = before;
  if (existsSync(partial)) await truncate(partial, before.bytes);
  while (next !== null) {
    const query = queryOf({ limit: 100, cursor: next });
    const asked = api.get(`/v1/operator/accounts/${account}/backup${query}`, BackupPage);
    const page: BackupPage | undefined = await otherwise(asked, 'not_found', undefined);
    if (page === undefined) {
      await rm(partial, { force: true });
      return undefined;
    }
    if (pinsOf !== undefined && page.pinsOf !== pinsOf)
      throw new SealpinError('conflict', `${dir} holds accounts of another service`, { hint: 'name another folder' });
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
  await syncFile(partial);
  await rename(partial, path);
  return pages;
}

/**
 * Pages that are there, in `bytes` of the file. `next`: where to go on; undefined: at the
 * beginning, null: at the end. `pair`: the account's key pair under which they are sealed.
 */
type BackupProgress = { pages: number; next: string | null | undefined; pair: string | undefined; bytes: number };

export const noProgress: BackupProgress = { pages: 0, next: undefined, pair: undefined, bytes: 0 };

/** How far the file of an account goes. @throws file_unreadable */
export async function progressOf(path: string, account: string): Promise<BackupProgress> {
  let { pages, next, pair, bytes } = noProgress;
  for await (const page of pagesIn(path, account)) {
    pages += 1;
    ({ next, pair } = page);
    bytes += Buffer.byteLength(page.line) + 1;
  }
  return { pages, next, pair, bytes };
}

const Position = v.nullable(v.string());
/** What the pages of all versions have. */
const PageHead = v.object({
  accountId: v.string(),
  pinsOf: v.string(),
  after: Position,
  next: Position,
  pair: v.optional(v.string()),
});

/**
 * Reads the pages of an account, each with its line, up to what does not continue the page before:
 * a line that was cut off, or is something else. None where the file is missing.
 */
export async function* pagesIn(path: string, account: string) {
  let before: v.InferOutput<typeof PageHead> | undefined;
  for await (const line of linesIn(path)) {
    const page = v.safeParse(PageHead, jsonOrUndefined(line));
    if (!page.success || page.output.accountId !== account || before?.next === null) return;
    if (page.output.after !== (before?.next ?? null) || (before && page.output.pair !== before.pair)) return;
    before = page.output;
    yield { ...before, line };
  }
}

/** Reads lines that a newline ends. (Node's own reader also ends one at U+2028, as JSON has it.) */
async function* linesIn(path: string): AsyncGenerator<string> {
  let line = '';
  const chunks: AsyncIterable<string> = createReadStream(path, 'utf8');
  try {
    for await (const chunk of chunks) {
      const [first = '', ...others] = chunk.split('\n');
      line += first;
      for (const next of others) {
        yield line;
        line = next;
      }
    }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw readFailure(path, error);
  }
}
