/** The parts of an account's backup: lists of rows, each in an order of its own. */
import {
  BackupEvent,
  BackupFile,
  BackupKey,
  BackupReceipt,
  BackupShare,
  BackupSignedUse,
  type BackupPage,
  receiptDays,
} from '../../../../shared/api.ts';
import { dayMs } from '../../../../shared/time.ts';
import { integer, json, optional, parsed, recordOf, rowOf, shown, text, time } from '../../columns.ts';
import { shareRetentionMs } from '../../share/share.ts';
import { all, exists, insert } from '../../sql.ts';
import { rows as files, wholeFileColumns } from '../files/file-rows.ts';
import { ProvisionalFiles } from '../files/provisional-files.ts';
import { KeyLimits } from '../keys/key-limits.ts';
import { activeShares, insertShare, shareColumns } from '../shares/share-rows.ts';
import {
  changeColumns,
  detailColumns,
  eventColumns,
  fileColumns,
  hiddenKeyColumns,
  keyColumns,
  receiptColumns,
  sealedColumns,
} from '../tables.ts';

/** A share without what only its object knows. */
export type BackupShareRow = Omit<BackupShare, 'state' | 'opened' | 'record'>;

/** The lists of a page, as the account's object has them. */
export type Lists = Pick<BackupPage, 'keys' | 'files' | 'receipts' | 'events' | 'signedUses'> & {
  shares: BackupShareRow[];
};
type ItemOf<K extends keyof Lists> = NonNullable<Lists[K]>[number];

/**
 * An item, and the position behind which the next one is. Positions are numbers without leading
 * zeros, or have one length.
 */
type Placed<T> = { position: string; item: T };

/** One of the lists. */
export type Section = {
  /** Letter that cursors into it begin with. */
  letter: string;
  /**
   * Puts at most `limit` items behind a position ('' is the beginning) on a page.
   * @returns how many, and where more would begin
   */
  read(sql: SqlStorage, page: Lists, after: string, limit: number): { count: number; next: string | undefined };
  /** Writes the rows of a page, in a transaction of the caller's. */
  write(sql: SqlStorage, page: Lists, nowMs: number): void;
};

/**
 * Makes a section.
 * @param rows reads the items behind a position, in their order
 * @param insert writes the rows of one
 */
function section<K extends keyof Lists>(
  name: K,
  letter: string,
  rows: (sql: SqlStorage, after: string, limit: number) => Placed<ItemOf<K>>[],
  insertRow: (sql: SqlStorage, item: ItemOf<K>, nowMs: number) => void,
): Section {
  return {
    letter,
    read(sql, page, after, limit) {
      const found = rows(sql, after, limit + 1);
      const taken = found.slice(0, limit);
      // Earlier versions do not know all lists.
      if (taken.length > 0) page[name] = taken.map(({ item }) => item) as Lists[K];
      return { count: taken.length, next: found.length > limit ? (taken.at(-1)?.position ?? after) : undefined };
    },
    write(sql, page, nowMs) {
      for (const item of page[name] ?? []) insertRow(sql, item, nowMs);
    },
  };
}

/**
 * API keys, also revoked ones. What counts for their limits is counted with the files, since pages
 * are of different times.
 */
const keySection = section('keys', 'k', keyRows, (sql, { limits, ...key }) => {
  insert(sql, 'api_key', rowOf(allKeyColumns, parsed(allKeyColumns, key)));
  if (limits === null) return;
  insert(sql, 'key_limit', { key_id: key.id, ...rowOf(limitColumns, { ...limits, storedFiles: 0, storedBytes: 0 }) });
});

const allKeyColumns = { ...keyColumns, ...hiddenKeyColumns };
const limitColumns = {
  files: optional(integer('max_files')),
  bytes: optional(integer('max_bytes')),
  fileBytes: optional(integer('max_file_bytes')),
  storedFiles: integer('files'),
  storedBytes: integer('bytes'),
};

function keyRows(sql: SqlStorage, after: string, limit: number): Placed<BackupKey>[] {
  return all<Record<string, SqlStorageValue> & { position: number }>(
    sql,
    `SELECT api_key.rowid AS position, api_key.*, key_limit.* FROM api_key LEFT JOIN key_limit ON key_id = api_key.id
     WHERE api_key.rowid > ? ORDER BY api_key.rowid LIMIT ?`,
    Number(after),
    limit,
  ).map((row) => {
    const { signer, ...key } = shown(allKeyColumns, BackupKey, recordOf(allKeyColumns, row));
    const limits = row['key_id'] === null ? null : recordOf(limitColumns, row);
    return { position: String(row.position), item: { ...key, ...(signer === null ? {} : { signer }), limits } };
  });
}

const fileSection = section('files', 'f', fileRows, (sql, file, nowMs) => {
  const { number, fileId, tags, denied, isBehind, isProvisional, names = [], createdBy, bytes } = file;
  insert(sql, 'file', { ...rowOf(fileColumns, parsed(fileColumns, file)), state: 'ready' });
  new KeyLimits(sql).count(createdBy, 1, bytes);
  const columns = { ...detailColumns, ...changeColumns };
  const details = rowOf(columns, parsed(columns, file));
  if (Object.values(details).some((value) => value !== null && value !== 0))
    insert(sql, 'file_detail', { file_id: fileId, ...details });
  if (typeof file.details === 'string')
    insert(sql, 'file_sealed', { seq: number, ...rowOf(sealedColumns, parsed(sealedColumns, file)) });
  for (const tag of tags) insert(sql, 'file_tag', { tag, seq: number });
  if (denied) insert(sql, 'denied_file', { file_id: fileId });
  if (isBehind === true) insert(sql, 'rotation_file', { file_id: fileId });
  const provisional = new ProvisionalFiles(sql);
  for (const name of names) {
    insert(sql, 'named_file', { named_by: fileId, file_id: name });
    // It may have been named after its own page was read.
    provisional.remove(name);
  }
  if (isProvisional !== true) return;
  // Its time begins again: its sender could not go on meanwhile.
  provisional.add(fileId, createdBy);
  provisional.begin(fileId, nowMs);
});

function fileRows(sql: SqlStorage, after: string, limit: number): Placed<BackupFile>[] {
  const texts = json<string[]>('texts');
  return all(
    sql,
    `SELECT *, (SELECT json_group_array(tag) FROM file_tag WHERE file_tag.seq = file.seq) AS tags,
       (SELECT json_group_array(named.file_id) FROM named_file AS named WHERE named_by = file.file_id) AS names,
       EXISTS (SELECT 1 FROM denied_file WHERE denied_file.file_id = file.file_id) AS denied,
       EXISTS (SELECT 1 FROM rotation_file WHERE rotation_file.file_id = file.file_id) AS is_behind,
       EXISTS (SELECT 1 FROM provisional_file WHERE provisional_file.file_id = file.file_id) AS is_provisional
     FROM ${files} WHERE state = 'ready' AND seq > ? ORDER BY seq LIMIT ?`,
    Number(after),
    limit,
  ).map((row) => {
    const { rewrapped, details, ...file } = shown(wholeFileColumns, BackupFile, recordOf(wholeFileColumns, row));
    const names = texts.read(row['names'] ?? null);
    const item = {
      ...file,
      tags: texts.read(row['tags'] ?? null),
      denied: row['denied'] === 1,
      // Earlier versions know none of these members.
      ...(details !== null && { details }),
      ...(rewrapped > 0 && { rewrapped }),
      ...(row['is_behind'] === 1 && { isBehind: true as const }),
      ...(row['is_provisional'] === 1 && { isProvisional: true as const }),
      ...(names.length > 0 && { names }),
    };
    return { position: String(file.number), item };
  });
}

/** The receipts of deleted files, but for those that were deleted after their page was read. */
const receiptSection = section('receipts', 'r', receiptRows, (sql, receipt) => {
  if (exists(sql, 'file WHERE file_id = ?', receipt.fileId)) return;
  const row = parsed(receiptColumns, receipt);
  // What is scheduled stays so: another service had to remove it.
  insert(sql, 'receipt', rowOf(receiptColumns, { ...row, due: row.deletedAt + receiptDays * dayMs, awaited: 1 }));
});

function receiptRows(sql: SqlStorage, after: string, limit: number): Placed<BackupReceipt>[] {
  return all(sql, 'SELECT * FROM receipt WHERE file_id > ? ORDER BY file_id LIMIT ?', after, limit).map((row) => {
    const item = shown(receiptColumns, BackupReceipt, recordOf(receiptColumns, row));
    return { position: item.fileId, item };
  });
}

/** Events, under their numbers, so that cursors go on. */
const eventSection = section('events', 'e', eventRows, (sql, event) => {
  insert(sql, 'event', rowOf(eventColumns, parsed(eventColumns, event)));
});

function eventRows(sql: SqlStorage, after: string, limit: number): Placed<BackupEvent>[] {
  return all(sql, 'SELECT * FROM event WHERE seq > ? ORDER BY seq LIMIT ?', Number(after), limit).map((row) => {
    const item = shown(eventColumns, BackupEvent, recordOf(eventColumns, row));
    return { position: String(item.number), item };
  });
}

/** Signed URLs that were used, which would work once more otherwise. */
const signedUseSection = section('signedUses', 'u', signedUseRows, (sql, use) => {
  insert(sql, 'signed_use', rowOf(signedUseColumns, parsed(signedUseColumns, use)));
});

const signedUseColumns = { apiKey: text('api_key'), name: text('name'), expiresAt: time('expires_at') };

function signedUseRows(sql: SqlStorage, after: string, limit: number): Placed<BackupSignedUse>[] {
  const query = `SELECT * FROM signed_use WHERE (api_key, name) > (substr(?1, 1, 16), substr(?1, 17))
    ORDER BY api_key, name LIMIT ?2`;
  return all(sql, query, after, limit).map((row) => {
    const item = shown(signedUseColumns, BackupSignedUse, recordOf(signedUseColumns, row));
    return { position: item.apiKey + item.name, item };
  });
}

/** Shares whose objects have their records. */
const shareSection = section('shares', 's', shareRows, (sql, { number, ...share }) => {
  const row = parsed(shareColumns, share);
  insertShare(sql, { ...row, number, state: 'active', due: row.expiresAt + shareRetentionMs });
  // It may have been made after the pages of its files were read.
  const isGuests = exists(sql, `api_key WHERE id = ? AND scopes = 'send'`, share.createdBy);
  for (const fileId of isGuests ? share.files : []) new ProvisionalFiles(sql).remove(fileId);
});

function shareRows(sql: SqlStorage, after: string, limit: number): Placed<BackupShareRow>[] {
  return activeShares(sql, 'seq > ? ORDER BY seq LIMIT ?', Number(after), limit).map((share) => {
    const { number } = share;
    const { changedAt, ...item } = shown(shareColumns, BackupShare, share);
    // Earlier versions do not know the member.
    return { position: String(number), item: { number, ...item, ...(changedAt !== null && { changedAt }) } };
  });
}

/**
 * Sections in the order of the pages. Shares are the last: once they are restored anybody may open
 * them, which needs their files, and adds events behind those of the backup.
 */
export const sections: readonly Section[] = [
  keySection,
  fileSection,
  receiptSection,
  eventSection,
  signedUseSection,
  shareSection,
];
