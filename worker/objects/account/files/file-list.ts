/** Pages of the files of an account, with filters. */
import type { StoredFile } from '../../../../shared/api.ts';
import { recordsOf } from '../../columns.ts';
import { first } from '../../sql.ts';
import { isReady, rows, wholeFileColumns, type FileRecord } from './file-rows.ts';

/**
 * Number of rows that one request reads, so that a filter that matches nothing does not hold up the
 * account.
 */
const scannedRows = 5000;

/** Bytes on IPFS, both inclusive. */
type Bounds = { min: number; max: number };

/** Filters of a list; times in ms, exclusive. Undefined ones do not count. */
export type FileFilter = {
  cid?: string | undefined;
  mode?: StoredFile['mode'] | undefined;
  createdAfter?: number | undefined;
  createdBefore?: number | undefined;
  /** Bounds by mode, since encrypted files have more bytes on IPFS than in them. */
  bytes?: Record<StoredFile['mode'], Bounds> | undefined;
  /** A media type without parameters, in lower case. The rows of encrypted files have none. */
  contentType?: string | undefined;
  /** Prefix of the name. The rows of encrypted files have none. */
  name?: string | undefined;
  /** Search tags of which a file has one, under each key that may be in use. */
  tags?: readonly string[] | undefined;
  /** The ID of an API key. */
  createdBy?: string | undefined;
};

/** `after` is a cursor, undefined for the first page. `ascending`: the oldest first. */
export type PageOptions = { after: number | undefined; limit: number; ascending: boolean; filter: FileFilter };

/** `next` is the cursor of the next page, where there may be one. */
export type FilePage = { files: FileRecord[]; next: number | undefined };

type Condition = [text: string, ...values: SqlStorageValue[]];

/**
 * A page of ready files. It has fewer files than `limit`, even none, where the request has looked
 * at as many rows as it may: `next` then goes on behind them.
 */
export function pageOfFiles(sql: SqlStorage, nowMs: number, page: PageOptions): FilePage {
  const { after, limit, ascending, filter } = page;
  const [compare, order, last, start] = ascending
    ? ['>', 'ASC', 'max', 0]
    : ['<', 'DESC', 'min', Number.MAX_SAFE_INTEGER];
  const behind = after ?? start;
  const within: Condition[] = [
    [`seq ${compare} ?`, behind],
    ...given(filter.cid, (cid) => ['cid = ?', cid]),
    ...given(filter.tags, (tags) => [
      `seq IN (SELECT seq FROM file_tag WHERE tag IN (${tags.map(() => '?').join()}) AND seq ${compare} ?
        ORDER BY seq ${order} LIMIT ${scannedRows})`,
      ...tags,
      behind,
    ]),
  ];
  const window = `WHERE ${conditionsText(within)} ORDER BY seq ${order} LIMIT ${scannedRows}`;
  const matching: Condition[] = [[isReady, nowMs], ...conditionsOf(filter)];
  const query = `SELECT * FROM (SELECT * FROM ${rows} ${window}) WHERE ${conditionsText(matching)}
    ORDER BY seq ${order} LIMIT ?`;
  const found = recordsOf(sql, wholeFileColumns, query, ...valuesOf(within), ...valuesOf(matching), limit + 1);
  const files = found.slice(0, limit);
  if (found.length > limit) return { files, next: files.at(-1)?.number };
  const scan = `SELECT count(*) AS count, ${last}(seq) AS last FROM (SELECT seq FROM file ${window})`;
  const scanned = first<{ count: number; last: number | null }>(sql, scan, ...valuesOf(within));
  return { files, next: (scanned?.count ?? 0) < scannedRows ? undefined : (scanned?.last ?? undefined) };
}

function conditionsOf({ mode, createdAfter, createdBefore, bytes, contentType, name, createdBy }: FileFilter) {
  return [
    ...given(mode, (value) => ['mode = ?', value]),
    ...given(createdAfter, (value) => ['created_at > ?', value]),
    ...given(createdBefore, (value) => ['created_at < ?', value]),
    ...given(bytes?.plain, ({ min, max }) => [`(mode = 'encrypted' OR bytes BETWEEN ? AND ?)`, min, max]),
    ...given(bytes?.encrypted, ({ min, max }) => [`(mode = 'plain' OR bytes BETWEEN ? AND ?)`, min, max]),
    // A type may have parameters, which begin with a semicolon (RFC 9110 section 8.3.1).
    ...given(contentType, (value) => [
      `rtrim(lower(substr(content_type, 1, coalesce(nullif(instr(content_type, ';'), 0) - 1,
        length(content_type))))) = ?`,
      value,
    ]),
    ...given(name, (value) => ['substr(filename, 1, length(?)) = ?', value, value]),
    ...given(createdBy, (value) => ['created_by = ?', value]),
  ];
}

function given<T>(value: T | undefined, condition: (value: T) => Condition): Condition[] {
  return value === undefined ? [] : [condition(value)];
}

function conditionsText(conditions: readonly Condition[]): string {
  return conditions.map(([text]) => text).join(' AND ');
}

function valuesOf(conditions: readonly Condition[]): SqlStorageValue[] {
  return conditions.flatMap(([, ...values]) => values);
}
