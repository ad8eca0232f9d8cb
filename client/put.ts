/** Storing bytes in one request. */
import { attachment } from './attachment.ts';
import { StoredFile } from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';
import { parseFilename } from '../shared/filename.ts';
import { requestBody } from './request-body.ts';
import type { UploadedFile } from './resumable-upload.ts';
import { endTime, type ServiceHttp } from './service-http.ts';
import type { Source } from './web-bytes.ts';

export type PutOptions = {
  /**
   * `encrypted` (the default): the service seals the bytes to the account's key. `plain`: it stores
   * them as they are, on a public network, which is right for what `seal` made.
   */
  readonly mode?: 'encrypted' | 'plain' | undefined;
  /** 1 to 255 bytes; that of a `File` when undefined. Encrypted mode requires one. */
  readonly name?: string | undefined;
  /** The media type; that of a `Blob` when undefined, else `application/octet-stream`. */
  readonly type?: string | undefined;
  /** With the same key, the same upload may be sent again within 24 hours, and is stored once. */
  readonly idempotencyKey?: string | undefined;
  /** Time at which the service deletes the file, and destroys its key. */
  readonly expiresAt?: Date | string | undefined;
  readonly signal?: AbortSignal | undefined;
};

/**
 * `provisional`: the service keeps the file only if another one names it; `names`: the IDs of files
 * that this one names.
 */
type Keeping = { readonly provisional?: boolean | undefined; readonly names?: readonly string[] | undefined };

/** Stores bytes in one request; fails as `put` of a connection. */
export async function put(http: ServiceHttp, source: Source, o: PutOptions & Keeping): Promise<StoredFile> {
  const { mode = 'encrypted', name = source instanceof File ? source.name : undefined, signal } = o;
  const type = o.type ?? ((source instanceof Blob && source.type) || 'application/octet-stream');
  // The service takes JSON apart, and stores what is in its member `data`.
  if (/^application\/json\s*(?:;|$)/i.test(type))
    throw new SealpinError('unsupported_media_type', 'the service stores no file under the type application/json', {
      hint: 'give another type, such as application/octet-stream',
    });
  const headers = {
    'Content-Type': type,
    ...(name === undefined ? {} : { 'Content-Disposition': attachment(parseFilename(name)) }),
    ...(o.idempotencyKey === undefined ? {} : { 'Idempotency-Key': o.idempotencyKey }),
  };
  const isPlain = mode === 'plain';
  const expiresAt = endTime(o.expiresAt);
  const body = await requestBody(source, { cid: isPlain, signal });
  const query = {
    cid: isPlain ? body.cid : undefined,
    expiresAt,
    provisional: o.provisional === true ? 'true' : undefined,
    names: o.names?.join(','),
  };
  const request = { method: 'POST', path: `v1/storage/${mode}`, query, headers, body: body.body, signal } as const;
  try {
    const file = await http.json(StoredFile, request);
    return isPlain ? checked(file, await body.whole()) : file;
  } catch (error) {
    throw body.failure() ?? error;
  } finally {
    body.cancel();
  }
}

/** A file that was stored, whose CID must be this one. @throws SealpinError `cid_mismatch` */
export function checked<F extends UploadedFile>(file: F, cid: string | undefined): F {
  if (file.cid === cid) return file;
  throw new SealpinError('cid_mismatch', `the service stored it as ${file.cid}, and it is ${cid}`, {
    hint: `it has the file ID ${file.fileId}`,
  });
}
