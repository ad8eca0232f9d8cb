/** The shares of an account, as the Worker calls them on the account's object. */
import type { EndedShare } from '../../../../shared/api.ts';
import { errorText, log } from '../../../log.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { shareOf } from '../../share/share-binding.ts';
import { shareRetentionMs, type NewRecord } from '../../share/share.ts';
import type { AccountContext } from '../account-context.ts';
import { wasBackedUp } from '../account-row.ts';
import { isInvitation, sharing } from '../keys/invitation.ts';
import type { KeyRecord } from '../keys/key-rows.ts';
import type { Ended, NewShare, SharePage, ShareRecord } from '../shares/share-rows.ts';
import { AccountCalls } from './account-calls.ts';
import { removeFile } from './file-calls.ts';

/**
 * Limits on unexpired shares: of an account, and of one API key, so that no key takes the place of
 * the others.
 */
const maxUnexpired = { account: 1000, key: 500 };
/**
 * The most shares of an invitation, expired ones included for as long as they have a row. They do
 * not count for the account.
 */
const maxOfInvitation = 500;
/** Time for which a record may be on its way to its object, in ms. */
const makingMs = 600_000;

/** A share that was revoked. */
type Revoked = EndedShare & { files: string[]; backedUp: boolean };

/** The shares of an account: their rows here, and their records in the objects `Share`. */
export class ShareCalls extends AccountCalls {
  /** The key of a caller who may share. */
  sharer(hash: string): Promise<Result<{ key: KeyRecord }>> {
    return this.context.as(hash, sharing, ({ key }) => ({ ok: true, key }));
  }

  /**
   * Makes a share, which ends with the first of its files that expires.
   * @returns it; `not_found` where a file is not there, `forbidden` where the share would outlive
   * the key, `quota_exceeded` for too many shares, `conflict` where a file was deleted or the key
   * revoked meanwhile, `overloaded`
   */
  create(hash: string, requested: NewShare, record: NewRecord['record']): Promise<Result<{ share: ShareRecord }>> {
    return this.context.as(hash, sharing, async ({ account, key }) => {
      const { shares, alarm, now } = this.context;
      const share = { ...requested, createdBy: key.id, expiresAt: this.#expiryOf(requested) };
      const dueMs = now() + makingMs;
      await alarm.by(dueMs);
      const failure = this.context.transaction((): Failure | undefined => {
        // Again, since the key may have been revoked meanwhile, and its shares with it.
        const caller = this.context.authorize(hash, sharing);
        if (!caller.ok) return caller;
        const refusal = this.#refusal(share, caller.key);
        if (refusal === undefined) shares.add(share, dueMs);
        return refusal;
      });
      if (failure !== undefined) return failure;
      const unsent = await this.#send(account.id, share, record);
      const isMade =
        unsent === undefined &&
        this.context.transaction(() => {
          const isActive = shares.activate(share, share.expiresAt + shareRetentionMs);
          if (isActive && isInvitation(key))
            for (const fileId of share.files) this.context.files.provisional.remove(fileId);
          return isActive;
        });
      if (isMade) return { ok: true, share };
      await deliverEnded(this.context, [this.context.transaction(() => shares.withdraw(share.id))]);
      const detail = 'the share was revoked while it was being created: a file of it was deleted, or the key revoked';
      return unsent ?? err('conflict', detail);
    });
  }

  /** A page of shares, newest first; how often each may still be opened is known to its object. */
  list(hash: string, page: { before: number | undefined; limit: number }): Promise<Result<SharePage>> {
    const { shares } = this.context;
    return this.context.as(hash, sharing, ({ key }) => ({
      ok: true,
      ...(isInvitation(key) ? shares.pageOf(key.id, page) : shares.page(page)),
    }));
  }

  /**
   * Revokes a share, and deletes what was stored for it alone by an invitation. The alarm removes
   * the bytes.
   * @returns `files`: the IDs of what was deleted; `backedUp`: whether a backup of the account was
   * ever fetched
   */
  revoke(hash: string, id: string, requestId: string): Promise<Result<Revoked>> {
    return this.context.as(hash, sharing, async ({ key }) => {
      const revoked = this.context.transaction(() => this.#revoke(id, key, requestId));
      if (revoked === undefined) return err('not_found');
      const { ended, files } = revoked;
      const [fate] = await deliverEnded(this.context, [ended]);
      if (files.length > 0) await this.context.alarm.by(this.context.now());
      const backedUp = wasBackedUp(this.context.sql);
      return { ok: true, id, record: fate?.record ?? 'scheduled', files, backedUp };
    });
  }

  #revoke(id: string, key: KeyRecord, requestId: string): { ended: Ended; files: string[] } | undefined {
    const { shares, files, keys } = this.context;
    const share = shares.find(id);
    const isOwn = share?.createdBy === key.id;
    if (share === undefined || (isInvitation(key) && !isOwn)) return undefined;
    const ended = shares.end(id, { by: key.id });
    if (ended === undefined) return undefined;
    const { createdBy } = share;
    const isDeleting = keys.isInvitation(createdBy) && (isOwn || key.scopes.includes('delete'));
    const alone = share.files.filter((each) => files.find(each)?.createdBy === createdBy && !shares.hasFile(each));
    const deleted = isDeleting ? alone : [];
    for (const fileId of deleted) removeFile(this.context, fileId, 'deleted', { by: key.id, requestId });
    return { ended, files: deleted };
  }

  /** The time of the share, or the end of the first of its files. */
  #expiryOf({ files, expiresAt }: NewShare): number {
    const ends = files.map((fileId) => this.context.files.find(fileId)?.expiresAt ?? Infinity);
    return Math.min(expiresAt, ...ends);
  }

  #refusal({ files, expiresAt }: NewShare, key: KeyRecord): Failure | undefined {
    const { files: stored, uploads, shares, now } = this.context;
    // What another key stored is the same to an invitation as what is not there.
    const isHidden = (fileId: string): boolean =>
      isInvitation(key) && (stored.find(fileId) ?? uploads.find(fileId))?.createdBy !== key.id;
    const absent = files.find((fileId) => stored.find(fileId) === undefined || isHidden(fileId));
    if (absent !== undefined) {
      const why = isHidden(absent) ? err('not_found') : stored.missing(absent);
      return why.code === 'not_found' ? err('not_found', 'a file of the share is not stored in this account') : why;
    }
    if (key.expiresAt !== null && expiresAt > key.expiresAt)
      return err('forbidden', 'the share would outlive your key');
    const { all, own, kept } = shares.count(now(), key.id);
    if (isInvitation(key)) {
      if (files.length === 0) return err('invalid_request', 'a share of an invitation names the files that it is for');
      if (kept < maxOfInvitation) return undefined;
      return err('quota_exceeded', `an invitation may have ${maxOfInvitation} shares, and ended ones for 7 days`);
    }
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
