/** `/v1/shares`: records that pass files on, which the service keeps and cannot open. */
import * as shapes from '../../../shared/api.ts';
import { webProvider } from '../../../shared/crypto/index.ts';
import { otherwise, SealpinError } from '../../../shared/errors.ts';
import { isShareId, maxRecordBytes, newShareId } from '../../../shared/link/index.ts';
import { isoTime } from '../../../shared/time.ts';
import type { Principal } from '../../auth/authenticate.ts';
import { isGatewayOpen, shareEnd, shareMaxima } from '../../env.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { checkConditions, isConditional, isNotModified } from '../../http/conditions.ts';
import { readJson } from '../../http/json-body.ts';
import { parseFutureTime } from '../../http/validation.ts';
import { sharing } from '../../objects/account/keys/invitation.ts';
import type { KeyRecord } from '../../objects/account/keys/key-rows.ts';
import { shareColumns, type ShareRecord } from '../../objects/account/shares/share-rows.ts';
import { shareNoteColumns } from '../../objects/account/tables.ts';
import { given, viewed } from '../../objects/columns.ts';
import { unwrap } from '../../objects/result.ts';
import { shareOf } from '../../objects/share/share-binding.ts';
import type { ShareStatus } from '../../objects/share/share.ts';
import { refuseIdempotencyKey } from '../../upload/idempotency-key.ts';
import { untilUnchanged } from '../files/change-file.ts';
import { cursorOf, pageOf } from '../page.ts';
import { checkRecoverable, recoverable } from '../files/recoverable.ts';

/** Openings of a share if the request does not say. */
const defaultOpens = 5;

/** Bytes of a request: the largest record in base64, and the IDs of its files. */
const maxBodyBytes = 128 * 1024;

export async function createShare(c: Ctx, caller: Principal): Promise<Response> {
  const { key } = await unwrap(caller.account.caller(caller.key.hash, sharing));
  requireGateway(c);
  refuseIdempotencyKey(c, 'share');
  const requested = await readJson(c.req.raw, shapes.ShareRequest, maxBodyBytes);
  const { files, password } = requested;
  const record = Uint8Array.fromBase64(requested.record);
  if (record.length === 0 || record.length > maxRecordBytes)
    throw new SealpinError('invalid_request', `record must have 1 to ${maxRecordBytes} bytes`);
  const { id = newShareId() } = requested;
  if (!isShareId(id)) throw new SealpinError('invalid_request', 'id is not the ID of a share');
  const now = Date.now();
  const asked = {
    ...given(shareNoteColumns, requested),
    id,
    password,
    files: [...new Set(files.map((fileId) => fileId.toLowerCase()))],
    opens: opensOf(c, requested),
    createdAt: now,
    expiresAt: expiryOf(c, requested, key, now),
  };
  const { share } = await unwrap(caller.account.shares.create(caller.key.hash, asked, record));
  const status: Terms = { ...share, state: 'active', opensLeft: share.opens };
  const headers = { ETag: etagOf(status), Location: `/v1/shares/${share.id}` };
  return c.json(shareView(share, status), 201, headers);
}

/** Refuses shares where nobody could fetch their files: to open one would use it up. */
function requireGateway(c: Ctx): void {
  if (isGatewayOpen(c.env)) return;
  throw new SealpinError('forbidden', 'this service passes no files on: its operator has turned /ipfs/ off');
}

/** A page of the account's shares, newest first, each as its object knows it. */
export async function listShares(c: Ctx, caller: Principal): Promise<Response> {
  const page = await unwrap(caller.account.shares.list(caller.key.hash, pageOf(parseQuery(c, shapes.PageQuery))));
  const shares = await Promise.all(page.shares.map(async (share) => shareView(share, await statusOf(c, share))));
  return c.json<shapes.ShareList>({ shares, ...cursorOf(page) });
}

/**
 * Changes the terms of a share: with a condition, of the version that it holds for, in one
 * transaction with openings.
 */
export async function changeShare(c: Ctx, { account, key }: Principal): Promise<Response> {
  const id = parseShareId(c);
  await unwrap(account.shares.changer(key.hash, id));
  const { opens, expiresAt } = await readJson(c.req.raw, shapes.ShareChange);
  checkOpens(opens, shareMaxima(c.env).opens);
  const end = expiresAt === undefined ? undefined : parseFutureTime(expiresAt, Date.now());
  return await untilUnchanged(async () => {
    const seen = isConditional(c.req.raw.headers) ? await lookAt(c, id) : undefined;
    if (seen !== undefined) checkConditions(c.req.raw.headers, [etagOf(seen)], null);
    const { share, status } = await unwrap(account.shares.change(key.hash, id, { opens, expiresAt: end, seen }));
    return c.json(shareView(share, status), 200, { ETag: etagOf(status) });
  });
}

/** Revokes a share. The receipt says what that destroyed, and how often it was opened. */
export async function deleteShare(c: Ctx, caller: Principal): Promise<Response> {
  const id = parseShareId(c);
  checkRecoverable(c.env);
  const { record, files, backedUp } = await unwrap(caller.account.shares.revoke(caller.key.hash, id, c.var.requestId));
  const status = record === 'destroyed' ? await lookAt(c, id) : undefined;
  return c.json<shapes.ShareReceipt>({
    id,
    record,
    opened: status && status.opens - status.opensLeft,
    files: files.length > 0 ? files : undefined,
    ...recoverable(c.env, backedUp),
  });
}

/**
 * Says that a share is there. It may be asked any number of times: programs that follow links in
 * messages do.
 */
export async function readShare(c: Ctx): Promise<Response> {
  const id = parseShareId(c);
  const status = await unwrap(shareOf(c.env, id).look());
  const { state, password, expiresAt, opensLeft } = status;
  const headers = { ETag: etagOf(status) };
  if (isNotModified(c.req.raw.headers, headers.ETag)) return c.body(null, 304, headers);
  const body: shapes.ShareStatus = { id, state, password, expiresAt: isoTime(expiresAt), opensLeft };
  return c.json(body, 200, headers);
}

/** Hands the record of a share out, and with the same `Idempotency-Key` once more. */
export async function openShare(c: Ctx): Promise<Response> {
  const id = parseShareId(c);
  requireGateway(c);
  const { record, opensLeft, isRepeated } = await unwrap(shareOf(c.env, id).open(hashOfOpening(c)));
  const body: shapes.OpenedShare = { record: record.toBase64(), opensLeft };
  return c.json(body, 200, { ...(isRepeated && { 'Idempotency-Replayed': 'true' }) });
}

/**
 * The hash of what the caller of an opening alone knows.
 * @throws invalid_request for what could be guessed
 */
function hashOfOpening(c: Ctx): string | undefined {
  const token = c.req.header('Idempotency-Key');
  if (token === undefined) return undefined;
  if (!/^[ -~]{22,255}$/.test(token))
    throw new SealpinError('invalid_request', 'the Idempotency-Key of an opening has 22 to 255 characters of ASCII', {
      hint: 'make a random one, such as a UUID: anyone who guesses it can open the share again',
    });
  return webProvider.sha256(new TextEncoder().encode(token)).toHex();
}

/** The status of a share with a row. One that its object does not know expired long ago. */
async function statusOf(c: Ctx, share: ShareRecord): Promise<Terms> {
  return (await lookAt(c, share.id)) ?? { ...share, state: 'expired', opensLeft: 0 };
}

async function lookAt(c: Ctx, id: string): Promise<ShareStatus | undefined> {
  return await otherwise(unwrap(shareOf(c.env, id).look()), 'not_found', undefined);
}

function opensOf(c: Ctx, { opens }: shapes.ShareRequest): number {
  const most = shareMaxima(c.env).opens;
  checkOpens(opens, most);
  return opens ?? Math.min(defaultOpens, most);
}

function checkOpens(opens: number | undefined, most: number): void {
  if (opens !== undefined && opens > most)
    throw new SealpinError('invalid_request', `opens must be at most ${most} at this service`);
}

/** The time at which a share expires, in ms: by default no later than the key's own end. */
function expiryOf(c: Ctx, { expiresAt }: shapes.ShareRequest, key: KeyRecord, nowMs: number): number {
  const end = shareEnd(c.env, expiresAt === undefined ? undefined : parseFutureTime(expiresAt, nowMs), nowMs);
  if (end === undefined)
    throw new SealpinError('invalid_request', `a share lasts at most ${shareMaxima(c.env).days} days at this service`);
  return expiresAt === undefined ? Math.min(end, key.expiresAt ?? Infinity) : end;
}

/** Terms of a share that its object decides, and the account may not know yet. */
type Terms = Pick<ShareStatus, 'state' | 'opens' | 'opensLeft' | 'expiresAt' | 'changedAt'>;

function shareView(share: ShareRecord, { state, opens, opensLeft, expiresAt }: Terms): shapes.Share {
  return { ...viewed(shareColumns, shapes.Share, { ...share, opens, expiresAt }), state, opensLeft };
}

/** The ETag of a share. None comes back: between two changes fewer and fewer opens are left. */
function etagOf({ state, opensLeft, expiresAt, changedAt }: Terms): string {
  return `"${state}-${opensLeft}-${expiresAt}-${changedAt ?? 0}"`;
}

/** The ID in a path. @throws not_found when no share can have it */
function parseShareId(c: Ctx): string {
  const id = c.req.param('shareId') ?? '';
  if (!isShareId(id)) throw new SealpinError('not_found');
  return id;
}
