/**
 * Receiving what a link leads to: every block verified, every chunk authenticated, and files that
 * appear whole or not at all.
 */
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { notForReceiving, openShare, wrongSize } from '../../client/receiving.ts';
import { openWithFileKey } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { type Link, parseLink, type Parcel } from '../../shared/link/index.ts';
import type { Context } from '../context.ts';
import { release } from '../io/byte-stream.ts';
import { writeFailure } from '../errno.ts';
import { openSink, writeAll } from '../io/output-file.ts';
import { makeDirectories } from '../io/paths.ts';
import { freePath, safeName } from '../io/safe-name.ts';
import { readIdentities } from '../keys/key-files.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { askPassword, maxTries } from '../keys/passwords.ts';
import { readFailure } from '../fetch/fetch-blob.ts';
import { parseServiceUrl } from '../remote/service-choice.ts';
import { openDownload } from '../fetch/kept-download.ts';
import { sdkHttp } from '../remote/sdk.ts';
import { silentProgress } from '../terminal/progress.ts';
import { sizeText } from '../terminal/size.ts';

/** Credentials that open a share besides its link. */
export type LinkCredentials = {
  /** The password that was given: no other is asked for. */
  readonly password: string | undefined;
  /** A private key file; `private.key` of the data directory when undefined. */
  readonly key: string | undefined;
};

/** A file of a parcel. Of a blob link, `size` is not known. */
type LinkFile = Omit<Parcel['files'][number], 'size' | 'type'> & { readonly size: number | undefined };
type OpenedLink = Pick<Parcel, 'note' | 'from'> & { readonly files: readonly LinkFile[] };

/** Recognizes text meant as a link, as opposed to a blob ID or a path. */
export function isLink(text: string): boolean {
  return /^\s*https?:\/\/[^#]*\/(?:s|b|drop|send)\/?(?:#|%23)/i.test(text);
}

/**
 * Reads a link, and warns where the service has seen its secret.
 * @throws link_invalid, unsupported_version
 */
export function readLink(text: string, { output }: Context): Extract<Link, { kind: 'share' | 'blob' }> {
  const { link, exposed } = parseLink(text);
  if (link.kind === 'inbox' || link.kind === 'invitation') throw notForReceiving();
  if (exposed)
    output.warn(
      'the link has %23 instead of #: a browser that opened it has sent its key to the service; ' +
        'ask the sender for a new one',
    );
  return link;
}

/**
 * Opens a link: of a share, that counts.
 * @throws the codes of the SDK's `receive`; wrong_kind for a blob link without a key, which decrypt
 * takes
 */
export async function openLink(
  link: Extract<Link, { kind: 'share' | 'blob' }>,
  credentials: LinkCredentials,
  context: Context,
): Promise<OpenedLink> {
  if (link.kind === 'blob') {
    const { cid, fileKey } = link;
    if (fileKey === undefined) throw new SealpinError('wrong_kind', 'the link has no key in it');
    return { files: [{ cid, fileKey, name: cid, size: undefined }] };
  }
  const { output, signal } = context;
  const url = parseServiceUrl(link.service, 'the service of the link');
  const { password: given, key } = credentials;
  // A key file that cannot be read does not use the share up; one that nobody named may not be
  // needed.
  const identities = key === undefined ? undefined : await readIdentities(key, undefined, context);
  let derivation: { done(): void } = silentProgress;
  let isNeeded = false;
  const parcel = await openShare(sdkHttp({ url, apiKey: undefined }, context), link, {
    async password(failed) {
      isNeeded = true;
      derivation.done();
      if (failed === maxTries || (given !== undefined && failed > 0)) return undefined;
      const password = given ?? (await askPassword('what was sent to you', context, failed));
      derivation = output.progress('deriving the key from the password');
      return password;
    },
    identities: () => identities ?? readIdentities(undefined, undefined, context),
    signal,
    backend: nodeBackend,
  });
  derivation.done();
  if (given !== undefined && !isNeeded) output.note('the link has no password: the one that you gave was not needed');
  return parcel;
}

/** A file that was received. */
export type WrittenFile = { readonly path: string; readonly name: string; readonly size: number };

/**
 * Writes the files into a directory, under their own names made safe. Without `force` a name that
 * is taken gets a number.
 * @returns the files that were written
 * @throws the first failure, after the other files were tried; disk_full before any is fetched
 */
export async function receiveInto(
  directory: string,
  { files }: OpenedLink,
  o: { readonly service: string; readonly force: boolean },
  context: Context,
): Promise<WrittenFile[]> {
  const { output, signal } = context;
  const taken = new Set<string>();
  const received: WrittenFile[] = [];
  const failures: unknown[] = [];
  for (const file of files) {
    const name = safeName(file.name);
    if (name !== file.name) output.note(`${JSON.stringify(file.name)} is written as ${name}`);
    const usual = join(directory, name);
    const path = o.force && !taken.has(usual) ? usual : await freePath(directory, name, { cwd: context.cwd, taken });
    taken.add(path);
    try {
      const size = await receiveFile(file, path, o, context);
      received.push({ path: resolve(context.cwd, path), name: file.name, size });
      output.note(`wrote ${path} (${sizeText(size)})`);
    } catch (error) {
      if (signal.aborted) throw error;
      failures.push(error);
      if (files.length > 1) output.warn(`${name} was not received: ${error instanceof Error ? error.message : ''}`);
    }
  }
  if (failures.length > 0) throw failures[0];
  return received;
}

/**
 * Fetches, verifies and opens one file, into a path or standard output (`-`).
 * @returns its size
 * @throws parcel_invalid when its size does not match the parcel, and the codes of downloads,
 * containers and files; then no file appears
 */
export async function receiveFile(
  file: LinkFile,
  path: string,
  { service, force }: { readonly service: string; readonly force: boolean },
  context: Context,
): Promise<number> {
  const { output, signal } = context;
  const sink = await openSink(path, { force, environment: context });
  let download: Awaited<ReturnType<typeof openDownload>> | undefined;
  try {
    if (file.size !== undefined) await sink.room(file.size);
    download = await openDownload(file.cid, { ...context, service });
    const plaintext = await openWithFileKey(download.stream, { fileKey: file.fileKey, backend: nodeBackend });
    const progress =
      path === '-' && context.stdout.isTTY ? silentProgress : output.progress('fetching and decrypting', file.size);
    const size = await writeAll(plaintext, sink, { progress, signal, onWritten: release });
    if (file.size !== undefined && size !== file.size) throw wrongSize();
    await sink.commit();
    return size;
  } catch (error) {
    throw readFailure(error);
  } finally {
    await sink.abort();
    await download?.close();
  }
}

/** Makes the directory for files, before a link is opened, which counts. @throws file_unwritable */
export async function prepareDirectory(path: string, { cwd }: Context): Promise<void> {
  const directory = resolve(cwd, path);
  try {
    await makeDirectories(directory);
    if (!(await stat(directory)).isDirectory())
      throw new SealpinError('file_unwritable', `${path} is not a directory`, { hint: 'name a directory' });
    await access(directory, constants.W_OK);
  } catch (error) {
    throw writeFailure(path, error);
  }
}
