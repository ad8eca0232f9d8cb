/**
 * `GET` and `HEAD /v1/storage/:fileId`: as JSON, as bytes, or as a container that the account's
 * private key opens offline; `/v1/storage/:fileId/content`: as bytes.
 */
import { ReadQuery, type StoredPin } from '../../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { digestOfBytes, openFile, type BlockSource, type IpfsFile } from '../../../shared/ipfs/index.ts';
import { withStop } from '../../../shared/streams/timing.ts';
import { negotiate, preferred } from '../../http/accept.ts';
import { unwrap } from '../../objects/result.ts';
import { parseFileId, parseQuery, type Ctx } from '../../http/app.ts';
import type { Span } from '../../http/conditions.ts';
import { respond, type OpenBody, type Representation } from '../../http/representation.ts';
import { awaitFirstChunk, base64Length, base64Of, concatStreams, fileHeaders } from '../../http/response-body.ts';
import { attachment } from '../../http/content-disposition.ts';
import { identitiesOf, type Principal } from '../../auth/authenticate.ts';
import type { FileRecord } from '../../objects/account/files/file-rows.ts';
import { atServices } from '../../backends/unavailable.ts';
import { aboutPlain, etagOf, openRecord, pinsIn, storedFile, type About, type Form, type Opened } from './file-view.ts';
import { json } from '../route-parts.ts';
import { askPins, sourcesOf, sourceOptions } from './file-backends.ts';

const raw = 'application/octet-stream';
const container = 'application/vnd.sealpin';

/** Returns a file in the representation that the request accepts. */
export async function readFile(c: Ctx, principal: Principal): Promise<Response> {
  const { data } = parseQuery(c, ReadQuery);
  return await respondWithFile(c, principal, { accept: c.req.header('Accept') ?? null, alone: data === false });
}

/** Returns the bytes of a file, whatever the request accepts. */
export async function readContent(c: Ctx, principal: Principal): Promise<Response> {
  return await respondWithFile(c, principal, { accept: raw, alone: false });
}

/** @param o.alone whether JSON omits the data */
async function respondWithFile(c: Ctx, principal: Principal, o: { accept: string | null; alone: boolean }) {
  const { accept } = o;
  const fileId = parseFileId(c);
  const first = preferred(accept, [json, raw, container]);
  const ask = (o: { sealed: false | 'encrypted' }) =>
    unwrap(principal.account.files.find(principal.key.hash, fileId, o));
  const result = await ask({ sealed: first === container ? false : 'encrypted' });
  const record = result.file;
  const body = (opened?: Opened): OpenBody => fileBody(c, record, () => ask({ sealed: false }), opened);
  if (first === container) return await respond(c, wholeContainer(record, body()));
  const opened =
    record.mode === 'encrypted' ? await openRecord(record, await identitiesOf(principal, result)) : undefined;
  const about = opened?.file ?? aboutPlain(record);
  // The bytes also have the type of the file, which is known only now.
  const [essence = ''] = about.contentType.split(';');
  const form = negotiate(accept, [json, raw, container, essence.trim().toLowerCase()]);
  if (form !== json) return await respond(c, asBytes(record, about, body(opened)));
  return await respond(c, inJson(record, about, await askPins(c.env, record), body(opened), o.alone));
}

/**
 * Returns a file as it is stored: its bytes in plain mode, its container in encrypted mode, which
 * needs no key here.
 * @param ask fails where the file does not exist any more
 */
export async function readStored(c: Ctx, record: FileRecord, ask: () => Promise<unknown>): Promise<Response> {
  const body = fileBody(c, record, ask);
  const isPlain = record.mode === 'plain';
  return await respond(c, isPlain ? asBytes(record, aboutPlain(record), body) : wholeContainer(record, body));
}

/** The bytes of a file, decrypted when it is `opened`. */
function fileBody(c: Ctx, record: FileRecord, ask: () => Promise<unknown>, opened?: Opened): OpenBody {
  return async (span) => {
    const sources = await sourcesOf(c, record);
    try {
      return await openBytes(c, record, sources, opened, span);
    } catch (error) {
      // The file may have been deleted meanwhile: then that is the error, and not what became of
      // its bytes.
      await ask();
      const ids = sources.map(({ id }) => id);
      throw withRemedy(atServices(error, ids), record);
    }
  };
}

/** Adds what brings lost bytes back: each upload of an encrypted file makes other ones. */
function withRemedy(thrown: unknown, { mode }: FileRecord): unknown {
  const isLost = isSealpinError(thrown, 'pinning_lost', 'content_mismatch');
  if (mode !== 'encrypted' || !isLost) return thrown;
  return new SealpinError(thrown.code, thrown.message, {
    hint:
      'the same file stored again is encrypted in another way, and brings nothing back: store a copy ' +
      'of the blob as it is, in plain mode, such as that of a backup, or put its blocks back on the ' +
      'node of the pinning service',
    cause: thrown,
  });
}

function inJson(record: FileRecord, about: About, pins: StoredPin[], data: OpenBody, alone: boolean): Representation {
  const encoder = new TextEncoder();
  const file = JSON.stringify(storedFile(record, about, pins));
  const meta = metaOf(record, alone ? 'file' : 'json', json, undefined, pins);
  const before = encoder.encode(alone ? `${file}\n` : `${file.slice(0, -1)},"data":"`);
  if (alone) return { ...meta, bytes: before.length, body: async () => before, ranges: false };
  const after = encoder.encode('"}\n');
  return {
    ...meta,
    bytes: before.length + base64Length(about.size) + after.length,
    body: async () => concatStreams([before, base64Of(await data()), after]),
    ranges: false,
  };
}

function asBytes(record: FileRecord, about: About, body: OpenBody): Representation {
  return {
    ...metaOf(record, 'raw', about.contentType, about.filename),
    bytes: about.size,
    sha256: record.mode === 'plain' ? digestOfBytes(record.cid) : undefined,
    body,
    ranges: true,
    file: record.mode === 'plain' ? record.cid : undefined,
  };
}

function wholeContainer(record: FileRecord, sealed: OpenBody): Representation {
  const { header } = record;
  if (header === null) throw new SealpinError('not_acceptable', 'only files of the encrypted mode have a container');
  return {
    ...metaOf(record, 'container', container, `${record.fileId}.sealpin`),
    bytes: header.length + record.bytes,
    body: async () => concatStreams([header, await sealed()]),
    ranges: false,
  };
}

/** The ETag of a form of a file, and the headers of a response with it. @param pins of the file */
function metaOf(
  record: FileRecord,
  form: Form,
  type: string,
  filename?: string | null,
  pins: readonly StoredPin[] = [],
) {
  const times = pinsIn(form, pins).flatMap(({ checkedAt, verifiedAt }) => [checkedAt, verifiedAt]);
  const seen = times.filter((time) => time !== undefined).map((time) => Date.parse(time));
  const headers = new Headers({
    ...fileHeaders,
    'Content-Type': type,
    'Last-Modified': new Date(Math.max(record.changedAt ?? record.createdAt, ...seen)).toUTCString(),
  });
  if (filename !== undefined) headers.set('Content-Disposition', attachment(filename));
  return { etag: etagOf(record, form, pins), headers };
}

/**
 * The bytes of a file or of a span of it, decrypted when the file is `opened`. Each block is
 * verified before it is passed on.
 * @throws content_mismatch when the CID has another number of bytes than the row
 */
async function openBytes(c: Ctx, record: FileRecord, sources: BlockSource[], opened: Opened | undefined, span?: Span) {
  const { signal, stop } = withStop(c.req.raw.signal);
  try {
    const file = await openFile(record.cid, sources, { signal, ...sourceOptions(c, record.cid) });
    if (file.size !== record.bytes) throw new SealpinError('content_mismatch');
    return await awaitFirstChunk(await readSpan(file, opened, span), stop);
  } catch (error) {
    stop(error);
    throw error;
  }
}

async function readSpan(file: IpfsFile, opened: Opened | undefined, span: Span | undefined) {
  if (opened === undefined) return file.read(span?.start, span?.end);
  if (span === undefined) return opened.decrypt(file.read());
  return await opened.decryptRange({
    ...span,
    read: (offset, length) => Promise.resolve(file.read(offset, offset + length)),
  });
}
