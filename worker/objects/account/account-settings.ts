/** Settings of an account that the operator makes. */
import { recordOf, rowOf, type RecordOf } from '../columns.ts';
import { StorageRows } from '../storage-rows.ts';
import { first, insert, list } from '../sql.ts';
import { settingColumns } from './tables.ts';

type SettingsRow = RecordOf<typeof settingColumns>;

/**
 * `quotaBytes`: the bytes on IPFS that the account may store; null: no quota. `disabled`: none of
 * its keys works. `origins`: those whose pages may use its keys; null: all that the service allows.
 */
export type Settings = Omit<SettingsRow, 'listed'>;

/** The settings in an object's storage. An account without a row has the default ones. */
export class AccountSettings extends StorageRows {
  get(): Settings {
    const { listed: _, ...settings } = this.#row();
    return settings;
  }

  /** Tells whether the operator's list has the account; those of earlier versions it lacks. */
  get isListed(): boolean {
    return this.#row().listed;
  }

  set({ quotaBytes, disabled, origins }: Settings): void {
    this.#write({ quotaBytes, disabled, origins });
  }

  /** Records that the account is being entered in the list. */
  markListed(): void {
    this.#write({ listed: true });
  }

  /** Returns the bytes that may be stored besides what is reserved; undefined without a quota. */
  allowanceBytes(reservedBytes: number): number | undefined {
    const query = 'SELECT quota_bytes - bytes FROM account, account_setting WHERE quota_bytes NOT NULL';
    const [left] = list<number>(this.sql, query);
    return left === undefined ? undefined : Math.max(0, left - reservedBytes);
  }

  #write(settings: Partial<SettingsRow>): void {
    const row = rowOf(settingColumns, settings);
    const changes = Object.keys(row).map((name) => `${name} = excluded.${name}`);
    insert(this.sql, 'account_setting', { one: 1, ...row }, `ON CONFLICT (one) DO UPDATE SET ${changes.join(', ')}`);
  }

  #row(): SettingsRow {
    return recordOf(settingColumns, first(this.sql, 'SELECT * FROM account_setting') ?? {});
  }
}
