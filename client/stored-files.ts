/**
 * Files that are stored already, as a parcel has them: the file key opens them, with no new upload.
 */
import { FileList, StoredFile } from '../shared/api.ts';
import { fileKeyOf, openAtWithFileKey, openContainerHeader, type FileInfo } from '../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { cleanFilename, parseFilename } from '../shared/filename.ts';
import type { ParcelFile } from '../shared/link/index.ts';
import { withStop } from '../shared/streams/timing.ts';
import { accountIdentities } from './account-key.ts';
import { accessTo, openBlob } from './blobs.ts';
import { identitiesOf, type With } from './credentials.ts';
import type { ServiceHttp } from './service-http.ts';

/**
 * A file that is stored already. By its file ID: one that the service encrypted, which an API key
 * with `read` opens, or with `with` a container. By its blob ID: a container, or a payload without
 * a header. `name` and `type` are for the receiver.
 */
export type Shareable =
  | {
      readonly fileId: string;
      readonly with?: With | undefined;
      readonly name?: string | undefined;
      readonly type?: string | undefined;
    }
  | { readonly cid: string; readonly with: With; readonly name: string; readonly type?: string | undefined };

export function filePath(fileId: string): string {
  return `v1/storage/${encodeURIComponent(fileId)}`;
}

/** What the service knows of a file. */
export function aboutFile(http: ServiceHttp, fileId: string, signal: AbortSignal | undefined): Promise<StoredFile> {
  return http.json(StoredFile, { path: filePath(fileId), query: { data: 'false' }, signal });
}

/**
 * Finds the file key of a stored file.
 * @returns the file for a parcel, and the IDs of the account's files with these bytes
 * @throws as `share` of a connection
 */
export async function storedFile(
  http: ServiceHttp,
  apiKey: string | undefined,
  file: Shareable,
  signal: AbortSignal | undefined,
): Promise<{ file: ParcelFile; fileIds: string[] }> {
  if ('cid' in file) {
    const { files } = await http.json(FileList, { path: 'v1/storage', query: { cid: file.cid, limit: 100 }, signal });
    const found = await byBlob(http, file.cid, file.with, signal);
    return { file: { ...found, ...receiverWords(file, undefined) }, fileIds: files.map(({ fileId }) => fileId) };
  }
  const about = await aboutFile(http, file.fileId, signal);
  if (about.mode === 'plain') {
    if (file.with === undefined)
      throw new SealpinError('wrong_kind', 'the service stores it as it is: its password or key is needed to share it');
    const found = await byBlob(http, about.cid, file.with, signal);
    return { file: { ...found, ...receiverWords(file, about) }, fileIds: [about.fileId] };
  }
  const { fileKey, info } = await openSealedFile(http, apiKey, about.fileId, signal);
  const words = receiverWords(file, info);
  return { file: { cid: about.cid, fileKey, size: info.size, ...words }, fileIds: [about.fileId] };
}

/**
 * Opens the header of a file that the service encrypted, with the private key of the account.
 * @returns its file key, and what the header, which belongs to this file ID alone, says of it
 * @throws as `storedFile`
 */
export async function openSealedFile(...asked: Parameters<typeof openedFile>): Promise<OpenedFile> {
  try {
    return await openedFile(...asked);
  } catch (error) {
    // The key pair of the account may have been replaced between the two requests.
    if (!isSealpinError(error, 'decrypt_failed')) throw error;
    return await openedFile(...asked);
  }
}

type OpenedFile = { readonly fileKey: Uint8Array; readonly info: FileInfo };

async function openedFile(
  http: ServiceHttp,
  apiKey: string | undefined,
  fileId: string,
  signal: AbortSignal | undefined,
): Promise<OpenedFile> {
  const headers = { Accept: 'application/vnd.sealpin' };
  const container = await http.call({ path: filePath(fileId), headers, signal });
  const body = http.body(container, undefined, signal);
  try {
    const identities = await accountIdentities(http, apiKey, signal);
    const { fileKey, file: info } = await openContainerHeader(body, { fileId, identities });
    return { fileKey, info };
  } catch (error) {
    if (!body.locked) body.cancel(error).catch(() => undefined);
    throw error;
  }
}

/** The file key of a blob, and the size of its plaintext, which its last chunk confirms. */
async function byBlob(
  http: ServiceHttp,
  cid: string,
  credentials: With,
  signal: AbortSignal | undefined,
): Promise<Pick<ParcelFile, 'cid' | 'fileKey' | 'size'>> {
  const stopped = withStop(signal);
  try {
    const blob = await openBlob(cid, http.url, stopped.signal, http);
    const fileKey =
      'fileKey' in credentials
        ? credentials.fileKey
        : await fileKeyOf(blob.read(0, blob.size), { identities: identitiesOf(credentials) });
    const { plaintextBytes } = await openAtWithFileKey(accessTo(blob), { fileKey });
    return { cid, fileKey, size: plaintextBytes };
  } finally {
    stopped.stop();
  }
}

/**
 * Returns the name and type that the receiver gets: those of the caller, else those that were
 * stored.
 */
function receiverWords(
  given: { readonly name?: string | undefined; readonly type?: string | undefined },
  stored: { readonly filename?: string | null | undefined; readonly contentType: string } | undefined,
): Pick<ParcelFile, 'name' | 'type'> {
  const type = given.type ?? stored?.contentType ?? 'application/octet-stream';
  if (given.name !== undefined) return { name: parseFilename(given.name), type };
  if (typeof stored?.filename === 'string') return { name: cleanFilename(stored.filename), type };
  throw new SealpinError('invalid_filename', 'the file has no name', { hint: 'give it one for the receiver' });
}
