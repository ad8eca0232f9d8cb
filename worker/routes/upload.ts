/** `POST /v1/storage/encrypted` and `/plain`: from the request's body to a pin, without a moment in which a pin has no row. */
import { UploadQuery } from '../../shared/api.ts';
import {
  detachedPayloadBytes,
  encryptDetached,
  plaintextBytes,
  recipientFromSpki,
  sniff,
} from '../../shared/crypto/index.ts';
import { describe, isSealpinError, SealpinError } from '../../shared/errors.ts';
import { leafBytes, measured, parseCid } from '../../shared/ipfs/index.ts';
import { settled } from '../objects/result.ts';
import { parseQuery, type Ctx } from '../http/app.ts';
import { parseDisposition, parseFilename } from '../http/content-disposition.ts';
import { checkLength, isEncoded, uploadBody, type UploadBody } from '../upload/body.ts';
import { callerOf, identityOf, type Caller } from '../auth/authenticate.ts';
import { maxUploadBytes, servicesOf, uploadIdleMs } from '../env.ts';
import { parseClaim } from '../upload/idempotency-key.ts';
import { errorText, log } from '../log.ts';
import type { Reader } from '../objects/account.ts';
import type { FileRecord, NewFile } from '../objects/file-rows.ts';
import type { Claim } from '../objects/claims.ts';
import type { KeyRecord } from '../objects/key-registry.ts';
import { atServices } from '../pinning/unavailable.ts';
import { aboutPlain, anyBytes, openRecord, storedFile, type About } from './file-view.ts';

type Mode = NewFile['mode'];

/** What a request says of its body before a byte of it is read. */
type Announced = { json: boolean; filename: string | undefined; contentType: string; cid: string | undefined };

/** The handler of a POST in a mode. */
export function upload(mode: Mode) {
  return async (c: Ctx): Promise<Response> => {
    const work = handle(c, mode);
    // When the client disconnects, the runtime cancels the request: this keeps it running until it has cleaned up.
    c.executionCtx.waitUntil(work.catch(() => undefined));
    return await work;
  };
}

async function handle(c: Ctx, mode: Mode): Promise<Response> {
  const caller = await callerOf(c);
  const limitBytes = maxUploadBytes(c.env);
  const idleMs = uploadIdleMs(c.env);
  const claim = await parseClaim(c, caller.key);
  const fileId = crypto.randomUUID();
  const begun = await settled(caller.account.begin(caller.key.hash, fileId, claim));
  const { key, spki } = begun;
  let body: UploadBody | undefined;
  const abort = new AbortController();
  const lease = claim && renewed(c, caller, { fileId, claim, everyMs: begun.renewMs, abort });
  try {
    const announced = parseAnnounced(c, mode);
    if (begun.first !== undefined) return await replayed(c, caller, begun, begun.first, announced);
    checkLength(c.req.raw, limitBytes);
    body = uploadBody(c.req.raw, { limitBytes, idleMs, form: announced.json ? 'json' : mode });
    const signal = AbortSignal.any([abort.signal, c.req.raw.signal]);
    const { record, about } = await store(c, caller, { fileId, claim, mode, spki, announced, body, signal });
    return created(c, key, record, about);
  } catch (error) {
    // Asked before the abort, which breaks the body as well.
    const fault = body?.fault();
    // A stream that errors leaves the request to the pinning service open, or even ends it cleanly: only this ends it.
    abort.abort(error);
    if (claim !== undefined) await release(c, caller, fileId);
    if (c.req.raw.signal.aborted) throw new SealpinError('body_incomplete', 'the client left', { cause: error });
    throw fault ?? error;
  } finally {
    if (lease !== undefined) clearInterval(lease);
  }
}

/** Renews the claim of an upload for as long as its request lives, and ends the upload when the claim is another request's. */
function renewed(
  c: Ctx,
  caller: Caller,
  o: { fileId: string; claim: Claim; everyMs: number; abort: AbortController },
): ReturnType<typeof setInterval> {
  return setInterval(() => {
    settled(caller.account.renew(caller.key.hash, o.fileId, o.claim)).catch((error: unknown) => {
      // An object that was busy or moved is asked again next time.
      if (isSealpinError(error) && describe(error.code).fault === 'user') o.abort.abort(error);
      else log({ event: 'upload.renew', requestId: c.var.requestId, error: errorText(error) });
    });
  }, o.everyMs);
}

/** Gives the claim up. It runs out by itself, so a failure here does not hide the error of the upload. */
async function release(c: Ctx, caller: Caller, fileId: string): Promise<void> {
  try {
    await settled(caller.account.release(fileId));
  } catch (error) {
    log({ event: 'upload.release', requestId: c.var.requestId, error: errorText(error) });
  }
}

function created(c: Ctx, key: KeyRecord, record: FileRecord, about: About): Response {
  const filename = key.scopes.includes('read') ? about.filename : undefined;
  return c.json(storedFile(record, { ...about, filename }), 201, {
    'Cache-Control': 'no-store',
    Location: `/v1/storage/${record.fileId}`,
  });
}

/** The answer to the first request, made anew: no answer is kept. */
async function replayed(
  c: Ctx,
  caller: Caller,
  reader: Reader,
  record: FileRecord,
  announced: Announced,
): Promise<Response> {
  c.header('Idempotency-Replayed', 'true');
  if (record.mode === 'plain') return created(c, reader.key, record, aboutPlain(record));
  if (reader.key.scopes.includes('read'))
    return created(c, reader.key, record, (await openRecord(record, await identityOf(caller, reader))).file);
  // Without `read` the header stays closed. The type is part of the fingerprint, so this one is that one.
  return created(c, reader.key, record, {
    filename: null,
    contentType: announced.contentType,
    size: plaintextBytes(record.bytes) ?? 0,
  });
}

async function store(
  c: Ctx,
  caller: Caller,
  o: {
    fileId: string;
    claim: Claim | undefined;
    mode: Mode;
    spki: Uint8Array;
    announced: Announced;
    body: UploadBody;
    signal: AbortSignal;
  },
): Promise<{ record: FileRecord; about: About }> {
  const { fileId, mode, announced, body } = o;
  const [service] = servicesOf(c.env);
  if (service === undefined) throw new SealpinError('misconfigured', 'no pinning service is configured');
  const encrypted =
    mode === 'encrypted'
      ? await encryptDetached(body.stream, { recipient: recipientFromSpki(o.spki), pieceBytes: leafBytes })
      : undefined;
  const measure = measured(encrypted?.payload ?? body.stream);

  let about: About | undefined;
  let record: FileRecord | undefined;
  let other: string | null = null;
  /** Everything about the body is known, and the pinning service cannot keep it yet. */
  const beforeLast = async (): Promise<void> => {
    const { cid, bytes } = await measure.result;
    if (announced.cid !== undefined && announced.cid !== cid) throw new SealpinError('cid_mismatch');
    about = { filename: nameOf(mode, announced, body), contentType: announced.contentType, size: body.size() };
    const plain =
      mode === 'plain'
        ? { filename: about.filename, contentType: about.contentType }
        : { filename: null, contentType: null };
    const file: NewFile = {
      fileId,
      mode,
      ...plain,
      bytes,
      container: mode === 'plain' && isContainer(body.head()),
      cid,
      service: service.id,
      header: encrypted === undefined ? null : await encrypted.header(fileId, about),
    };
    const intended = await settled(caller.account.intend(caller.key.hash, file, o.claim));
    other = intended.other;
    record = { ...file, createdAt: intended.createdAt };
  };

  const bytes = bodyBytes(c, o);
  const pinned = await service
    .put(measure.stream, { signal: o.signal, ...(bytes === undefined ? {} : { bytes }), beforeLast })
    .catch((error: unknown) => {
      throw atServices(error, [service.id]);
    });
  if (about === undefined || record === undefined)
    throw new SealpinError('pinning_failed', 'the pinning service answered early');
  if (pinned.cid !== record.cid) {
    await settled(caller.account.withdraw(fileId, pinned.cid));
    throw new SealpinError('pinning_failed', `${service.id} computed another CID, ${pinned.cid}, for ${record.cid}`);
  }
  if (other !== null) await service.share(record.cid, other, o.signal);
  await settled(caller.account.ready(fileId, o.claim));
  return { record, about };
}

/** Bytes that will go to the pinning service, where the request announces its length. */
function bodyBytes(c: Ctx, o: { mode: Mode; announced: Announced }): number | undefined {
  const length = c.req.header('Content-Length');
  if (o.announced.json || length === undefined || !/^[0-9]+$/.test(length)) return undefined;
  return o.mode === 'plain' ? Number(length) : detachedPayloadBytes(Number(length));
}

/** Types of bodies that wrap a file instead of being one: HTML forms (HTML standard, section 4.10.21) and the default of `curl -d`. */
const forms = ['multipart/form-data', 'application/x-www-form-urlencoded'];

function parseAnnounced(c: Ctx, mode: Mode): Announced {
  const contentType = c.req.header('Content-Type')?.trim() ?? '';
  const essence = contentType.split(';')[0]!.trim().toLowerCase();
  const json = essence === 'application/json';
  if (isEncoded(c.req.raw.headers)) {
    throw new SealpinError('unsupported_media_type', 'the body has a Content-Encoding, which nobody would undo', {
      hint: 'send the bytes of the file, without Content-Encoding',
    });
  }
  if (c.req.header('Content-Range') !== undefined) {
    throw new SealpinError('invalid_request', 'a part of a file cannot be stored: leave Content-Range out');
  }
  if (forms.includes(essence)) {
    throw new SealpinError('unsupported_media_type', `the body is a form (${essence}), not the file itself`, {
      hint: `send the bytes: curl -X POST -T FILE -H 'Content-Type: application/octet-stream' …/v1/storage/${mode}; or JSON with its type, application/json`,
    });
  }
  if (contentType.length > 255 || !/^[\t -~]*$/.test(contentType)) {
    throw new SealpinError('unsupported_media_type', 'Content-Type has to be at most 255 characters of ASCII');
  }
  const filename = json ? undefined : parseDisposition(c.req.header('Content-Disposition') ?? null);
  if (mode === 'encrypted' && !json && filename === undefined) {
    throw new SealpinError('invalid_filename', 'the file has no name', {
      hint: "send Content-Disposition: attachment; filename*=UTF-8''name",
    });
  }
  // In encrypted mode nobody can know the CID before, and the route takes no `cid`.
  const { cid } = parseQuery(c, UploadQuery);
  return {
    json,
    filename,
    contentType: json || contentType === '' ? anyBytes : contentType,
    cid: cid === undefined ? undefined : parseCid(cid).text,
  };
}

function nameOf(mode: Mode, announced: Announced, body: UploadBody): string | null {
  if (!announced.json) return announced.filename ?? null;
  const filename = body.filename();
  if (filename !== undefined) return parseFilename(filename);
  if (mode === 'plain') return null;
  throw new SealpinError('invalid_json', 'the member filename is missing');
}

/** Whether bytes begin like a container, which carries its own header: deleting it cannot destroy a key. */
function isContainer(head: Uint8Array): boolean {
  const found = sniff(head);
  return found !== undefined && found !== 'detached';
}
