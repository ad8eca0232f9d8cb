/** The references of restored files at `Pin`, as the upload of each had made it. */
import type { BackupFile } from '../../../../shared/api.ts';
import { backendOf } from '../../../backends/configured.ts';
import { askInBatches } from '../../batches.ts';
import { addReference, reached, type AccountEnv } from '../delivery.ts';
import type { Result } from '../../result.ts';
import { pinOf } from '../../pin/shard.ts';
import { timeLimit } from '../../../backends/time-limit.ts';

/** Time in which a pinning service must say what it holds, in ms. */
const statMs = 10_000;
/** Number of files that are asked for at once. */
const referencesAtOnce = 10;

/**
 * Adds the references of a page of files, which are in the account's rows already. Can be repeated.
 * @param requestId of the request that restores them
 * @returns the IDs of files of which the pinning service holds no pin, and the CIDs on the denylist
 * of this service; what `Pin` or the service fails with
 */
export async function restoreReferences(
  env: AccountEnv,
  { accountId, files }: { accountId: string; files: readonly BackupFile[] },
  requestId: string,
): Promise<Result<{ unpinned: string[]; denied: string[] }>> {
  const unpinned: string[] = [];
  const denied: string[] = [];
  const ask = (file: BackupFile) => restoreReference(env, accountId, file, requestId);
  const found = await askInBatches(files, ask, (answers) => answers.some(({ ok }) => !ok), referencesAtOnce);
  for (const each of found) {
    if (!each.ok) return each;
    if (!each.isPinned) unpinned.push(each.fileId);
    if (each.isDenied) denied.push(each.cid);
  }
  return { ok: true, unpinned, denied };
}

/** No accounts: this one learns from the backup what is denied. */
const nobody = { limit: 0 };

async function restoreReference(
  env: AccountEnv,
  account: string,
  { cid, service, fileId, denied }: BackupFile,
  requestId: string,
): Promise<Result<{ fileId: string; cid: string; isPinned: boolean; isDenied: boolean }>> {
  return await reached({ event: 'account.restore', requestId }, async () => {
    const pin = await pinOf(env, cid);
    const added = await addReference(env, { cid, service, fileId, account, isRestored: true, requestId });
    if (!added.ok) return added;
    const denying = denied ? await pin.deny(cid, true, nobody) : undefined;
    if (denying?.ok === false) return denying;
    const held = await backendOf(env, service, requestId).stat(cid, timeLimit(statMs));
    return { ok: true, fileId, cid, isPinned: held.pin !== 'absent', isDenied: added.denied };
  });
}
