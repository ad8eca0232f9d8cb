/** The references of restored files at `Pin`, as the upload of each had made it. */
import type { BackupFile } from '../../shared/api.ts';
import { isSealpinError } from '../../shared/errors.ts';
import { errorText, log } from '../log.ts';
import { blockServiceOf } from '../pinning/configured.ts';
import { refer, type AccountEnv } from './delivery.ts';
import { err, toFailure, type Failure, type Result } from './result.ts';
import { pinOf } from './shard.ts';

/** How long a pinning service may take to say what it holds, in ms. */
const statMs = 10_000;
/** How many files are asked for at once. */
const batch = 10;

/**
 * Adds the references of a page of files, which are in the account's rows already. Can be repeated.
 * @param requestId of the request that restores them
 * @returns the IDs of files of which the pinning service holds no pin; what `Pin` or the service fails with
 */
export async function restoreReferences(
  env: AccountEnv,
  { accountId, files }: { accountId: string; files: readonly BackupFile[] },
  requestId: string,
): Promise<Result<{ unpinned: string[] }>> {
  const unpinned: string[] = [];
  for (let at = 0; at < files.length; at += batch) {
    const found = await Promise.all(
      files.slice(at, at + batch).map((file) => restoreReference(env, accountId, file, requestId)),
    );
    for (const each of found) {
      if (!each.ok) return each;
      if (!each.isPinned) unpinned.push(each.fileId);
    }
  }
  return { ok: true, unpinned };
}

/** No accounts: this one learns from the backup what is denied. */
const nobody = { limit: 0 };

async function restoreReference(
  env: AccountEnv,
  account: string,
  { cid, service, fileId, denied }: BackupFile,
  requestId: string,
): Promise<Result<{ fileId: string; isPinned: boolean }>> {
  try {
    const pin = await pinOf(env, cid);
    // No reference is added for a CID on the denylist, where another account of the backup may have put it.
    const failure =
      failureOf(denied ? await pin.deny(cid, false, nobody) : undefined) ??
      failureOf(await refer(env, { cid, service, fileId, account, requestId })) ??
      failureOf(denied ? await pin.deny(cid, true, nobody) : undefined);
    if (failure !== undefined) return failure;
    const held = await blockServiceOf(env, service, requestId).stat(cid, AbortSignal.timeout(statMs));
    return { ok: true, fileId, isPinned: held.pin !== 'absent' };
  } catch (error) {
    log({ event: 'account.restore', requestId, error: errorText(error) });
    return isSealpinError(error) ? toFailure(error) : err('overloaded', undefined, 2);
  }
}

function failureOf(result: Result | undefined): Failure | undefined {
  return result === undefined || result.ok ? undefined : result;
}
