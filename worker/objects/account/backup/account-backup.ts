/** The rows of an account as pages of a backup, and back. What is unfinished is not in it. */
import { BackupAccount, type BackupPage } from '../../../../shared/api.ts';
import { parsed, shown } from '../../columns.ts';
import { err, type Failure } from '../../result.ts';
import { first, hasTable, insert } from '../../sql.ts';
import type { AccountContext } from '../account-context.ts';
import { totalBytes } from '../keys/reserved.ts';
import { accountColumns } from '../tables.ts';
import { sections, type Lists } from './backup-section.ts';

/** A page without what only the Worker knows. */
export type AccountPage = Omit<BackupPage, 'format' | 'pinsOf'>;

/** The same without what only the objects of shares know. */
export type RowPage = Pick<AccountPage, 'accountId' | 'after' | 'next' | 'pair' | 'account'> & Lists;

const otherPair = 'the key pair of the account was replaced while this backup was taken: restore another one';
const notEmpty = 'there is an account with this ID already: a backup is restored into a service that does not have it';

/**
 * Table with one row while an account is being restored: the start of the next page (null: all are
 * written), and whether the account is disabled in the end. Until then all of its keys are.
 */
const progressTable = `CREATE TABLE IF NOT EXISTS restore (
  one INTEGER PRIMARY KEY CHECK (one = 1), next TEXT, disabled INTEGER NOT NULL)`;

type BackupContext = Pick<AccountContext, 'sql' | 'row' | 'settings' | 'events' | 'rotation' | 'now'>;
type SettingContext = Pick<BackupContext, 'sql' | 'settings'>;
type RestoreProgress = { next: string | null; disabled: number };

/** `cursor`: `next` of the page before; undefined for the first. `limit`: items of all lists. */
type PageRequest = { cursor: string | undefined; limit: number };

/** Reads a page of the account. */
export function backupPage(context: BackupContext, accountId: string, { cursor, limit }: PageRequest): RowPage {
  const account = cursor === undefined ? accountOf(context) : null;
  const lists = { keys: [], files: [], shares: [], receipts: [], events: [] };
  const page: RowPage = { accountId, after: cursor ?? null, next: null, ...pairOf(context), account, ...lists };
  const first = parsePageStart(cursor ?? null);
  let left = limit;
  for (const [index, each] of [...sections.entries()].slice(first.index)) {
    const { count, next } = each.read(context.sql, page, index === first.index ? first.position : '', left);
    if (next !== undefined) return { ...page, next: `${each.letter}${next}` };
    left -= count;
  }
  return page;
}

function accountOf({ row, settings, events, rotation }: BackupContext): BackupAccount | null {
  const account = row.open && row.read();
  if (account === undefined) return null;
  const { replaced, ...shownAccount } = shown(accountColumns, BackupAccount, account);
  const previous = rotation.previous()?.toBase64();
  return {
    ...shownAccount,
    publicKey: account.spki.toBase64(),
    // Earlier versions know neither member.
    ...(replaced !== null && { replaced }),
    ...(previous !== undefined && { previous }),
    lastEvent: events.last(),
    ...settings.get(),
  };
}

/** The name of the pair on a page: rows under different pairs do not go together. */
function pairOf({ row }: Pick<BackupContext, 'row'>): Pick<RowPage, 'pair'> {
  return row.open === undefined || row.replaced === null ? {} : { pair: row.open.spki.toBase64() };
}

/**
 * Writes the rows of a page, in a transaction of the caller's. The last page also lets the keys
 * work.
 * @returns undefined where it is written, or was before; `conflict` for an account that exists, and
 * for a page that is not the next one, or of another pair; `invalid_request` for a first page
 * without the account
 */
export function restorePage(context: BackupContext, page: RowPage): Failure | undefined {
  const { sql, row, settings, events, rotation, now } = context;
  const progress = progressOf(sql);
  if (progress === undefined) {
    if (row.id !== undefined) return err('conflict', notEmpty);
    if (page.after !== null) return err('conflict', 'the first page of the backup comes first');
    if (page.account === null) return err('invalid_request', 'the first page must have the account');
    const spki = Uint8Array.fromBase64(page.account.publicKey);
    row.create({ ...parsed(accountColumns, page.account), id: page.accountId, spki, backedUp: true });
    if (page.account.previous !== undefined) rotation.begin(Uint8Array.fromBase64(page.account.previous));
    row.reload();
    settings.set({ ...page.account, disabled: true });
    events.numberFrom(page.account.lastEvent);
    sql.exec(progressTable);
    insert(sql, 'restore', { one: 1, next: null, disabled: Number(page.account.disabled) });
  } else {
    if (row.open === undefined) return err('conflict', notEmpty);
    const order = orderOf(page.after, progress.next);
    if (order > 0) return err('conflict', `the next page of this backup is the one with "after": "${progress.next}"`);
    if (order < 0) return undefined;
  }
  if (pairOf(context).pair !== page.pair) return err('conflict', otherPair);
  for (const each of sections) each.write(sql, page, now());
  row.count(page.files.length, totalBytes(page.files));
  sql.exec('UPDATE restore SET next = ?', page.next);
  return undefined;
}

/**
 * Ends a restoration whose last page is written, in a transaction of the caller's: from now on the
 * keys work. Another request with that page may have ended it.
 */
export function endRestore(context: SettingContext): void {
  const progress = progressOf(context.sql);
  if (progress === undefined) return;
  context.sql.exec('DROP TABLE restore');
  setDisabled(context, progress.disabled === 1);
}

/**
 * Sets whether an account is disabled, in a transaction of the caller's: one that is being restored
 * from the end of that on.
 */
export function setDisabled({ sql, settings }: SettingContext, disabled: boolean): void {
  if (isRestoring(sql)) sql.exec('UPDATE restore SET disabled = ?', Number(disabled));
  else settings.set({ ...settings.get(), disabled });
}

/**
 * Tells whether an account is being restored: it has some of its rows, and references of its files
 * may be on their way.
 */
export function isRestoring(sql: SqlStorage): boolean {
  return progressOf(sql) !== undefined;
}

function progressOf(sql: SqlStorage): RestoreProgress | undefined {
  return hasTable(sql, 'restore') ? first<RestoreProgress>(sql, 'SELECT next, disabled FROM restore') : undefined;
}

/** Parses the start of a page: its section, and the position that it comes after. */
function parsePageStart(cursor: string | null): { index: number; position: string } {
  if (cursor === null) return { index: 0, position: '' };
  return { index: sections.findIndex(({ letter }) => cursor.startsWith(letter)), position: cursor.slice(1) };
}

/**
 * Compares a page with the expected one, null behind the last: negative before it, 0 if it is it.
 */
function orderOf(after: string | null, expected: string | null): number {
  if (expected === null) return -1;
  const [a, b] = [parsePageStart(after), parsePageStart(expected)];
  if (a.index !== b.index) return a.index - b.index;
  if (a.position.length !== b.position.length) return a.position.length - b.position.length;
  if (a.position === b.position) return 0;
  return a.position < b.position ? -1 : 1;
}
