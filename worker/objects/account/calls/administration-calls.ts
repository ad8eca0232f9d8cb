/** Operator's calls on an account, as the Worker makes them on the account's object. */
import type { AccountChanges } from '../../../../shared/api.ts';
import { err, type Failure, type Result } from '../../result.ts';
import { count } from '../../sql.ts';
import { accountGauges, type AccountGauges } from '../account-gauges.ts';
import type { AccountRecord, Usage } from '../account-row.ts';
import type { Settings } from '../account-settings.ts';
import { backupPage, endRestore, isRestoring, restorePage, setDisabled } from '../backup/account-backup.ts';
import type { AccountPage } from '../backup/account-backup.ts';
import { restoreReferences } from '../backup/restore-references.ts';
import { restoreRecords, withRecords } from '../backup/share-records.ts';
import { reached } from '../delivery.ts';
import type { UsagePage } from '../keys/key-usage.ts';
import { writeEntries } from '../kv-entries.ts';
import type { KvMessage } from '../outbox.ts';
import { AccountCalls } from './account-calls.ts';

/** An account with what it uses and may. */
export type AdministeredAccount = { account: AccountRecord; usage: Usage; settings: Settings };

type Restored = { unpinned: string[]; usage: Usage; keys: number };

/** The operator's view of an account. Its caller has checked that it is the operator who asks. */
export class AdministrationCalls extends AccountCalls {
  /** The account, what it uses, and what the operator has set. @returns `not_found` */
  async read(): Promise<Result<AdministeredAccount>> {
    const { row, settings } = this.context;
    const account = row.open;
    if (account === undefined) return noAccount();
    await this.context.listAccount();
    return { ok: true, account, usage: row.usage(), settings: settings.get() };
  }

  /**
   * A page of what the keys of the account have used by day, the newest first.
   * @returns `not_found`
   */
  async usage(page: { before: number | undefined; limit: number }): Promise<Result<UsagePage>> {
    const { row, usage } = this.context;
    return row.open === undefined ? noAccount() : { ok: true, ...usage.page(page) };
  }

  /**
   * Changes what is given; a quota below what is stored deletes nothing. The keys of an account
   * that is being restored stay disabled until that has ended.
   * @returns the account as it is then; `not_found`
   */
  async change({ label, ...changes }: AccountChanges): Promise<Result<AdministeredAccount>> {
    const { row, settings, outbox } = this.context;
    if (row.open === undefined) return noAccount();
    const { id } = row.open;
    const current = settings.get();
    const { quotaBytes = current.quotaBytes, disabled, origins = current.origins } = changes;
    const messages = this.context.transaction(() => {
      if (label !== undefined) row.rename(label);
      settings.set({ ...current, quotaBytes, origins });
      if (disabled !== undefined) setDisabled(this.context, disabled);
      return changes.origins === undefined ? [] : [outbox.add({ op: 'origins', target: id })];
    });
    row.reload();
    await this.context.deliver(messages);
    return await this.read();
  }

  /** Stops or resumes the reading of files whose CID was put on the denylist, or taken off it. */
  async deny(cid: string, denied: boolean): Promise<Result> {
    const { row, files } = this.context;
    if (row.open !== undefined) this.context.transaction(() => files.deny(cid, denied));
    return { ok: true };
  }

  /**
   * A page of the backup of the account.
   * @param cursor `next` of the page before it
   * @returns `not_found`, `conflict` where only a part of it is there, `overloaded`
   */
  async backup(cursor: string | undefined, limit: number): Promise<Result<{ page: AccountPage }>> {
    const { row, sql, env } = this.context;
    if (row.open === undefined) return noAccount();
    if (isRestoring(sql)) return err('conflict', 'the account is being restored: its last page is still missing');
    row.markBackedUp();
    const rows = backupPage(this.context, row.open.id, { cursor, limit });
    const kept = await withRecords(env, rows.shares);
    return kept.ok ? { ok: true, page: { ...rows, shares: kept.shares } } : kept;
  }

  /**
   * Restores a page of a backup where there was no account; a page may be repeated. With the last
   * one its keys work.
   * @returns the IDs of files of which the pinning service holds no pin; `conflict`,
   * `invalid_request`, `overloaded`, and what `Pin` fails with
   */
  async restore(page: AccountPage, requestId: string): Promise<Result<Restored>> {
    const { row, files, sql, env, alarm } = this.context;
    const failure = this.context.transaction(() => restorePage(this.context, page));
    if (failure !== undefined) return failure;
    row.reload();
    const restored = await restoreReferences(env, page, requestId);
    if (!restored.ok) return restored;
    this.context.transaction(() => restored.denied.forEach((cid) => files.deny(cid, true)));
    const records = await restoreRecords(env, page);
    if (!records.ok) return records;
    const copies = await this.#writeCopies(page);
    if (!copies.ok) return copies;
    if (row.open === undefined) return noAccount();
    if (page.next === null) {
      this.context.transaction(() => endRestore(this.context));
      await this.context.listAccount();
      await alarm.by(this.context.nextDue());
    }
    return { ok: true, unpinned: restored.unpinned, usage: row.usage(), keys: count(sql, 'api_key') };
  }

  /**
   * Writes what KV has of a page: before its keys work, since without an entry a page of any origin
   * may use them.
   */
  async #writeCopies({ accountId, account, keys }: AccountPage): Promise<Result> {
    const valid = keys.filter(({ revokedAt }) => revokedAt === null);
    const ofKeys = valid.map(({ hash }): KvMessage => ({ op: 'remember', target: hash }));
    const messages: KvMessage[] = account === null ? ofKeys : [{ op: 'origins', target: accountId }, ...ofKeys];
    return await reached({ event: 'account.restore' }, async () => {
      await Promise.all(messages.map((each) => writeEntries(this.context.env.API_KEYS, this.context, each)));
      return { ok: true };
    });
  }

  /** Returns the numbers that the metrics of the service add up; zeros if there is no account. */
  async gauges(): Promise<Result<AccountGauges>> {
    return { ok: true, ...accountGauges(this.context) };
  }
}

/** The failure for an account that does not exist. */
export function noAccount(): Failure {
  return err('not_found', 'there is no account with this ID');
}
