/** The shares of an account, as the Worker calls them on the account's object. */
import type { EndedShare } from '../../../../shared/api.ts';
import { shareEnd, shareMaxima } from '../../../env.ts';
import { err, type Failure, type Result } from '../../result.ts';
import type { NewTerms, Opening } from '../../share/openings.ts';
import { shareOf } from '../../share/share-binding.ts';
import { shareRetentionMs } from '../../share/share.ts';
import type { ChangedTerms, NewRecord, ShareStatus, TermsChange } from '../../share/share.ts';
import type { AccountContext } from '../account-context.ts';
import { wasBackedUp } from '../account-row.ts';
import { reached } from '../delivery.ts';
import { isInvitation, sharing } from '../keys/invitation.ts';
import type { FileRecord } from '../files/file-rows.ts';
import type { KeyRecord } from '../keys/key-rows.ts';
import type { Ended, NewShare, SharePage, ShareRecord } from '../shares/share-rows.ts';
import { AccountCalls } from './account-calls.ts';
import { removeFiles } from './file-calls.ts';

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

const revoked = 'the share was revoked';

/** The line in the log about a share whose object does not answer. */
const unreached = { event: 'account.share' };

/** A share whose terms were changed, and what its object says of it. */
type ChangedShare = { share: ShareRecord; status: ShareStatus };

/** A share that was revoked. */
type Revoked = EndedShare & { files: string[]; backedUp: boolean };

/** The shares of an account: their rows here, and their records in the objects `Share`. */
export class ShareCalls extends AccountCalls {
  /** Checks that a caller may change a share, before a body is read. @returns as `change` */
  changer(hash: string, id: string): Promise<Result> {
    return this.context.as(hash, sharing, async ({ key }) =>
      this.#visible(id, key) === undefined ? await this.#missing(id, key) : { ok: true },
    );
  }

  /**
   * Makes a share, which ends with the first of its files that expires.
   * @returns it; `not_found` where a file is not there, `forbidden` where the share would outlive
   * the key, `quota_exceeded` for too many shares, `conflict` where its ID is taken, a file was
   * deleted or the key revoked meanwhile, `overloaded`
   */
  create(hash: string, requested: NewShare, record: NewRecord['record']): Promise<Result<{ share: ShareRecord }>> {
    return this.context.adding(hash, sharing, async ({ account, key }) => {
      const { shares, files, alarm, now } = this.context;
      const share = { ...requested, createdBy: key.id, changedAt: null, expiresAt: this.#expiryOf(requested) };
      const dueMs = now() + makingMs;
      await alarm.by(dueMs);
      const failure = this.context.transaction((): Failure | undefined => {
        // Again, since the key may have been revoked meanwhile, and its shares with it.
        const caller = this.context.authorize(hash, sharing);
        if (!caller.ok) return caller;
        return this.#refusal(share, caller.key) ?? shares.add(share, dueMs);
      });
      if (failure !== undefined) return failure;
      const { id, password, opens, expiresAt } = share;
      const origin = { share: id, account: account.id };
      const object = shareOf(this.context.env, id);
      const kept = { record, password, opens, expiresAt };
      const made = await reached(unreached, async () => await object.create(origin, kept));
      if (!made.ok) {
        this.context.transaction(() => shares.giveUp(id, made.code !== 'conflict'));
        return made;
      }
      const isActive = this.context.transaction(() => {
        if (files.provisional.isAnyUp(share.files, now())) return false;
        if (!shares.activate(share, share.expiresAt + shareRetentionMs)) return false;
        if (isInvitation(key)) for (const fileId of share.files) files.provisional.remove(fileId);
        return true;
      });
      if (isActive) return { ok: true, share };
      await deliverEnded(this.context, [this.context.transaction(() => shares.withdraw(id))]);
      const why = 'a file of it was deleted, or the key revoked';
      return err('conflict', `the share was revoked while it was being created: ${why}`);
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

  /**
   * Changes how often and how long a share opens: its object decides. It still ends with the first
   * of its files that expires; files that an invitation stored for it expire with it instead.
   * @returns it, and its status right after; `not_found`, `gone` where it has ended,
   * `invalid_request`, `forbidden` where it would outlive its key or the caller's, `conflict`,
   * `overloaded`
   */
  change(hash: string, id: string, { expiresAt, ...change }: TermsChange): Promise<Result<ChangedShare>> {
    return this.context.adding(hash, sharing, async ({ key }) => {
      const share = this.#visible(id, key);
      if (share === undefined) return await this.#missing(id, key);
      const end = expiresAt === undefined ? undefined : this.#newEnd(share, key, expiresAt);
      if (end?.ok === false) return end;
      const object = shareOf(this.context.env, id);
      const terms = { ...change, expiresAt: end?.expiresAt };
      const changed = await reached<ChangedTerms>(unreached, async () => await object.change(key.id, terms));
      if (!changed.ok) return changed;
      if (changed.terms !== undefined) {
        const { time, ...terms } = changed.terms;
        await this.report(id, [{ number: -time, time, change: terms }]);
      }
      const now = this.context.shares.find(id);
      return now === undefined ? err('gone', revoked) : { ok: true, share: now, status: changed.status };
    });
  }

  /** Records what the object of a share reports, each opening and change once. */
  async report(id: string, openings: readonly Opening[]): Promise<void> {
    this.context.transaction(() => {
      this.context.events.reportOpenings(id, openings);
      for (const { time, change } of openings) if (change !== undefined) this.#setTerms(id, { time, ...change });
    });
    await this.context.flushSoon();
  }

  #setTerms(id: string, { time, by, opens, expiresAt }: NewTerms): void {
    const { shares, keys, files, events } = this.context;
    const share = shares.find(id);
    if (share === undefined || (share.changedAt ?? 0) >= time) return;
    shares.setTerms(id, { opens, expiresAt, changedAt: time }, expiresAt + shareRetentionMs);
    const key = keys.list().find((each) => each.id === by);
    if (key === undefined || expiresAt === share.expiresAt) return;
    const isLonger = expiresAt > share.expiresAt;
    for (const { fileId, expiresAt: before } of this.#ownFiles(share, key)) {
      const last = shares.lastEnd(fileId) ?? expiresAt;
      const end = before === null || last > before === isLonger ? last : before;
      if (before === null || end === before) continue;
      files.update(fileId, { expiresAt: end });
      events.add({ action: 'file.changed', by, subject: fileId });
    }
  }

  /**
   * The time that a share may be given, in ms: no later than the end of a file that stays as it is.
   */
  #newEnd(share: ShareRecord, key: KeyRecord, expiresAt: number): Result<{ expiresAt: number }> {
    const { env, keys, files } = this.context;
    const end = shareEnd(env, expiresAt, share.createdAt);
    const most = `${shareMaxima(env).days} days from when it was made, at this service`;
    if (end === undefined) return err('invalid_request', `a share lasts at most ${most}`);
    const maker = keys.list().find(({ id }) => id === share.createdBy);
    const keysEnd = Math.min(key.expiresAt ?? Infinity, maker?.expiresAt ?? Infinity);
    if (end > share.expiresAt && end > keysEnd) return err('forbidden', 'the share would outlive its key, or yours');
    const own = new Set(this.#ownFiles(share, key).map(({ fileId }) => fileId));
    const others = share.files.filter((fileId) => !own.has(fileId));
    return { ok: true, expiresAt: Math.min(end, ...others.map((id) => files.find(id)?.expiresAt ?? Infinity)) };
  }

  /**
   * The files that an invitation stored for its share, if the key may decide how long they stay.
   */
  #ownFiles({ createdBy, files }: ShareRecord, key: KeyRecord): FileRecord[] {
    const { keys } = this.context;
    const isDeciding = key.id === createdBy || key.scopes.includes('delete');
    if (!isDeciding || !keys.isInvitation(createdBy)) return [];
    return files
      .flatMap((fileId) => this.context.files.find(fileId) ?? [])
      .filter((file) => file.createdBy === createdBy);
  }

  /**
   * Tells why there is no such share: its object remembers one that was revoked for a while. Guests
   * learn of others' shares nothing.
   */
  async #missing(id: string, key: KeyRecord): Promise<Failure> {
    if (isInvitation(key)) return err('not_found');
    const found = await reached<ShareStatus>(unreached, async () => await shareOf(this.context.env, id).look());
    return found.ok && found.state !== 'active' ? err('gone', revoked) : err('not_found');
  }

  /** An active share that a key may end and change. */
  #visible(id: string, key: KeyRecord): ShareRecord | undefined {
    const share = this.context.shares.find(id);
    return isInvitation(key) && share?.createdBy !== key.id ? undefined : share;
  }

  #revoke(id: string, key: KeyRecord, requestId: string): { ended: Ended; files: string[] } | undefined {
    const { shares, files, keys } = this.context;
    const share = this.#visible(id, key);
    if (share === undefined) return undefined;
    const isOwn = share.createdBy === key.id;
    const ended = shares.end(id, { by: key.id });
    if (ended === undefined) return undefined;
    const { createdBy } = share;
    const isDeleting = keys.isInvitation(createdBy) && (isOwn || key.scopes.includes('delete'));
    const alone = share.files.filter((each) => files.find(each)?.createdBy === createdBy && !shares.hasFile(each));
    const deleted = isDeleting ? alone : [];
    removeFiles(this.context, deleted, 'deleted', { by: key.id, requestId });
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
    const isGone = (fileId: string): boolean =>
      stored.find(fileId) === undefined || stored.provisional.isAnyUp([fileId], now());
    const absent = files.find((fileId) => isGone(fileId) || isHidden(fileId));
    if (absent !== undefined) {
      const why = isHidden(absent) ? err('not_found') : stored.missing(absent);
      return why.code === 'not_found' ? err('not_found', 'a file of the share is not stored in this account') : why;
    }
    if (key.expiresAt !== null && expiresAt > key.expiresAt)
      return err('forbidden', 'the share would outlive your key');
    const { all, own, kept } = shares.count(key.id);
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
