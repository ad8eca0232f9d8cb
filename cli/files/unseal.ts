/** Decryption: finds the container, opens it and writes the plaintext. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Identity, open, type Opened, passwordIdentity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { openFile } from '../../shared/ipfs/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { peeked } from '../../shared/streams/pulled.ts';
import { withStop } from '../../shared/streams/timing.ts';
import { isBlobId, isBlobReference, optionsOf, parseBlobId, readFailure } from '../fetch/fetch-blob.ts';
import { ownFilesIn } from '../fetch/own-files.ts';
import { openDownload } from '../fetch/kept-download.ts';
import { memory } from '../io/byte-stream.ts';
import { isCar, openCar } from '../io/car-file.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { type Input, openInput } from '../io/input.ts';
import { readIdentities } from '../keys/key-files.ts';
import { askPassword, givenPassword, withoutGivenPassword, withPassword } from '../keys/passwords.ts';
import { silentProgress } from '../terminal/progress.ts';
import { fileInHistory } from './history.ts';
import { abandon, checkPlacing, openDestination, type Placing, type PlaintextDestination } from './destination.ts';

/** Secrets that open a container. */
type Opening = {
  /** Kind of what was given: nothing else is tried. */
  readonly given: 'password' | 'keys' | undefined;
  /** Finds it. `failed`: how many passwords were wrong so far. */
  readonly find: (kind: 'password' | 'keys', failed: number) => Promise<readonly Identity[]>;
};

/** Input, keys and destination of a decryption. */
type Unsealing = Placing &
  Opening & {
    /** A blob ID in any form, a path that does not read as one, or `-`. */
    readonly blob: string;
    readonly context: Context;
  };

/**
 * What opens a blob: the password that was given, else one that is asked for, or a key file.
 * @param o.key `private.key` if undefined
 */
export function openingOf(
  o: { blob: string; password?: string | undefined; key?: string | undefined; keyPassword?: string | undefined },
  context: Context,
): Opening {
  return {
    given: o.password === undefined ? undefined : 'password',
    find: async (kind, failed) =>
      kind === 'keys'
        ? readIdentities(o.key, o.keyPassword, context, o.key === undefined ? keyHint : undefined)
        : [passwordIdentity(o.password ?? (await askPassword(o.blob, context, failed)))],
  };
}

/** What else is given as a password is for the container. */
const keyHint = 'name the key with --key, and give its password in SEALPIN_PASSWORD';

/** Tells a local container from a blob ID. */
function isLocal(blob: string): boolean {
  return blob === '-' || (blob.includes('/') && !isBlobReference(blob));
}

/** The blob argument, with a slash where it can only mean a file of this directory. */
async function withSlash(blob: string, { cwd }: Context): Promise<string> {
  if (isLocal(blob) || isBlobId(blob) || blob === '') return blob;
  const stats = await stat(resolve(cwd, blob)).catch(() => undefined);
  return stats?.isFile() === true ? `./${blob}` : blob;
}

/**
 * Decrypts a blob or a container file.
 * @throws not_encrypted, wrong_kind, decrypt_failed and the other codes of containers, files and
 * services; then no file appears
 */
export async function decryptTo(given: Unsealing): Promise<void> {
  const { context } = given;
  const o = { ...given, blob: await withSlash(given.blob, context) };
  const { output } = context;
  checkPlacing(o, output);
  // Checked before anything is fetched, and again once the input is open, which must be another
  // file.
  await openDestination(o, context);
  const source = await container(o.blob, context);
  let destination: PlaintextDestination | undefined;
  try {
    const modified = await modifiedInHistory(o, context);
    destination = await openDestination({ ...o, modified }, context, source.identity);
    if (source.bytes !== undefined) await destination.room(source.bytes);
    const opened = await open(source.stream, { provider: nodeProvider, pool: memory });
    const plaintext = await openWith(opened, o, context);
    // A progress bar would appear in the middle of the text on the same terminal.
    const isShown = o.outputFile === '-' && context.stdout.isTTY;
    const progress = isShown ? silentProgress : output.progress('fetching and decrypting', source.bytes);
    // Plaintext was made here and is nowhere else; what was not encrypted may still be in use by
    // its source.
    const onWritten = opened.kind === 'plain' ? () => undefined : (chunk: Uint8Array): void => memory.giveBack(chunk);
    const { bytes, wrote } = await destination.fill(plaintext, { progress, signal: context.signal, onWritten });
    const path = await destination.commit();
    source.complete?.();
    if (opened.kind === 'plain') output.warn(`${o.blob} was not encrypted: it was written as it is`);
    if (path === undefined) return;
    output.note(wrote);
    await output.result({ output: path, size: bytes, encrypted: opened.kind !== 'plain' }, []);
  } catch (error) {
    throw await unsealFailure(error, o, await abandon(destination, context));
  } finally {
    await source.close();
  }
}

/** Time of the last change: the history knows it of what was stored from here. */
async function modifiedInHistory({ blob, modified }: Unsealing, context: Context): Promise<Date | undefined> {
  if (modified !== undefined || isLocal(blob)) return modified;
  return (await fileInHistory(parseBlobId(blob), context)).modified;
}

/**
 * Decrypts with the private keys of a file, or `private.key`, and nothing else.
 * @param key the file (`-`: standard input), and one with the password of a protected one
 * @throws usage when standard input is the container and the key, the codes of `readIdentities` and
 * `decryptTo`
 */
export async function decryptWithKeys(
  o: Placing & { readonly blob: string },
  key: { readonly file: string | undefined; readonly 'password-file': string | undefined },
  context: Context,
): Promise<void> {
  if (o.blob === '-' && key.file === '-')
    throw new SealpinError('usage', 'standard input cannot be both the container and the key');
  const source = { ...key, stdinTaken: o.blob === '-' || key.file === '-' };
  const password = await givenPassword(source, withoutGivenPassword(context));
  const identities = await readIdentities(key.file, password, context);
  await decryptTo({ ...o, given: 'keys', find: async () => identities, context });
}

type ContainerSource = Pick<Input, 'stream' | 'bytes' | 'identity' | 'close'> & { complete?(): void };

async function container(blob: string, context: Context): Promise<ContainerSource> {
  if (isLocal(blob)) return localSource(blob, context);
  const cid = parseBlobId(blob, '; there is no file of that name either');
  const { size, ...download } = await openDownload(cid, { ...context, ownFile: ownFilesIn(context) });
  return { ...download, bytes: size, identity: undefined };
}

/** A container, or the blob in a CAR file, each block verified. */
async function localSource(path: string, context: Context): Promise<ContainerSource> {
  const input = await openInput(path, context);
  // What is read of a pipe would be missing afterwards.
  if (input.identity === undefined) return input;
  try {
    const first = (await input.stream.getReader().read()).value;
    if (first === undefined || !isCar(first)) return await openInput(path, context);
  } finally {
    await input.close();
  }
  const car = await openCar(path, context);
  const { signal, stop } = withStop(context.signal);
  const close = async (): Promise<void> => {
    stop(new SealpinError('interrupted'));
    await car.close();
  };
  try {
    const { size, read } = await openFile(car.root, [car.source], optionsOf({ ...context, signal }));
    return { stream: read(), bytes: size, identity: car.identity, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Opens what was recognized, with what was given or found.
 * @returns the plaintext; what is not encrypted as it is
 * @throws wrong_kind, not_encrypted, decrypt_failed, and the codes of `find`
 */
export async function openWith(
  opened: Opened,
  o: Pick<Unsealing, 'blob'> & Opening,
  context: Context,
): Promise<ReadableStream<Uint8Array>> {
  if (opened.kind === 'detached') {
    throw new SealpinError('wrong_kind', 'it was encrypted by the service, which keeps the header that opens it', {
      hint: 'read it by its file ID: sealpin decrypt <file_id>; sealpin list shows the file ID',
    });
  }
  if (opened.kind === 'plain') {
    const plain = isLocal(o.blob) ? await refuseCar(opened.stream) : opened.stream;
    if (o.given === undefined) return plain;
    const detail = 'it is not encrypted, and a password or key was given: nothing was written';
    throw new SealpinError('not_encrypted', detail);
  }
  if (o.given !== undefined && o.given !== opened.opens) {
    throw opened.opens === 'keys'
      ? new SealpinError('wrong_kind', 'it is encrypted to keys, and a password was given', { reason: 'needs_key' })
      : new SealpinError('wrong_kind', 'it is encrypted with a password, and a key was given', {
          reason: 'needs_password',
        });
  }
  if (opened.opens === 'keys') return opened.decrypt(await o.find('keys', 0));
  const find = (failed: number) => o.find('password', failed);
  return withPassword(find, o.given !== undefined, opened.decrypt, context);
}

/** Refuses a CAR in a pipe, of which a copy is not what the user wants. @throws wrong_kind */
async function refuseCar(stream: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
  const { start, stream: whole } = await peeked(stream);
  if (!start.some(isCar)) return whole;
  await cancelQuietly(whole);
  throw new SealpinError('wrong_kind', 'a CAR file cannot be read from a pipe', {
    hint: 'write it to a file, and name that: ./letter.car',
  });
}

/** The error to report, with what it means for the output file. */
async function unsealFailure(thrown: unknown, o: Unsealing, isPart: boolean): Promise<unknown> {
  const error = readFailure(thrown);
  if (!isSealpinError(error, 'decrypt_failed', 'container_invalid')) return error;
  const kept = isPart ? 'the output is incomplete' : 'nothing was written';
  const identities = o.given === 'keys' ? await o.find('keys', 0) : [];
  const keys = identities.flatMap(({ recipient = [] }) => recipient);
  const other = `what was tried opens files to ${shownKeys(keys)}: name the private key of the other one`;
  const hint = error.reason === 'no_key' && keys.length > 0 ? other : undefined;
  return new SealpinError(error.code, `${error.message}; ${kept}`, { hint, reason: error.reason, cause: error });
}

/** The recipients of keys, of which some are 2,000 characters long. */
function shownKeys([first = '', ...more]: readonly string[]): string {
  const start = first.length > 70 ? `${first.slice(0, 40)}…` : first;
  return more.length === 0 ? start : `${start} and ${more.length} more`;
}
