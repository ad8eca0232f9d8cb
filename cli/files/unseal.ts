/**
 * Decryption, for `decrypt` and `ecc-decrypt`: finds the container, opens it and writes the
 * plaintext.
 */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Identity, open, type Opened, passwordIdentity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { openFile } from '../../shared/ipfs/index.ts';
import { observed, peeked } from '../../shared/streams/pulled.ts';
import { isBlobId, isBlobReference, optionsOf, parseBlobId, readFailure } from '../fetch/fetch-blob.ts';
import { openDownload } from '../fetch/kept-download.ts';
import { release } from '../io/byte-stream.ts';
import { isCar, openCar } from '../io/car-file.ts';
import type { Context } from '../context.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { openSink, type Sink, writeAll } from '../io/output-file.ts';
import { type FileIdentity, openInput } from '../io/input.ts';
import { type Progress, silentProgress } from '../terminal/progress.ts';
import { countText, sizeText } from '../terminal/size.ts';
import { maxTries } from '../keys/passwords.ts';

/** Input, keys and destination of a decryption. */
export type Unsealing = {
  /**
   * A blob ID (`ipfs://…` and `/ipfs/…`, too), a path, or `-`. A path without a `/` must not read
   * as a blob ID.
   */
  readonly blob: string;
  /** A path, or `-`. */
  readonly outputFile: string;
  readonly force: boolean;
  /** Extracts a tar archive into a new directory `outputFile`. */
  readonly extract: boolean;
  /** The password or keys that were given: no others are tried. */
  readonly given:
    | { readonly kind: 'password'; readonly password: string }
    | { readonly kind: 'keys'; readonly identities: readonly Identity[] }
    | undefined;
  /**
   * Finds what opens a container when nothing was given. `failed`: how many passwords were wrong so
   * far.
   */
  readonly find: (kind: 'password' | 'keys', failed: number) => Promise<readonly Identity[]>;
  readonly context: Context;
};

/** Tells a local container from a blob ID. */
function isLocal(blob: string): boolean {
  return blob === '-' || (blob.includes('/') && !isBlobReference(blob));
}

/** The blob argument, with a slash where it can only mean a file of this directory. */
async function withSlash(blob: string, { cwd }: Context): Promise<string> {
  if (isLocal(blob) || isBlobId(blob) || blob === '') return blob;
  const isFile = await stat(resolve(cwd, blob)).then(
    (stats) => stats.isFile(),
    () => false,
  );
  return isFile ? `./${blob}` : blob;
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
  if (o.outputFile === '-' && output.json)
    throw new SealpinError('usage', '--json and the file would both go to standard output', {
      hint: 'name a file for the output',
    });
  if (o.extract && (o.outputFile === '-' || o.force))
    throw new SealpinError('usage', `--extract creates a directory: it does not go with ${o.force ? '--force' : '-'}`, {
      hint: 'name a new directory',
    });
  // Checked before anything is fetched, and again once the input is open, which must be another
  // file.
  await openDestination(o);
  const source = await container(o.blob, context);
  let destination: PlaintextDestination | undefined;
  try {
    destination = await openDestination(o, source.identity);
    if (source.bytes !== undefined) await destination.room(source.bytes);
    const opened = await open(source.stream, { backend: nodeBackend });
    // A progress bar would appear in the middle of the text on the same terminal.
    const progress = () =>
      o.outputFile === '-' && context.stdout.isTTY
        ? silentProgress
        : output.progress('fetching and decrypting', source.bytes);
    const plaintext = await openWith(opened, o, context);
    // Plaintext was made here and is nowhere else; what was not encrypted may still be in use by
    // its source.
    const onWritten = opened.kind === 'plain' ? () => undefined : release;
    const { bytes, wrote } = await destination.fill(plaintext, {
      progress: progress(),
      signal: context.signal,
      onWritten,
    });
    const path = await destination.commit();
    if (opened.kind === 'plain') output.warn(`${o.blob} was not encrypted: it was written as it is`);
    if (path === undefined) return;
    output.note(wrote);
    await output.result({ output: path, size: bytes, encrypted: opened.kind !== 'plain' }, []);
  } catch (error) {
    await destination?.abort();
    throw unsealFailure(error, o);
  } finally {
    await source.close();
  }
}

type ContainerSource = {
  readonly stream: ReadableStream<Uint8Array>;
  readonly bytes: number | undefined;
  readonly identity: FileIdentity | undefined;
  close(): Promise<void>;
};

async function container(blob: string, context: Context): Promise<ContainerSource> {
  if (isLocal(blob)) return localSource(blob, context);
  const cid = parseBlobId(blob, '; there is no file of that name either');
  const { size, stream, close } = await openDownload(cid, context);
  return { stream, bytes: size, identity: undefined, close };
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
  const stop = new AbortController();
  const close = async (): Promise<void> => {
    stop.abort(new SealpinError('interrupted'));
    await car.close();
  };
  try {
    const signal = AbortSignal.any([context.signal, stop.signal]);
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
  o: Pick<Unsealing, 'blob' | 'given' | 'find'>,
  context: Context,
): Promise<ReadableStream<Uint8Array>> {
  if (opened.kind === 'detached') {
    throw new SealpinError('wrong_kind', 'it was encrypted by the service, which keeps the header that opens it', {
      hint: 'read it by its file ID: sealpin get <file_id>; sealpin list shows the file ID',
    });
  }
  if (opened.kind === 'plain') {
    const plain = isLocal(o.blob) ? await refuseCar(opened.stream) : opened.stream;
    if (o.given !== undefined)
      throw new SealpinError(
        'not_encrypted',
        'it is not encrypted, and a password or key was given: nothing was written',
      );
    return plain;
  }
  if (o.given !== undefined && o.given.kind !== opened.opens) {
    throw opened.opens === 'keys'
      ? new SealpinError('wrong_kind', 'it is encrypted to keys, and a password was given', { reason: 'needs_key' })
      : new SealpinError('wrong_kind', 'it is encrypted with a password, and a key was given', {
          reason: 'needs_password',
        });
  }
  const identities = await identitiesFor(opened.opens, o);
  const derive = () =>
    opened.opens === 'password' ? context.output.progress('deriving the key from the password') : undefined;
  let derivation = derive();
  let failed = 0;
  const plaintext = await opened.decrypt(identities, async () => {
    derivation?.done();
    failed += 1;
    if (o.given !== undefined || opened.opens !== 'password' || failed === maxTries) return undefined;
    const others = await o.find('password', failed);
    derivation = derive();
    return others;
  });
  derivation?.done();
  return plaintext;
}

/** Refuses a CAR in a pipe, of which a copy is not what the user wants. @throws wrong_kind */
async function refuseCar(stream: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
  const { start, stream: whole } = await peeked(stream);
  if (!start.some(isCar)) return whole;
  await whole.cancel();
  throw new SealpinError('wrong_kind', 'a CAR file cannot be read from a pipe', {
    hint: 'write it to a file, and name that: ./letter.car',
  });
}

async function identitiesFor(
  kind: 'password' | 'keys',
  o: Pick<Unsealing, 'given' | 'find'>,
): Promise<readonly Identity[]> {
  if (o.given === undefined) return o.find(kind, 0);
  return o.given.kind === 'password' ? [passwordIdentity(o.given.password)] : o.given.identities;
}

/**
 * Recognizes a tar archive by the magic of its first header (POSIX.1-2024, pax, "ustar Interchange
 * Format").
 */
function isTar(bytes: Uint8Array): boolean {
  return Buffer.from(bytes.subarray(257, 262)).toString('latin1') === 'ustar';
}

type PlaintextDestination = Pick<Sink, 'room' | 'abort'> & {
  commit(): Promise<string | undefined>;
  /** Writes all of it. @returns how many bytes, and the note about what was written */
  fill(plaintext: ReadableStream<Uint8Array>, o: Filling): Promise<{ readonly bytes: number; readonly wrote: string }>;
};
type Filling = { readonly progress: Progress; readonly signal: AbortSignal; onWritten(chunk: Uint8Array): void };

/** @param input what is being read, and so must not be written */
async function openDestination(o: Unsealing, input?: FileIdentity): Promise<PlaintextDestination> {
  const { outputFile, context } = o;
  if (o.extract) return folderDestination(outputFile, context);
  const sink = await openSink(outputFile, { force: o.force, environment: context, input });
  return {
    room: (bytes) => sink.room(bytes),
    commit: () => sink.commit(),
    abort: () => sink.abort(),
    async fill(plaintext, filling) {
      let isArchive = false;
      const onStart = (chunk: Uint8Array): void => void (isArchive = isTar(chunk) && !outputFile.endsWith('.tar'));
      const bytes = await writeAll(plaintext, sink, { ...filling, onStart });
      const what = isArchive ? ', a tar archive: decrypt --extract makes the folder of it' : '';
      return { bytes, wrote: `wrote ${outputFile} (${sizeText(bytes)})${what}` };
    },
  };
}

async function folderDestination(path: string, context: Context): Promise<PlaintextDestination> {
  const { openExtraction } = await import('../folder/extraction.ts');
  const extraction = await openExtraction(path, context);
  return {
    room: (bytes) => extraction.room(bytes),
    commit: () => extraction.commit(),
    abort: () => extraction.abort(),
    async fill(plaintext, { progress, signal }) {
      const progressing = observed(plaintext, { onChunk: ({ length }) => progress.add(length) });
      const { files, bytes, warning } = await extraction.unpack(progressing, signal);
      progress.done();
      if (warning !== undefined) context.output.warn(warning);
      return { bytes, wrote: `wrote ${path} (${countText(files, 'file')}, ${sizeText(bytes)})` };
    },
  };
}

/** The error to report, with what it means for the output file. */
function unsealFailure(thrown: unknown, o: Unsealing): unknown {
  const error = readFailure(thrown);
  if (!(error instanceof SealpinError) || !['decrypt_failed', 'container_invalid'].includes(error.code)) return error;
  const isPart = o.outputFile === '-' && error.reason === 'payload';
  const kept = isPart ? 'the output is incomplete' : 'nothing was written';
  const keys = o.given?.kind === 'keys' ? o.given.identities.flatMap(({ recipient = [] }) => recipient) : [];
  return new SealpinError(error.code, `${error.message}; ${kept}`, {
    ...(error.reason === 'no_key' && keys.length > 0
      ? { hint: `what you named opens files to ${shownKeys(keys)}` }
      : {}),
    reason: error.reason,
    cause: error,
  });
}

/** The recipients of keys, of which some are 2,000 characters long. */
function shownKeys([first = '', ...more]: readonly string[]): string {
  const start = first.length > 70 ? `${first.slice(0, 40)}…` : first;
  return more.length === 0 ? start : `${start} and ${more.length} more`;
}
