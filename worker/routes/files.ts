/** `GET /v1/storage` and `DELETE /v1/storage/:fileId`. */
import * as v from 'valibot';
import { FileId, ListQuery, type FileList, type Receipt, type StoredFile } from '../../shared/api.ts';
import type { Identity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { parseCid } from '../../shared/ipfs/index.ts';
import { settled } from '../objects/result.ts';
import { parseQuery, type Ctx } from '../http/app.ts';
import { callerOf, identityOf, needsSealed } from '../auth/authenticate.ts';
import type { FileRecord } from '../objects/file-rows.ts';
import { recoveryDays } from '../env.ts';
import { aboutPlain, openRecord, storedFile } from './file-view.ts';

const defaultLimit = 50;
const dayMs = 86_400_000;

/**
 * The file that a path names.
 * @throws not_found when it cannot be one, as when it is not there
 */
export function fileIdOf(c: Ctx): string {
  const id = v.safeParse(FileId, c.req.param('fileId'));
  if (!id.success) throw new SealpinError('not_found');
  return id.output.toLowerCase();
}

/** A page of the account's files, newest first. */
export async function list(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const { limit, cursor, cid } = parseQuery(c, ListQuery);
  const page = {
    limit: limit === undefined ? defaultLimit : Number(limit),
    before: cursor === undefined ? undefined : Number.parseInt(cursor, 36),
    cid: cid === undefined ? undefined : parseCid(cid).text,
  };
  const answer = await settled(caller.account.list(caller.key.hash, { ...page, sealed: needsSealed(caller) }));
  let identity: Promise<Identity> | undefined;
  const files = await Promise.all(
    answer.files.map(async (record): Promise<StoredFile> => {
      if (record.mode === 'plain') return storedFile(record, aboutPlain(record));
      identity ??= identityOf(caller, answer);
      return storedFile(record, (await openRecord(record, await identity)).file);
    }),
  );
  const body: FileList = { files, ...(answer.next === undefined ? {} : { cursor: answer.next.toString(36) }) };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

/** Deletes a file; the receipt says what that does and what it cannot do. */
export async function remove(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const { file, status } = await settled(caller.account.remove(caller.key.hash, fileIdOf(c)));
  const key = keyAfter(file);
  const days = recoveryDays(c.env);
  const body: Receipt = {
    fileId: file.fileId,
    key,
    ...(key === 'destroyed' && days > 0 ? { recoverableUntil: new Date(Date.now() + days * dayMs).toISOString() } : {}),
    pins: [{ service: file.service, status }],
  };
  return c.json(body, 200, { 'Cache-Control': 'no-store' });
}

function keyAfter(file: FileRecord): Receipt['key'] {
  if (file.mode === 'encrypted') return 'destroyed';
  return file.container ? 'in-container' : 'none';
}
