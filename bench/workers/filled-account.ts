/** The service with an account that can be filled with rows. */
import { Account as RealAccount } from '../../worker/index.ts';

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export { default, Metrics, Pin } from '../../worker/index.ts';

export class Account extends RealAccount {
  /**
   * Puts so many more files of 1 KiB into the object, all of the same CID.
   * @param before how many there are
   * @returns the id of the last one
   */
  fill(before: number, count: number, cid: string): string {
    const { sql } = this.ctx.storage;
    sql.exec(
      `INSERT INTO file (file_id, state, mode, filename, content_type, bytes, container, cid, service, header,
        created_at, created_by, due)
       WITH RECURSIVE n(i) AS (SELECT ? + 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       SELECT printf('%08x-0000-4000-8000-%012x', i, abs(random()) % 1000000000),
         'ready', 'plain', 'name', 'text/plain', 1024, 0, ?, 'sink', NULL, i, 'x', NULL FROM n`,
      before,
      before + count,
      cid,
    );
    return sql.exec<{ file_id: string }>('SELECT file_id FROM file ORDER BY seq DESC LIMIT 1').one().file_id;
  }
}
