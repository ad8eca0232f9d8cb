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
import { activeShares, insertShare, shareColumns, shareRowColumns } from '../shares/share-rows.ts';
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

type ListRow = Record<string, SqlStorageValue>;

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

type ListOptions<T> = {
  letter: string;
  /**
   * Rows of the first items behind a position, in the order of the column `position`: of numbers
   * without leading zeros, or of texts of one length.
   */
  query: string;
  /** Makes an item of its row. */
  show(row: ListRow): T;
  /** Writes the rows of an item. */
  add(sql: SqlStorage, item: T, nowMs: number): void;
};

function section<K extends keyof Lists>(name: K, { letter, query, show, add }: ListOptions<ItemOf<K>>): Section {
  return {
    letter,
    read(sql, page, after, limit) {
      const found = all<ListRow & { position: string | number }>(sql, query, after, limit + 1);
      const taken = found.slice(0, limit);
      // Earlier versions do not know all lists.
      if (taken.length > 0) page[name] = taken.map(show) as Lists[K];
      const last = String(taken.at(-1)?.position ?? after);
      return { count: taken.length, next: found.length > limit ? last : undefined };
    },
    write(sql, page, nowMs) {
      for (const item of page[name] ?? []) add(sql, item, nowMs);
    },
  };
}

const allKeyColumns = { ...keyColumns, ...hiddenKeyColumns };
const limitColumns = {
  files: optional(integer('max_files')),
  bytes: optional(integer('max_bytes')),
  fileBytes: optional(integer('max_file_bytes')),
  storedFiles: integer('files'),
  storedBytes: integer('bytes'),
};
const listOfTexts = json<string[]>('texts');
const signedUseColumns = { apiKey: text('api_key'), name: text('name'), expiresAt: time('expires_at') };

/**
 * Sections in the order of the pages. Shares are the last: once they are restored anybody may open
 * them, which needs their files, and adds events behind those of the backup.
 */
export const sections: readonly Section[] = [
  /**
   * API keys, also revoked ones. What counts for their limits is counted with the files, since
   * pages are of different times.
   */
  section('keys', {
    letter: 'k',
    query: `SELECT api_key.rowid AS position, api_key.*, key_limit.* FROM api_key LEFT JOIN key_limit
      ON key_id = api_key.id WHERE api_key.rowid > CAST(? AS INTEGER) ORDER BY api_key.rowid LIMIT ?`,
    show(row) {
      const { signer, ...key } = shown(allKeyColumns, BackupKey, recordOf(allKeyColumns, row));
      const limits = row['key_id'] === null ? null : recordOf(limitColumns, row);
      return { ...key, ...(signer === null ? {} : { signer }), limits };
    },
    add(sql, { limits, ...key }) {
      insert(sql, 'api_key', rowOf(allKeyColumns, parsed(allKeyColumns, key)));
      if (limits === null) return;
      insert(sql, 'key_limit', {
        key_id: key.id,
        ...rowOf(limitColumns, { ...limits, storedFiles: 0, storedBytes: 0 }),
      });
    },
  }),
  section('files', {
    letter: 'f',
    query: `SELECT *, seq AS position,
        (SELECT json_group_array(tag) FROM file_tag WHERE file_tag.seq = file.seq) AS tags,
        (SELECT json_group_array(named.file_id) FROM named_file AS named WHERE named_by = file.file_id) AS names,
        EXISTS (SELECT 1 FROM denied_file WHERE denied_file.file_id = file.file_id) AS denied,
        EXISTS (SELECT 1 FROM rotation_file WHERE rotation_file.file_id = file.file_id) AS is_behind,
        EXISTS (SELECT 1 FROM provisional_file WHERE provisional_file.file_id = file.file_id) AS is_provisional
      FROM ${files} WHERE state = 'ready' AND seq > CAST(? AS INTEGER) ORDER BY seq LIMIT ?`,
    show(row) {
      const { rewrapped, details, ...file } = shown(wholeFileColumns, BackupFile, recordOf(wholeFileColumns, row));
      const names = listOfTexts.read(row['names'] ?? null);
      return {
        ...file,
        tags: listOfTexts.read(row['tags'] ?? null),
        denied: row['denied'] === 1,
        // Earlier versions know none of these members.
        ...(details !== null && { details }),
        ...(rewrapped > 0 && { rewrapped }),
        ...(row['is_behind'] === 1 && { isBehind: true as const }),
        ...(row['is_provisional'] === 1 && { isProvisional: true as const }),
        ...(names.length > 0 && { names }),
      };
    },
    add(sql, file, nowMs) {
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
    },
  }),
  /** The receipts of deleted files, but for those that were deleted after their page was read. */
  section('receipts', {
    letter: 'r',
    query: 'SELECT *, file_id AS position FROM receipt WHERE file_id > ? ORDER BY file_id LIMIT ?',
    show: (row) => shown(receiptColumns, BackupReceipt, recordOf(receiptColumns, row)),
    add(sql, receipt) {
      if (exists(sql, 'file WHERE file_id = ?', receipt.fileId)) return;
      const row = parsed(receiptColumns, receipt);
      // What is scheduled stays so: another service had to remove it.
      insert(sql, 'receipt', rowOf(receiptColumns, { ...row, due: row.deletedAt + receiptDays * dayMs, awaited: 1 }));
    },
  }),
  /** Events, under their numbers, so that cursors go on. */
  section('events', {
    letter: 'e',
    query: 'SELECT *, seq AS position FROM event WHERE seq > CAST(? AS INTEGER) ORDER BY seq LIMIT ?',
    show: (row) => shown(eventColumns, BackupEvent, recordOf(eventColumns, row)),
    add: (sql, event) => insert(sql, 'event', rowOf(eventColumns, parsed(eventColumns, event))),
  }),
  /** Signed URLs that were used, which would work once more otherwise. */
  section('signedUses', {
    letter: 'u',
    query: `SELECT *, api_key || name AS position FROM signed_use
      WHERE (api_key, name) > (substr(?1, 1, 16), substr(?1, 17)) ORDER BY api_key, name LIMIT ?2`,
    show: (row) => shown(signedUseColumns, BackupSignedUse, recordOf(signedUseColumns, row)),
    add: (sql, use) => insert(sql, 'signed_use', rowOf(signedUseColumns, parsed(signedUseColumns, use))),
  }),
  /** Shares whose objects have their records. */
  section('shares', {
    letter: 's',
    query: `SELECT *, seq AS position, ${activeShares} AND seq > CAST(? AS INTEGER) ORDER BY seq LIMIT ?`,
    show(row) {
      const { number, ...share } = recordOf(shareRowColumns, row);
      const { changedAt, ...item } = shown(shareColumns, BackupShare, share);
      // Earlier versions do not know the member.
      return { number, ...item, ...(changedAt !== null && { changedAt }) };
    },
    add(sql, { number, ...share }) {
      const row = parsed(shareColumns, share);
      insertShare(sql, { ...row, number, state: 'active', due: row.expiresAt + shareRetentionMs });
      // It may have been made after the pages of its files were read.
      const isGuests = exists(sql, `api_key WHERE id = ? AND scopes = 'send'`, share.createdBy);
      for (const fileId of isGuests ? share.files : []) new ProvisionalFiles(sql).remove(fileId);
    },
  }),
];
