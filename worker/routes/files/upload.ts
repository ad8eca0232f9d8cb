/** `POST /v1/storage/encrypted` and `/plain`: from the request's body to a file that is stored. */
import { isContentType, UploadQuery, type NewlyStoredFile } from '../../../shared/api.ts';
import { encryptDetached, keyIdOf, plaintextBytes, recipientFromSpki } from '../../../shared/crypto/index.ts';
import { describe, isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { carType, leafBytes, parseCid } from '../../../shared/ipfs/index.ts';
import { toError, unwrap } from '../../objects/result.ts';
import { parseQuery, type Ctx } from '../../http/app.ts';
import { leafMemory } from '../../leaf-memory.ts';
import { parseFilename } from '../../../shared/filename.ts';
import { arrivedBytes, essenceOf, isEncoded, isJson } from '../../http/body-headers.ts';
import { parseDisposition } from '../../http/content-disposition.ts';
import { parseDetails } from '../../http/validation.ts';
import { parseDigests, parseWanted } from '../../http/digest-fields.ts';
import { checkLength } from '../../upload/counted-body.ts';
import { UploadBody } from '../../upload/upload-body.ts';
import { withCurrentPair } from '../../upload/current-pair.ts';
import { recognize } from '../../upload/leaf-source.ts';
import type { SentPart } from '../../upload/part-writer.ts';
import { keepPart, pinPlanned } from '../../upload/pin-planned.ts';
import { handedFile } from '../../upload/handed-over.ts';
import { sendCar } from '../../upload/send-car.ts';
import { sendFile } from '../../upload/send-file.ts';
import type { SentFile } from '../../upload/send-parts.ts';
import { carPermits, withPermit, leafPermits } from '../../upload/semaphore.ts';
import { identitiesOf, type Principal } from '../../auth/authenticate.ts';
import { maxFileBytes, maxUploadBytes, uploadIdleMs } from '../../env.ts';
import { parseClaim } from '../../upload/idempotency-key.ts';
import { errorText, log, orLog } from '../../log.ts';
import type { FileRecord, NewFile } from '../../objects/account/files/file-rows.ts';
import type { Claim } from '../../objects/account/uploads/claims.ts';
import { invitedEnd } from '../../objects/account/keys/invitation.ts';
import type { KeyMaterial, KeyRecord } from '../../objects/account/keys/key-rows.ts';
import { storedBytes } from '../../objects/account/keys/reserved.ts';
import { firstBackendOf } from '../../backends/configured.ts';
import { atServices } from '../../backends/unavailable.ts';
import { intakeOf } from '../../objects/pin/stores/object-intake.ts';
import { uploadMs } from '../../objects/pin/stores/object-rows.ts';
import { aboutPlain, anyBytes, openRecord, storedFile, type About } from './file-view.ts';
import { newPins } from './file-backends.ts';

type Mode = NewFile['mode'];

/** Headers of a request that describe its body. */
type Announced = ReturnType<typeof parseAnnounced>;

/** The account's object, and what it knows the caller's API key by. */
type Uploader = { account: Principal['account']; key: { hash: string } };

/**
 * `principal`: unless the request comes by a signed URL, which does not show the key. `limitBytes`:
 * of the body, and of the file.
 */
type UploadRequest = {
  mode: Mode;
  principal?: Principal;
  claim: Claim | undefined;
  limitBytes?: number | undefined;
};

/** The handler of uploads in a mode. */
export function uploadHandler(mode: Mode) {
  return async (c: Ctx, principal: Principal): Promise<Response> =>
    await receiveUpload(c, principal, { mode, principal, claim: await parseClaim(c, principal.key) });
}

/** Stores the body of a request. */
export async function receiveUpload(c: Ctx, caller: Uploader, request: UploadRequest): Promise<Response> {
  const work = handle(c, caller, request);
  // A client that disconnects cancels the request; this keeps it running until it has cleaned up.
  c.executionCtx.waitUntil(work.catch(() => undefined));
  return await work;
}

async function handle(c: Ctx, caller: Uploader, o: UploadRequest): Promise<Response> {
  const { mode, principal, claim } = o;
  const limits = [maxUploadBytes(c.env), o.limitBytes].filter((each) => each !== undefined);
  const limitBytes = limits.length === 0 ? undefined : Math.min(...limits);
  const idleMs = uploadIdleMs(c.env);
  const fileId = crypto.randomUUID();
  const begun = await unwrap(caller.account.pending.begin(caller.key.hash, fileId, claim, announcedBytes(c.req.raw)));
  const { key, spki, allowance } = begun;
  let body: UploadBody | undefined;
  const abort = new AbortController();
  const lease = claim && keepRenewing(c, caller, { fileId, claim, everyMs: begun.renewMs, abort });
  try {
    const announced = parseAnnounced(c, mode);
    if (announced.isOnly) checkSeesNames(principal, key);
    const invited = invitedEnd(c.env, key, { mode, ...announced.details }, Date.now());
    if (!invited.ok) throw toError(invited);
    announced.details.expiresAt = invited.expiresAt;
    if (begun.first !== undefined) return await replay(c, principal, begun, begun.first, announced);
    checkLength(c.req.raw, limitBytes);
    const form = announced.json ? 'json' : 'bytes';
    const signal = AbortSignal.any([abort.signal, c.req.raw.signal]);
    const { record, about, digest } = await withPermit({ by: key.id, permits: announced.car ? carPermits : 1 }, () => {
      const counted = announced.car ? undefined : allowance;
      const onArrival = (bytes: number): void => void arrivedBytes.set(c.req.raw, bytes);
      body = new UploadBody(c.req.raw, { limitBytes, allowance: counted, idleMs, form, onArrival, ...announced });
      const maxBytes = Math.min(maxFileBytes(c.env), o.limitBytes ?? Infinity);
      return storeBody(c, caller, { fileId, claim, mode, spki, announced, body, maxBytes, onArrival, signal });
    });
    return await created(c, key, record, { ...about, digest });
  } catch (error) {
    // Asked before the abort, which breaks the body as well.
    const cause = body?.cause;
    // A stream that errors leaves the request to the service open, or ends it cleanly.
    abort.abort(error);
    // What it holds runs out by itself, too: a failure hides no other error.
    const line = { event: 'upload.giveUp', requestId: c.var.requestId };
    await orLog(line, () => unwrap(caller.account.pending.abandon(fileId)));
    if (c.req.raw.signal.aborted)
      throw new SealpinError('body_incomplete', 'the client disconnected', { cause: error });
    throw cause ?? error;
  } finally {
    if (lease !== undefined) clearInterval(lease);
  }
}

/** Returns the bytes that a request announces; undefined for JSON and a CAR, which have others. */
function announcedBytes({ headers }: Request): number | undefined {
  const announced = headers.get('Content-Length');
  return announced === null || isJson(headers) || essenceOf(headers) === carType ? undefined : Number(announced);
}

/**
 * Renews the claim of an upload for as long as its request lives, and ends the upload when another
 * request has taken the claim over.
 */
function keepRenewing(
  c: Ctx,
  caller: Uploader,
  o: { fileId: string; claim: Claim; everyMs: number; abort: AbortController },
): ReturnType<typeof setInterval> {
  return setInterval(() => {
    unwrap(caller.account.pending.renewClaim(caller.key.hash, o.fileId, o.claim)).catch((error: unknown) => {
      // An object that was busy or moved is called again at the next renewal.
      if (isSealpinError(error) && describe(error.code).fault === 'user') o.abort.abort(error);
      else log({ event: 'upload.renew', requestId: c.var.requestId, error: errorText(error) });
    });
  }, o.everyMs);
}

async function created(c: Ctx, key: KeyRecord, record: FileRecord, about: About & { digest?: string | undefined }) {
  const { digest, size, contentType } = about;
  const known = key.scopes.includes('read') ? about : { filename: undefined, contentType, size };
  const body: NewlyStoredFile = { ...storedFile(record, known, await newPins(c.env, record)), digest };
  return c.json(body, 201, { Location: `/v1/storage/${record.fileId}` });
}

/** The response to the first request, built again: no response is stored. */
async function replay(
  c: Ctx,
  principal: Principal | undefined,
  material: KeyMaterial,
  record: FileRecord,
  announced: Announced,
): Promise<Response> {
  c.header('Idempotency-Replayed', 'true');
  if (record.mode === 'plain') return await created(c, material.key, record, aboutPlain(record));
  if (principal !== undefined && material.key.scopes.includes('read')) {
    const { file } = await openRecord(record, await identitiesOf(principal, material));
    return await created(c, material.key, record, file);
  }
  // Without `read`, or the key itself, the header stays closed. The type is part of the
  // fingerprint, so this one is that one.
  return await created(c, material.key, record, {
    filename: null,
    contentType: announced.contentType,
    size: plaintextBytes(record.bytes) ?? 0,
  });
}

type Job = {
  fileId: string;
  claim: Claim | undefined;
  mode: Mode;
  spki: Uint8Array;
  announced: Announced;
  body: UploadBody;
  /** The most bytes that the file of a CAR may have. */
  maxBytes: number;
  signal: AbortSignal;
  onArrival(bytes: number): void;
};

/** The most objects of one request: each has a MiB, but for the last of each part of a CAR. */
const mostObjects = 100_000;

/** A file that is new. */
const unchanged = { version: 0, changedAt: null, description: {}, rewrapped: 0, details: null };

type Stored = { record: FileRecord; about: About; digest: string | undefined };

/**
 * Sends the body to the pinning service, and pins it after its row is written: so nothing is pinned
 * without a row, and what a crash leaves is found by the sweep.
 */
async function storeBody(c: Ctx, caller: Uploader, job: Job): Promise<Stored> {
  const { fileId, claim, mode, announced, body, signal } = job;
  const { account, key } = caller;
  const { requestId } = c.var;
  const service = intakeOf(c.env, firstBackendOf(c.env, requestId), {
    account: account.name ?? '',
    uploadId: fileId,
    isForeign: announced.car,
    numbers: mostObjects,
    forMs: uploadMs,
  });
  const { isOnly, isProvisional, names } = announced;
  const terms = { claim, isOnly, isProvisional, names, requestId };
  const uploads = { account, hash: key.hash, uploadId: fileId, service, requestId };
  const encrypted =
    mode === 'encrypted'
      ? await encryptDetached(body.stream, {
          recipient: recipientFromSpki(job.spki),
          pieceBytes: leafBytes,
          memory: leafMemory,
        })
      : undefined;
  try {
    const keep = (sent: SentPart, signal: AbortSignal) => keepPart(uploads, sent, signal);
    const options = { service, signal, permits: leafPermits, keep, now: Date.now };
    const report = c.env.HANDOVERS?.get(c.req.raw)?.report;
    const sent: SentFile = report
      ? await handedFile(report, { service: service.id, idleMs: uploadIdleMs(c.env), signal, onArrival: job.onArrival })
      : announced.car
        ? await sendCar(body.stream, { ...options, maxFileBytes: job.maxBytes })
        : await sendFile(encrypted?.payload ?? body.stream, { ...options, bytes: storedLength(c, mode) });
    if (announced.cid !== undefined && announced.cid !== sent.cid) throw new SealpinError('cid_mismatch');
    const size = announced.car || report ? sent.bytes : body.size;
    const about = { filename: filenameOf(mode, announced, body), contentType: announced.contentType, size };
    if (isOnly && about.filename === null) throw nameless();
    const prepare = async (spki: Uint8Array) => {
      const other = spki === job.spki ? undefined : recipientFromSpki(spki);
      const file = newFile(job, about, sent, service.id, await encrypted?.header(fileId, about, other));
      const answer = await unwrap(account.pending.prepare(key.hash, file, { ...terms, spki }));
      return 'spki' in answer ? answer : { file, ...answer };
    };
    const { file, createdAt, ...plan } = await withCurrentPair(job.spki, prepare);
    await pinPlanned(service, sent, {
      plan,
      withdraw: () => account.pending.abort(fileId, requestId),
      signal,
      requestId,
    });
    await unwrap(account.pending.commit(fileId, keyIdOf(key.hash), terms));
    return {
      record: { ...file, createdAt, createdBy: keyIdOf(key.hash), ...unchanged },
      about,
      // Of a CAR nobody has seen the bytes of the file in their order.
      digest: announced.car ? undefined : await body.digest(),
    };
  } catch (error) {
    await orLog({ event: 'upload.abandon', requestId }, async () => await service.abandon?.());
    throw atServices(error, [service.id]);
  }
}

/** Bytes of the file as it is stored, where the request says so. */
function storedLength(c: Ctx, mode: Mode): number | undefined {
  const bytes = announcedBytes(c.req.raw);
  return bytes === undefined ? undefined : storedBytes(mode, bytes);
}

function newFile(
  { fileId, mode, announced, body }: Job,
  { filename, contentType }: About,
  { cid, bytes, beginning = recognize(body.head) }: SentFile,
  service: string,
  header: Uint8Array | undefined,
): NewFile {
  const isPlain = mode === 'plain';
  return {
    fileId,
    mode,
    filename: isPlain ? filename : null,
    contentType: isPlain ? contentType : null,
    bytes,
    beginning: isPlain ? beginning : 'other',
    cid,
    service,
    header: header ?? null,
    ...announced.details,
  };
}

/**
 * Types of bodies that wrap a file instead of being one: HTML forms (HTML standard, section
 * 4.10.21) and the default of `curl -d`.
 */
const forms = ['multipart/form-data', 'application/x-www-form-urlencoded'];

function parseAnnounced(c: Ctx, mode: Mode) {
  const contentType = c.req.header('Content-Type')?.trim() ?? '';
  const essence = essenceOf(c.req.raw.headers);
  const json = isJson(c.req.raw.headers);
  const car = mode === 'plain' && essence === carType;
  if (isEncoded(c.req.raw.headers))
    throw new SealpinError('unsupported_media_type', 'the body has a Content-Encoding, which is not decoded here', {
      hint: 'send the bytes of the file, without Content-Encoding',
    });
  if (c.req.header('Content-Range') !== undefined)
    throw new SealpinError('invalid_request', 'a part of a file cannot be stored: leave Content-Range out');
  if (forms.includes(essence))
    throw new SealpinError('unsupported_media_type', `the body is a form (${essence}), not the file itself`, {
      hint:
        `send the bytes: curl -X POST -T FILE -H 'Content-Type: application/octet-stream' ` +
        `…/v1/storage/${mode}; or JSON with its type, application/json`,
    });
  if (contentType !== '' && !isContentType(contentType))
    throw new SealpinError('unsupported_media_type', 'Content-Type is not a media type of at most 255 characters', {
      hint: 'send a type such as application/pdf, or application/octet-stream',
    });
  const filename = json ? undefined : parseDisposition(c.req.header('Content-Disposition') ?? null);
  if (mode === 'encrypted' && !json && filename === undefined)
    throw new SealpinError('invalid_filename', 'the file has no name', {
      hint: "send Content-Disposition: attachment; filename*=UTF-8''name",
    });
  // In encrypted mode the CID is not known before the upload, so the route takes no `cid`.
  const { cid, provisional = false, names, ...details } = parseQuery(c, UploadQuery);
  return {
    json,
    /** Set if the body is a CAR of the file. */
    car,
    filename,
    contentType: json || car || contentType === '' ? anyBytes : contentType,
    cid: cid === undefined ? undefined : parseCid(cid).text,
    /** Set if no other file may have its name. */
    isOnly: parseIsOnly(c, json || filename !== undefined),
    /** Set if the file is kept for a while only, unless another one names it. */
    isProvisional: provisional,
    /** IDs of the files that it names. */
    names: names?.toLowerCase().split(',') ?? [],
    details: parseDetails(details),
    digests: parseDigests(c.req.raw.headers),
    /** The digest of the file that the response is to name. */
    wanted: parseWanted(c.req.header('Want-Repr-Digest')),
  };
}

/**
 * Tells whether `If-None-Match: *` asks that there be no file with the same name (RFC 9110 section
 * 13.1.2).
 * @throws invalid_request
 */
function parseIsOnly(c: Ctx, hasName: boolean): boolean {
  const header = c.req.header('If-None-Match');
  if (header === undefined) return false;
  if (header.trim() !== '*') throw new SealpinError('invalid_request', 'If-None-Match can only be * here');
  if (!hasName) throw nameless();
  return true;
}

/**
 * Checks that the caller may learn whether a name is taken: a key that may read names, and not the
 * holder of a signed URL.
 */
function checkSeesNames(principal: Principal | undefined, key: KeyRecord): void {
  if (principal === undefined)
    throw new SealpinError('invalid_request', 'If-None-Match does not work with a signed URL');
  if (!key.scopes.includes('read'))
    throw new SealpinError('insufficient_scope', 'If-None-Match: * tells names: it needs a key with the scope read');
}

function nameless(): SealpinError {
  return new SealpinError('invalid_request', 'If-None-Match: * needs a name to compare');
}

function filenameOf(mode: Mode, announced: Announced, body: UploadBody): string | null {
  if (!announced.json) return announced.filename ?? null;
  const { filename } = body;
  if (filename !== undefined) return parseFilename(filename);
  if (mode === 'plain') return null;
  throw new SealpinError('invalid_json', 'the member filename is missing');
}
