/** API keys and files of an account's backup. */
import type { BackupFile, BackupKey, Scope } from '../../../../shared/api.ts';
import { bytesOf, msOf, optionalMs, optionalTime, section, textOf, timeOf, type Placed } from './backup-section.ts';
import { kindCode } from '../files/beginning.ts';
import { recordOf, type FileRow } from '../files/file-rows.ts';
import type { KeyRow } from '../keys/key-registry.ts';

type BackedUpKeyRow = KeyRow & {
  rowid: number;
  key_id: string | null;
  files: number | null;
  bytes: number | null;
};

/** `tags` as a list in JSON. */
type BackedUpFileRow = FileRow & { tags: string; denied: number };

/** API keys, also revoked ones. */
export const keySection = section('keys', 'k', keyRows, insertKey);
/** Files that are stored. */
export const fileSection = section('files', 'f', fileRows, insertFile);

function keyRows(sql: SqlStorage, after: string, limit: number): Placed<BackupKey>[] {
  return sql
    .exec<BackedUpKeyRow>(
      `SELECT api_key.rowid, api_key.*, key_limit.* FROM api_key LEFT JOIN key_limit ON key_id = api_key.id
       WHERE api_key.rowid > ? ORDER BY api_key.rowid LIMIT ?`,
      Number(after),
      limit,
    )
    .toArray()
    .map((row) => ({ position: String(row.rowid), item: keyOf(row) }));
}

function fileRows(sql: SqlStorage, after: string, limit: number): Placed<BackupFile>[] {
  return sql
    .exec<BackedUpFileRow>(
      `SELECT *, (SELECT json_group_array(tag) FROM file_tag WHERE file_tag.seq = file.seq) AS tags,
         EXISTS (SELECT 1 FROM denied_file WHERE denied_file.file_id = file.file_id) AS denied
       FROM file LEFT JOIN file_detail USING (file_id) WHERE state = 'ready' AND seq > ? ORDER BY seq LIMIT ?`,
      Number(after),
      limit,
    )
    .toArray()
    .map((row) => ({ position: String(row.seq), item: fileOf(row) }));
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
    ...(row.signer === null ? {} : { signer: textOf(row.signer) }),
    limits:
      row.key_id === null
        ? null
        : { files, bytes, fileBytes, storedFiles: row.files ?? 0, storedBytes: row.bytes ?? 0 },
  };
}

function fileOf(row: BackedUpFileRow): BackupFile {
  const record = recordOf(row);
  return {
    ...record,
    number: row.seq,
    header: textOf(row.header),
    createdAt: timeOf(record.createdAt),
    expiresAt: optionalTime(record.expiresAt),
    changedAt: optionalTime(record.changedAt),
    description: row.description,
    tags: JSON.parse(row.tags) as string[],
    denied: row.denied === 1,
  };
}

function insertKey(sql: SqlStorage, key: BackupKey): void {
  sql.exec(
    `INSERT INTO api_key (id, hash, label, scopes, created_at, expires_at, created_by, revoked_at, sealed, signer)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key.id,
    key.hash,
    key.label,
    key.scopes.join(' '),
    msOf(key.createdAt),
    optionalMs(key.expiresAt),
    key.createdBy,
    optionalMs(key.revokedAt),
    bytesOf(key.sealed),
    bytesOf(key.signer ?? null),
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
    kindCode(file.beginning),
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
