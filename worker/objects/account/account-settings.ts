/** Settings of an account that the operator makes. */
import type { Reserved } from './files/reserved.ts';

/**
 * `quotaBytes`: the bytes on IPFS that the account may store; null: no quota. `disabled`: none of its keys works. `origins`: those whose
 * pages may use its keys; null: all that the service allows.
 */
export type Settings = { quotaBytes: number | null; disabled: boolean; origins: string[] | null };

/** Settings of an account for which nothing was set. */
export const defaultSettings: Settings = { quotaBytes: null, disabled: false, origins: null };

type SettingRow = { quota_bytes: number | null; disabled: number; origins: string | null; listed: number };

/** The settings in an object's storage. An account without a row has the default ones. */
export class AccountSettings {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get(): Settings {
    const row = this.#row();
    if (row === undefined) return defaultSettings;
    const { quota_bytes: quotaBytes, disabled, origins } = row;
    return {
      quotaBytes,
      disabled: disabled === 1,
      origins: origins?.split(' ').filter((origin) => origin !== '') ?? null,
    };
  }

  /** Tells whether the account is in the operator's list, as accounts of earlier versions are not. */
  get isListed(): boolean {
    return this.#row()?.listed === 1;
  }

  set({ quotaBytes, disabled, origins }: Settings): void {
    this.#sql.exec(
      `INSERT INTO account_setting (one, quota_bytes, disabled, origins) VALUES (1, ?1, ?2, ?3)
       ON CONFLICT (one) DO UPDATE SET quota_bytes = ?1, disabled = ?2, origins = ?3`,
      quotaBytes,
      disabled ? 1 : 0,
      origins?.join(' ') ?? null,
    );
  }

  /** Records that the account is being entered in the list. */
  markListed(): void {
    this.#sql.exec(
      'INSERT INTO account_setting (one, listed) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET listed = 1',
    );
  }

  /** Returns the bytes that the account may still store besides what is reserved; undefined without a quota. */
  allowanceBytes(reserved: readonly Reserved[]): number | undefined {
    const [row] = this.#sql
      .exec<{ room: number }>(
        'SELECT quota_bytes - bytes AS room FROM account, account_setting WHERE quota_bytes NOT NULL',
      )
      .toArray();
    return row && Math.max(0, row.room - reserved.reduce((sum, { bytes }) => sum + bytes, 0));
  }

  #row(): SettingRow | undefined {
    return this.#sql
      .exec<SettingRow>('SELECT quota_bytes, disabled, origins, listed FROM account_setting')
      .toArray()[0];
  }
}
