/** The limits of API keys, and what counts for them. */
import { err, type Failure } from '../../result.ts';
import { StorageRows } from '../../storage-rows.ts';
import { all, insert, list } from '../../sql.ts';
import { leftBeside, totalBytes, type Promised, type Reserved } from './reserved.ts';

/** Limits of a key: files, their bytes on IPFS altogether, and bytes of one file. */
export type Limits = { files?: number | undefined; bytes?: number | undefined; fileBytes?: number | undefined };

/**
 * Amounts that a key may still store; undefined if nothing limits them. `bytes`: altogether;
 * `fileBytes`: in one file, by the limits of keys; `accountBytes`: by the quota of the account, and
 * for a key without `read` by the limits of the keys that it descends from.
 */
export type Allowance = {
  files: number | undefined;
  bytes: number | undefined;
  fileBytes: number | undefined;
  accountBytes: number | undefined;
  /** Tells that the key is that of an invitation, whose holder learns nothing of the account. */
  isGuest: boolean;
};

/** An allowance that the smallest file exceeds, in bytes. */
const noFile = -1;

/** The columns of limits in a key's row; null: no limit, or a key without any. */
export type LimitColumns = { max_files: number | null; max_bytes: number | null; max_file_bytes: number | null };

/** Amounts set aside: announced by unfinished uploads, and promised to invitations. */
export type Taken = { reserved: readonly Reserved[]; promised: readonly Promised[]; isForInvitation?: boolean };

/**
 * Keys, a list in JSON, and those that they descend from: what a key stores counts for all of them,
 * so that no key exceeds its limits by others.
 */
const line = `WITH RECURSIVE line(key, id) AS (SELECT value, value FROM json_each(?1)
  UNION SELECT line.key, created_by FROM api_key JOIN line ON api_key.id = line.id WHERE created_by IS NOT NULL)`;

/** The limits in a key's row; undefined for a key without any. */
export function limitsOf(row: LimitColumns): Limits | undefined {
  const { max_files: files, max_bytes: bytes, max_file_bytes: fileBytes } = row;
  if (files === null && bytes === null && fileBytes === null) return undefined;
  return { files: files ?? undefined, bytes: bytes ?? undefined, fileBytes: fileBytes ?? undefined };
}

/**
 * Checks the limits of a new key against its issuer's.
 * @returns `forbidden` where one of them is higher, or missing
 */
export function exceedsLimits(issuer: Limits = {}, issued: Limits = {}): Failure | undefined {
  for (const name of ['files', 'bytes', 'fileBytes'] as const) {
    const most = issuer[name];
    if (most !== undefined && (issued[name] ?? Infinity) > most)
      return err('forbidden', `the new key would exceed the limit of yours: limits.${name} is ${most}`);
  }
  return undefined;
}

/**
 * Checks that there is as much left as a new invitation is promised.
 * @param allowance of its issuer, for an invitation
 * @param seesUsage whether the issuer is told what the account uses
 * @returns `quota_exceeded`
 */
export function exceedsPromise(
  { files = Infinity, bytes = Infinity, accountBytes = Infinity }: Allowance,
  promised: Limits = {},
  seesUsage: boolean,
): Failure | undefined {
  const { files: ofFiles = 0, bytes: ofBytes = 0 } = promised;
  const shown = (left: number): string => (seesUsage ? `${Math.max(0, left)}` : 'less');
  if (ofFiles > files)
    return cannotPromise(`limits.files is ${ofFiles}, and the limits of your key leave ${shown(files)}`);
  if (ofBytes > bytes)
    return cannotPromise(`limits.bytes is ${ofBytes}, and the limits of your key leave ${shown(bytes)}`);
  if (ofBytes > accountBytes)
    return cannotPromise(`limits.bytes is ${ofBytes}, and the quota of the account leaves ${shown(accountBytes)}`);
  return undefined;
}

function cannotPromise(detail: string): Failure {
  const hint =
    'set lower limits, revoke an invitation, delete files, or ask the operator of the service for a higher quota';
  return { ...err('quota_exceeded', `an invitation is promised its limits: ${detail}`), hint };
}

/**
 * Checks that there is room for a file.
 * @param bytes of it, as many as are known
 * @returns `quota_exceeded`
 */
export function exceedsAllowance(
  { files, fileBytes, accountBytes, isGuest }: Omit<Allowance, 'bytes'>,
  bytes: number,
): Failure | undefined {
  const least = Math.min(fileBytes ?? Infinity, accountBytes ?? Infinity);
  if (isGuest) return (files ?? 1) < 1 || bytes > least ? guestFull() : undefined;
  if (files !== undefined && files < 1)
    return full('the API key has stored, or begun to, as many files as it may have');
  if (fileBytes !== undefined && bytes > fileBytes)
    return full(`the limits of the API key leave ${fileBytes} bytes for a file`);
  // Without a number: a key without `read` does not see what the account uses.
  const reached = 'the account has reached its quota, or a key that made yours its limits';
  if (accountBytes !== undefined && bytes > accountBytes) return { ...err('quota_exceeded', reached), hint: overQuota };
  return undefined;
}

const overQuota =
  'delete files, revoke invitations, whose limits are set aside, or ask the operator of the service for a higher quota';

function full(detail: string): Failure {
  return { ...err('quota_exceeded', detail), hint: 'delete what it stored before, or use a key with higher limits' };
}

/** The same whichever limit it is, of the invitation or of what it descends from. */
function guestFull(): Failure {
  const hint = 'take a link back, or ask who invited you';
  return { ...err('quota_exceeded', 'this invitation cannot store more now'), hint };
}

/** The limits in an object's storage. */
export class KeyLimits extends StorageRows {
  /** Limits a new key. */
  add(id: string, { files, bytes, fileBytes }: Limits): void {
    const most = { max_files: files ?? null, max_bytes: bytes ?? null, max_file_bytes: fileBytes ?? null };
    insert(this.sql, 'key_limit', { key_id: id, ...most, files: 0, bytes: 0 });
  }

  /**
   * Returns what a key may still store besides what is taken, by its own limits and those of its
   * ancestors. Without a number for a key without `read` where what others store counts in it.
   * @param accountBytes by the quota of the account; Infinity without one
   */
  allowance(id: string, taken: Taken, accountBytes: number): Allowance {
    const query = `${line} SELECT key_id, max_files - files AS files, max_bytes - bytes AS bytes, max_file_bytes AS file
      FROM key_limit WHERE key_id IN (SELECT id FROM line)`;
    type Left = { key_id: string; files: number | null; bytes: number | null; file: number | null };
    const limits = all<Left>(this.sql, query, JSON.stringify([id]));
    const lines = limits.length === 0 ? undefined : this.#linesOf([...taken.reserved, ...taken.promised]);
    const allowance = { files: Infinity, bytes: Infinity, fileBytes: Infinity, accountBytes };
    const scopes = list<string>(this.sql, 'SELECT scopes FROM api_key WHERE id = ?', id)[0]?.split(' ') ?? [];
    const isExact = taken.isForInvitation === true || scopes.includes('read');
    const by = taken.isForInvitation === true ? undefined : id;
    for (const limit of limits) {
      const counts = ({ apiKey }: { apiKey: string }): boolean => lines?.get(apiKey)?.has(limit.key_id) === true;
      const counted = taken.reserved.filter(counts);
      // An invitation's own limits are what it was promised.
      const promised = taken.promised.filter((each) => counts(each) && each.apiKey !== limit.key_id);
      const files = leftBeside(promised, 'files', (limit.files ?? Infinity) - counted.length, by);
      const bytes = leftBeside(promised, 'bytes', (limit.bytes ?? Infinity) - totalBytes(counted), by);
      if (!isExact && limit.key_id !== id) {
        const most = files < 1 ? noFile : Math.min(bytes, limit.file ?? Infinity);
        allowance.accountBytes = Math.min(allowance.accountBytes, most);
        continue;
      }
      allowance.files = Math.min(allowance.files, files);
      allowance.bytes = Math.min(allowance.bytes, bytes);
      allowance.fileBytes = Math.min(allowance.fileBytes, limit.file ?? Infinity, bytes);
    }
    const left = (count: number): number | undefined => (count === Infinity ? undefined : Math.max(0, count));
    return {
      files: left(allowance.files),
      bytes: left(allowance.bytes),
      fileBytes: left(allowance.fileBytes),
      accountBytes: allowance.accountBytes === Infinity ? undefined : allowance.accountBytes,
      isGuest: scopes.includes('send'),
    };
  }

  /** Finds the keys for which counts what each of these keys stores. */
  #linesOf(of: readonly { apiKey: string }[]): Map<string, ReadonlySet<string>> {
    const keys = JSON.stringify([...new Set(of.map(({ apiKey }) => apiKey))]);
    const rows = all<{ key: string; id: string }>(this.sql, `${line} SELECT key, id FROM line`, keys);
    const lines = Map.groupBy(rows, ({ key }) => key);
    return new Map([...lines].map(([key, found]) => [key, new Set(found.map(({ id }) => id))]));
  }

  /** Counts a file that was stored (1) or deleted (-1), in a transaction of the caller's. */
  count(id: string, sign: 1 | -1, bytes: number): void {
    const counted = 'UPDATE key_limit SET files = files + ?2, bytes = bytes + ?3 WHERE key_id IN (SELECT id FROM line)';
    this.sql.exec(`${line} ${counted}`, JSON.stringify([id]), sign, sign * bytes);
  }
}
