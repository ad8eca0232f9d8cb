/** The row of an account, with its recovery file. */
import type { Recovery } from './keys/recovery-file.ts';
import { createTables, upgradeTables } from './tables.ts';

/** `recoveryKey`: the public key of the account's recovery, as text. `createdAt` in ms. */
export type AccountRecord = {
  id: string;
  label: string;
  spki: Uint8Array;
  recoveryKey: string | null;
  createdAt: number;
};

/** Number of ready files, and their bytes on IPFS. */
export type Usage = { files: number; bytes: number };

/** `key`: the recovery key as text. `secretHash` is null where an older version wrote the file, without a secret. */
export type StoredRecovery = { file: Uint8Array; key: string; secretHash: string | null };

type AccountColumns = {
  id: string;
  label: string;
  spki: ArrayBuffer;
  recovery_key: string | null;
  recovery: ArrayBuffer | null;
  recovery_hash: string | null;
  created_at: number;
  closed_at: number | null;
};

/** The account in an object's storage. Objects exist for every name, most of them without an account. */
export class AccountRow {
  readonly #sql: SqlStorage;
  #id: string | undefined;
  #open: AccountRecord | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#load();
  }

  /** The ID, also of a deleted account whose outbox is not empty yet. */
  get id(): string | undefined {
    return this.#id;
  }

  /** The account, unless it was never created, or is deleted. */
  get open(): AccountRecord | undefined {
    return this.#open;
  }

  /** Creates the tables, and writes the row. */
  create(account: AccountRecord): void {
    createTables(this.#sql);
    this.#sql.exec(
      'INSERT INTO account (id, label, spki, recovery_key, created_at, files, bytes, backed_up) VALUES (?, ?, ?, ?, ?, 0, 0, 0)',
      account.id,
      account.label,
      account.spki,
      account.recoveryKey,
      account.createdAt,
    );
  }

  usage(): Usage {
    return this.#sql.exec<Usage>('SELECT files, bytes FROM account').one();
  }

  rename(label: string): void {
    this.#sql.exec('UPDATE account SET label = ?', label);
  }

  /** The recovery file; undefined where the account has no recovery key. */
  recovery(): StoredRecovery | undefined {
    const {
      recovery,
      recovery_key: key,
      recovery_hash: hash,
    } = this.#sql.exec('SELECT * FROM account').one() as AccountColumns;
    return recovery === null || key === null ? undefined : { file: new Uint8Array(recovery), key, secretHash: hash };
  }

  replaceRecovery(next: Recovery): void {
    this.#sql.exec('UPDATE account SET recovery = ?, recovery_hash = ?', next.file, next.secretHash);
  }

  /** Notes that a backup of the account is about to leave. */
  markBackedUp(): void {
    this.#sql.exec('UPDATE account SET backed_up = 1 WHERE backed_up = 0');
  }

  /** Marks the account as deleted, its recovery file overwritten with zeros first. */
  close(nowMs: number): void {
    this.#sql.exec('UPDATE account SET recovery = zeroblob(length(recovery)) WHERE recovery IS NOT NULL');
    this.#sql.exec('UPDATE account SET closed_at = ?, recovery = NULL, files = 0, bytes = 0', nowMs);
  }

  /** Reads the row again, to be called after a transaction that creates, changes, closes or removes it. */
  reload(): void {
    this.#id = undefined;
    this.#open = undefined;
    this.#load();
  }

  /** Reading creates nothing, so that a request for an unknown account leaves no trace. */
  #load(): void {
    if (!upgradeTables(this.#sql)) return;
    const [row] = this.#sql.exec('SELECT * FROM account').toArray() as AccountColumns[];
    if (row === undefined) return;
    const { id, label, spki, recovery_key: recoveryKey, created_at: createdAt } = row;
    this.#id = id;
    if (row.closed_at === null) this.#open = { id, label, spki: new Uint8Array(spki), recoveryKey, createdAt };
  }
}

/** Tells whether a backup of the account was ever fetched, or may have been before this was recorded. */
export function wasBackedUp(sql: SqlStorage): boolean {
  return sql.exec('SELECT 1 FROM account WHERE backed_up = 1').toArray().length > 0;
}
