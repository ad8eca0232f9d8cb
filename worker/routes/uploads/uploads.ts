/** `/v1/uploads`: files in several requests, by tus 1.0.0. */
import { isContentType, ResumableUpload, type ResumableUploadList } from '../../../shared/api.ts';
import { beginPayload, uploadSeal } from '../../../shared/crypto/index.ts';
import { describe, isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { parseFilename } from '../../../shared/filename.ts';
import { parseCid } from '../../../shared/ipfs/index.ts';
import { chunkType, tusVersion } from '../../../shared/tus-protocol.ts';
import { maxFileBytes } from '../../env.ts';
import { parseFileId, type Ctx } from '../../http/app.ts';
import { orLog } from '../../log.ts';
import { isBrokenBody } from '../../http/tus.ts';
import type { Claim } from '../../objects/account/uploads/claims.ts';
import { arrivedBytes, essenceOf, isEncoded } from '../../http/body-headers.ts';
import type { Principal } from '../../auth/authenticate.ts';
import type { NewFile } from '../../objects/account/files/file-rows.ts';
import { unwrap } from '../../objects/result.ts';
import { uploadColumns } from '../../objects/account/tables.ts';
import type { UploadRecord } from '../../objects/account/uploads/upload-rows.ts';
import { viewed } from '../../objects/columns.ts';
import { firstBackendOf } from '../../backends/configured.ts';
import { parseDetails } from '../../http/validation.ts';
import { checkBodyHeaders } from '../../upload/checked-body.ts';
import { continueUpload, metadataLabel, type Continued } from '../../upload/continue-upload.ts';
import { parseClaim, type Description } from '../../upload/idempotency-key.ts';
import * as tus from '../../http/tus-headers.ts';

/** Headers that describe an upload; the bytes of the first request do not. */
const describing: Description = {
  headers: ['Upload-Length', 'Upload-Defer-Length', 'Upload-Metadata'],
  bodyLength: false,
};

/** Says what the service can do. */
export function describeUploads(c: Ctx): Response {
  return c.body(null, 204, {
    'Tus-Version': tusVersion,
    'Tus-Extension': tus.tusExtensions.join(','),
    'Tus-Max-Size': String(maxFileBytes(c.env)),
  });
}

/** The handler that begins uploads in a mode, with the first bytes where the request has some. */
export function createUpload(mode: NewFile['mode']) {
  return async (c: Ctx, caller: Principal): Promise<Response> => {
    const { headers } = c.req.raw;
    tus.checkExtensions(headers);
    const length = tus.parseLength(headers, maxFileBytes(c.env));
    const metadata = headers.get('Upload-Metadata') ?? '';
    const announced = checkMetadata(mode, metadata);
    const hasBody = isChunk(c);
    checkBodyHeaders({ env: c.env, request: c.req.raw, room: length ?? maxFileBytes(c.env) });
    const claim = await parseClaim(c, caller.key, describing);
    const service = firstBackendOf(c.env, c.var.requestId);
    const uploadId = crypto.randomUUID();
    const payload = mode === 'encrypted' ? await beginPayload() : undefined;
    const preamble = payload?.keys.preamble ?? new Uint8Array(0);
    const seal = await uploadSeal(caller.key, { uploadId, preamble });
    const row = {
      uploadId,
      mode,
      length,
      service: service.id,
      announced: announced.cid,
      sealedKey: payload === undefined ? null : await seal.seal(payload.keys.fileKey),
      preamble,
      sealedMetadata: await seal.seal(new TextEncoder().encode(metadata), metadataLabel),
      tail: payload?.state.tail ?? new Uint8Array(0),
    };
    const created = caller.account.uploads.create(caller.key.hash, row, announced, claim);
    const { upload, replayed } = await unwrap(created);
    let progress: Continued = upload;
    if (replayed) c.header('Idempotency-Replayed', 'true');
    else if (hasBody || length === 0)
      progress = await resumeUpload(c, caller, { uploadId, offset: 0, length: undefined }, (error) =>
        isUnknown(error, claim),
      );
    return c.body(null, 201, {
      Location: `/v1/uploads/${upload.uploadId}`,
      ...progressHeaders(upload.uploadId, progress),
    });
  };
}

/**
 * Returns the offset of an upload. A request that still continues it has a little time to end, and
 * is ended then.
 */
export async function headUpload(c: Ctx, caller: Principal): Promise<Response> {
  const { upload } = await unwrap(caller.account.uploads.look(caller.key.hash, parseFileId(c, 'uploadId'), true));
  const { uploadId, length, preamble, sealedMetadata } = upload;
  const seal = await uploadSeal(caller.key, { uploadId, preamble });
  const metadata =
    sealedMetadata.length === 0
      ? ''
      : new TextDecoder().decode(await seal.open(new Uint8Array(sealedMetadata), metadataLabel));
  return c.body(null, 200, {
    ...progressHeaders(uploadId, upload),
    ...(length === null ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': String(length) }),
    ...(metadata === '' ? {} : { 'Upload-Metadata': metadata }),
  });
}

/** Takes the next bytes of a file. */
export async function patchUpload(c: Ctx, caller: Principal): Promise<Response> {
  const uploadId = parseFileId(c, 'uploadId');
  if (!isChunk(c)) throw wrongType();
  const offset = tus.parseBytes('Upload-Offset', c.req.header('Upload-Offset'));
  if (offset === undefined) throw new SealpinError('invalid_request', 'Upload-Offset is missing');
  const length = tus.parseBytes('Upload-Length', c.req.header('Upload-Length'));
  if (length !== undefined) tus.checkFileBytes(length, maxFileBytes(c.env));
  checkBodyHeaders({ env: c.env, request: c.req.raw, room: Infinity });
  const progress = await resumeUpload(c, caller, { uploadId, offset, length });
  if (progress.isUnread === true) c.header('Sealpin-Body', 'wanted');
  return c.body(null, 204, progressHeaders(uploadId, progress));
}

/** Returns the state of an upload. It does not disturb a request that continues it. */
export async function readUpload(c: Ctx, caller: Principal): Promise<Response> {
  const { upload } = await unwrap(caller.account.uploads.look(caller.key.hash, parseFileId(c, 'uploadId'), false));
  return c.json(uploadView(upload));
}

/**
 * The uploads of the caller's key, or with `keys` those of the account, newest first: those that
 * are not finished, then the others.
 */
export async function listUploads(c: Ctx, caller: Principal): Promise<Response> {
  const { uploads } = await unwrap(caller.account.uploads.list(caller.key.hash));
  return c.json<ResumableUploadList>({ uploads: uploads.map((upload) => uploadView(upload)) });
}

/** Ends an upload. A file that was stored stays. */
export async function deleteUpload(c: Ctx, caller: Principal): Promise<Response> {
  await unwrap(caller.account.uploads.remove(caller.key.hash, parseFileId(c, 'uploadId')));
  return c.body(null, 204);
}

/**
 * Tells whether nobody will continue an upload that its first request began and failed with:
 * its client does not know it. With an Idempotency-Key a client finds it again, unless its
 * body was refused; another request that has taken it over knows it.
 */
function isUnknown(error: unknown, claim: Claim | undefined): boolean {
  const code = isSealpinError(error) ? error.code : 'internal';
  if (code === 'upload_busy' || code === 'offset_mismatch') return false;
  return claim === undefined || !(isBrokenBody(error) || describe(code).status >= 500);
}

/**
 * Continues an upload, and finishes what has arrived even if the client leaves.
 * @param isOver tells whether an error ends the upload
 */
async function resumeUpload(
  c: Ctx,
  caller: Principal,
  options: { uploadId: string; offset: number; length: number | undefined },
  isOver: (error: unknown) => boolean = () => false,
): Promise<Continued> {
  const lease = crypto.randomUUID();
  const { requestId } = c.var;
  const { uploads } = caller.account;
  const onArrival = (bytes: number): void => void arrivedBytes.set(c.req.raw, bytes);
  const continued = continueUpload(c.env, c.req.raw, caller, { ...options, lease, requestId, onArrival });
  const work = continued.catch(async (error: unknown) => {
    const remove = () => unwrap(uploads.remove(caller.key.hash, options.uploadId));
    if (isOver(error)) await orLog({ event: 'upload.giveUp', requestId }, remove);
    throw error;
  });
  const end = (): Promise<unknown> => uploads.release(options.uploadId, lease);
  // When the client disconnects, the runtime cancels the request: this keeps it running until it
  // has recorded what arrived. A HEAD that waits for its end responds then; if the object cannot be
  // reached, it responds when its time is up.
  c.executionCtx.waitUntil(work.then(end, end).catch(() => undefined));
  return await work;
}

function progressHeaders(uploadId: string, { state, offset, expiresAt, cid }: Continued): Record<string, string> {
  return {
    'Upload-Offset': String(offset),
    ...(state === 'open' ? { 'Upload-Expires': new Date(expiresAt).toUTCString() } : {}),
    ...(cid === null ? {} : { 'Sealpin-File': uploadId, 'Sealpin-Cid': cid }),
  };
}

function uploadView(upload: UploadRecord): ResumableUpload {
  const { uploadId: fileId, cid, state } = upload;
  return {
    ...viewed(uploadColumns, ResumableUpload, upload),
    file: cid === null || state === 'failed' ? undefined : { fileId, cid },
  };
}

/**
 * Checks what an upload says of its file, as an upload in one request is checked.
 * @throws invalid_filename, invalid_request, invalid_cid
 */
function checkMetadata(mode: NewFile['mode'], text: string) {
  const { filename, contentType, cid, details, provisional } = tus.parseMetadata(text);
  if (filename !== null) parseFilename(filename);
  if (contentType !== null && !isContentType(contentType))
    throw new SealpinError('invalid_request', 'the filetype is not a media type of at most 255 characters');
  if (mode === 'encrypted' && filename === null)
    throw new SealpinError('invalid_filename', 'the file has no name', {
      hint: 'send it as filename in Upload-Metadata, in base64',
    });
  for (const [name, value] of Object.entries({ cid, provisional }))
    if (mode === 'encrypted' && value !== null)
      throw new SealpinError('invalid_request', `${name} is not supported in encrypted mode`);
  if (provisional !== null && !['true', 'false'].includes(provisional))
    throw new SealpinError('invalid_request', 'provisional must be true or false');
  return {
    cid: cid === null ? null : parseCid(cid).text,
    isProvisional: provisional === 'true',
    details: parseDetails(details),
  };
}

/**
 * Tells whether the request has bytes of a file.
 * @throws unsupported_media_type for any other body
 */
function isChunk(c: Ctx): boolean {
  const { headers } = c.req.raw;
  if (isEncoded(headers)) throw wrongType();
  if (essenceOf(headers) === chunkType) return true;
  if (Number(headers.get('Content-Length') ?? 0) > 0) throw wrongType();
  return false;
}

function wrongType(): SealpinError {
  return new SealpinError(
    'unsupported_media_type',
    `bytes of a file are sent as ${chunkType}, without Content-Encoding`,
  );
}
