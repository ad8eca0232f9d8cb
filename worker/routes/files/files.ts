/** The list of files, deletion with its receipt, and verification. */
import * as shapes from '../../../shared/api.ts';
import { searchTag, type Identity } from '../../../shared/crypto/index.ts';
import { equalBytes } from '../../../shared/streams/equal-bytes.ts';
import { isoTime } from '../../../shared/time.ts';
import { pinOf } from '../../objects/pin/shard.ts';
import { unwrap } from '../../objects/result.ts';
import { readJson } from '../../http/json-body.ts';
import { parseFileId, parseQuery, type Ctx } from '../../http/app.ts';
import { isConditional } from '../../http/conditions.ts';
import { identitiesOf, pairsOf, type Principal } from '../../auth/authenticate.ts';
import type { Env } from '../../env.ts';
import type { ReceiptRecord } from '../../objects/account/files/receipt-rows.ts';
import { parseListPage } from './file-filter.ts';
import { untilUnchanged } from './change-file.ts';
import { askPins, storedPin } from './file-backends.ts';
import { checkRecoverable, recoverable } from './recoverable.ts';
import { aboutPlain, checkFileConditions, openRecord, storedFile } from './file-view.ts';

/** A page of the account's files. */
export async function listFiles(c: Ctx, principal: Principal): Promise<Response> {
  const { account, key } = principal;
  let searched: Uint8Array | undefined;
  const { cursor: cursorAt, ...page } = await parseListPage(parseQuery(c, shapes.ListQuery), async (tag) => {
    const pairs = await pairsOf(principal, await unwrap(account.caller(key.hash, 'read')));
    searched = pairs[0]?.spki;
    return pairs.map(({ pkcs8 }) => searchTag(pkcs8, tag));
  });
  const result = await unwrap(account.files.list(key.hash, page));
  // The pair was replaced meanwhile: its tags are others.
  if (searched !== undefined && !equalBytes(searched, result.spki)) return await listFiles(c, principal);
  let identities: Promise<Identity[]> | undefined;
  const files = await Promise.all(
    result.files.map(async (record): Promise<shapes.StoredFile> => {
      const pins = await askPins(c.env, record);
      if (record.mode === 'plain') return storedFile(record, aboutPlain(record), pins);
      identities ??= identitiesOf(principal, result);
      return storedFile(record, (await openRecord(record, await identities)).file, pins);
    }),
  );
  const cursor = result.next === undefined ? undefined : cursorAt(result.next);
  const link = cursor && { Link: `<${withCursor(c.req.url, cursor)}>; rel="next"` };
  return c.json<shapes.FileList>({ files, cursor }, 200, { ...link });
}

/** The path and query of a request for another page (RFC 8288 section 3.1). */
function withCursor(text: string, cursor: string): string {
  const url = new URL(text);
  url.searchParams.set('cursor', cursor);
  return `${url.pathname}${url.search}`;
}

/** Deletes a file. The receipt says what that destroyed and what it could not. */
export async function deleteFile(c: Ctx, { account, key }: Principal): Promise<Response> {
  const fileId = parseFileId(c);
  checkRecoverable(c.env);
  const { receipt } = await untilUnchanged(async () => {
    let version: number | undefined;
    if (isConditional(c.req.raw.headers)) {
      const { file } = await unwrap(account.files.removable(key.hash, fileId));
      checkFileConditions(c, file, await askPins(c.env, file));
      ({ version } = file);
    }
    return await unwrap(account.files.remove(key.hash, fileId, c.var.requestId, version));
  });
  return c.json(receiptView(c.env, receipt));
}

/** Deletes many files at once. */
export async function deleteFiles(c: Ctx, { account, key }: Principal): Promise<Response> {
  await unwrap(account.caller(key.hash, 'delete'));
  const { files } = await readJson(c.req.raw, shapes.FilesToDelete);
  const fileIds = [...new Set(files.map((fileId) => fileId.toLowerCase()))];
  checkRecoverable(c.env);
  const { receipts } = await unwrap(account.files.removeMany(key.hash, fileIds, c.var.requestId));
  const removed = new Set(receipts.map(({ fileId }) => fileId));
  return c.json<shapes.DeletedFiles>({
    receipts: receipts.map((receipt) => receiptView(c.env, receipt)),
    notFound: fileIds.filter((fileId) => !removed.has(fileId)),
  });
}

/** The receipt of a file that was deleted, or that has expired. */
export async function readReceipt(c: Ctx, { account, key }: Principal): Promise<Response> {
  const { receipt } = await unwrap(account.files.receipt(key.hash, parseFileId(c)));
  return c.json(receiptView(c.env, receipt));
}

function receiptView(env: Env, receipt: ReceiptRecord): shapes.Receipt {
  const { fileId, reason, key, pins, shares, deletedAt, backedUp } = receipt;
  return {
    fileId,
    reason,
    deletedAt: isoTime(deletedAt),
    key,
    ...(key === 'destroyed' || shares.length > 0 ? recoverable(env, backedUp, deletedAt) : {}),
    pins,
    ...(shares.length > 0 ? { shares } : {}),
  };
}

/**
 * Reads all bytes of a file from each service that holds it. A file that takes longer is read on
 * after the response (202).
 */
export async function verifyFile(c: Ctx, { account, key }: Principal): Promise<Response> {
  const fileId = parseFileId(c);
  const { file } = await unwrap(account.files.find(key.hash, fileId, { sealed: false }));
  const { pins, isDone } = await unwrap((await pinOf(c.env, file.cid)).verify(file.cid));
  const body: shapes.Verification = { fileId, done: isDone, pins: pins.map(storedPin) };
  return c.json(body, isDone ? 200 : 202);
}
