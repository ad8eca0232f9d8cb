/**
 * `/v1/operator/accounts/:id/backup`: an account as its operator backs it up, page by page, and
 * restores it into another service.
 */
import { backupFormat, BackupPage, BackupQuery, type RestoredPage } from '../../../shared/api.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { serviceId } from '../../env.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { readJson } from '../../http/json-body.ts';
import { requireRestoreToken } from '../../auth/operator.ts';
import { unwrap } from '../../objects/result.ts';
import { accountInPath } from '../accounts/accounts.ts';

/** Bytes of a page: 100 shares with the longest records and the most files are about half of it. */
const maxPageBytes = 16 * 1024 ** 2;

/** Returns a page of the backup of an account. */
export async function readBackup(c: Ctx): Promise<Response> {
  const { object } = accountInPath(c);
  const { cursor, limit } = parseQuery(c, BackupQuery);
  const { page } = await unwrap(object.administration.backup(cursor, limit));
  return c.json<BackupPage>({ format: backupFormat, pinsOf: serviceId(c.env), ...page });
}

/**
 * Restores a page of a backup. The rows of a page are believed, so it takes a token that is set for
 * a restoration only.
 */
export async function restoreBackup(c: Ctx): Promise<Response> {
  await requireRestoreToken(c);
  const { id, object } = accountInPath(c);
  const { format: _, pinsOf, ...page } = await readJson(c.req.raw, BackupPage, maxPageBytes);
  if (page.accountId !== id)
    throw new SealpinError('invalid_request', 'the backup is of another account', {
      hint: `send it to /v1/operator/accounts/${page.accountId}/backup`,
    });
  if (pinsOf !== serviceId(c.env))
    throw new SealpinError('conflict', 'the pins of this backup have the name of another service', {
      hint: `set SERVICE_ID to "${pinsOf}": otherwise the pins would count as somebody else’s`,
    });
  const { unpinned, usage, keys } = await unwrap(object.administration.restore(page, c.var.requestId));
  return c.json<RestoredPage>({ accountId: id, next: page.next, keys, files: usage.files, unpinned });
}
