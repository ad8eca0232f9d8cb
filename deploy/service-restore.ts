/** `npm run restore`: the accounts of a backup into a service that does not have them. It can be repeated. */
import { existsSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { RestoredPage } from '../shared/api.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { fileName, Manifest, manifestName } from './service-backup.ts';
import type { Context } from './doctor.ts';
import type { OperatorApi } from './operator-api.ts';

/** Restores a backup. @returns the exit code: 1 where bytes of files are missing @throws usage, and what the service responds */
export async function restore(api: OperatorApi, dir: string, { print }: Context): Promise<number> {
  const { accounts } = await manifestIn(dir);
  let missing = 0;
  for (const account of accounts) {
    const unpinned = await restoreAccount(api, account, dir);
    if (unpinned === undefined) print(`– ${account} is there already, and stays as it is`);
    else
      print(`${unpinned.length === 0 ? '✓' : '✗'} ${account}${unpinned.map((id) => `\n  → no bytes: ${id}`).join('')}`);
    missing += unpinned?.length ?? 0;
  }
  if (missing === 0) return 0;
  print(`the pinning services lack the bytes of ${missing} files: restore their repository, then POST /v1/repair`);
  return 1;
}

async function manifestIn(dir: string): Promise<Manifest> {
  const path = join(dir, manifestName);
  if (!existsSync(path))
    throw new SealpinError('usage', `${dir} holds no complete backup`, { hint: 'run npm run backup with it again' });
  const manifest = v.safeParse(Manifest, JSON.parse(await readFile(path, 'utf8')));
  if (!manifest.success)
    throw new SealpinError('usage', `${path} is of another version`, {
      hint: 'restore it with the version that wrote it, or a newer one',
    });
  return manifest.output;
}

/** @returns the IDs of files without bytes; undefined where the service has the account */
async function restoreAccount(api: OperatorApi, account: string, dir: string): Promise<string[] | undefined> {
  const file = await open(join(dir, fileName(account)));
  const unpinned: string[] = [];
  try {
    let isFirst = true;
    for await (const line of file.readLines()) {
      try {
        unpinned.push(...(await api.put(`/v1/accounts/${account}/backup`, line, RestoredPage)).unpinned);
      } catch (error) {
        // Where it was being restored, its first page would be taken again. Another SERVICE_ID has a hint.
        if (isFirst && isSealpinError(error, 'conflict') && error.hint === undefined) return undefined;
        throw error;
      }
      isFirst = false;
    }
  } finally {
    await file.close();
  }
  return unpinned;
}
