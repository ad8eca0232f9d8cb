/** What the operator has set for an account. */

/** `quotaBytes`: the bytes on IPFS that the account may store; null: no quota. `disabled`: none of its keys works. */
export type Settings = { quotaBytes: number | null; disabled: boolean };

type Row = { quota_bytes: number | null; disabled: number; listed: number };

/** The settings in an object's storage. An account without a row has the default ones. */
export class AccountSettings {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get(): Settings {
    const row = this.#row();
    return { quotaBytes: row?.quota_bytes ?? null, disabled: row?.disabled === 1 };
  }

  /** Whether the account has been entered in the operator's list, as accounts of earlier versions were not. */
  get isListed(): boolean {
    return this.#row()?.listed === 1;
  }

  set({ quotaBytes, disabled }: Settings): void {
    this.#sql.exec(
      `INSERT INTO account_setting (one, quota_bytes, disabled) VALUES (1, ?1, ?2)
       ON CONFLICT (one) DO UPDATE SET quota_bytes = ?1, disabled = ?2`,
      quotaBytes,
      disabled ? 1 : 0,
    );
  }

  /** Records that the account is being entered in the list. */
  markListed(): void {
    this.#sql.exec(
      'INSERT INTO account_setting (one, listed) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET listed = 1',
    );
  }

  /** How many bytes the account may still store; undefined without a quota. */
  roomBytes(): number | undefined {
    const [row] = this.#sql
      .exec<{ room: number }>(
        'SELECT quota_bytes - bytes AS room FROM account, account_setting WHERE quota_bytes NOT NULL',
      )
      .toArray();
    return row && Math.max(0, row.room);
  }

  #row(): Row | undefined {
    return this.#sql.exec<Row>('SELECT quota_bytes, disabled, listed FROM account_setting').toArray()[0];
  }
}
