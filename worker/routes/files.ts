/** `GET /v1/storage` and `DELETE /v1/storage/:fileId`. */
import { ListQuery, type FileList, type Receipt, type StoredFile } from '../../shared/api.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { parseCid } from '../../shared/ipfs/index.ts';
import { unwrap } from '../objects/result.ts';
import { parseQuery, type Ctx } from '../http/app.ts';
import { identityOf, needsSealed, type Principal } from '../auth/authenticate.ts';
import type { FileRecord } from '../objects/file-rows.ts';
import { cursorOf, pageOf } from './page.ts';
import { recoverable } from './recoverable.ts';
import { aboutPlain, openRecord, parseFileId, storedFile } from './file-view.ts';

/** A page of the account's files, newest first. */
export async function listFiles(c: Ctx, principal: Principal): Promise<Response> {
  const { cid, ...query } = parseQuery(c, ListQuery);
  const page = { ...pageOf(query), cid: cid === undefined ? undefined : parseCid(cid).text };
  const { account, key } = principal;
  const result = await unwrap(account.files.list(key.hash, { ...page, sealed: needsSealed(principal) }));
  let identity: Promise<Identity> | undefined;
  const files = await Promise.all(
    result.files.map(async (record): Promise<StoredFile> => {
      if (record.mode === 'plain') return storedFile(record, aboutPlain(record));
      identity ??= identityOf(principal, result);
      return storedFile(record, (await openRecord(record, await identity)).file);
    }),
  );
  const body: FileList = { files, ...cursorOf(result) };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** Deletes a file. The receipt says what that destroyed and what it could not. */
export async function deleteFile(c: Ctx, principal: Principal): Promise<Response> {
  const { file, status, shares } = await unwrap(principal.account.files.remove(principal.key.hash, parseFileId(c)));
  const key = keyFate(file);
  const body: Receipt = {
    fileId: file.fileId,
    key,
    ...(key === 'destroyed' || shares.length > 0 ? recoverable(c.env) : {}),
    pins: [{ service: file.service, status }],
    ...(shares.length > 0 ? { shares: shares.map(({ id, record }) => ({ id, record })) } : {}),
  };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** Where the key of a plain file is, by what its bytes begin like. */
const keyPlaces = { container: 'in-container', payload: 'elsewhere', other: 'none' } as const;

/** What the deletion of a file does to the key that opens it. */
function keyFate(file: FileRecord): Receipt['key'] {
  if (file.mode === 'encrypted') return 'destroyed';
  return keyPlaces[file.beginning];
}
