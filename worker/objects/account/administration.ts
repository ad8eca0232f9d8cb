/** Operator's calls on an account, as the Worker makes them on the account's object. */
import { RpcTarget } from 'cloudflare:workers';
import type { AccountChanges } from '../../../shared/api.ts';
import { backupPage, endRestore, restorePage, type AccountPage } from './backup/account-backup.ts';
import { accountGauges, type AccountGauges } from './account-gauges.ts';
import type { AccountRecord, AccountRow, Usage } from './account-row.ts';
import type { AccountSettings, Settings } from './account-settings.ts';
import type { AccountEnv } from './delivery.ts';
import type { Events } from './event-rows.ts';
import type { Files } from './files/file-rows.ts';
import { KeyUsage, type UsagePage } from './keys/key-usage.ts';
import type { Outbox } from './outbox.ts';
import { restoreCopies } from './backup/restore-copies.ts';
import { restoreReferences } from './backup/restore-references.ts';
import { err, type Failure, type Result } from '../result.ts';
import { restoreRecords, withRecords } from './backup/share-records.ts';

/** An account with what it uses and may. */
export type AdministeredAccount = { account: AccountRecord; usage: Usage; settings: Settings };

type AdministrationOptions = {
  storage: DurableObjectStorage;
  row: AccountRow;
  settings: AccountSettings;
  files: Files;
  events: Events;
  outbox: Outbox;
  env: AccountEnv;
  now(): number;
  /** Returns the time for which the alarm is due, in ms. */
  nextDue(): number | undefined;
  /** Rings the alarm at that time (in ms) or before. */
  alarmBy(dueMs: number): Promise<void>;
  /** Delivers messages at once; what is not acknowledged stays for the alarm. */
  deliver(ids: readonly number[]): Promise<unknown>;
};

/** The operator's view of an account. Its caller has checked that it is the operator who asks. */
export class Administration extends RpcTarget {
  readonly #o: AdministrationOptions;

  constructor(options: AdministrationOptions) {
    super();
    this.#o = options;
  }

  /** The account, what it uses, and what the operator has set. @returns `not_found` */
  async read(): Promise<Result<AdministeredAccount>> {
    const { row, settings } = this.#o;
    const account = row.open;
    if (account === undefined) return noAccount();
    await this.listAccount();
    return { ok: true, account, usage: row.usage(), settings: settings.get() };
  }

  /** A page of what the keys of the account have used by day, the newest first. @returns `not_found` */
  async usage(o: { before: number | undefined; limit: number }): Promise<Result<UsagePage>> {
    const { row, storage, now } = this.#o;
    return row.open === undefined ? noAccount() : { ok: true, ...new KeyUsage(storage.sql, now).page(o) };
  }

  /** Changes what is given; a quota below what is stored deletes nothing. @returns the account as it is then; `not_found` */
  async change({ label, ...changes }: AccountChanges): Promise<Result<AdministeredAccount>> {
    const { storage, row, settings } = this.#o;
    if (row.open === undefined) return noAccount();
    const current = settings.get();
    const { quotaBytes = current.quotaBytes, disabled = current.disabled, origins = current.origins } = changes;
    storage.transactionSync(() => {
      if (label !== undefined) row.rename(label);
      settings.set({ quotaBytes, disabled, origins });
    });
    row.reload();
    return await this.read();
  }

  /** Stops or resumes the reading of files with a CID that has been put on the denylist, or taken off it. */
  async deny(cid: string, denied: boolean): Promise<Result> {
    const { row, files, storage } = this.#o;
    if (row.open !== undefined) storage.transactionSync(() => files.deny(cid, denied));
    return { ok: true };
  }

  /** A page of the backup of the account. @param cursor `next` of the page before it @returns `not_found`, `overloaded` */
  async backup(cursor: string | undefined, limit: number): Promise<Result<{ page: AccountPage }>> {
    const { row, settings, events, storage, env } = this.#o;
    if (row.open === undefined) return noAccount();
    row.markBackedUp();
    const rows = backupPage({ sql: storage.sql, row, settings, events }, row.open.id, cursor, limit);
    const kept = await withRecords(env, rows.shares);
    return kept.ok ? { ok: true, page: { ...rows, shares: kept.shares } } : kept;
  }

  /**
   * Restores a page of a backup where there was no account; a page may be repeated. With the last one its keys work.
   * @returns the IDs of files of which the pinning service holds no pin; `conflict`, `invalid_request`, `overloaded`, and what `Pin` fails with
   */
  async restore(
    page: AccountPage,
    requestId: string,
  ): Promise<Result<{ unpinned: string[]; usage: Usage; keys: number }>> {
    const { row, settings, events, files, storage, env, nextDue, alarmBy } = this.#o;
    const { sql } = storage;
    const failure = storage.transactionSync(() => restorePage({ sql, row, settings, events }, page));
    if (failure !== undefined) return failure;
    row.reload();
    const restored = await restoreReferences(env, page, requestId);
    if (!restored.ok) return restored;
    storage.transactionSync(() => restored.denied.forEach((cid) => files.deny(cid, true)));
    const records = await restoreRecords(env, page);
    if (!records.ok) return records;
    const copies = await restoreCopies(env.API_KEYS, page);
    if (!copies.ok) return copies;
    const { keys } = sql.exec<{ keys: number }>('SELECT count(*) AS keys FROM api_key').one();
    if (page.next === null) {
      storage.transactionSync(() => endRestore({ sql, settings }));
      await this.listAccount();
      const due = nextDue();
      if (due !== undefined) await alarmBy(due);
    }
    return { ok: true, unpinned: restored.unpinned, usage: row.usage(), keys };
  }

  /** Returns the numbers that the metrics of the service add up; zeros if there is no account. */
  async gauges(): Promise<Result<AccountGauges>> {
    const { row, storage, nextDue, now } = this.#o;
    return { ok: true, ...accountGauges(storage.sql, { row, nextDue, nowMs: now() }) };
  }

  /** Enters an account that is not in the list yet, in a transaction with the message that does it, which is sent at once. */
  async listAccount(): Promise<void> {
    const { row, settings, outbox, storage, deliver } = this.#o;
    const { open } = row;
    if (open === undefined || settings.isListed) return;
    const message = storage.transactionSync(() => {
      settings.markListed();
      return outbox.add({ op: 'enlist', target: open.id });
    });
    await deliver([message]);
  }
}

/** The failure for an account that does not exist. */
export function noAccount(): Failure {
  return err('not_found', 'there is no account with this ID');
}
