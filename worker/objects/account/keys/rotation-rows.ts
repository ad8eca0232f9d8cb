/** A rotation of the account's key pair, as rows, until all is sealed to the new pair. */
import { recordOf, recordsOf, type RecordOf } from '../../columns.ts';
import { StorageRows } from '../../storage-rows.ts';
import { count, first, insert, overwrite } from '../../sql.ts';
import { changeColumns, fileColumns } from '../tables.ts';

const { fileId, header } = fileColumns;
const { version, rewrapped, description } = changeColumns;
const behindColumns = { fileId, header, version, rewrapped, description };

/**
 * A file, or an upload that is being finished, with something under the pair before: its header, or
 * only the search tags of a plain file, whose `tags` are in its row. `version` and `rewrapped`:
 * what it was read at.
 */
export type Behind = Omit<RecordOf<typeof behindColumns>, 'description'> & { tags: readonly string[] };

/** The same under the new pair. `header`: null where it has none, or one that nobody opens. */
export type Rewrapped = Pick<Behind, 'fileId' | 'version' | 'rewrapped' | 'header'> & {
  /** Search tags; undefined where they stay: nobody opens the header that has them. */
  tags: readonly string[] | undefined;
};

/** The rotation in an object's storage. */
export class RotationRows extends StorageRows {
  /** The private key before, sealed to the current pair; null where no rotation runs. */
  previous(): Uint8Array | null {
    const row = first<{ previous: ArrayBuffer }>(this.sql, 'SELECT previous FROM rotation');
    return row === undefined ? null : new Uint8Array(row.previous);
  }

  /** Begins a rotation of all that is there, in a transaction of the caller's. */
  begin(previous: Uint8Array): void {
    insert(this.sql, 'rotation', { one: 1, previous });
    this.sql.exec(`INSERT INTO rotation_file (file_id)
      SELECT file_id FROM file WHERE header IS NOT NULL OR seq IN (SELECT seq FROM file_tag)
      UNION SELECT id FROM upload WHERE header IS NOT NULL`);
  }

  /** Counts what is left. */
  remaining(): number {
    return count(this.sql, 'rotation_file');
  }

  /** Some of what is left; of what another version removed, nothing but the ID. */
  behind(limit: number): Behind[] {
    const query = `SELECT rotation_file.file_id, coalesce(file.header, upload.header) AS header,
        version, rewrapped, description
      FROM rotation_file LEFT JOIN file USING (file_id) LEFT JOIN file_detail USING (file_id)
      LEFT JOIN upload ON upload.id = rotation_file.file_id ORDER BY rotation_file.file_id LIMIT ?`;
    return recordsOf(this.sql, behindColumns, query, limit).map(({ description, ...behind }) => ({
      ...behind,
      tags: description.tags ?? [],
    }));
  }

  /** Takes a file off the list. @returns whether it was on it, as it was read */
  take({ fileId, version, rewrapped }: Pick<Behind, 'fileId' | 'version' | 'rewrapped'>): boolean {
    const row = first(this.sql, 'SELECT * FROM file_detail WHERE file_id = ?', fileId) ?? {};
    const now = recordOf(changeColumns, { description: null, ...row });
    if (now.version !== version || now.rewrapped !== rewrapped) return false;
    const statement = 'DELETE FROM rotation_file WHERE file_id = ? RETURNING file_id';
    return first(this.sql, statement, fileId) !== undefined;
  }

  /** Ends the rotation: the private key before is overwritten, and then forgotten. */
  end(): void {
    overwrite(this.sql, 'rotation', 'previous', 'true');
    this.sql.exec('DELETE FROM rotation');
    this.sql.exec('DELETE FROM rotation_file');
  }
}
