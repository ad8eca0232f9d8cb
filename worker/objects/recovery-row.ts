/** The recovery file in the account's row. */
import type { Recovery } from '../auth/recovery-file.ts';

/** `key`: the recovery key as text. `secretHash` is null where an older version wrote the file, without a secret. */
export type StoredRecovery = { file: Uint8Array; key: string; secretHash: string | null };

type Row = {
  recovery_key: string | null;
  recovery: ArrayBuffer | null;
  /** Not there in tables that are older than the column. */
  recovery_hash?: string | null;
};

export type RecoveryRow = {
  /** Undefined for an account that names no recovery key. */
  find(): StoredRecovery | undefined;
  replace(next: Recovery): void;
};

/** The recovery file in an object's storage, which has to hold an account. */
export function recoveryRow(sql: SqlStorage): RecoveryRow {
  return {
    find() {
      const { recovery, recovery_key: key, recovery_hash: hash } = sql.exec('SELECT * FROM account').one() as Row;
      return recovery === null || key === null
        ? undefined
        : { file: new Uint8Array(recovery), key, secretHash: hash ?? null };
    },
    replace(next) {
      sql.exec('UPDATE account SET recovery = ?, recovery_hash = ?', next.file, next.secretHash);
    },
  };
}
