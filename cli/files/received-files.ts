/** Receiving what a link leads to: verified, authenticated, and whole or not at all. */
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { openShare, wrongSize } from '../../client/receiving.ts';
import { openWithFileKey } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { foldedName } from '../../shared/filename.ts';
import { type Link, parseLink, parseLinkOf, type Parcel } from '../../shared/link/index.ts';
import { observed } from '../../shared/streams/pulled.ts';
import type { Context } from '../context.ts';
import { release } from '../io/byte-stream.ts';
import { failWrite } from '../errno.ts';
import { intoDirectory } from '../io/paths.ts';
import { freePath, safeName } from '../io/safe-name.ts';
import { readIdentities } from '../keys/key-files.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { askPassword, maxTries } from '../keys/passwords.ts';
import { noteWords } from '../keys/signers.ts';
import { readFailure } from '../fetch/fetch-blob.ts';
import { parseServiceUrl } from '../remote/service-choice.ts';
import { openDownload } from '../fetch/kept-download.ts';
import { silentProgress } from '../terminal/progress.ts';
import { sdkHttp } from '../remote/client.ts';
import { beginOpening, keepWritten, type ShareLink, writtenBefore, type WrittenBefore } from './begun-openings.ts';
import { abandon, openDestination, type Placing } from './destination.ts';
import { sideBySide } from './side-by-side.ts';

/** Credentials that open a share besides its link. */
export type LinkCredentials = {
  /** The password that was given: no other is asked for. */
  readonly password: string | undefined;
  /** A private key file; `private.key` of the data directory when undefined. */
  readonly key: string | undefined;
};

/** A file of a parcel. Of a blob link, `size` is not known. */
type LinkFile = Omit<Parcel['files'][number], 'size' | 'type'> & { readonly size: number | undefined };
type OpenedLink = Pick<Parcel, 'note' | 'from' | 'signed'> & { readonly files: readonly LinkFile[] };

/** A link to what can be received. */
export type ReceivedLink = Extract<Link, { kind: 'share' | 'blob' }>;

/**
 * Reads a link of any kind, in any spelling, where other text may stand.
 * @returns undefined for text that is no link, such as an ID or a path
 * @throws link_invalid for an incomplete one, unsupported_version
 */
export function linkIn(text: string): Link | undefined {
  try {
    return parseLink(text).link;
  } catch (error) {
    if (isSealpinError(error, 'link_invalid') && error.reason === 'not_a_link') return undefined;
    throw error;
  }
}

/**
 * Reads a link, and warns where the service has seen its secret.
 * @throws link_invalid, unsupported_version
 */
export function readLink(text: string, { output }: Context): ReceivedLink {
  const { link, exposed } = parseLinkOf(text, 'share', 'blob');
  if (exposed)
    output.warn(
      'the link has %23 instead of #: a browser that opened it has sent its key to the service; ' +
        'ask the sender for a new one',
    );
  return link;
}

/**
 * Opens a link: of a share, that counts, unless it continues an opening (`endOpening`).
 * @throws the codes of the SDK's `receive`; wrong_kind for a blob link without a key, which decrypt
 * takes
 */
export async function openLink(
  link: ReceivedLink,
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
    identities() {
      // It may be the password of this key.
      isNeeded = true;
      return identities ?? readIdentities(undefined, undefined, context);
    },
    opening: await beginOpening(link, context),
    signal,
    provider: nodeProvider,
  });
  derivation.done();
  if (given !== undefined && !isNeeded) output.note('the link has no password: the one that you gave was not needed');
  return parcel;
}

/** A file that was received. */
type WrittenFile = { readonly path: string; readonly name: string; readonly size: number };

/**
 * Writes the files into a directory, under their own names made safe. Without `force` a name that
 * is taken gets a number, and so does the folder that `extract` makes of an archive. The result of
 * the command is printed, after a failure too: the files that were written, and the sender's words.
 * @param o.share whose opening is continued: what an earlier run wrote there stays as it is
 * @throws the first failure, after the other files were tried; disk_full before any is fetched
 */
export async function receiveInto(
  directory: string,
  opened: OpenedLink,
  o: PlacesWanted & { readonly service: string; readonly share: ShareLink | undefined },
  context: Context,
): Promise<void> {
  const { output, signal } = context;
  const { files } = opened;
  const words = await noteWords(opened, context);
  const before = o.share === undefined ? [] : await writtenBefore(o.share, context);
  const planned = await placesFor(files, directory, { ...o, before }, context);
  const outcomes: ({ readonly file: WrittenFile; readonly wrote: string } | { readonly failure: unknown })[] = [];
  let told = 0;
  // In their order, whichever ends first.
  const tell = (): void => {
    for (let outcome = outcomes[told]; outcome !== undefined; outcome = outcomes[++told]) {
      const { name, isLeftArchive } = planned[told] as Planned;
      if ('failure' in outcome) {
        const { failure } = outcome;
        if (files.length > 1)
          output.warn(`${name} was not received: ${failure instanceof Error ? failure.message : ''}`);
        continue;
      }
      output.note(outcome.wrote);
      if (isLeftArchive)
        output.note(`${name} is a folder in one file: tar -x unpacks it, and --extract would have done so at once`);
    }
  };
  const transfer = async ({ file, placing, isThere }: Planned, index: number, own: Context): Promise<void> => {
    try {
      const there = { size: file.size ?? 0, wrote: `${placing.outputFile} is there already`, ...placing };
      const { size, wrote, outputFile } = isThere ? there : await receiveFile(file, placing, o.service, own);
      const path = resolve(context.cwd, outputFile);
      outcomes[index] = { file: { path, name: file.name, size }, wrote };
    } catch (failure) {
      if (signal.aborted) throw failure;
      outcomes[index] = { failure };
    }
    tell();
  };
  const bytesOf = ({ file, isThere }: Planned): number | undefined => (isThere ? 0 : file.size);
  try {
    await sideBySide(planned, { bytesOf, label: 'fetching and decrypting', transfer }, context);
  } finally {
    const written = outcomes.flatMap((outcome) => ('failure' in outcome ? [] : [outcome.file]));
    await output.result({ files: written, ...words }, []);
    if (o.share !== undefined && written.length < files.length) {
      const kept = outcomes.map((outcome, index) => ('failure' in outcome ? [] : { index, path: outcome.file.path }));
      await keepWritten(o.share, kept.flat(), context);
    }
  }
  const failed = outcomes.find((outcome) => 'failure' in outcome);
  if (failed !== undefined) throw failed.failure;
}

type PlacesWanted = { readonly force: boolean; readonly extract: boolean };

/**
 * A file with where it goes. `isLeftArchive`: it is a folder, and stays an archive; `isThere`: an
 * earlier run has written it.
 */
type Planned = {
  readonly file: LinkFile;
  readonly name: string;
  readonly placing: Placing;
  readonly isLeftArchive: boolean;
  readonly isThere: boolean;
};

/** Chooses a free name for each file, also on a disk that takes capitals for small letters. */
async function placesFor(
  files: readonly LinkFile[],
  directory: string,
  { force, extract, before }: PlacesWanted & { readonly before: WrittenBefore },
  { cwd, output }: Context,
): Promise<Planned[]> {
  const there = await stillThere(before, files, { cwd, directory, extract });
  const taken = new Set([...there.values()].map(foldedName));
  const planned: Planned[] = [];
  for (const [index, file] of files.entries()) {
    const name = safeName(file.name);
    if (name !== file.name) output.note(`${JSON.stringify(file.name)} is written as ${name}`);
    const isArchive = archiveName.test(name);
    const isFolder = extract && isArchive;
    const usual = join(directory, isFolder ? name.replace(archiveName, '') : name);
    const mayReplace = force && !isFolder && !taken.has(foldedName(usual));
    const freeName = () => freePath(directory, basename(usual), { cwd, taken });
    const outputFile = there.get(index) ?? (mayReplace ? usual : await freeName());
    taken.add(foldedName(outputFile));
    const placing = { outputFile, freeName, force: force && !isFolder, extract: isFolder };
    planned.push({ file, name, placing, isLeftArchive: isArchive && !isFolder, isThere: there.has(index) });
  }
  return planned;
}

/** Finds which files an earlier run wrote into a directory, and are whole there: paths by index. */
async function stillThere(
  before: WrittenBefore,
  files: readonly LinkFile[],
  { cwd, directory, extract }: { readonly cwd: string; readonly directory: string; readonly extract: boolean },
): Promise<Map<number, string>> {
  const there = new Map<number, string>();
  for (const { index, path } of before) {
    const file = files[index];
    if (file === undefined || dirname(path) !== resolve(cwd, directory)) continue;
    const stats = await stat(path).catch(() => undefined);
    const isFolder = extract && archiveName.test(safeName(file.name));
    if (isFolder ? stats?.isDirectory() : stats?.isFile() && stats.size === file.size)
      there.set(index, join(directory, basename(path)));
  }
  return there;
}

/** The name of a folder that was sent. */
const archiveName = /(?<=.)\.tar$/i;

/**
 * Fetches, verifies and opens one file.
 * @returns its size, the note about what was written, and where
 * @throws parcel_invalid when its size does not match the parcel, and the codes of downloads,
 * containers and `openDestination`; then no file appears
 */
export async function receiveFile(file: LinkFile, placing: Placing, service: string, context: Context) {
  for (let { outputFile } = placing; ;)
    try {
      return { ...(await receiveAt(file, { ...placing, outputFile }, service, context)), outputFile };
    } catch (error) {
      if (placing.freeName === undefined || !isSealpinError(error, 'file_exists')) throw error;
      context.signal.throwIfAborted();
      outputFile = await placing.freeName();
    }
}

async function receiveAt(file: LinkFile, placing: Placing, service: string, context: Context) {
  const { output, signal, stdout } = context;
  const destination = await openDestination({ ...placing, modified: file.modified }, context);
  let download: Awaited<ReturnType<typeof openDownload>> | undefined;
  try {
    if (file.size !== undefined) await destination.room(file.size);
    download = await openDownload(file.cid, { ...context, service });
    const plaintext = await openWithFileKey(download.stream, { fileKey: file.fileKey, provider: nodeProvider });
    // Of an archive, what is written is less than what is read.
    let read = 0;
    const onChunk = ({ length }: Uint8Array) => void (read += length);
    const counted = placing.extract ? observed(plaintext, { onChunk }) : plaintext;
    const isShown = placing.outputFile === '-' && stdout.isTTY;
    const progress = isShown ? silentProgress : output.progress('fetching and decrypting', file.size);
    const { bytes, wrote } = await destination.fill(counted, { progress, signal, onWritten: release });
    const size = placing.extract ? read : bytes;
    if (file.size !== undefined && placing.path === undefined && size !== file.size) throw wrongSize();
    await destination.commit();
    download.complete();
    return { size, wrote };
  } catch (error) {
    await abandon(destination, context);
    throw readFailure(error);
  } finally {
    await download?.close();
  }
}

/**
 * Makes the directory for files before a link is opened, which counts. After a failure, one that
 * is new and empty is removed.
 * @throws file_unwritable, and what `use` throws
 */
export async function receivingInto(path: string, { cwd }: Context, use: () => Promise<void>): Promise<void> {
  const directory = resolve(cwd, path);
  await intoDirectory(directory, failWrite(path), async () => {
    await access(directory, constants.W_OK).catch(failWrite(path));
    await use();
  });
}
