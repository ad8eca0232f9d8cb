/** `GET` and `HEAD /v1/storage/:fileId`: as JSON, as bytes, or as a container that the account's private key opens offline. */
import { SealpinError } from '../shared/errors.ts';
import { openFile } from '../shared/ipfs/index.ts';
import { acceptable } from './accept.ts';
import { settled } from './answer.ts';
import { isHead, type Ctx } from './app.ts';
import { base64Length, base64Of, concat, fileHeaders, knownLength } from './body/download.ts';
import { attachment } from './body/names.ts';
import { callerOf, identityOf, needsSealed } from './caller.ts';
import { serviceOf } from './env.ts';
import type { FileRecord } from './objects/files.ts';
import { fileIdOf } from './files.ts';
import { aboutPlain, openRecord, storedFile, type About, type Opened } from './stored.ts';

const json = 'application/json';
const raw = 'application/octet-stream';
const container = 'application/vnd.sealpin';

/** What can be read of a file: it is opened when the first byte is asked for. */
type Readable = { about: About; bytes(): ReadableStream<Uint8Array> };

export async function download(c: Ctx): Promise<Response> {
  const caller = await callerOf(c);
  const fileId = fileIdOf(c);
  const form = acceptable(c.req.header('Accept') ?? null, [json, raw, container]);
  const answer = await settled(caller.account.file(caller.key.hash, fileId, { sealed: form !== container && needsSealed(caller) }));
  const record = answer.file;
  if (form === container) return containerAnswer(c, record);

  const opened = record.mode === 'encrypted' ? await openRecord(record, await identityOf(caller, answer)) : undefined;
  const file: Readable = {
    about: opened?.file ?? aboutPlain(record),
    bytes: () => plainBytes(c, record, opened),
  };
  return form === json ? jsonAnswer(c, record, file) : rawAnswer(c, record, file);
}

function jsonAnswer(c: Ctx, record: FileRecord, { about, bytes }: Readable): Response {
  const file = JSON.stringify(storedFile(record, about));
  const headers = new Headers({ ...fileHeaders, 'Content-Type': json, ETag: etag(record, 'json') });
  if (c.req.query('data') === 'false') return answer(c, headers, new TextEncoder().encode(`${file}\n`).length, () => new Response(`${file}\n`).body!);
  const before = new TextEncoder().encode(`${file.slice(0, -1)},"data":"`);
  const after = new TextEncoder().encode('"}\n');
  return answer(c, headers, before.length + base64Length(about.size) + after.length, () =>
    concat([() => before, () => base64Of(bytes()), () => after]),
  );
}

function rawAnswer(c: Ctx, record: FileRecord, { about, bytes }: Readable): Response {
  const headers = new Headers({
    ...fileHeaders,
    'Content-Type': about.contentType,
    'Content-Disposition': attachment(about.filename),
    ETag: etag(record, 'raw'),
  });
  return answer(c, headers, about.size, bytes);
}

function containerAnswer(c: Ctx, record: FileRecord): Response {
  const { header } = record;
  if (header === null) throw new SealpinError('not_acceptable', 'only files of the encrypted mode have a container');
  const headers = new Headers({
    ...fileHeaders,
    'Content-Type': container,
    'Content-Disposition': attachment(`${record.fileId}.sealpin`),
    ETag: etag(record, 'container'),
  });
  return answer(c, headers, header.length + record.bytes, () => concat([() => header, () => storedBytes(c, record)]));
}

function answer(c: Ctx, headers: Headers, bytes: number, body: () => ReadableStream<Uint8Array>): Response {
  headers.set('Content-Length', String(bytes));
  return new Response(isHead(c) ? null : knownLength(body(), bytes, c.var.requestId), { headers });
}

/** The file's own bytes. */
function plainBytes(c: Ctx, record: FileRecord, opened: Opened | undefined): ReadableStream<Uint8Array> {
  const stored = storedBytes(c, record);
  return opened === undefined ? stored : opened.decrypt(stored);
}

/** The bytes on IPFS, each block verified before a byte of it is passed on. */
function storedBytes(c: Ctx, record: FileRecord): ReadableStream<Uint8Array> {
  const service = serviceOf(c.env, record.service);
  const abort = new AbortController();
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const open = async (): Promise<ReadableStreamDefaultReader<Uint8Array>> => {
    const file = await openFile(record.cid, [service], { signal: AbortSignal.any([abort.signal, c.req.raw.signal]) });
    if (file.size !== record.bytes) throw new SealpinError('content_mismatch');
    return file.read().getReader();
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        reader ??= await open();
        const { value, done } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason) {
        abort.abort(reason);
        await reader?.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** An ETag made of file and representation: a file never changes. */
function etag(record: FileRecord, form: string): string {
  return `"${record.fileId}-${form}"`;
}
