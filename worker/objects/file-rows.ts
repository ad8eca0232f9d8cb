/** The files of an account, as rows. */

/** A file on its way: everything but the time is known before its last bytes go out. */
export type NewFile = {
  fileId: string;
  mode: 'encrypted' | 'plain';
  /** Plain mode only: in encrypted mode name and type are inside the header. */
  filename: string | null;
  contentType: string | null;
  /** Bytes on IPFS. */
  bytes: number;
  /** Whether the bytes are a container that carries its own header. */
  container: boolean;
  cid: string;
  service: string;
  header: Uint8Array | null;
};

/** A file that is stored; `createdAt` in ms. */
export type FileRecord = NewFile & { createdAt: number };

type FileRow = {
  seq: number;
  file_id: string;
  mode: 'encrypted' | 'plain';
  filename: string | null;
  content_type: string | null;
  bytes: number;
  container: number;
  cid: string;
  service: string;
  header: ArrayBuffer | null;
  created_at: number;
};

export type Files = {
  /** Writes a pending row that the sweep takes at `dueMs`. */
  add(file: NewFile, by: string, nowMs: number, dueMs: number): void;
  /** Makes a pending file ready; whether it is ready now. */
  ready(fileId: string): boolean;
  find(fileId: string): FileRecord | undefined;
  /** Ready files, newest first: those before `cursor`, all or those with a CID. */
  page(o: { before: number | undefined; limit: number; cid: string | undefined }): {
    files: FileRecord[];
    next: number | undefined;
  };
  /** Removes a row in that state, its header overwritten with zeros first. */
  remove(fileId: string, state: 'pending' | 'ready'): FileRecord | undefined;
  /** Removes every row, headers overwritten first, with a message to `Pin` for each; how many were ready. */
  removeAll(nowMs: number): number;
  /** Pending files whose time is up. */
  stale(nowMs: number): FileRecord[];
  /** When the next pending file is due. */
  nextDue(): number | undefined;
};

/** The files in an object's storage. */
export function files(sql: SqlStorage): Files {
  const count = (sign: 1 | -1, bytes: number): void => {
    sql.exec('UPDATE account SET files = files + ?, bytes = bytes + ?', sign, sign * bytes);
  };
  return {
    add(file, by, nowMs, dueMs) {
      sql.exec(
        `INSERT INTO file (file_id, state, mode, filename, content_type, bytes, container, cid, service, header, created_at, created_by, due)
         VALUES (?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        file.fileId,
        file.mode,
        file.filename,
        file.contentType,
        file.bytes,
        file.container ? 1 : 0,
        file.cid,
        file.service,
        file.header,
        nowMs,
        by,
        dueMs,
      );
    },
    ready(fileId) {
      const [row] = sql
        .exec<{ bytes: number }>(
          `UPDATE file SET state = 'ready', due = NULL WHERE file_id = ? AND state = 'pending' RETURNING bytes`,
          fileId,
        )
        .toArray();
      if (row !== undefined) count(1, row.bytes);
      return row !== undefined || this.find(fileId) !== undefined;
    },
    find(fileId) {
      const [row] = sql.exec<FileRow>(`SELECT * FROM file WHERE file_id = ? AND state = 'ready'`, fileId).toArray();
      return row === undefined ? undefined : recordOf(row);
    },
    page({ before, limit, cid }) {
      const rows = sql
        .exec<FileRow>(
          `SELECT * FROM file WHERE state = 'ready' AND seq < ? ${cid === undefined ? '' : 'AND cid = ?'} ORDER BY seq DESC LIMIT ?`,
          before ?? Number.MAX_SAFE_INTEGER,
          ...(cid === undefined ? [] : [cid]),
          limit + 1,
        )
        .toArray();
      const page = rows.slice(0, limit);
      return { files: page.map((row) => recordOf(row)), next: rows.length > limit ? page.at(-1)!.seq : undefined };
    },
    remove(fileId, state) {
      const [row] = sql.exec<FileRow>('SELECT * FROM file WHERE file_id = ? AND state = ?', fileId, state).toArray();
      if (row === undefined) return undefined;
      // The page of the database is overwritten, not only given back.
      sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE seq = ? AND header IS NOT NULL', row.seq);
      sql.exec('DELETE FROM file WHERE seq = ?', row.seq);
      if (state === 'ready') count(-1, row.bytes);
      return recordOf(row);
    },
    removeAll(nowMs) {
      const [row] = sql.exec<{ ready: number }>(`SELECT count(*) AS ready FROM file WHERE state = 'ready'`).toArray();
      sql.exec('UPDATE file SET header = zeroblob(length(header)) WHERE header IS NOT NULL');
      sql.exec(
        `INSERT INTO outbox (op, target, service, file_id, due, attempts) SELECT 'unrefer', cid, service, file_id, ?, 0 FROM file`,
        nowMs,
      );
      sql.exec('DELETE FROM file');
      return row!.ready;
    },
    stale(nowMs) {
      return sql
        .exec<FileRow>(`SELECT * FROM file WHERE state = 'pending' AND due <= ?`, nowMs)
        .toArray()
        .map((row) => recordOf(row));
    },
    nextDue() {
      const [row] = sql
        .exec<{ due: number | null }>(`SELECT min(due) AS due FROM file WHERE state = 'pending'`)
        .toArray();
      return row?.due ?? undefined;
    },
  };
}

function recordOf(row: FileRow): FileRecord {
  return {
    fileId: row.file_id,
    mode: row.mode,
    filename: row.filename,
    contentType: row.content_type,
    bytes: row.bytes,
    container: row.container === 1,
    cid: row.cid,
    service: row.service,
    header: row.header === null ? null : new Uint8Array(row.header),
    createdAt: row.created_at,
  };
}
