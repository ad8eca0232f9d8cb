/** The rows of an account as pages of a backup, and back. What is unfinished is not in it. */
import type { BackupAccount, BackupPage } from '../../../../shared/api.ts';
import type { AccountRow } from '../account-row.ts';
import type { AccountSettings } from '../account-settings.ts';
import { eventSection, receiptSection, shareSection } from './backup-history.ts';
import type { Events } from '../event-rows.ts';
import { bytesOf, msOf, timeOf, type Lists, type Section } from './backup-section.ts';
import { fileSection, keySection } from './backup-stored.ts';
import { err, type Failure } from '../../result.ts';
import { createTables } from '../tables.ts';

/** A page without what only the Worker knows. */
export type AccountPage = Omit<BackupPage, 'format' | 'pinsOf'>;

/** The same without what only the objects of shares know. */
export type RowPage = Pick<AccountPage, 'accountId' | 'after' | 'next' | 'account'> & Lists;

/**
 * Sections in the order of the pages. Shares are the last: once they are restored anybody may open them, which needs
 * their files, and adds events behind those of the backup.
 */
const sections: readonly Section[] = [keySection, fileSection, receiptSection, eventSection, shareSection];

const notEmpty = 'there is an account with this ID already: a backup is restored into a service that does not have it';

/**
 * Table with one row while an account is being restored: the start of the next page (null: all are written), and
 * whether the account is disabled in the end. Until then all of its keys are.
 */
const progressTable = `CREATE TABLE IF NOT EXISTS restore (
  one INTEGER PRIMARY KEY CHECK (one = 1), next TEXT, disabled INTEGER NOT NULL)`;

type BackupOptions = { sql: SqlStorage; row: AccountRow; settings: AccountSettings; events: Events };

/**
 * Reads a page of the account.
 * @param cursor `next` of the page before it; undefined for the first one
 * @param limit items of all lists on a page
 */
export function backupPage(
  { sql, row, settings, events }: BackupOptions,
  accountId: string,
  cursor: string | undefined,
  limit: number,
): RowPage {
  const account = cursor === undefined ? backedUpAccount(row, settings, events) : null;
  const page: RowPage = {
    accountId,
    after: cursor ?? null,
    next: null,
    account,
    keys: [],
    files: [],
    shares: [],
    receipts: [],
    events: [],
  };
  const first = placeOf(cursor ?? null);
  let room = limit;
  for (const [index, each] of [...sections.entries()].slice(first.index)) {
    const { count, next } = each.read(sql, page, index === first.index ? first.position : '', room);
    if (next !== undefined) return { ...page, next: `${each.letter}${next}` };
    room -= count;
  }
  return page;
}

function backedUpAccount(row: AccountRow, settings: AccountSettings, events: Events): BackupAccount | null {
  const { open } = row;
  if (open === undefined) return null;
  const recovery = row.recovery();
  return {
    label: open.label,
    publicKey: open.spki.toBase64(),
    createdAt: timeOf(open.createdAt),
    recoveryKey: open.recoveryKey,
    recovery: recovery?.file.toBase64() ?? null,
    recoveryHash: recovery?.secretHash ?? null,
    lastEvent: events.last(),
    ...settings.get(),
  };
}

/**
 * Writes the rows of a page, in a transaction of the caller's. The last page also lets the keys work.
 * @returns undefined where it is written, or was before; `conflict` for an account that exists, and for a page that is not the next one;
 *   `invalid_request` for a first page without the account
 */
export function restorePage({ sql, row, settings, events }: BackupOptions, page: RowPage): Failure | undefined {
  const progress = progressOf(sql);
  if (progress === undefined) {
    if (row.id !== undefined) return err('conflict', notEmpty);
    if (page.after !== null) return err('conflict', 'the first page of the backup comes first');
    if (page.account === null) return err('invalid_request', 'the first page must have the account');
    createAccount(sql, page.accountId, page.account);
    settings.set({ ...page.account, disabled: true });
    events.numberFrom(page.account.lastEvent);
    sql.exec(progressTable);
    sql.exec('INSERT INTO restore (one, next, disabled) VALUES (1, NULL, ?)', page.account.disabled ? 1 : 0);
  } else {
    const order = orderOf(page.after, progress.next);
    if (order > 0) return err('conflict', `the next page of this backup is the one with "after": "${progress.next}"`);
    if (order < 0) return undefined;
  }
  for (const each of sections) each.write(sql, page);
  sql.exec(
    `UPDATE account SET (files, bytes) = (SELECT count(*), coalesce(sum(bytes), 0) FROM file WHERE state = 'ready')`,
  );
  sql.exec('UPDATE restore SET next = ?', page.next);
  return undefined;
}

/**
 * Ends a restoration whose last page is written, in a transaction of the caller's: from now on the keys work. Another request with
 * that page may have ended it.
 */
export function endRestore({ sql, settings }: Pick<BackupOptions, 'sql' | 'settings'>): void {
  const progress = progressOf(sql);
  if (progress === undefined) return;
  settings.set({ ...settings.get(), disabled: progress.disabled === 1 });
  sql.exec('DROP TABLE restore');
}

function progressOf(sql: SqlStorage): { next: string | null; disabled: number } | undefined {
  if (sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'restore'`).toArray().length === 0) return undefined;
  return sql.exec<{ next: string | null; disabled: number }>('SELECT next, disabled FROM restore').one();
}

/** Parses the start of a page: its section, and the position that it comes after. */
function placeOf(cursor: string | null): { index: number; position: string } {
  if (cursor === null) return { index: 0, position: '' };
  return { index: sections.findIndex(({ letter }) => cursor.startsWith(letter)), position: cursor.slice(1) };
}

/**
 * Compares a page with the one that is expected: negative before it, 0 if it is it. `expected`: null behind the last
 * one.
 */
function orderOf(after: string | null, expected: string | null): number {
  if (expected === null) return -1;
  const [a, b] = [placeOf(after), placeOf(expected)];
  if (a.index !== b.index) return a.index - b.index;
  if (a.position.length !== b.position.length) return a.position.length - b.position.length;
  if (a.position === b.position) return 0;
  return a.position < b.position ? -1 : 1;
}

function createAccount(sql: SqlStorage, id: string, account: BackupAccount): void {
  createTables(sql);
  sql.exec(
    `INSERT INTO account (id, label, spki, recovery_key, recovery, recovery_hash, created_at, files, bytes)
     VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)`,
    id,
    account.label,
    Uint8Array.fromBase64(account.publicKey),
    account.recoveryKey,
    bytesOf(account.recovery),
    account.recoveryHash,
    msOf(account.createdAt),
  );
}
