/** The row of an account, with its recovery file. */
import type { Recovery } from '../auth/recovery-file.ts';
import { schema } from './tables.ts';

/** `recoveryKey`: the public key of the account's recovery, as text. `createdAt` in ms. */
export type AccountRecord = {
  id: string;
  label: string;
  spki: Uint8Array;
  recoveryKey: string | null;
  createdAt: number;
};

/** How many files are ready, and their bytes on IPFS. */
export type Usage = { files: number; bytes: number };

/** `key`: the recovery key as text. `secretHash` is null where an older version wrote the file, without a secret. */
export type StoredRecovery = { file: Uint8Array; key: string; secretHash: string | null };

type Row = {
  id: string;
  label: string;
  spki: ArrayBuffer;
  recovery_key: string | null;
  recovery: ArrayBuffer | null;
  /** Missing in tables that are older than the column. */
  recovery_hash?: string | null;
  created_at: number;
  closed_at: number | null;
};

/** The account in an object's storage. The object is named by its ID; most of the names have no account. */
export class AccountRow {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /**
   * Reads the row. Reading creates nothing.
   * @returns undefined where no account was created; without `open` where it is deleted and its outbox not empty yet
   */
  find(): { id: string; open?: AccountRecord } | undefined {
    if (this.#sql.exec(`SELECT 1 FROM sqlite_master WHERE name = 'account'`).toArray().length === 0) return undefined;
    const [row] = this.#sql.exec('SELECT * FROM account').toArray() as Row[];
    if (row === undefined) return undefined;
    const { id, label, spki, recovery_key: recoveryKey, created_at: createdAt } = row;
    return row.closed_at === null
      ? { id, open: { id, label, spki: new Uint8Array(spki), recoveryKey, createdAt } }
      : { id };
  }

  /** Creates the tables, and writes the row. */
  create(account: AccountRecord): void {
    this.#sql.exec(schema);
    this.#sql.exec(
      'INSERT INTO account (id, label, spki, recovery_key, created_at, files, bytes) VALUES (?, ?, ?, ?, ?, 0, 0)',
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

  /** The recovery file; undefined where the account has no recovery key. */
  recovery(): StoredRecovery | undefined {
    const { recovery, recovery_key: key, recovery_hash: hash } = this.#sql.exec('SELECT * FROM account').one() as Row;
    return recovery === null || key === null
      ? undefined
      : { file: new Uint8Array(recovery), key, secretHash: hash ?? null };
  }

  replaceRecovery(next: Recovery): void {
    this.#sql.exec('UPDATE account SET recovery = ?, recovery_hash = ?', next.file, next.secretHash);
  }

  /** Marks the account as deleted, its recovery file overwritten with zeros first. */
  close(nowMs: number): void {
    this.#sql.exec('UPDATE account SET recovery = zeroblob(length(recovery)) WHERE recovery IS NOT NULL');
    this.#sql.exec('UPDATE account SET closed_at = ?, recovery = NULL, files = 0, bytes = 0', nowMs);
  }
}
