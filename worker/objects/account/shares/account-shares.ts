/** The shares of an account, as the Worker calls them on the account's object. */
import { RpcTarget } from 'cloudflare:workers';
import { errorText, log } from '../../../log.ts';
import { wasBackedUp } from '../account-row.ts';
import type { Events } from '../event-rows.ts';
import type { Files } from '../files/file-rows.ts';
import type { KeyRecord } from '../keys/key-registry.ts';
import type { Outbox } from '../outbox.ts';
import type { Removal } from '../../pin/pin-steps.ts';

import { err, type Failure, type Result } from '../../result.ts';
import { shareOf, type ShareBinding } from '../../share/share-binding.ts';
import { shareRetentionMs, type NewRecord } from '../../share/share.ts';
import { ShareRows, type NewShare, type Removed, type SharePage } from './share-rows.ts';

/** Limits on unexpired shares: of an account, and of one API key, so that no key takes the place of the others. */
const maxUnexpired = { account: 1000, key: 500 };
/** Time for which a record may be on its way to its object, in ms. */
const makingMs = 600_000;

/**
 * Outcome for the record of an ended share. `scheduled`: its object did not respond, and is asked again until it does.
 */
export type EndedShare = { id: string; record: 'destroyed' | 'scheduled' };

/** Shares whose rows are removed: their IDs, and the messages that have their records destroyed. */
export type Ending = { id: string; messages: number[] }[];

type AccountSharesOptions = {
  env: ShareBinding;
  storage: DurableObjectStorage;
  files: Files;
  outbox: Outbox;
  events: Events;
  /** The ID of the account. */
  account(): string | undefined;
  /** Finds the key with a hash, where it is valid and has the scope `share`. */
  authorize(hash: string): Result<{ key: KeyRecord }>;
  /** Rings the alarm at that time (in ms) or before. */
  alarmBy(dueMs: number): Promise<void>;
  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  deliver(ids: readonly number[]): Promise<Removal>;
  now(): number;
};

/**
 * The shares of an account. A row says that there may be a record, from before it is sent. With the row goes a message, in the same
 * transaction, that has the record destroyed.
 */
export class Shares extends RpcTarget {
  readonly #o: AccountSharesOptions;
  readonly #rows: ShareRows;

  constructor(options: AccountSharesOptions) {
    super();
    this.#o = options;
    this.#rows = new ShareRows(options.storage.sql);
  }

  /** The key of a caller who may share. */
  async sharer(hash: string): Promise<Result<{ key: KeyRecord }>> {
    return this.#o.authorize(hash);
  }

  /**
   * Makes a share, which ends with the first of its files that expires.
   * @returns the ID of the key that made it, and when it expires; `not_found` where a file is not there, `forbidden` where the share
   *   would outlive the key, `quota_exceeded` for too many shares, `conflict` where a file was deleted or the key revoked meanwhile,
   *   `overloaded`
   */
  async create(
    hash: string,
    requested: NewShare,
    record: NewRecord['record'],
  ): Promise<Result<{ createdBy: string; expiresAt: number }>> {
    const { authorize, storage, alarmBy, now } = this.#o;
    const known = authorize(hash);
    if (!known.ok) return known;
    const { id } = requested;
    const expiresAt = this.#expiryOf(requested);
    const share = { ...requested, expiresAt };
    const dueMs = now() + makingMs;
    await alarmBy(dueMs);
    const added = storage.transactionSync((): Result<{ createdBy: string; expiresAt: number }> => {
      // Again, since the key may have been revoked meanwhile, and its shares with it.
      const caller = authorize(hash);
      if (!caller.ok) return caller;
      const failure = this.#refusal(share, caller.key);
      if (failure !== undefined) return failure;
      this.#rows.add(share, caller.key.id, dueMs);
      return { ok: true, createdBy: caller.key.id, expiresAt };
    });
    if (!added.ok) return added;
    const failure = await this.#send(share, record);
    if (failure !== undefined) {
      await this.deliver(storage.transactionSync(() => this.#ending(this.#rows.withdraw(id))));
      return failure;
    }
    const superfluous = storage.transactionSync((): Ending => {
      if (this.#rows.activate(id, expiresAt + shareRetentionMs)) {
        this.#o.events.add({ action: 'share.created', by: added.createdBy, subject: id });
        return [];
      }
      // The message that went with the row may have come before the record.
      return this.#ending([{ id, dueMs: undefined }]);
    });
    if (superfluous.length === 0) return added;
    await this.deliver(superfluous);
    return err(
      'conflict',
      'the share was revoked while it was being created: a file of it was deleted, or the key revoked',
    );
  }

  /** A page of shares, newest first; how often each may still be opened is known to its object. */
  async list(hash: string, o: { before: number | undefined; limit: number }): Promise<Result<SharePage>> {
    const caller = this.#o.authorize(hash);
    return caller.ok ? { ok: true, ...this.#rows.page(o) } : caller;
  }

  /** Revokes a share. `backedUp`: whether a backup of the account was ever fetched. */
  async revoke(hash: string, id: string): Promise<Result<EndedShare & { backedUp: boolean }>> {
    const caller = this.#o.authorize(hash);
    if (!caller.ok) return caller;
    const { storage } = this.#o;
    const [ended] = await this.deliver(
      storage.transactionSync(() => this.#revoked(this.#rows.remove(id), caller.key.id)),
    );
    return ended === undefined ? err('not_found') : { ok: true, ...ended, backedUp: wasBackedUp(storage.sql) };
  }

  /**
   * Ends the shares of a file, in a transaction of the caller's, who then delivers.
   * @param by the ID of the key that does it @param requestId of the request that does it
   */
  endOfFile(fileId: string, by: string | null, requestId: string): Ending {
    return this.#revoked(this.#rows.removeOfFile(fileId), by, requestId);
  }

  /** The same for the shares that API keys made, or for all. */
  endOfKeys(apiKeys: readonly string[] | undefined, by: string | null): Ending {
    return this.#revoked(this.#rows.removeOfKeys(apiKeys), by);
  }

  /** Destroys the records of ended shares. */
  async deliver(ending: Ending): Promise<EndedShare[]> {
    const ended: EndedShare[] = [];
    for (const { id, messages } of ending) {
      const status = await this.#o.deliver(messages);
      ended.push({ id, record: status === 'scheduled' ? 'scheduled' : 'destroyed' });
    }
    return ended;
  }

  /** Forgets shares that ended long ago, and gives up those that were never made. */
  sweep(): void {
    const { storage, now } = this.#o;
    storage.transactionSync(() => void this.#ending(this.#rows.removeDue(now())));
  }

  /** Returns the time at which the alarm must look at the next share, in ms. */
  nextDue(): number | undefined {
    return this.#rows.nextDue();
  }

  #expiryOf({ files, expiresAt }: NewShare): number {
    const ends = files.map((fileId) => this.#o.files.find(fileId)?.expiresAt ?? Infinity);
    return Math.min(expiresAt, ...ends);
  }

  #refusal({ files, expiresAt }: NewShare, key: KeyRecord): Failure | undefined {
    const absent = files.find((fileId) => this.#o.files.find(fileId) === undefined);
    if (absent !== undefined) {
      const why = this.#o.files.missing(absent);
      return why.code === 'not_found' ? err('not_found', 'a file of the share is not stored in this account') : why;
    }
    if (key.expiresAt !== null && expiresAt > key.expiresAt)
      return err('forbidden', 'the share would outlive your key');
    const { all, own } = this.#rows.countUnexpired(this.#o.now(), key.id);
    if (own >= maxUnexpired.key)
      return err('quota_exceeded', `an API key may have ${maxUnexpired.key} shares that have not expired`);
    if (all >= maxUnexpired.account)
      return err('quota_exceeded', `an account may have ${maxUnexpired.account} shares that have not expired`);
    return undefined;
  }

  async #send({ id, password, opens, expiresAt }: NewShare, record: Uint8Array): Promise<Failure | undefined> {
    const account = this.#o.account();
    if (account === undefined) return err('unauthorized');
    try {
      const made = shareOf(this.#o.env, id).create({ share: id, account }, { record, password, opens, expiresAt });
      const result = await made;
      return result.ok ? undefined : result;
    } catch (error) {
      log({ event: 'account.share', error: errorText(error) });
      return err('overloaded', undefined, 2);
    }
  }

  /** Queues deletion for the rows of revoked shares, and records the events. */
  #revoked(removed: readonly Removed[], by: string | null, requestId?: string): Ending {
    for (const { id, dueMs } of removed)
      if (dueMs === undefined) this.#o.events.add({ action: 'share.revoked', by, subject: id });
    return this.#ending(removed, requestId);
  }

  /** Queues deletion now, and again for when a record that may still be on its way has arrived. */
  #ending(removed: readonly Removed[], requestId?: string): Ending {
    const { outbox } = this.#o;
    return removed.map(({ id, dueMs }) => {
      const message = { op: 'unshare', target: id } as const;
      if (dueMs !== undefined) outbox.add(message, { dueMs, requestId });
      return { id, messages: [outbox.add(message, { requestId })] };
    });
  }
}
