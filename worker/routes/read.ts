/** `GET` and `HEAD /v1/storage/:fileId`: as JSON, as bytes, or as a container that the account's private key opens offline. */
import { ReadQuery } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { openFile, type IpfsFile } from '../../shared/ipfs/index.ts';
import { acceptable, preferred } from '../http/accept.ts';
import { settled } from '../objects/result.ts';
import { isHead, parseQuery, type Ctx } from '../http/app.ts';
import { base64Length, base64Of, begun, concat, fileHeaders, knownLength } from '../http/response-body.ts';
import { attachment } from '../http/content-disposition.ts';
import { callerOf, identityOf, needsSealed } from '../auth/authenticate.ts';
import { isKnown, rangeOf, type Span } from '../http/conditions.ts';
import { serviceOf } from '../pinning/configured.ts';
import { fileIdOf } from './files.ts';
import type { FileRecord } from '../objects/file-rows.ts';
import { atServices } from '../pinning/unavailable.ts';
import { problem } from '../http/problem.ts';
import { aboutPlain, openRecord, storedFile, type About, type Opened } from './file-view.ts';

const json = 'application/json';
const raw = 'application/octet-stream';
const container = 'application/vnd.sealpin';

type Body = (span?: Span) => Promise<ReadableStream<Uint8Array>>;

/** What is answered. Its body is not asked for by HEAD; it resolves when there are bytes, so that before them errors are told. */
export type Representation = { headers: Headers; bytes: number; body: Body; ranges: boolean };

export async function download(c: Ctx): Promise<Response> {
  const { data } = parseQuery(c, ReadQuery);
  const caller = await callerOf(c);
  const fileId = fileIdOf(c);
  const accept = c.req.header('Accept') ?? null;
  const known = preferred(accept, [json, raw, container]);
  const ask = (o: { sealed: boolean }) => settled(caller.account.file(caller.key.hash, fileId, o));
  const answer = await ask({ sealed: known !== container && needsSealed(caller) });
  const record = answer.file;
  const body =
    (opened?: Opened): Body =>
    async (span) => {
      try {
        return await fileBytes(c, record, opened, span);
      } catch (error) {
        // It may have been deleted just now: then that is told, and not what became of its bytes.
        await ask({ sealed: false });
        throw atServices(error, [record.service]);
      }
    };
  if (known === container) return send(c, wholeContainer(record, body()));
  const opened = record.mode === 'encrypted' ? await openRecord(record, await identityOf(caller, answer)) : undefined;
  const about = opened?.file ?? aboutPlain(record);
  // The bytes go by the type of the file as well, which is known only now.
  const own = about.contentType.split(';')[0]!.trim().toLowerCase();
  const form = acceptable(accept, [json, raw, container, own]);
  return send(
    c,
    form === json ? inJson(record, about, body(opened), data === 'false') : asBytes(record, about, body(opened)),
  );
}

/** Sends a representation, or as much of it as the request's conditions and range ask for. */
export async function send(c: Ctx, { headers, bytes, body, ranges }: Representation): Promise<Response> {
  const etag = headers.get('ETag')!;
  if (isKnown(c.req.raw.headers, etag, headers.get('Last-Modified'))) {
    for (const name of ['Content-Encoding', 'Content-Type', 'Content-Disposition']) headers.delete(name);
    return new Response(null, { status: 304, headers });
  }
  headers.set('Accept-Ranges', ranges ? 'bytes' : 'none');
  headers.set('Content-Length', String(bytes));
  if (isHead(c)) return new Response(null, { headers });
  const span = ranges ? rangeOf(c.req.raw.headers, etag, bytes) : undefined;
  if (span === undefined) return new Response(knownLength(await body(), bytes, c.var.requestId), { headers });
  if (span === 'outside') return outside(c, bytes);
  const length = span.end - span.start;
  headers.set('Content-Range', `bytes ${span.start}-${span.end - 1}/${bytes}`);
  headers.set('Content-Length', String(length));
  return new Response(knownLength(await body(span), length, c.var.requestId), { status: 206, headers });
}

function outside(c: Ctx, bytes: number): Response {
  const answer = problem(new SealpinError('range_not_satisfiable', `the file has ${bytes} bytes`), c.var.requestId);
  answer.headers.set('Content-Range', `bytes */${bytes}`);
  return answer;
}

function inJson(record: FileRecord, about: About, data: Body, alone: boolean): Representation {
  const encoder = new TextEncoder();
  const file = JSON.stringify(storedFile(record, about));
  const headers = headersOf(record, alone ? 'file' : 'json', json);
  const before = encoder.encode(alone ? `${file}\n` : `${file.slice(0, -1)},"data":"`);
  if (alone) return { headers, bytes: before.length, body: () => Promise.resolve(concat([before])), ranges: false };
  const after = encoder.encode('"}\n');
  return {
    headers,
    bytes: before.length + base64Length(about.size) + after.length,
    body: async () => concat([before, base64Of(await data()), after]),
    ranges: false,
  };
}

function asBytes(record: FileRecord, about: About, body: Body): Representation {
  return {
    headers: headersOf(record, 'raw', about.contentType, about.filename),
    bytes: about.size,
    body,
    ranges: true,
  };
}

function wholeContainer(record: FileRecord, sealed: Body): Representation {
  const { header } = record;
  if (header === null) throw new SealpinError('not_acceptable', 'only files of the encrypted mode have a container');
  return {
    headers: headersOf(record, 'container', container, `${record.fileId}.sealpin`),
    bytes: header.length + record.bytes,
    body: async () => concat([header, await sealed()]),
    ranges: false,
  };
}

/** An ETag is made of file and representation: a file never changes. */
function headersOf(record: FileRecord, form: string, type: string, filename?: string | null): Headers {
  const headers = new Headers({
    ...fileHeaders,
    'Content-Type': type,
    ETag: `"${record.fileId}-${form}"`,
    'Last-Modified': new Date(record.createdAt).toUTCString(),
  });
  if (filename !== undefined) headers.set('Content-Disposition', attachment(filename));
  return headers;
}

/** The bytes of a file, or of a part of it; what is stored, unless it is opened. Each block is verified before it is passed on. */
async function fileBytes(
  c: Ctx,
  record: FileRecord,
  opened: Opened | undefined,
  span?: Span,
): Promise<ReadableStream<Uint8Array>> {
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, c.req.raw.signal]);
  try {
    const file = await openFile(record.cid, [serviceOf(c.env, record.service)], { signal });
    if (file.size !== record.bytes) throw new SealpinError('content_mismatch');
    return await begun(await readFile(file, opened, span), (reason) => abort.abort(reason));
  } catch (error) {
    abort.abort(error);
    throw error;
  }
}

async function readFile(
  file: IpfsFile,
  opened: Opened | undefined,
  span: Span | undefined,
): Promise<ReadableStream<Uint8Array>> {
  if (opened === undefined) return file.read(span?.start, span?.end);
  if (span === undefined) return opened.decrypt(file.read());
  return await opened.decryptRange({
    ...span,
    read: (offset, length) => Promise.resolve(file.read(offset, offset + length)),
  });
}
