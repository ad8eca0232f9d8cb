/** `POST /v1/storage/encrypted` and `/plain`: from the request's body to a pin, without a moment in which a pin has no row. */
import { UploadQuery } from '../shared/api.ts';
import { detachedPayloadBytes, encryptDetached, plaintextBytes, recipientFromSpki } from '../shared/crypto/index.ts';
import { SealpinError } from '../shared/errors.ts';
import { measured, parseCid } from '../shared/ipfs/index.ts';
import { settled } from './answer.ts';
import { parseQuery, type Ctx } from './app.ts';
import { parseDisposition, parseFilename } from './body/names.ts';
import { checkLength, uploadBody, type UploadBody } from './body/upload.ts';
import { callerOf, identityOf, type Caller } from './caller.ts';
import { maxUploadBytes, servicesOf } from './env.ts';
import { parseClaim } from './idempotency.ts';
import { errorText, log } from './log.ts';
import type { Reader } from './objects/account.ts';
import type { FileRecord, NewFile } from './objects/files.ts';
import type { KeyRecord } from './objects/registry.ts';
import { aboutPlain, anyBytes, openRecord, storedFile, type About } from './stored.ts';

type Mode = NewFile['mode'];

/** What a request says of its body before a byte of it is read. */
type Announced = { json: boolean; filename: string | undefined; contentType: string; cid: string | undefined };

/** The handler of a POST in a mode. */
export function upload(mode: Mode) {
  return async (c: Ctx): Promise<Response> => {
    const caller = await callerOf(c);
    const limitBytes = maxUploadBytes(c.env);
    const claim = await parseClaim(c, caller.key);
    const fileId = crypto.randomUUID();
    const begun = await settled(caller.account.begin(caller.key.hash, fileId, claim));
    const { key, spki } = begun;
    let body: UploadBody | undefined;
    const abort = new AbortController();
    try {
      const announced = parseAnnounced(c, mode);
      if (begun.first !== undefined) return await replayed(c, caller, begun, begun.first, announced);
      checkLength(c.req.raw, limitBytes);
      body = uploadBody(c.req.raw, limitBytes, announced.json ? 'json' : mode);
      const signal = AbortSignal.any([abort.signal, c.req.raw.signal]);
      const { record, about } = await store(c, caller, { fileId, mode, spki, announced, body, signal });
      return created(c, key, record, about);
    } catch (error) {
      // A stream that errors leaves the request to the pinning service open, or even ends it cleanly: only this ends it.
      abort.abort(error);
      if (claim !== undefined) await release(c, caller, fileId);
      throw body?.fault() ?? error;
    }
  };
}

/** The claim ends by itself after an hour: not being able to give it up now changes nothing about what went wrong. */
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
  o: { fileId: string; mode: Mode; spki: Uint8Array; announced: Announced; body: UploadBody; signal: AbortSignal },
): Promise<{ record: FileRecord; about: About }> {
  const { fileId, mode, announced, body } = o;
  const [service] = servicesOf(c.env);
  if (service === undefined) throw new SealpinError('misconfigured', 'no pinning service is configured');
  const encrypted =
    mode === 'encrypted' ? await encryptDetached(body.stream, { recipient: recipientFromSpki(o.spki) }) : undefined;
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
    const intended = await settled(caller.account.intend(caller.key.hash, file));
    other = intended.other;
    record = { ...file, createdAt: intended.createdAt };
  };

  const bytes = bodyBytes(c, o);
  const pinned = await service.put(measure.stream, {
    signal: o.signal,
    ...(bytes === undefined ? {} : { bytes }),
    beforeLast,
  });
  if (about === undefined || record === undefined)
    throw new SealpinError('pinning_failed', 'the pinning service answered early');
  if (pinned.cid !== record.cid) {
    await settled(caller.account.withdraw(fileId, pinned.cid));
    throw new SealpinError('pinning_failed', `${service.id} computed another CID, ${pinned.cid}, for ${record.cid}`);
  }
  if (other !== null) await service.share(record.cid, other, o.signal);
  await settled(caller.account.ready(fileId));
  return { record, about };
}

/** Bytes that will go to the pinning service, where the request announces its length. */
function bodyBytes(c: Ctx, o: { mode: Mode; announced: Announced }): number | undefined {
  const length = c.req.header('Content-Length');
  if (o.announced.json || length === undefined || !/^[0-9]+$/.test(length)) return undefined;
  return o.mode === 'plain' ? Number(length) : detachedPayloadBytes(Number(length));
}

function parseAnnounced(c: Ctx, mode: Mode): Announced {
  const contentType = c.req.header('Content-Type')?.trim() ?? '';
  const json = contentType.split(';')[0]!.trim().toLowerCase() === 'application/json';
  if (contentType.length > 255 || !/^[\t -~]*$/.test(contentType)) {
    throw new SealpinError('unsupported_media_type', 'Content-Type has to be at most 255 characters of ASCII');
  }
  const filename = json ? undefined : parseDisposition(c.req.header('Content-Disposition') ?? null);
  if (mode === 'encrypted' && !json && filename === undefined) {
    throw new SealpinError('invalid_filename', 'the file has no name', {
      hint: "send Content-Disposition: attachment; filename*=UTF-8''name",
    });
  }
  const { cid } = parseQuery(c, UploadQuery);
  if (cid !== undefined && mode === 'encrypted')
    throw new SealpinError('invalid_request', 'cid is for plain mode: nobody can know it before');
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

const containers = ['age-encryption.org/v1\n', '-----BEGIN AGE ENCRYPTED FILE-----', 'sealpin/v1\n'];

/** Whether bytes begin like a container, which carries its own header: deleting it cannot destroy a key. */
function isContainer(head: Uint8Array): boolean {
  const text = new TextDecoder('latin1').decode(head);
  return containers.some((start) => text.startsWith(start));
}
