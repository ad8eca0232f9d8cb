/** A service, and what an API key may do there. */
import { FileList, Receipt, StoredFile } from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';
import { parseFilename } from '../shared/filename.ts';
import { attachment } from './attachment.ts';
import { rangeIn, type Range } from './blobs.ts';
import { bodyOf } from './request-body.ts';
import type { UploadedFile } from './resumable-upload.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from './service-http.ts';
import { uploadInParts } from './upload-in-parts.ts';
import { abortable, contentOf, type Content, type Source, type StoredSource } from './web-bytes.ts';

export type PutOptions = {
  /**
   * `encrypted` (the default): the service seals the bytes to the account's key. `plain`: it stores them as they are, on a public
   * network, which is right for what `seal` made.
   */
  readonly mode?: 'encrypted' | 'plain';
  /** 1 to 255 bytes; that of a `File` when undefined. Encrypted mode requires one. */
  readonly name?: string;
  /** The media type; that of a `Blob` when undefined, else `application/octet-stream`. */
  readonly type?: string;
  /** With the same key, the same upload may be sent again within 24 hours, and is stored once. */
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
};

/** A file that the service reads. `type` is its media type. */
export type ServedFile = Content & { readonly size: number; readonly type: string };

/** What an API key may do at a service. Every function throws what the service refuses with, by its code, and as `connect` says. */
export interface Connection {
  /**
   * Stores bytes in one request.
   * @throws SealpinError `invalid_filename`, `unsupported_media_type`, `cid_mismatch` when the service stored something else, `too_large`
   *   (also for a stream of more than 32 MiB where the engine cannot send one), what the source fails with
   * @example
   * const file = await connection.put(report, { name: 'report.pdf' });
   */
  put(source: Source, options?: PutOptions): Promise<StoredFile>;
  /**
   * Reads a file, or a part of it. Reading fails with `service_unreachable` when less comes than was announced.
   * @throws SealpinError `not_found`, `range_not_satisfiable`
   * @example
   * const text = await (await connection.get(fileId)).text();
   */
  get(fileId: string, options?: Range & { signal?: AbortSignal }): Promise<ServedFile>;
  /**
   * A page of the account's files, newest first.
   * @param o.limit 1 to 100, and 50 when undefined; `cursor`: from the page before; `cid`: only files with this CID
   * @example
   * const { files, cursor } = await connection.list({ limit: 10 });
   */
  list(options?: { limit?: number; cursor?: string; cid?: string; signal?: AbortSignal }): Promise<FileList>;
  /**
   * Deletes a file. The receipt says what became of its key and of its copies.
   * @example
   * const { key } = await connection.delete(fileId); // 'destroyed': nobody can open it any more
   */
  delete(fileId: string, options?: { signal?: AbortSignal }): Promise<Receipt>;
  /**
   * Stores bytes unchanged, in parts of at most 16 MiB (tus 1.0.0): for large files, and lines that break. What breaks is tried again
   * from where the service stopped, for about two minutes without a new byte.
   * @param o.onProgress gets how many bytes the service has
   * @throws SealpinError `too_large`, `cid_mismatch`, `service_unreachable` after the last attempt
   * @example
   * const sealed = await seal(film, { to: { keys: 'age1…' } });
   * const { cid } = await connection.upload(await sealed.blob());
   */
  upload(
    source: StoredSource,
    options?: { signal?: AbortSignal; onProgress?: (bytes: number) => void },
  ): Promise<UploadedFile>;
}

/**
 * Connects to a service. Nothing is sent yet.
 * @param o.service its URL
 * @param o.apiKey goes to this service alone: a redirect is refused, and neither a URL nor an error has it
 * @param o.fetch instead of the global `fetch`
 * @throws SealpinError `invalid_request` for a URL that is none of a service, or when the key would be sent unencrypted; `unauthorized`
 *   for a text that is no API key. Every function throws `service_unreachable`, `service_answer`, `unauthorized`,
 *   `insufficient_scope`, `rate_limited`, and the reason of its signal
 * @example
 * const connection = connect({ service: 'https://sealpin.example', apiKey });
 * const { fileId } = await connection.put('hello', { name: 'hello.txt' });
 */
export function connect(o: { service: string | URL; apiKey?: string; fetch?: Fetch }): Connection {
  const http = serviceHttp(o);
  return {
    put: (source, options = {}) => put(http, source, options),
    get: (fileId, options = {}) => get(http, fileId, options),
    list: ({ signal, ...query } = {}) => http.json(FileList, { path: 'v1/storage', query, signal }),
    delete: (fileId, { signal } = {}) => http.json(Receipt, { method: 'DELETE', path: pathOf(fileId), signal }),
    upload: (source, options = {}) => uploadInParts(http, source, options),
  };
}

function pathOf(fileId: string): string {
  return `v1/storage/${encodeURIComponent(fileId)}`;
}

async function put(http: ServiceHttp, source: Source, o: PutOptions): Promise<StoredFile> {
  const { mode = 'encrypted', name = nameOf(source), type = typeOf(source), signal } = o;
  // The service takes JSON apart, and stores what is in its member `data`.
  if (/^application\/json\s*(?:;|$)/i.test(type))
    throw new SealpinError('unsupported_media_type', 'The service stores no file under the type application/json', {
      hint: 'give another type, such as application/octet-stream',
    });
  const headers = {
    'Content-Type': type,
    ...(name === undefined ? {} : { 'Content-Disposition': attachment(parseFilename(name)) }),
    ...(o.idempotencyKey === undefined ? {} : { 'Idempotency-Key': o.idempotencyKey }),
  };
  const isPlain = mode === 'plain';
  const body = await bodyOf(source, { cid: isPlain, signal });
  const request = { method: 'POST', path: `v1/storage/${mode}`, headers, body: body.body, signal } as const;
  let file;
  try {
    file = await http.json(StoredFile, { ...request, query: { cid: isPlain ? body.cid : undefined } });
  } catch (error) {
    throw body.failure() ?? error;
  }
  const cid = body.cid ?? body.sent()?.cid;
  if (isPlain && file.cid !== cid)
    throw new SealpinError('cid_mismatch', `The service stored it as ${file.cid}, and it is ${cid}`, {
      hint: `it has the file ID ${file.fileId}`,
    });
  return file;
}

function nameOf(source: Source): string | undefined {
  return source instanceof File ? source.name : undefined;
}

function typeOf(source: Source): string {
  return (source instanceof Blob && source.type) || 'application/octet-stream';
}

async function get(
  http: ServiceHttp,
  fileId: string,
  { start, end, signal }: Range & { signal?: AbortSignal },
): Promise<ServedFile> {
  const isPart = start !== undefined || end !== undefined;
  // An empty range has no form in HTTP.
  const { start: first, end: after } = rangeIn(Infinity, { start, end: end ?? Number.MAX_SAFE_INTEGER });
  if (first === after) throw new SealpinError('range_not_satisfiable');
  const range = `bytes=${first}-${end === undefined ? '' : after - 1}`;
  const headers = { Accept: 'application/octet-stream', ...(isPart ? { Range: range } : {}) };
  const response = await http.call({ path: `${pathOf(fileId)}/content`, headers, signal });
  const size = lengthOf(response);
  const asked = end === undefined ? size : after - first;
  if (size === undefined || size !== asked || response.status !== (isPart ? 206 : 200)) {
    response.body?.cancel().catch(() => undefined);
    // A service sends what there is of a range that ends beyond the file.
    if (response.status === 206 && size !== undefined && size < after - first)
      throw new SealpinError('range_not_satisfiable');
    throw new SealpinError('service_answer', 'The service sends other bytes than those that were asked for');
  }
  const content = contentOf(abortable(http.body(response, size, signal), signal), size);
  return { ...content, size, type: response.headers.get('Content-Type') ?? 'application/octet-stream' };
}

function lengthOf(response: Response): number | undefined {
  const text = response.headers.get('Content-Length') ?? '';
  return /^[0-9]{1,16}$/.test(text) ? Number(text) : undefined;
}
