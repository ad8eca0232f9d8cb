/** The parts of an account's backup: lists of rows, each in an order of its own. */
import type { BackupPage, BackupShare } from '../../../../shared/api.ts';

/** A share without what only its object knows. */
export type BackupShareRow = Omit<BackupShare, 'state' | 'opened' | 'record'>;

/** The lists of a page, as the account's object has them. */
export type Lists = Pick<BackupPage, 'keys' | 'files' | 'receipts' | 'events'> & { shares: BackupShareRow[] };

/** An item, and the position behind which the next one is. Positions are numbers without leading zeros, or have one length. */
export type Placed<T> = { position: string; item: T };

/** One of the lists. */
export type Section = {
  /** Letter that cursors into it begin with. */
  letter: string;
  /** Puts at most `limit` items behind a position ('' is the beginning) on a page. @returns how many, and where more would begin */
  read(sql: SqlStorage, page: Lists, after: string, limit: number): { count: number; next: string | undefined };
  /** Writes the rows of a page, in a transaction of the caller's. */
  write(sql: SqlStorage, page: Lists): void;
};

/**
 * Makes a section.
 * @param rows reads the items behind a position, in their order
 * @param insert writes the rows of one
 */
export function section<K extends keyof Lists>(
  name: K,
  letter: string,
  rows: (sql: SqlStorage, after: string, limit: number) => Placed<Lists[K][number]>[],
  insert: (sql: SqlStorage, item: Lists[K][number]) => void,
): Section {
  return {
    letter,
    read(sql, page, after, limit) {
      const found = rows(sql, after, limit + 1);
      const shown = found.slice(0, limit);
      page[name] = shown.map(({ item }) => item) as Lists[K];
      return { count: shown.length, next: found.length > limit ? (shown.at(-1)?.position ?? after) : undefined };
    },
    write(sql, page) {
      for (const item of page[name]) insert(sql, item);
    },
  };
}

export const timeOf = (ms: number): string => new Date(ms).toISOString();
export const optionalTime = (ms: number | null): string | null => (ms === null ? null : timeOf(ms));
export const msOf = (time: string): number => Date.parse(time);
export const optionalMs = (time: string | null): number | null => (time === null ? null : msOf(time));
export const textOf = (bytes: ArrayBuffer | null): string | null =>
  bytes === null ? null : new Uint8Array(bytes).toBase64();
export const bytesOf = (text: string | null): Uint8Array | null => (text === null ? null : Uint8Array.fromBase64(text));
