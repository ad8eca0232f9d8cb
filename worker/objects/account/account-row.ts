/** The row of an account, with its recovery file. */
import { recordsOf, rowOf, type RecordOf } from '../columns.ts';
import { StorageRows } from '../storage-rows.ts';
import { exists, insert, overwrite, update } from '../sql.ts';
import { accountColumns, createTables, upgradeTables } from './tables.ts';

type WholeAccountRow = RecordOf<typeof accountColumns>;

/** `recoveryKey`: the public key of the account's recovery, as text. `createdAt` in ms. */
export type AccountRecord = Pick<WholeAccountRow, 'id' | 'label' | 'spki' | 'recoveryKey' | 'createdAt'>;

/** Number of ready files, and their bytes on IPFS. */
export type Usage = Pick<WholeAccountRow, 'files' | 'bytes'>;

/** `file` is the age file; `secretHash` the SHA-256 of the secret's 43 characters, in hex. */
export type Recovery = { file: Uint8Array; secretHash: string };

/** `key`: the recovery key as text. `secretHash`: null in a file of an older version. */
export type StoredRecovery = { file: Uint8Array; key: string; secretHash: string | null };

/** The account in an object's storage. Objects exist for every name, most without an account. */
export class AccountRow extends StorageRows {
  #id: string | undefined;
  #open: AccountRecord | undefined;

  constructor(sql: SqlStorage) {
    super(sql);
    this.reload();
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
  create(account: AccountRecord & Partial<WholeAccountRow>): void {
    createTables(this.sql);
    insert(this.sql, 'account', rowOf(accountColumns, { files: 0, bytes: 0, backedUp: false, ...account }));
  }

  /** All that is stored of the account. */
  read(): WholeAccountRow | undefined {
    return recordsOf(this.sql, accountColumns, 'SELECT * FROM account')[0];
  }

  usage(): Usage {
    const { files = 0, bytes = 0 } = this.read() ?? {};
    return { files, bytes };
  }

  rename(label: string): void {
    this.#update({ label });
  }

  /** The recovery file; undefined where the account has no recovery key. */
  recovery(): StoredRecovery | undefined {
    const { recovery: file = null, recoveryKey: key = null, recoveryHash: secretHash = null } = this.read() ?? {};
    return file === null || key === null ? undefined : { file, key, secretHash };
  }

  replaceRecovery({ file, secretHash }: Recovery): void {
    this.#update({ recovery: file, recoveryHash: secretHash });
  }

  /** The public key before the last rotation. */
  get replaced(): Uint8Array | null {
    return this.read()?.replaced ?? null;
  }

  /** Gives the account another public key, in a transaction of the caller's. */
  replacePair(spki: Uint8Array, replaced: Uint8Array): void {
    this.#update({ spki, replaced });
  }

  /** Notes that a backup of the account is about to leave. */
  markBackedUp(): void {
    if (!wasBackedUp(this.sql)) this.#update({ backedUp: true });
  }

  /** Adds to the counts of what is ready. */
  count(files: number, bytes: number): void {
    this.sql.exec('UPDATE account SET files = files + ?, bytes = bytes + ?', files, bytes);
  }

  /** Marks the account as deleted, its recovery file overwritten first. */
  close(nowMs: number): void {
    overwrite(this.sql, 'account', 'recovery', 'true');
    this.#update({ closedAt: nowMs, recovery: null, files: 0, bytes: 0 });
  }

  /**
   * Reads the row again, to be called after a transaction that creates, changes, closes or removes
   * it. Reading creates nothing, so that a request for an unknown account leaves no trace.
   */
  reload(): void {
    const row = upgradeTables(this.sql) ? this.read() : undefined;
    this.#id = row?.id;
    this.#open = row?.closedAt === null ? openOf(row) : undefined;
  }

  #update(changes: Partial<WholeAccountRow>): void {
    update(this.sql, 'account', rowOf(accountColumns, changes), 'true');
  }
}

function openOf({ id, label, spki, recoveryKey, createdAt }: WholeAccountRow): AccountRecord {
  return { id, label, spki, recoveryKey, createdAt };
}

/** Tells whether a backup was ever fetched, or may have been before this was recorded. */
export function wasBackedUp(sql: SqlStorage): boolean {
  return exists(sql, 'account WHERE backed_up = 1');
}
