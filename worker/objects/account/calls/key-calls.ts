/** The API keys of an account, as the Worker calls them on the account's object. */
import type { EndedShare } from '../../../../shared/api.ts';
import { err, type Failure, type Result } from '../../result.ts';
import type { AccountContext } from '../account-context.ts';
import type { AccountRecord, Recovery, StoredRecovery } from '../account-row.ts';
import { isRestoring } from '../backup/account-backup.ts';
import { isInvitation, maxInvitations } from '../keys/invitation.ts';
import { exceedsPromise } from '../keys/key-limits.ts';
import { exceedsIssuer, isSameHash, type KeyRecord, type NewKey, type RevokeOptions } from '../keys/key-rows.ts';
import type { UsagePage, Used } from '../keys/key-usage.ts';
import type { Ended } from '../shares/share-rows.ts';
import { AccountCalls } from './account-calls.ts';
import { deliverEnded } from './share-calls.ts';
import { removeUploads } from './upload-finisher.ts';

/** The IDs of keys that were revoked, and the shares that ended with them. */
export type KeysEnded = { revoked: string[]; shares: EndedShare[] };

/** Issues, lists, revokes and recovers the keys of an account, and tells what they use. */
export class KeyCalls extends AccountCalls {
  /**
   * Adds a key within its issuer's scopes and expiry.
   * @param spki of the private key that is sealed to it
   * @returns `conflict` where the account has another pair by now
   */
  add(hash: string, key: NewKey, spki: Uint8Array): Promise<Result> {
    return this.context.adding(hash, 'keys', async (caller) => {
      const failure = exceedsIssuer(caller.key, key) ?? this.#cannotInvite(caller.key, key);
      if (failure !== undefined) return failure;
      if (key.sealed !== null && !this.context.isCurrent(spki))
        return err('conflict', 'the key pair of the account was replaced meanwhile', 1);
      const message = this.context.transaction(() => this.context.addKey({ ...key, createdBy: caller.key.id }));
      await this.context.deliver([message]);
      return { ok: true };
    });
  }

  /** Takes the public half of what the key signs with, which keys of earlier versions lack. */
  learnSigner(hash: string, signer: Uint8Array): Promise<Result> {
    return this.context.as(hash, undefined, ({ key }) => {
      this.context.keys.setSigner(key.id, signer);
      return { ok: true };
    });
  }

  /** The keys that are not revoked; `current` is the ID of the caller's. */
  list(hash: string): Promise<Result<{ keys: KeyRecord[]; current: string }>> {
    const { keys } = this.context;
    return this.context.as(hash, 'keys', ({ key }) => ({ ok: true, keys: keys.list(), current: key.id }));
  }

  /**
   * Revokes a key with its shares and unfinished uploads, that of an invitation also with its
   * files: here first, where it counts, then in KV.
   */
  revoke(hash: string, id: string, options: RevokeOptions): Promise<Result<KeysEnded>> {
    return this.context.as(hash, 'keys', async ({ key }) => {
      const revocable = this.context.keys.revocable(key, id, options);
      if (!revocable.ok) return revocable;
      const revoked = this.context.transaction(() => revokeKeys(this.context, revocable.ids, key.id));
      return { ok: true, revoked: revocable.ids, shares: await deliverRevoked(this.context, revoked) };
    });
  }

  /**
   * The recovery file, and what a recovery is checked against.
   * @returns `not_found`; `account_disabled` while the account is being restored
   */
  async recovery(): Promise<Result<{ spki: Uint8Array; recovery: StoredRecovery }>> {
    const found = this.#recoverable();
    return found.ok ? { ok: true, spki: found.account.spki, recovery: found.recovery } : found;
  }

  /**
   * Takes a new key from a caller who has shown the secret of the recovery file, replaces that
   * file, and revokes all other keys, in one transaction. The secret is compared again here: of two
   * recoveries at once, one wins.
   */
  async recover(secretHash: string, next: Recovery, key: NewKey): Promise<Result<{ account: AccountRecord }>> {
    const { row, keys, events } = this.context;
    const found = this.#recoverable();
    if (!found.ok) return found;
    const { account, recovery } = found;
    const { secretHash: current } = recovery;
    if (current === null || !isSameHash(secretHash, current))
      return err('forbidden', 'the recovery file was replaced in the meantime');
    const others = keys.list().map((each) => each.id);
    const revoked = this.context.transaction(() => {
      events.add({ action: 'account.recovered', by: null, subject: '' });
      row.replaceRecovery(next);
      const message = this.context.addKey(key);
      const { messages, ...ended } = revokeKeys(this.context, others, null);
      return { ...ended, messages: [message, ...messages] };
    });
    await deliverRevoked(this.context, revoked);
    return { ok: true, account };
  }

  /** A page of what keys have used by day, the newest first. */
  usage(hash: string, page: { before: number | undefined; limit: number }): Promise<Result<UsagePage>> {
    return this.context.as(hash, 'read', () => ({ ok: true, ...this.context.usage.page(page) }));
  }

  /** Adds to what keys have used today. @param used by the IDs of keys, which need not exist */
  async addUsage(used: ReadonlyMap<string, Used>): Promise<Result> {
    const { row, usage, alarm } = this.context;
    if (row.open === undefined) return { ok: true };
    this.context.transaction(() => usage.add(used));
    await alarm.by(usage.nextDue());
    return { ok: true };
  }

  #recoverable(): Result<{ account: AccountRecord; recovery: StoredRecovery }> {
    const { row, sql } = this.context;
    const account = row.open;
    const recovery = account && row.recovery();
    if (account === undefined || recovery === undefined) return err('not_found');
    // The pages that are still to come bring keys, which it would not revoke.
    if (isRestoring(sql)) return err('account_disabled', 'the account is being restored');
    return { ok: true, account, recovery };
  }

  #cannotInvite(by: KeyRecord, added: NewKey): Failure | undefined {
    const { keys, files, now } = this.context;
    if (!isInvitation(added)) return undefined;
    const valid = keys.list().filter((key) => isInvitation(key) && (key.expiresAt ?? Infinity) > now());
    if (valid.length >= maxInvitations)
      return err('quota_exceeded', `an account may have ${maxInvitations} invitations that have not ended`);
    return exceedsPromise(files.allowanceToPromise(by.id), added.limits, by.scopes.includes('read'));
  }
}

/** Ends of revoked keys: shares, messages to KV, and whether the alarm must remove files. */
type RevokedKeys = { ended: Ended[]; messages: number[]; endsFiles: boolean };

/** Revokes keys with their uploads and shares, in a transaction of the caller's, who delivers. */
export function revokeKeys(context: AccountContext, ids: readonly string[], by: string | null): RevokedKeys {
  const { keys, shares, files } = context;
  const invitations = ids.filter((id) => keys.isInvitation(id));
  removeUploads(context, ids);
  files.expireStoredBy(invitations);
  const endsFiles = invitations.length > 0;
  return { endsFiles, ended: shares.endOfKeys(ids, { by }), messages: keys.revoke(ids, by) };
}

/** Tells others of keys that were revoked. @returns what became of the shares */
export async function deliverRevoked(context: AccountContext, revoked: RevokedKeys): Promise<EndedShare[]> {
  const fates = await deliverEnded(context, revoked.ended);
  await context.deliver(revoked.messages);
  if (revoked.endsFiles) await context.alarm.by(context.now());
  await context.erased();
  return fates;
}
