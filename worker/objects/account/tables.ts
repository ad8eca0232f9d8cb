/**
 * The tables of an `Account` object, created with the account, never by a request for one. Times
 * are in ms since 1970. Of what is stored, shown and backed up there is one list of columns; a
 * member without a column is in another table.
 */
import {
  ContentKind,
  type DeletionReason,
  type EventAction,
  type KeyFate,
  type RemovedPin,
  type ResumableUpload,
  type Scope,
  type StoredFile,
} from '../../../shared/api.ts';
import type { FileInfo } from '../../../shared/crypto/index.ts';
import type { Code } from '../../../shared/errors.ts';
import {
  addColumns,
  bytes,
  choice,
  counter,
  definitions,
  flag,
  integer,
  json,
  optional,
  text,
  time,
  words,
  type Column,
  type Columns,
} from '../columns.ts';
import { hasTable } from '../sql.ts';

export const accountColumns = {
  id: text('id', 'TEXT PRIMARY KEY'),
  label: text('label'),
  spki: bytes('spki'),
  recoveryKey: optional(text('recovery_key')),
  recovery: optional(bytes('recovery')),
  recoveryHash: optional(text('recovery_hash')),
  replaced: optional(bytes('replaced')),
  createdAt: time('created_at'),
  closedAt: optional(time('closed_at')),
  files: counter('files'),
  bytes: counter('bytes'),
  backedUp: flag('backed_up', 'INTEGER NOT NULL DEFAULT 1'),
};

export const settingColumns = {
  quotaBytes: optional(integer('quota_bytes')),
  disabled: flag('disabled', 'INTEGER NOT NULL DEFAULT 0'),
  origins: optional(words('origins')),
  listed: flag('listed', 'INTEGER NOT NULL DEFAULT 0'),
};

export const keyColumns = {
  id: text('id', 'TEXT PRIMARY KEY'),
  label: text('label'),
  scopes: words<Scope>('scopes'),
  createdAt: time('created_at'),
  expiresAt: optional(time('expires_at')),
  createdBy: optional(text('created_by')),
};

/** Columns of a key that its owner is not shown. */
export const hiddenKeyColumns = {
  hash: text('hash'),
  revokedAt: optional(time('revoked_at')),
  sealed: optional(bytes('sealed')),
  signer: optional(bytes('signer')),
};

/** Counts of the events that a key with limits, or one that descends from it, added on a day. */
const addedColumns = { addedOn: counter('added_on'), added: counter('added') };

export const fileColumns = {
  number: integer('seq', 'INTEGER PRIMARY KEY AUTOINCREMENT'),
  fileId: text('file_id', 'TEXT NOT NULL UNIQUE'),
  state: text<'pending' | 'ready'>('state'),
  mode: text<StoredFile['mode']>('mode'),
  filename: optional(text('filename')),
  contentType: optional(text('content_type')),
  bytes: integer('bytes'),
  beginning: choice('container', ContentKind.options),
  cid: text('cid'),
  service: text('service'),
  header: optional(bytes('header')),
  createdAt: time('created_at'),
  createdBy: text('created_by'),
  due: optional(time('due')),
};

/** Details of a file that its upload brings, which are kept before the file has a row. */
export const detailColumns = { expiresAt: optional(time('expires_at')) };

type Description = Pick<FileInfo, 'metadata' | 'tags'>;

/** Empty where the row has null. A backup has it as the text that is stored. */
const description: Column<Description, string | null> = {
  ...json<Description>('description', 'TEXT'),
  write: (value) => (Object.keys(value).length === 0 ? null : JSON.stringify(value)),
  read: (stored) => (stored === null ? {} : (JSON.parse(stored as string) as Description)),
  show: (value) => (Object.keys(value).length === 0 ? null : JSON.stringify(value)),
  parse: (text) => (text === null ? {} : (JSON.parse(text) as Description)),
};

export const changeColumns = {
  version: counter('version'),
  changedAt: optional(time('changed_at')),
  description,
  rewrapped: counter('rewrapped'),
};

/** Details of a file known to its owner alone, in a table whose rows move for nothing else. */
export const sealedColumns = { details: optional(bytes('details')) };

export const uploadColumns = {
  number: integer('seq', 'INTEGER PRIMARY KEY AUTOINCREMENT'),
  uploadId: text('id', 'TEXT NOT NULL UNIQUE'),
  createdBy: text('api_key'),
  mode: text<StoredFile['mode']>('mode'),
  state: text<ResumableUpload['state']>('state'),
  code: optional(text<Code>('code')),
  length: optional(integer('length')),
  offset: integer('offset'),
  lease: optional(text('lease')),
  service: text('service'),
  announced: optional(text('announced')),
  cid: optional(text('cid')),
  sealedKey: optional(bytes('sealed_key')),
  preamble: bytes('preamble'),
  // Empty where there is none.
  sealedMetadata: bytes('sealed_metadata', 'BLOB'),
  sealedRest: optional(bytes('sealed_rest')),
  tail: bytes('tail', 'BLOB'),
  beginning: choice('container', ContentKind.options),
  filename: optional(text('filename')),
  contentType: optional(text('content_type')),
  header: optional(bytes('header')),
  expiresAt: time('expires_at'),
  due: time('due'),
  attempts: integer('attempts'),
  requestId: optional(text('request_id')),
};

/** Notes of the maker of a share, which the service only keeps. */
export const shareNoteColumns = { label: optional(text('label')) };

export const shareColumns = {
  id: text('id', 'TEXT NOT NULL UNIQUE'),
  createdBy: text('api_key'),
  ...shareNoteColumns,
  password: flag('password'),
  opens: integer('opens'),
  createdAt: time('created_at'),
  expiresAt: time('expires_at'),
  changedAt: optional(time('changed_at')),
};

/** Columns of a share that only its account knows. */
export const hiddenShareColumns = {
  number: integer('seq', 'INTEGER PRIMARY KEY AUTOINCREMENT'),
  state: text<'making' | 'active'>('state'),
  due: time('due'),
};

export const receiptColumns = {
  fileId: text('file_id', 'TEXT PRIMARY KEY'),
  reason: text<DeletionReason>('reason'),
  key: text<KeyFate>('key_fate'),
  pins: json<RemovedPin[]>('pins'),
  shares: json<string[]>('shares'),
  deletedAt: time('deleted_at'),
  due: time('due'),
  awaited: counter('awaited'),
};

export const eventColumns = {
  number: integer('seq', 'INTEGER PRIMARY KEY AUTOINCREMENT'),
  time: time('time'),
  action: text<EventAction>('action'),
  by: optional(text('api_key')),
  subject: text('subject'),
  source: optional(text('source')),
};

/** What an event is about, in SQL: the first word of its action. */
export const eventKind = `substr(action, 1, instr(action, '.') - 1)`;

/** The tables whose columns later versions may add to. */
const described = {
  account: accountColumns,
  account_setting: settingColumns,
  api_key: { ...keyColumns, ...hiddenKeyColumns },
  file: fileColumns,
  file_detail: { ...detailColumns, ...changeColumns },
  upload: uploadColumns,
  share: { ...hiddenShareColumns, ...shareColumns },
  receipt: receiptColumns,
  event: eventColumns,
  key_limit: addedColumns,
  outbox: { requestId: optional(text('request_id')) },
} satisfies Record<string, Columns>;

/**
 * - `account`: one row. `files` and `bytes` count what is ready. `closed_at`: it is deleted, and
 *   waits for its outbox to be empty. `recovery_key` is the recovery key as text, `recovery` the
 *   recovery file, `recovery_hash` the SHA-256 of the secret in it, in hex; null in accounts from
 *   before there was a secret. `backed_up`: a page of its backup was fetched, or it was restored
 *   from one; 1 also in accounts from before this was noted. `replaced`: the public key before the
 *   last rotation.
 * - `api_key`: `id` is the first 16 hex characters of `hash`, the SHA-256 of the key. A revoked key
 *   stays, without `sealed`, so that its descendants can be found. `signer` is the public key of
 *   what it signs with; null in rows of earlier versions.
 * - `file`: `state` is `pending` or `ready`. `bytes` are those on IPFS, from which the size of an
 *   encrypted file follows; its name and type are in its header only. `container`: what the bytes
 *   of a plain file begin like: 1 a container of Sealpin's or age's, 2 a payload without a header,
 *   0 anything else.
 * - `outbox`: messages. For `Pin`: `unrefer` the CID `target`; for `Share`: `unshare` the share
 *   `target`; for KV: `remember` or `forget` the key with the hash `target`; `enlist`, `delist`, or
 *   write the `origins` of the account `target`. `request_id`: of the request from which it
 *   follows.
 * - `idempotency`: `fingerprint` stands for the parameters; `file_id` is the file that results from
 *   it; until that is stored, `expires_at` is the end of its request's lease.
 * - `part`: what an upload has pinned already. `upload_id` is the `file_id` of the pending file,
 *   `id` stands for the part in the references of `Pin`. `state` is `intended` or `pinned`.
 *   `digests` has 32 bytes for each leaf. Released at `due`.
 * - `upload`: an upload that may be continued. `lease` names the request that it belongs to. `tail`
 *   is what the next leaf begins with; `sealed_key`, `sealed_metadata` and `sealed_rest` open with
 *   the API key only, and are overwritten when all bytes have arrived. The alarm looks at a row at
 *   `due`. `request_id`: of the request with the last bytes.
 * - `shown`: the SHA-256 of each leaf of an encrypted upload that was sent and is not part of it
 *   yet, in hex.
 * - `key_limit`: for API keys that have limits (null: none): how many files, bytes, and bytes of
 *   one file; and what is stored that the key, or one that descends from it, stored. `added`: how
 *   many events those added on the day `added_on`, which is counted since 1970.
 * - `share`: `state` is `making` until the object `Share` has the record, then `active`. The alarm
 *   removes a row at `due`. `changed_at`: when its terms were last changed, as the object says.
 * - `file_detail`: what a file may have besides, from when its upload begins: `expires_at`, when it
 *   is deleted; `version` counts its changes; `description` is JSON, for plain files only. Files of
 *   accounts that are older than the table have no row. `rewrapped`: how often its header was
 *   sealed to another pair.
 * - `file_sealed`: details of the file `seq`, sealed to its owner; overwritten before they change
 *   or go.
 * - `file_tag`: `tag` is the HMAC of a tag of the file `seq`, in hex, under a key that is stored
 *   nowhere.
 * - `receipt`: what became of a file that is deleted: `reason` is `deleted` or `expired`,
 *   `key_fate` what became of its key, `pins` of its pins, `shares` the IDs of those that ended
 *   with it, both as JSON. The alarm removes a row at `due`.
 * - `account_setting`: at most one row, what the operator has set: `quota_bytes` (null: no quota),
 *   `disabled`, and `origins`, with spaces between them (null: all that the service allows).
 *   `listed`: the account has been entered in the operator's list.
 * - `denied_file`: files whose CID is on the denylist.
 * - `provisional_file`: files that are removed at `due` unless another upload of their key names
 *   them; `latest` is how far requests of the key postpone that.
 * - `named_file`: the files that one named, which are removed with it.
 * - `rotation`: one row while a rotation runs: the private key before, sealed to the new pair. It
 *   never changes size, so that overwriting it leaves nothing.
 * - `rotation_file`: what is still sealed to the pair before, or has tags under its key: the IDs of
 *   files, and of uploads that are being finished.
 * - `share_file`: the files whose deletion ends a share, in the order in which they were named.
 * - `event`: what happened, for 90 days. `subject` is the ID of the file, key or share that it
 *   happened to. `source`, of what another object reports, is its name there.
 * - `event_removed`: the last event that was removed of each kind and API key, whose names are in
 *   `of`; of all (`*`), and of those whose kinds and keys are not known ('').
 * - `key_usage`: what an API key has used on a day, which is counted since 1970, for 90 days.
 * - `signed_use`: signed URLs that may be used once, and were. `name` is the SHA-256 of their own,
 *   in hex.
 */
const schema = `
  CREATE TABLE account (${definitions(described.account)});
  CREATE TABLE api_key (${definitions(described.api_key)});
  CREATE TABLE file (${definitions(described.file)});
  CREATE INDEX file_cid ON file (cid, seq);
  CREATE INDEX file_due ON file (due) WHERE state = 'pending';
  CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL, target TEXT NOT NULL, service TEXT NOT NULL,
      file_id TEXT NOT NULL,
    due INTEGER NOT NULL, attempts INTEGER NOT NULL, ${definitions(described.outbox)});
  CREATE INDEX outbox_due ON outbox (due);
  CREATE TABLE idempotency (
    api_key TEXT NOT NULL, route TEXT NOT NULL, hash TEXT NOT NULL, fingerprint TEXT NOT NULL, file_id TEXT NOT NULL,
    created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, PRIMARY KEY (api_key, route, hash)) WITHOUT ROWID;
  CREATE INDEX idempotency_file ON idempotency (file_id);
  CREATE INDEX idempotency_expiry ON idempotency (expires_at);
`;

/** Additions for accounts that were created before them. Each statement may run again. */
const additions = `
  CREATE INDEX IF NOT EXISTS outbox_first ON outbox (due) WHERE op <> 'unrefer';
  CREATE TABLE IF NOT EXISTS part (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, upload_id TEXT NOT NULL, cid TEXT NOT NULL,
      service TEXT NOT NULL,
    first_leaf INTEGER NOT NULL, digests BLOB NOT NULL, bytes INTEGER NOT NULL, state TEXT NOT NULL,
      due INTEGER NOT NULL);
  CREATE INDEX IF NOT EXISTS part_upload ON part (upload_id, first_leaf);
  CREATE INDEX IF NOT EXISTS part_due ON part (due);
  CREATE TABLE IF NOT EXISTS upload (${definitions(described.upload)});
  CREATE INDEX IF NOT EXISTS upload_key ON upload (api_key, seq);
  CREATE INDEX IF NOT EXISTS upload_due ON upload (due);
  CREATE INDEX IF NOT EXISTS upload_unfinished ON upload (state) WHERE state IN ('open', 'finishing');
  CREATE TABLE IF NOT EXISTS shown (
    upload_id TEXT NOT NULL, leaf INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (upload_id, leaf)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS key_limit (
    key_id TEXT PRIMARY KEY, max_files INTEGER, max_bytes INTEGER, max_file_bytes INTEGER, files INTEGER NOT NULL,
    bytes INTEGER NOT NULL, ${definitions(described.key_limit)}) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS api_key_invited ON api_key (id) WHERE scopes = 'send' AND revoked_at IS NULL;
  CREATE TABLE IF NOT EXISTS share (${definitions(described.share)});
  CREATE INDEX IF NOT EXISTS share_key ON share (api_key);
  CREATE INDEX IF NOT EXISTS share_due ON share (due);
  CREATE INDEX IF NOT EXISTS share_expiry ON share (expires_at);
  CREATE TABLE IF NOT EXISTS share_file (
    share_id TEXT NOT NULL, file_id TEXT NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (share_id, file_id))
      WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS file_detail (file_id TEXT PRIMARY KEY, ${definitions(described.file_detail)})
    WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS file_name ON file (filename) WHERE filename IS NOT NULL;
  CREATE TABLE IF NOT EXISTS file_tag (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS file_tag_file ON file_tag (seq);
  CREATE INDEX IF NOT EXISTS file_expiry ON file_detail (expires_at) WHERE expires_at IS NOT NULL;
  CREATE TABLE IF NOT EXISTS file_sealed (seq INTEGER PRIMARY KEY, ${definitions(sealedColumns)});
  CREATE TABLE IF NOT EXISTS receipt (${definitions(described.receipt)}) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS receipt_due ON receipt (due);
  CREATE INDEX IF NOT EXISTS share_file_file ON share_file (file_id);
  CREATE TABLE IF NOT EXISTS account_setting (one INTEGER PRIMARY KEY CHECK (one = 1),
    ${definitions(described.account_setting)});
  CREATE TABLE IF NOT EXISTS provisional_file (
    file_id TEXT PRIMARY KEY, api_key TEXT NOT NULL, due INTEGER, latest INTEGER) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS provisional_file_due ON provisional_file (due);
  CREATE INDEX IF NOT EXISTS provisional_file_key ON provisional_file (api_key);
  CREATE TABLE IF NOT EXISTS named_file (named_by TEXT NOT NULL, file_id TEXT NOT NULL, PRIMARY KEY (named_by, file_id))
    WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS denied_file (file_id TEXT PRIMARY KEY) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS event (${definitions(described.event)});
  CREATE UNIQUE INDEX IF NOT EXISTS event_source ON event (source) WHERE source IS NOT NULL;
  CREATE INDEX IF NOT EXISTS event_kind ON event (${eventKind});
  CREATE INDEX IF NOT EXISTS event_key ON event (api_key) WHERE api_key IS NOT NULL;
  CREATE TABLE IF NOT EXISTS event_removed (of TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS key_usage (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, day INTEGER NOT NULL, api_key TEXT NOT NULL, requests INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, UNIQUE (day, api_key));
  CREATE TABLE IF NOT EXISTS signed_use (
    api_key TEXT NOT NULL, name TEXT NOT NULL, expires_at INTEGER NOT NULL, PRIMARY KEY (api_key, name)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS signed_use_expiry ON signed_use (expires_at);
  CREATE TABLE IF NOT EXISTS rotation (one INTEGER PRIMARY KEY CHECK (one = 1), previous BLOB NOT NULL);
  CREATE TABLE IF NOT EXISTS rotation_file (file_id TEXT PRIMARY KEY) WITHOUT ROWID;
`;

/** Creates the tables of a new account. */
export function createTables(sql: SqlStorage): void {
  sql.exec(schema);
  sql.exec(additions);
}

/**
 * Adds to the tables of an account from an earlier version what they lack.
 * @returns whether there is an account
 */
export function upgradeTables(sql: SqlStorage): boolean {
  if (!hasTable(sql, 'account')) return false;
  sql.exec(additions);
  for (const [table, columns] of Object.entries(described)) addColumns(sql, table, columns);
  return true;
}
