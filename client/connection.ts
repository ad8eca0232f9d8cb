/** A service, and what an API key may do there. */
import {
  type AccountEvent,
  EventList,
  FileList,
  Receipt,
  type Share,
  type ShareList,
  type ShareReceipt,
  type StoredFile,
} from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';
import { rangeIn, type Range } from './blobs.ts';
import { put, type PutOptions } from './put.ts';
import { endlessList } from './attempts.ts';
import { inboxes, type Inboxes } from './inboxes.ts';
import type { UploadedFile } from './resumable-upload.ts';
import { rotateAccount, type RotatedAccount, type RotationOptions } from './account-rotation.ts';
import { invitations, type Invitations } from './invitations.ts';
import type { Outgoing, SendingOptions, Words } from './sending.ts';
import { serviceHttp, type Fetch, type ServiceHttp } from './service-http.ts';
import {
  changeShare,
  revokeShare,
  sendFiles,
  shareParcel,
  shareRecipients,
  sharesPage,
  type PageOptions,
  type ShareChanges,
  type Sent,
  type Shared,
  type ShareOptions,
} from './sharing.ts';
import { filePath, storedFile, type Shareable } from './stored-files.ts';
import { uploadInParts } from './upload-in-parts.ts';
import { abortable, contentOf, usingSources, type Content, type Source, type StoredSource } from './web-bytes.ts';

/** Filters of a list: files match each of these. */
export type ListOptions = {
  /** 1 to 100, and 50 when undefined. */
  readonly limit?: number | undefined;
  /** From the page before, which had the same other options. */
  readonly cursor?: string | undefined;
  readonly order?: 'asc' | 'desc' | undefined;
  readonly cid?: string | undefined;
  readonly mode?: 'encrypted' | 'plain' | undefined;
  /** Times such as `2030-01-31T00:00:00Z`, which are excluded. */
  readonly createdAfter?: string | undefined;
  readonly createdBefore?: string | undefined;
  /** In bytes, before encryption. */
  readonly minSize?: number | undefined;
  readonly maxSize?: number | undefined;
  /** The ID of an API key. */
  readonly createdBy?: string | undefined;
  /**
   * Beginning of names; needs the mode `plain`, as `contentType` does: the service cannot read
   * other names.
   */
  readonly name?: string | undefined;
  readonly contentType?: string | undefined;
  /** One of the tags of a file. */
  readonly tag?: string | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** A file that the service reads. `type` is its media type. */
export type ServedFile = Content & { readonly size: number; readonly type: string };

/**
 * Actions that an API key permits at a service. Every function throws what the service refuses
 * with, by its code, and as `connect` says.
 */
export interface Connection {
  /**
   * Stores bytes in one request.
   * @throws SealpinError `invalid_filename`, `unsupported_media_type`, `cid_mismatch` when the
   * service stored something else, `too_large` (also for a stream of more than 32 MiB where the
   * engine cannot send one), what the source fails with
   * @example
   * const file = await connection.put(report, { name: 'report.pdf' });
   */
  put(source: Source, options?: PutOptions): Promise<StoredFile>;
  /**
   * Reads a file, or a part of it. Reading fails with `service_unreachable` when less comes than
   * was announced.
   * @throws SealpinError `not_found`, `range_not_satisfiable`
   * @example
   * const text = await (await connection.get(fileId)).text();
   */
  get(fileId: string, options?: Range & { signal?: AbortSignal | undefined }): Promise<ServedFile>;
  /**
   * A page of the account's files, newest first unless `order` says otherwise. While there is a
   * `cursor`, there may be more, also behind an empty page.
   * @example
   * const { files, cursor } = await connection.list({ limit: 10 });
   */
  list(options?: ListOptions): Promise<FileList>;
  /**
   * Deletes a file; by the ID of a delivery also what was handed over with it. The receipt says
   * what became of its key and of its copies.
   * @example
   * const { key } = await connection.delete(fileId); // 'destroyed': nobody can open it any more
   */
  delete(fileId: string, options?: { signal?: AbortSignal | undefined }): Promise<Receipt>;
  /**
   * Yields the events of the account, oldest first, as far as the key may see them; ends with the
   * last event that there is.
   * @param o.after the ID of an event: only what came after it
   * @throws SealpinError `gone` where something after that one is no longer kept
   * @example
   * for await (const { action, fileId } of connection.events({ after })) console.log(action, fileId);
   */
  events(options?: {
    after?: string | undefined;
    signal?: AbortSignal | undefined;
  }): AsyncGenerator<AccountEvent, void, undefined>;
  /**
   * Stores bytes unchanged, in parts of at most 16 MiB (tus 1.0.0): for large files, and lines that
   * break. What breaks is tried again from where the service stopped, for about two minutes without
   * a new byte.
   * @param o.onProgress gets how many bytes the service has
   * @throws SealpinError `too_large`, `cid_mismatch`, `service_unreachable` after the last attempt
   * @example
   * const sealed = await seal(film, { to: { keys: 'age1…' } });
   * const { cid } = await connection.upload(await sealed.blob());
   */
  upload(
    source: StoredSource,
    options?: { signal?: AbortSignal | undefined; onProgress?: ((bytes: number) => void) | undefined },
  ): Promise<UploadedFile>;
  /**
   * Sends files to anyone who gets the link. Each is sealed here, under a key of its own, and
   * stored; the keys, the names and the words are in a parcel, sealed under a secret that is in the
   * link alone. The service can read none of it. Needs an API key with `write` and `share`. After a
   * failure, what was stored is deleted again, where the key may do that.
   * @param files one or several; those that are no `File` have a name
   * @throws SealpinError `invalid_filename`, `parcel_invalid` for too many files or too long a
   * note, `password_invalid`, `key_invalid`, `invalid_request` for more days or opens than the
   * service allows, `too_large`, `quota_exceeded`, what a source fails with
   * @example
   * const { link, share } = await connection.send([...input.files], { note: 'Here are the plans.', opens: 1 });
   * await connection.unshare(share.id); // takes it back
   */
  send(files: Outgoing | readonly Outgoing[], options?: ShareOptions & SendingOptions): Promise<Sent>;
  /**
   * Shares files that are stored already, by their file keys: nothing is uploaded, and nothing that
   * is stored changes. Needs an API key with `share`, and with `read` for files that the service
   * encrypted. The share ends with the deletion of a file.
   * @throws SealpinError `not_found`, `decrypt_failed`, `not_encrypted`, `wrong_kind` where a
   * password or key is needed, `invalid_filename` for a file without a name, and what `send` throws
   * @example
   * const { link } = await connection.share({ fileId }, { opens: 1 });
   */
  share(
    files: Shareable | readonly Shareable[],
    options?: ShareOptions & Words & { signal?: AbortSignal | undefined },
  ): Promise<Shared>;
  /**
   * A page of the account's shares, newest first, with their state and how often each may still be
   * opened.
   * @example
   * const { shares } = await connection.shares({ limit: 10 });
   */
  shares(options?: PageOptions): Promise<ShareList>;
  /**
   * Changes how often and how long a share opens, while it has not ended. Its days count from when
   * it was made.
   * @throws SealpinError `not_found`, `gone` where it has ended, `invalid_request` for more than
   * the service allows and for fewer opens than were used, `forbidden` where it would outlive its
   * API key
   * @example
   * const { opensLeft } = await connection.changeShare(share.id, { opens: 10 });
   */
  changeShare(shareId: string, changes: ShareChanges): Promise<Share>;
  /**
   * Takes a share back. Its files stay stored. The receipt says how often it was opened before.
   * @throws SealpinError `not_found`
   * @example
   * const { record, opened } = await connection.unshare(share.id); // 'destroyed', 0
   */
  unshare(shareId: string, options?: { signal?: AbortSignal | undefined }): Promise<ShareReceipt>;
  /**
   * Replaces the key pair of the account, to which the service encrypts, or completes that where it
   * was interrupted. All other API keys with `read` end, with their shares and unfinished uploads;
   * the recovery file gets a new secret. Needs an API key with `read` and `keys`.
   * @param o.onProgress gets how many files are left
   * @throws SealpinError `insufficient_scope` for keys that may do more, `conflict` for keys that
   * live longer
   * @example
   * const { revoked } = await connection.rotateAccount();
   */
  rotateAccount(options?: RotationOptions): Promise<RotatedAccount>;
  /** Links by which anybody hands files over to this account. */
  readonly inbox: Inboxes;
  /** Links by which somebody without an account sends files from this one. */
  readonly invitation: Invitations;
}

/**
 * Connects to a service. Nothing is sent yet.
 * @param o.service its URL
 * @param o.apiKey goes to this service alone: a redirect is refused, and neither a URL nor an error
 * has it
 * @param o.fetch instead of the global `fetch`
 * @throws SealpinError `invalid_request` for a URL that cannot be a service, or when the key would
 * be sent unencrypted; `unauthorized` for a text that is no API key. Every function throws
 * `service_unreachable`, `service_answer`, `unauthorized`, `insufficient_scope`, `rate_limited`,
 * and the reason of its signal
 * @example
 * const connection = connect({ service: 'https://sealpin.example', apiKey });
 * const { fileId } = await connection.put('hello', { name: 'hello.txt' });
 */
export function connect(o: {
  service: string | URL;
  apiKey?: string | undefined;
  fetch?: Fetch | undefined;
}): Connection {
  const http = serviceHttp(o);
  return {
    put: (source, options = {}) => usingSources([source], () => put(http, source, options)),
    get: (fileId, options = {}) => get(http, fileId, options),
    list: ({ signal, ...query } = {}) => http.json(FileList, { path: 'v1/storage', query, signal }),
    delete: (fileId, { signal } = {}) => http.json(Receipt, { method: 'DELETE', path: filePath(fileId), signal }),
    events: (options = {}) => events(http, options),
    upload: (source, options = {}) => usingSources([source], () => uploadInParts(http, source, options)),
    send: (files, options = {}) => sendFiles(http, files, options),
    share: (files, options = {}) => shareStored(http, o.apiKey, files, options),
    rotateAccount: (options = {}) => rotateAccount(http, options),
    inbox: inboxes(http, o.apiKey),
    invitation: invitations(http),
    shares: (options = {}) => sharesPage(http, options),
    changeShare: (shareId, changes) => changeShare(http, shareId, changes),
    unshare: (shareId, { signal } = {}) => revokeShare(http, shareId, signal),
  };
}

const pageEvents = 100;

async function* events(
  http: ServiceHttp,
  { after, signal }: { after?: string | undefined; signal?: AbortSignal | undefined },
): AsyncGenerator<AccountEvent, void, undefined> {
  let position = after;
  const look = endlessList();
  for (let more = true; more;) {
    const query = { after: position, limit: pageEvents };
    const page = await http.json(EventList, { path: 'v1/events', query, signal });
    yield* page.events;
    ({ more } = page);
    position = page.cursor ?? position;
    if (more) look(page.events.length, position ?? '');
  }
}

async function get(
  http: ServiceHttp,
  fileId: string,
  { start, end, signal }: Range & { signal?: AbortSignal | undefined },
): Promise<ServedFile> {
  const isPart = start !== undefined || end !== undefined;
  // An empty range has no form in HTTP.
  const { start: first, end: after } = rangeIn(Infinity, { start, end: end ?? Number.MAX_SAFE_INTEGER });
  if (first === after) throw new SealpinError('range_not_satisfiable');
  const range = `bytes=${first}-${end === undefined ? '' : after - 1}`;
  const headers = { Accept: 'application/octet-stream', ...(isPart ? { Range: range } : {}) };
  const response = await http.call({ path: `${filePath(fileId)}/content`, headers, signal });
  const length = response.headers.get('Content-Length') ?? '';
  const size = /^[0-9]{1,16}$/.test(length) ? Number(length) : undefined;
  const asked = end === undefined ? size : after - first;
  if (size === undefined || size !== asked || response.status !== (isPart ? 206 : 200)) {
    response.body?.cancel().catch(() => undefined);
    // A service sends what there is of a range that ends beyond the file.
    if (response.status === 206 && size !== undefined && size < after - first)
      throw new SealpinError('range_not_satisfiable');
    throw new SealpinError('service_answer', 'the service returned a different range than requested');
  }
  const content = contentOf(abortable(http.body(response, size, signal), signal), size);
  return { ...content, size, type: response.headers.get('Content-Type') ?? 'application/octet-stream' };
}

/** Shares files that are stored; fails as `share` of a connection. */
export async function shareStored(
  http: ServiceHttp,
  apiKey: string | undefined,
  shareables: Shareable | readonly Shareable[],
  options: ShareOptions & Words & { signal?: AbortSignal | undefined },
): Promise<Shared> {
  shareRecipients(options);
  const { note, from, signal } = options;
  const found = [];
  for (const file of [shareables].flat()) found.push(await storedFile(http, apiKey, file, signal));
  const parcel = { files: found.map(({ file }) => file), note, from };
  return shareParcel(http, { parcel, files: found.flatMap(({ fileIds }) => fileIds) }, options);
}
