/** The rows of an account as pages of a backup, and back. What is unfinished, shares, receipts and events are not in it. */
import type { BackupAccount, BackupFile, BackupKey, BackupPage, Scope } from '../../shared/api.ts';
import type { AccountRow } from './account-row.ts';
import type { AccountSettings } from './account-settings.ts';
import { beginningOf, numberOf, type FileRow } from './file-rows.ts';
import type { KeyRow } from './key-registry.ts';
import { err, type Failure } from './result.ts';
import { createTables } from './tables.ts';

/** A page without what only the Worker knows. */
export type AccountPage = Omit<BackupPage, 'format' | 'pinsOf'>;

const notEmpty = 'there is an account with this ID already: a backup is restored into a service that does not have it';

/**
 * While an account is being restored, this table has one row: where the next page has to begin (null: all are written), and
 * whether the account is to be disabled in the end. Until then all of its keys are.
 */
const progressTable = `CREATE TABLE IF NOT EXISTS restore (
  one INTEGER PRIMARY KEY CHECK (one = 1), next TEXT, disabled INTEGER NOT NULL)`;

type BackedUpKeyRow = KeyRow & {
  rowid: number;
  key_id: string | null;
  files: number | null;
  bytes: number | null;
};

/** `tags` as a list in JSON. */
type BackedUpFileRow = FileRow & { tags: string; denied: number };

type Options = { sql: SqlStorage; row: AccountRow; settings: AccountSettings };

/**
 * Reads a page of the account, keys before files.
 * @param cursor `next` of the page before it; undefined for the first one
 * @param limit keys and files on a page
 */
export function backupPage(
  { sql, row, settings }: Options,
  accountId: string,
  cursor: string | undefined,
  limit: number,
): AccountPage {
  const after = Number(cursor?.slice(1) ?? 0);
  const keys = cursor?.startsWith('f') ? [] : keyRows(sql, after, limit + 1);
  // Keys that are left are on pages of their own, so that a page has files only behind the last key.
  const more = keys.length > limit;
  const page = keys.slice(0, limit);
  const fileLimit = limit - page.length;
  const files = more ? [] : fileRows(sql, cursor?.startsWith('f') ? after : 0, fileLimit + 1);
  const shown = files.slice(0, fileLimit);
  return {
    accountId,
    after: cursor ?? null,
    next: more ? `k${page.at(-1)?.rowid ?? after}` : nextFile(files, shown, cursor),
    account: cursor === undefined ? accountOf(row, settings) : null,
    keys: page.map((each) => keyOf(each)),
    files: shown.map((each) => fileOf(each)),
  };
}

function nextFile(
  files: readonly BackedUpFileRow[],
  shown: readonly BackedUpFileRow[],
  cursor: string | undefined,
): string | null {
  if (files.length <= shown.length) return null;
  return `f${shown.at(-1)?.seq ?? (cursor?.startsWith('f') ? cursor.slice(1) : 0)}`;
}

function keyRows(sql: SqlStorage, after: number, limit: number): BackedUpKeyRow[] {
  return sql
    .exec<BackedUpKeyRow>(
      `SELECT api_key.rowid, api_key.*, key_limit.* FROM api_key LEFT JOIN key_limit ON key_id = api_key.id
       WHERE api_key.rowid > ? ORDER BY api_key.rowid LIMIT ?`,
      after,
      limit,
    )
    .toArray();
}

function fileRows(sql: SqlStorage, after: number, limit: number): BackedUpFileRow[] {
  return sql
    .exec<BackedUpFileRow>(
      `SELECT *, (SELECT json_group_array(tag) FROM file_tag WHERE file_tag.seq = file.seq) AS tags,
         EXISTS (SELECT 1 FROM denied_file WHERE denied_file.file_id = file.file_id) AS denied
       FROM file LEFT JOIN file_detail USING (file_id) WHERE state = 'ready' AND seq > ? ORDER BY seq LIMIT ?`,
      after,
      limit,
    )
    .toArray();
}

function accountOf(row: AccountRow, settings: AccountSettings): BackupAccount | null {
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
    ...settings.get(),
  };
}

function keyOf(row: BackedUpKeyRow): BackupKey {
  const { max_files: files, max_bytes: bytes, max_file_bytes: fileBytes } = row;
  return {
    id: row.id,
    hash: row.hash,
    label: row.label,
    scopes: row.scopes.split(' ') as Scope[],
    createdAt: timeOf(row.created_at),
    expiresAt: optionalTime(row.expires_at),
    createdBy: row.created_by,
    revokedAt: optionalTime(row.revoked_at),
    sealed: textOf(row.sealed),
    limits:
      row.key_id === null
        ? null
        : { files, bytes, fileBytes, storedFiles: row.files ?? 0, storedBytes: row.bytes ?? 0 },
  };
}

function fileOf(row: BackedUpFileRow): BackupFile {
  return {
    number: row.seq,
    fileId: row.file_id,
    mode: row.mode,
    filename: row.filename,
    contentType: row.content_type,
    bytes: row.bytes,
    beginning: beginningOf(row.container),
    cid: row.cid,
    service: row.service,
    header: textOf(row.header),
    createdAt: timeOf(row.created_at),
    createdBy: row.created_by,
    expiresAt: optionalTime(row.expires_at),
    version: row.version ?? 0,
    changedAt: optionalTime(row.changed_at),
    description: row.description,
    tags: JSON.parse(row.tags) as string[],
    denied: row.denied === 1,
  };
}

/**
 * Writes the rows of a page, in a transaction of the caller's. The last page also lets the keys work.
 * @returns undefined where it is written, or was before; `conflict` for an account that exists, and for a page that is not the next one;
 *   `invalid_request` for a first page without the account
 */
export function restorePage({ sql, row, settings }: Options, page: AccountPage): Failure | undefined {
  const progress = progressOf(sql);
  if (progress === undefined) {
    if (row.id !== undefined) return err('conflict', notEmpty);
    if (page.after !== null) return err('conflict', 'the first page of the backup comes first');
    if (page.account === null) return err('invalid_request', 'the first page has to have the account');
    createAccount(sql, page.accountId, page.account);
    settings.set({ ...page.account, disabled: true });
    sql.exec(progressTable);
    sql.exec('INSERT INTO restore (one, next, disabled) VALUES (1, NULL, ?)', page.account.disabled ? 1 : 0);
  } else {
    const [place, expected] = [placeOf(page.after, first), placeOf(progress.next, last)];
    if (place > expected)
      return err('conflict', `the next page of this backup is the one with "after": "${progress.next}"`);
    if (place < expected) return undefined;
  }
  for (const key of page.keys) insertKey(sql, key);
  for (const file of page.files) insertFile(sql, file);
  sql.exec(
    `UPDATE account SET (files, bytes) = (SELECT count(*), coalesce(sum(bytes), 0) FROM file WHERE state = 'ready')`,
  );
  sql.exec('UPDATE restore SET next = ?', page.next);
  return undefined;
}

/** Ends a restoration whose last page is written, in a transaction of the caller's: from now on the keys work. */
export function endRestore({ sql, settings }: Pick<Options, 'sql' | 'settings'>): void {
  const { disabled = 0 } = progressOf(sql) ?? {};
  settings.set({ ...settings.get(), disabled: disabled === 1 });
  sql.exec('DROP TABLE restore');
}

function progressOf(sql: SqlStorage): { next: string | null; disabled: number } | undefined {
  if (sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'restore'`).toArray().length === 0) return undefined;
  return sql.exec<{ next: string | null; disabled: number }>('SELECT next, disabled FROM restore').one();
}

/** The places before all pages and behind them. */
const first = -1;
const last = Infinity;
/** More keys than an account can have: files come behind them. */
const firstFile = 2 ** 52;

/** The order of the pages, by where they begin. @param other the place of null */
function placeOf(cursor: string | null, other: number): number {
  if (cursor === null) return other;
  return Number(cursor.slice(1)) + (cursor.startsWith('f') ? firstFile : 0);
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

function insertKey(sql: SqlStorage, key: BackupKey): void {
  sql.exec(
    `INSERT INTO api_key (id, hash, label, scopes, created_at, expires_at, created_by, revoked_at, sealed)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key.id,
    key.hash,
    key.label,
    key.scopes.join(' '),
    msOf(key.createdAt),
    optionalMs(key.expiresAt),
    key.createdBy,
    optionalMs(key.revokedAt),
    bytesOf(key.sealed),
  );
  if (key.limits === null) return;
  const { files, bytes, fileBytes, storedFiles, storedBytes } = key.limits;
  sql.exec(
    'INSERT INTO key_limit (key_id, max_files, max_bytes, max_file_bytes, files, bytes) VALUES (?, ?, ?, ?, ?, ?)',
    key.id,
    files,
    bytes,
    fileBytes,
    storedFiles,
    storedBytes,
  );
}

function insertFile(sql: SqlStorage, file: BackupFile): void {
  sql.exec(
    `INSERT INTO file (seq, file_id, state, mode, filename, content_type, bytes, container, cid, service, header, created_at, created_by)
     VALUES (?, ?, 'ready', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    file.number,
    file.fileId,
    file.mode,
    file.filename,
    file.contentType,
    file.bytes,
    numberOf(file.beginning),
    file.cid,
    file.service,
    bytesOf(file.header),
    msOf(file.createdAt),
    file.createdBy,
  );
  if (file.expiresAt !== null || file.version > 0)
    sql.exec(
      'INSERT INTO file_detail (file_id, expires_at, version, changed_at, description) VALUES (?, ?, ?, ?, ?)',
      file.fileId,
      optionalMs(file.expiresAt),
      file.version,
      optionalMs(file.changedAt),
      file.description,
    );
  for (const tag of file.tags) sql.exec('INSERT INTO file_tag (tag, seq) VALUES (?, ?)', tag, file.number);
  if (file.denied) sql.exec('INSERT INTO denied_file (file_id) VALUES (?)', file.fileId);
}

const timeOf = (ms: number): string => new Date(ms).toISOString();
const optionalTime = (ms: number | null): string | null => (ms === null ? null : timeOf(ms));
const msOf = (time: string): number => Date.parse(time);
const optionalMs = (time: string | null): number | null => (time === null ? null : msOf(time));
const textOf = (bytes: ArrayBuffer | null): string | null => (bytes === null ? null : new Uint8Array(bytes).toBase64());
const bytesOf = (text: string | null): Uint8Array | null => (text === null ? null : Uint8Array.fromBase64(text));
