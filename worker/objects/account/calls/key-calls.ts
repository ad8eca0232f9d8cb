/** The API keys of an account, as the Worker calls them on the account's object. */
import type { EndedShare } from '../../../../shared/api.ts';
import { err, type Failure, type Result } from '../../result.ts';
import type { AccountRecord, Recovery, StoredRecovery } from '../account-row.ts';
import { isInvitation, maxInvitations } from '../keys/invitation.ts';
import {
  exceedsIssuer,
  isSameHash,
  type KeyMaterial,
  type KeyRecord,
  type NewKey,
  type RevokeOptions,
} from '../keys/key-rows.ts';
import type { UsagePage, Used } from '../keys/key-usage.ts';
import { AccountCalls } from './account-calls.ts';
import { deliverEnded } from './share-calls.ts';
import { removeUploads } from './upload-finisher.ts';

/**
 * The keys of an account: what issues, lists and revokes them, the recovery that replaces them all,
 * and what they use.
 */
export class KeyCalls extends AccountCalls {
  /** The key material of a caller who may issue keys. */
  issuer(hash: string): Promise<Result<KeyMaterial>> {
    return this.context.as(hash, 'keys', (caller) => ({ ok: true, ...this.context.material(caller, true) }));
  }

  /** Adds a key within its issuer's scopes and expiry. */
  add(hash: string, key: NewKey): Promise<Result> {
    return this.context.as(hash, 'keys', (caller) => {
      const failure = exceedsIssuer(caller.key, key) ?? this.#tooMany(key);
      if (failure !== undefined) return failure;
      this.context.transaction(() => this.context.keys.add({ ...key, createdBy: caller.key.id }));
      return { ok: true };
    });
  }

  /**
   * Takes the public half of what the caller's key signs with, which keys of earlier versions lack.
   */
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
  revoke(
    hash: string,
    id: string,
    options: RevokeOptions,
  ): Promise<Result<{ revoked: string[]; shares: EndedShare[] }>> {
    return this.context.as(hash, 'keys', async ({ key }) => {
      const revocable = this.context.keys.revocable(key, id, options, this.context.now());
      if (!revocable.ok) return revocable;
      return { ok: true, revoked: revocable.ids, shares: await this.#revoke(revocable.ids, key.id) };
    });
  }

  /** The recovery file, and what a recovery is checked against. */
  async recovery(): Promise<Result<{ spki: Uint8Array; recovery: StoredRecovery }>> {
    const { open, recovery } = this.#opened();
    return open === undefined || recovery === undefined ? err('not_found') : { ok: true, spki: open.spki, recovery };
  }

  /**
   * Takes a new key from a caller who has shown the secret of the recovery file, replaces that
   * file, and revokes all other keys, in one transaction. The secret is compared again here: of two
   * recoveries at once, one wins.
   */
  async recover(secretHash: string, next: Recovery, key: NewKey): Promise<Result<{ account: AccountRecord }>> {
    const { row, keys, events } = this.context;
    const { open: account, recovery } = this.#opened();
    if (account === undefined || recovery === undefined) return err('not_found');
    const { secretHash: current } = recovery;
    if (current === null || !isSameHash(secretHash, current))
      return err('forbidden', 'the recovery file was replaced in the meantime');
    const others = keys.list().map((each) => each.id);
    await this.#revoke(others, null, () => {
      events.add({ action: 'account.recovered', by: null, subject: '' });
      row.replaceRecovery(next);
      keys.add(key);
    });
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
    const due = usage.nextDue();
    if (due !== undefined) await alarm.by(due);
    return { ok: true };
  }

  #opened(): { open: AccountRecord | undefined; recovery: StoredRecovery | undefined } {
    const { row } = this.context;
    return { open: row.open, recovery: row.open && row.recovery() };
  }

  #tooMany(added: NewKey): Failure | undefined {
    const { keys, now } = this.context;
    const valid = keys.list().filter((key) => isInvitation(key) && (key.expiresAt ?? Infinity) > now());
    if (!isInvitation(added) || valid.length < maxInvitations) return undefined;
    return err('quota_exceeded', `an account may have ${maxInvitations} invitations that have not ended`);
  }

  /** Revokes keys, in one transaction with what must happen at the same moment. */
  async #revoke(ids: readonly string[], by: string | null, besides?: () => void): Promise<EndedShare[]> {
    const { keys, outbox, shares, files, alarm, erased, now } = this.context;
    const invitations = ids.filter((id) => keys.isInvitation(id));
    const { ended, messages } = this.context.transaction(() => {
      besides?.();
      removeUploads(this.context, ids);
      files.expireStoredBy(invitations);
      return { ended: shares.endOfKeys(ids, { by }), messages: keys.revoke(ids, by, outbox, now()) };
    });
    const fates = await deliverEnded(this.context, ended);
    await this.context.deliver(messages);
    if (invitations.length > 0) await alarm.by(now());
    await erased();
    return fates;
  }
}
