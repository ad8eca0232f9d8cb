/** The shares of an account, as the Worker calls them on the account's object. */
import type { EndedShare } from '../../../../shared/api.ts';
import { errorText, log } from '../../../log.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { shareOf } from '../../share/share-binding.ts';
import { shareRetentionMs, type NewRecord } from '../../share/share.ts';
import type { AccountContext } from '../account-context.ts';
import { wasBackedUp } from '../account-row.ts';
import type { KeyRecord } from '../keys/key-rows.ts';
import type { Ended, NewShare, SharePage, ShareRecord } from '../shares/share-rows.ts';
import { AccountCalls } from './account-calls.ts';

/**
 * Limits on unexpired shares: of an account, and of one API key, so that no key takes the place of
 * the others.
 */
const maxUnexpired = { account: 1000, key: 500 };
/** Time for which a record may be on its way to its object, in ms. */
const makingMs = 600_000;

/** The shares of an account: their rows here, and their records in the objects `Share`. */
export class ShareCalls extends AccountCalls {
  /** The key of a caller who may share. */
  sharer(hash: string): Promise<Result<{ key: KeyRecord }>> {
    return this.context.as(hash, 'share', ({ key }) => ({ ok: true, key }));
  }

  /**
   * Makes a share, which ends with the first of its files that expires.
   * @returns it; `not_found` where a file is not there, `forbidden` where the share would outlive
   * the key, `quota_exceeded` for too many shares, `conflict` where a file was deleted or the key
   * revoked meanwhile, `overloaded`
   */
  create(hash: string, requested: NewShare, record: NewRecord['record']): Promise<Result<{ share: ShareRecord }>> {
    return this.context.as(hash, 'share', async ({ account, key }) => {
      const { shares, alarm, now } = this.context;
      const share = { ...requested, createdBy: key.id, expiresAt: this.#expiryOf(requested) };
      const dueMs = now() + makingMs;
      await alarm.by(dueMs);
      const failure = this.context.transaction((): Failure | undefined => {
        // Again, since the key may have been revoked meanwhile, and its shares with it.
        const caller = this.context.authorize(hash, 'share');
        if (!caller.ok) return caller;
        const refusal = this.#refusal(share, caller.key);
        if (refusal === undefined) shares.add(share, dueMs);
        return refusal;
      });
      if (failure !== undefined) return failure;
      const unsent = await this.#send(account.id, share, record);
      const isMade =
        unsent === undefined &&
        this.context.transaction(() => shares.activate(share, share.expiresAt + shareRetentionMs));
      if (isMade) return { ok: true, share };
      await deliverEnded(this.context, [this.context.transaction(() => shares.withdraw(share.id))]);
      const detail = 'the share was revoked while it was being created: a file of it was deleted, or the key revoked';
      return unsent ?? err('conflict', detail);
    });
  }

  /** A page of shares, newest first; how often each may still be opened is known to its object. */
  list(hash: string, page: { before: number | undefined; limit: number }): Promise<Result<SharePage>> {
    return this.context.as(hash, 'share', () => ({ ok: true, ...this.context.shares.page(page) }));
  }

  /** Revokes a share. `backedUp`: whether a backup of the account was ever fetched. */
  revoke(hash: string, id: string): Promise<Result<EndedShare & { backedUp: boolean }>> {
    return this.context.as(hash, 'share', async ({ key }) => {
      const ended = this.context.transaction(() => this.context.shares.end(id, { by: key.id }));
      if (ended === undefined) return err('not_found');
      const [fate] = await deliverEnded(this.context, [ended]);
      const backedUp = wasBackedUp(this.context.sql);
      return { ok: true, id, record: fate?.record ?? 'scheduled', backedUp };
    });
  }

  /** The time of the share, or the end of the first of its files. */
  #expiryOf({ files, expiresAt }: NewShare): number {
    const ends = files.map((fileId) => this.context.files.find(fileId)?.expiresAt ?? Infinity);
    return Math.min(expiresAt, ...ends);
  }

  #refusal({ files, expiresAt }: NewShare, key: KeyRecord): Failure | undefined {
    const { files: stored, shares, now } = this.context;
    const absent = files.find((fileId) => stored.find(fileId) === undefined);
    if (absent !== undefined) {
      const why = stored.missing(absent);
      return why.code === 'not_found' ? err('not_found', 'a file of the share is not stored in this account') : why;
    }
    if (key.expiresAt !== null && expiresAt > key.expiresAt)
      return err('forbidden', 'the share would outlive your key');
    const { all, own } = shares.countUnexpired(now(), key.id);
    if (own >= maxUnexpired.key)
      return err('quota_exceeded', `an API key may have ${maxUnexpired.key} shares that have not expired`);
    if (all >= maxUnexpired.account)
      return err('quota_exceeded', `an account may have ${maxUnexpired.account} shares that have not expired`);
    return undefined;
  }

  async #send(
    account: string,
    { id, password, opens, expiresAt }: NewShare,
    record: Uint8Array,
  ): Promise<Failure | undefined> {
    try {
      const object = shareOf(this.context.env, id);
      const made = await object.create({ share: id, account }, { record, password, opens, expiresAt });
      return made.ok ? undefined : made;
    } catch (error) {
      log({ event: 'account.share', error: errorText(error) });
      return err('overloaded', undefined, 2);
    }
  }
}

/** Has the records of shares destroyed that have ended. @returns what became of each */
export async function deliverEnded(context: AccountContext, ended: readonly Ended[]): Promise<EndedShare[]> {
  const fates: EndedShare[] = [];
  for (const { id, message } of ended) {
    const status = await context.deliver([message]);
    fates.push({ id, record: status === 'scheduled' ? 'scheduled' : 'destroyed' });
  }
  return fates;
}
