/** A file that is stored already, with the key that opens it alone. */
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { arrayBuffer } from 'node:stream/consumers';
import { accessTo } from '../../client/blobs.ts';
import { storedFile } from '../../client/stored-files.ts';
import { open, openAtWithFileKey, passwordIdentity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { cleanFilename } from '../../shared/filename.ts';
import type { ParcelFile } from '../../shared/link/index.ts';
import type { Context } from '../context.ts';
import { beginsAsFolder, blockBytes } from '../folder/tar-header.ts';
import { readIdentities } from '../keys/key-files.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { askPassword, environmentPassword, withPassword } from '../keys/passwords.ts';
import { api, sdkHttp } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { isFileId } from '../remote/file-id.ts';
import { parseBlobId, withBlob } from '../fetch/fetch-blob.ts';
import { ownFilesOf } from '../fetch/own-files.ts';
import { fileInHistory } from './history.ts';

/**
 * @param o.name of the file, where its own is unknown or not wanted; `key`: a private key file
 * instead of private.key
 */
type Naming = { readonly name: string | undefined; readonly key: string | undefined };

/**
 * Finds the file key of a stored file, and asks for its password or reads the private key where one
 * is needed.
 * @param id a file ID or a blob ID
 * @returns the file for a parcel, and the IDs of the account's files with its bytes
 * @throws not_found, not_encrypted, wrong_kind, decrypt_failed, and the codes of `openBlob`,
 * `readIdentities` and `askPassword`
 */
export async function storedFileOf(id: string, o: Naming, service: Service, context: Context) {
  const own = { ...context, ownFile: ownFilesOf(service) };
  if (!isFileId(id)) {
    const cid = parseBlobId(id);
    const { files } = await api(service, context).list({ cid, limit: 100 });
    return { file: await fileAt(cid, o, own), fileIds: files.map(({ fileId }) => fileId) };
  }
  const { mode, cid, fileId } = await api(service, context).file(id);
  if (mode === 'plain') return { file: await fileAt(cid, o, own), fileIds: [fileId] };
  return storedFile(sdkHttp(service, context), service.apiKey, { fileId, name: o.name }, context.signal);
}

async function fileAt(cid: string, { name, key }: Naming, context: Context): Promise<ParcelFile> {
  const known = name ?? (await requiredName(cid, context));
  return withBlob(cid, context, async (blob) => {
    const fileKey = await fileKeyOf(blob.read(0, blob.size), cid, key, context);
    const opened = await openAtWithFileKey(accessTo(blob), { fileKey, provider: nodeProvider });
    const { plaintextBytes: size } = opened;
    const start = await arrayBuffer(await opened.decryptRange({ start: 0, end: Math.min(size, blockBytes) }));
    // As `send` names a folder, so that `receive --extract` makes one of it.
    const isFolder = beginsAsFolder(new Uint8Array(start)) && !/\.tar$/i.test(known);
    return { cid, fileKey, name: isFolder ? `${known}.tar` : known, type: 'application/octet-stream', size };
  });
}

/** The flags of the commands are for the password of what they make. */
const passwordHint = 'give the one that opens the file now in SEALPIN_PASSWORD; --password-file has the new one';

async function fileKeyOf(stream: ReadableStream<Uint8Array>, cid: string, key: string | undefined, context: Context) {
  const opened = await open(stream, { provider: nodeProvider });
  if (!('fileKey' in opened)) {
    await cancelQuietly(opened.stream);
    if (opened.kind === 'plain')
      throw new SealpinError('not_encrypted', 'it is not encrypted: anyone can read it already');
    throw new SealpinError('wrong_kind', 'the key that opens it is elsewhere', {
      hint:
        'share a file that the service encrypted by its file ID (sealpin list); what came with a ' +
        'link is sent again',
    });
  }
  if (opened.opens === 'keys') return opened.fileKey(await readIdentities(key, undefined, context));
  const given = environmentPassword(context);
  const find = async (failed: number) => [
    passwordIdentity(given ?? (await askPassword(cid, context, failed, passwordHint))),
  ];
  return withPassword(find, given !== undefined, opened.fileKey, context);
}

/**
 * Finds the file key of a stored container.
 * @param key instead of private.key
 * @throws as `storedFileOf`
 */
export async function fileKeyOfBlob(cid: string, key: string | undefined, context: Context): Promise<Uint8Array> {
  return withBlob(cid, context, ({ size, read }) => fileKeyOf(read(0, size), cid, key, context));
}

async function requiredName(cid: string, context: Context): Promise<string> {
  const { name } = await fileInHistory(cid, context);
  if (name !== undefined) return cleanFilename(name);
  throw new SealpinError('usage', 'the name of this file is not known here', { hint: 'give it one with --name' });
}
