/** What the two decrypting commands share: find the container, open it with what was given, write the plaintext. */
import { type Identity, open, type Opened, passwordIdentity } from '../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { openBlob, parseBlobId } from './blob.ts';
import { release } from './bytes.ts';
import type { Context } from './context.ts';
import { nodeBackend } from './crypto.ts';
import { openSink, type Sink } from './files.ts';
import { type FileIdentity, openInput } from './input.ts';
import { silentProgress, sizeText } from './progress.ts';

export type Unsealing = {
  /** A blob ID, a path with a `/` in it, or `-`. */
  readonly blob: string;
  /** A path, or `-`. */
  readonly outputFile: string;
  readonly force: boolean;
  /** What was given to open it with: it must be used. */
  readonly given:
    | { readonly kind: 'password'; readonly password: string }
    | { readonly kind: 'keys'; readonly identities: readonly Identity[] }
    | undefined;
  /** When nothing was given: what a container of that kind is opened with. */
  readonly find: (kind: 'password' | 'keys') => Promise<readonly Identity[]>;
  readonly context: Context;
};

/** Whether the blob argument means a local container and not a blob ID. */
export function isLocal(blob: string): boolean {
  return blob === '-' || blob.includes('/');
}

/**
 * @throws not_encrypted, wrong_kind, decrypt_failed and the other codes of containers, files and services; then no file appears
 */
export async function decryptTo(o: Unsealing): Promise<void> {
  const { context } = o;
  const { output } = context;
  if (o.outputFile === '-' && output.json)
    throw new SealpinError('usage', '--json and the file would both go to standard output', {
      hint: 'name a file for the output',
    });
  // Before anything is fetched; and again when it is known that the input is another file.
  await openSink(o.outputFile, { force: o.force, world: context });
  const source = await container(o.blob, context);
  let sink: Sink | undefined;
  try {
    sink = await openSink(o.outputFile, { force: o.force, world: context, input: source.identity });
    const opened = await open(source.stream, { backend: nodeBackend });
    // A bar in the middle of the text on the same terminal would help nobody.
    const shown = () =>
      o.outputFile === '-' && context.stdout.isTTY
        ? silentProgress
        : output.progress('fetching and decrypting', source.bytes);
    const plaintext = await openWith(opened, o, context);
    // What was decrypted was made for us alone, and is out of our hands once written.
    const written = opened.kind === 'plain' ? () => undefined : release;
    const bytes = await pour(plaintext, sink, shown(), context.signal, written);
    const path = await sink.commit();
    if (opened.kind === 'plain') output.warn(`${o.blob} was not encrypted: it was written as it is`);
    if (path === undefined) return;
    output.note(`wrote ${o.outputFile} (${sizeText(bytes)})`);
    await output.result({ output: path, size: bytes, encrypted: opened.kind !== 'plain' }, []);
  } catch (error) {
    await sink?.abort();
    throw explain(error, o);
  } finally {
    await source.close();
  }
}

type Source = {
  readonly stream: ReadableStream<Uint8Array>;
  readonly bytes: number | undefined;
  readonly identity: FileIdentity | undefined;
  close(): Promise<void>;
};

async function container(blob: string, context: Context): Promise<Source> {
  if (isLocal(blob)) return openInput(blob, context);
  const cid = parseBlobId(blob, '; a container on this machine is named with a slash: ./file');
  const abort = new AbortController();
  const signal = AbortSignal.any([context.signal, abort.signal]);
  const { size, read } = await openBlob(cid, { ...context, signal });
  return {
    stream: read(),
    bytes: size,
    identity: undefined,
    close: async () => abort.abort(new SealpinError('interrupted')),
  };
}

async function openWith(opened: Opened, o: Unsealing, context: Context): Promise<ReadableStream<Uint8Array>> {
  if (opened.kind === 'detached') {
    throw new SealpinError('wrong_kind', 'it was encrypted by the service, which keeps the header that opens it', {
      hint: 'read it over the API: GET /v1/storage/<fileId>',
    });
  }
  if (opened.kind === 'plain') {
    if (o.given !== undefined)
      throw new SealpinError(
        'not_encrypted',
        'it is not encrypted, and a password or key was given: nothing was written',
      );
    return opened.stream;
  }
  if (o.given !== undefined && o.given.kind !== opened.opens) {
    throw opened.opens === 'keys'
      ? new SealpinError('wrong_kind', 'it is encrypted to keys, and a password was given', {
          hint: 'use: sealpin ecc-decrypt',
        })
      : new SealpinError('wrong_kind', 'it is encrypted with a password, and a key was given', {
          hint: 'use: sealpin decrypt',
        });
  }
  const identities = await identitiesFor(opened.opens, o);
  const derivation =
    opened.opens === 'password' ? context.output.progress('deriving the key from the password') : undefined;
  const plaintext = await opened.decrypt(identities);
  derivation?.done();
  return plaintext;
}

async function identitiesFor(kind: 'password' | 'keys', o: Unsealing): Promise<readonly Identity[]> {
  if (o.given === undefined) return o.find(kind);
  return o.given.kind === 'password' ? [passwordIdentity(o.given.password)] : o.given.identities;
}

async function pour(
  plaintext: ReadableStream<Uint8Array>,
  sink: Sink,
  progress: { add(bytes: number): void; done(): void },
  signal: AbortSignal,
  written: (chunk: Uint8Array) => void,
): Promise<number> {
  let bytes = 0;
  for await (const chunk of plaintext) {
    signal.throwIfAborted();
    const { length } = chunk;
    await sink.write(chunk);
    written(chunk);
    bytes += length;
    progress.add(length);
  }
  progress.done();
  return bytes;
}

/** What a failure means for the file that was wanted. */
function explain(error: unknown, o: Unsealing): unknown {
  if (!isSealpinError(error, 'decrypt_failed')) return error;
  const kept = o.outputFile === '-' ? 'what came out is only a part' : 'nothing was written';
  return new SealpinError('decrypt_failed', `${error.message}; ${kept}`, {
    hint: error.hint ?? 'there is no way around a lost password or key',
    cause: error,
  });
}
