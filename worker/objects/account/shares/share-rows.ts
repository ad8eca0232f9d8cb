/** The shares of an account, as rows. The records are in the objects `Share`. */

/** A share that is being made; times in ms. `files`: those whose deletion ends it. */
export type NewShare = {
  id: string;
  label: string | null;
  files: readonly string[];
  password: boolean;
  opens: number;
  createdAt: number;
  expiresAt: number;
};

/** A share, made with the API key that has the ID `createdBy`. */
export type ShareRecord = NewShare & { createdBy: string };

/** A row that was removed. `dueMs`: until then its record may still be on its way to the object. */
export type Removed = { id: string; dueMs: number | undefined };

/** `next` is the cursor of the next page, if there is one. */
export type SharePage = { shares: ShareRecord[]; next: number | undefined };

/** A share as it is stored, with `files` as JSON. */
export type ShareRow = {
  seq: number;
  id: string;
  /** `making`: whether the object has the record is not known yet. */
  state: 'making' | 'active';
  api_key: string;
  label: string | null;
  files: string;
  password: number;
  opens: number;
  created_at: number;
  expires_at: number;
  due: number;
};

/** The columns of a row, with its files as a JSON array in the order in which they were named. */
export const shareColumns = `*, (SELECT json_group_array(file_id) FROM
  (SELECT file_id FROM share_file WHERE share_id = share.id ORDER BY place)) AS files`;

/** The shares in an object's storage. */
export class ShareRows {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Writes the row of a share whose record is about to be sent. @param dueMs when it is given up, unless it is active by then */
  add(share: NewShare, apiKey: string, dueMs: number): void {
    const { id, label, files, password, opens, createdAt, expiresAt } = share;
    this.#sql.exec(
      `INSERT INTO share (id, state, api_key, label, password, opens, created_at, expires_at, due)
       VALUES (?, 'making', ?, ?, ?, ?, ?, ?, ?)`,
      id,
      apiKey,
      label,
      password ? 1 : 0,
      opens,
      createdAt,
      expiresAt,
      dueMs,
    );
    files.forEach((fileId, place) =>
      this.#sql.exec('INSERT INTO share_file (share_id, file_id, place) VALUES (?, ?, ?)', id, fileId, place),
    );
  }

  /** Records that the object has the record. @param dueMs when the row goes @returns whether it is still there */
  activate(id: string, dueMs: number): boolean {
    const rows = this.#sql.exec(`UPDATE share SET state = 'active', due = ? WHERE id = ? RETURNING id`, dueMs, id);
    return rows.toArray().length > 0;
  }

  /** Counts shares that have not expired: of the account, and of an API key. */
  countUnexpired(nowMs: number, apiKey: string): { all: number; own: number } {
    return this.#sql
      .exec<{ all: number; own: number }>(
        'SELECT count(*) AS "all", coalesce(sum(api_key = ?), 0) AS own FROM share WHERE expires_at > ?',
        apiKey,
        nowMs,
      )
      .one();
  }

  /** Active shares before the cursor `before`, newest first. */
  page({ before, limit }: { before: number | undefined; limit: number }): SharePage {
    const rows = this.#sql
      .exec<ShareRow>(
        `SELECT ${shareColumns} FROM share WHERE state = 'active' AND seq < ? ORDER BY seq DESC LIMIT ?`,
        before ?? Number.MAX_SAFE_INTEGER,
        limit + 1,
      )
      .toArray();
    const page = rows.slice(0, limit);
    return { shares: page.map((row) => recordOf(row)), next: rows.length > limit ? page.at(-1)?.seq : undefined };
  }

  /** Removes a share that is active. */
  remove(id: string): Removed[] {
    return this.#remove(`id = ? AND state = 'active'`, id);
  }

  /** Removes the shares of a file. */
  removeOfFile(fileId: string): Removed[] {
    return this.#remove('id IN (SELECT share_id FROM share_file WHERE file_id = ?)', fileId);
  }

  /** Removes the shares that API keys made; all without `apiKeys`. */
  removeOfKeys(apiKeys: readonly string[] | undefined): Removed[] {
    if (apiKeys === undefined) return this.#remove('?1 IS NULL', null);
    return this.#remove('api_key IN (SELECT value FROM json_each(?))', JSON.stringify(apiKeys));
  }

  /** Removes one whose record was not kept, whether or not it is still there. */
  withdraw(id: string): Removed[] {
    return this.#remove('id = ?', id);
  }

  /** Removes what is due. @returns those that were never active */
  removeDue(nowMs: number): Removed[] {
    return this.#remove('due <= ?', nowMs).filter(({ dueMs }) => dueMs !== undefined);
  }

  nextDue(): number | undefined {
    const [row] = this.#sql.exec<{ due: number | null }>('SELECT min(due) AS due FROM share').toArray();
    return row?.due ?? undefined;
  }

  #remove(where: string, value: SqlStorageValue): Removed[] {
    const rows = this.#sql
      .exec<Pick<ShareRow, 'id' | 'state' | 'due'>>(
        `SELECT id, state, due FROM share WHERE ${where} ORDER BY seq`,
        value,
      )
      .toArray();
    for (const { id } of rows) {
      this.#sql.exec('DELETE FROM share WHERE id = ?', id);
      this.#sql.exec('DELETE FROM share_file WHERE share_id = ?', id);
    }
    return rows.map(({ id, state, due }) => ({ id, dueMs: state === 'making' ? due : undefined }));
  }
}

function recordOf(row: ShareRow): ShareRecord {
  return {
    id: row.id,
    label: row.label,
    files: JSON.parse(row.files) as string[],
    password: row.password === 1,
    opens: row.opens,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    createdBy: row.api_key,
  };
}
