/** The shares of a backup: their rows are the account's, and the rest is in an object of each. */
import type { BackupShare } from '../../../../shared/api.ts';
import { isoTime } from '../../../../shared/time.ts';
import { reached } from '../delivery.ts';
import type { BackupShareRow } from './backup-section.ts';
import { askInBatches } from '../../batches.ts';
import type { Result } from '../../result.ts';
import { shareOf, type ShareBinding } from '../../share/share-binding.ts';

/** Number of objects that are asked at once. */
const atOnce = 10;

/**
 * Adds to the shares of a page what their objects know. One that its object has forgotten ended
 * long ago.
 * @returns `overloaded`
 */
export async function withRecords(
  env: ShareBinding,
  rows: readonly BackupShareRow[],
): Promise<Result<{ shares: BackupShare[] }>> {
  return await reached({ event: 'account.backup' }, async () => ({
    ok: true,
    shares: await askInBatches(rows, (row) => withRecord(env, row), undefined, atOnce),
  }));
}

async function withRecord(env: ShareBinding, row: BackupShareRow): Promise<BackupShare> {
  const kept = await shareOf(env, row.id).backup();
  if (!kept.ok) return { ...row, state: 'expired', opened: 0, record: null };
  const { state, opens, opened, record } = kept;
  const expiresAt = isoTime(kept.expiresAt);
  return { ...row, state, opens, opened, expiresAt, record: record?.toBase64() ?? null };
}

/** Gives the objects of shares what a page has of them. Can be repeated. @returns `overloaded` */
export async function restoreRecords(
  env: ShareBinding,
  { accountId, shares }: { accountId: string; shares: readonly BackupShare[] },
): Promise<Result> {
  return await reached({ event: 'account.restore' }, async () => {
    await askInBatches(shares, (share) => restoreRecord(env, accountId, share), undefined, atOnce);
    return { ok: true };
  });
}

async function restoreRecord(env: ShareBinding, account: string, share: BackupShare): Promise<void> {
  const { id, state, password, opens, opened, expiresAt } = share;
  const record = share.record === null ? null : Uint8Array.fromBase64(share.record);
  const kept = { state, record, password, opens, opened, expiresAt: Date.parse(expiresAt) };
  await shareOf(env, id).restore({ share: id, account }, kept);
}
