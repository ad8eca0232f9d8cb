/**
 * Files of an account, read with its API key: of a service that gives blobs to nobody
 * (`PUBLIC_GATEWAY`), there is no other way to them.
 */
import { detachedPayloadBytes } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { type BlockSource, cidBuilder, maxBlockBytes } from '../../shared/ipfs/index.ts';
import { isLoopback } from '../../shared/loopback.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { pulled } from '../../shared/streams/pulled.ts';
import { type ByteReader, byteReader } from '../../shared/streams/reader.ts';
import type { StoredFile } from '../../shared/api.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { api, type ApiCaller, sdkHttp } from '../remote/client.ts';
import { findService } from '../remote/service-choice.ts';

type OwnFile = NonNullable<Context['ownFile']>;

const pieceBytes = 256 * 1024;

/**
 * The blob of a file from a byte on, as the service gives it with the key; who reads it hashes it.
 * @throws what the service refuses with
 */
export async function storedBytes(
  { fileId, mode, size }: Pick<StoredFile, 'fileId' | 'mode' | 'size'>,
  start: number,
  service: ApiCaller,
  { signal, timeouts }: Pick<Context, 'signal' | 'timeouts'>,
): Promise<ReadableStream<Uint8Array>> {
  const http = sdkHttp(service, { signal, timeouts });
  const isSealed = mode === 'encrypted';
  const response = await http.call({
    path: `v1/storage/${fileId}${isSealed ? '' : '/content'}`,
    headers: {
      Accept: isSealed ? 'application/vnd.sealpin' : 'application/octet-stream',
      ...(!isSealed && start > 0 && { Range: `bytes=${start}-` }),
    },
    signal,
  });
  const length = Number(response.headers.get('Content-Length'));
  // The header of a sealed file is no part of its blob, and its container comes whole.
  const before = isSealed ? length - detachedPayloadBytes(size) : 0;
  return from(http.body(response, length, signal), response.status === 206 ? 0 : Math.max(0, before) + start);
}

/**
 * Finds blobs among the files of an account.
 * @param service with the API key, which has gone to it before
 */
export function ownFilesOf(service: ApiCaller): OwnFile {
  return (cid, context) => ownFile(cid, service, context);
}

/**
 * Finds blobs among the files of the account in use, if a key for its service is known. A key of
 * the environment goes to no service that a flag or a link names alone.
 */
export function ownFilesIn(context: Context): OwnFile {
  return async (cid, own) => {
    const { url, apiKey, keyFrom } = await findService(context);
    if (url === undefined || apiKey === undefined || (url.protocol === 'http:' && !isLoopback(url))) return undefined;
    if (context.service !== undefined && keyFrom === 'SEALPIN_API_KEY') return undefined;
    return await ownFile(cid, { url, apiKey, keyFrom }, own);
  };
}

/**
 * Uses the sources of a blob, and where none has all of it the file of the account, if the context
 * has a way to those. Fails as `use`, and as `ownFile` where the account has it.
 * @param use may be called again after it has failed, and then starts again
 */
export async function withOwnFile<T>(
  cid: string,
  context: Context,
  sources: readonly BlockSource[],
  use: (sources: readonly BlockSource[]) => Promise<T>,
): Promise<T> {
  try {
    return await use(sources);
  } catch (error) {
    context.signal.throwIfAborted();
    const own = isAbsent(error) ? await context.ownFile?.(cid, context) : undefined;
    if (own === undefined) throw error;
    return await use([own]);
  }
}

/** Recognizes that a source does not have a blob, whatever the others said. */
function isAbsent(error: unknown): boolean {
  if (isSealpinError(error, 'not_found')) return true;
  const { cause } = error as { cause?: unknown };
  return cause instanceof AggregateError && cause.errors.some(isAbsent);
}

/** A stream without its first bytes. */
function from(stream: ReadableStream<Uint8Array>, skippedBytes: number): ReadableStream<Uint8Array> {
  let left = skippedBytes;
  return stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const skipped = Math.min(left, chunk.length);
        left -= skipped;
        if (skipped < chunk.length) controller.enqueue(chunk.subarray(skipped));
      },
    }),
  );
}

/**
 * A file of the account with a blob, as a source of its blocks. All of it is read once, for the
 * tree above its leaves, which the service does not give.
 * @returns undefined where the account has none, or one in another layout than Sealpin's
 * @throws what the service refuses with
 */
async function ownFile(cid: string, service: ApiCaller, context: Context): Promise<BlockSource | undefined> {
  const listing = api(service, context).list({ cid, limit: 1 });
  // A key that may not list, or none that is valid, is not what the command was about.
  const found = await listing.catch((error: unknown) => {
    context.signal.throwIfAborted();
    if (!isSealpinError(error)) throw error;
    return undefined;
  });
  const file = found?.files[0];
  if (file === undefined) return undefined;
  const nodes = new Map<string, Uint8Array>();
  const builder = cidBuilder({ digest: nodeProvider.sha256, onNode: (node, block) => void nodes.set(node, block) });
  for await (const chunk of await storedBytes(file, 0, service, context)) await builder.write(chunk);
  if ((await builder.finish()).cid !== cid) return undefined;
  let rest: { readonly at: number; readonly reader: ByteReader } | undefined;
  const readerAt = async (start: number, signal: AbortSignal): Promise<ByteReader> =>
    byteReader(await storedBytes(file, start, service, { ...context, signal }));
  return {
    id: `service ${service.url.host}`,
    async block(wanted, signal) {
      const node = nodes.get(wanted);
      if (node !== undefined) return node;
      if (wanted !== cid) throw new SealpinError('not_found', `it does not give the block ${wanted} alone`);
      const reader = await readerAt(0, signal);
      const bytes = await reader.read(maxBlockBytes);
      await cancelQuietly(reader);
      return bytes;
    },
    async read(_cid, offset, length, signal) {
      // A container comes from its start alone: what follows the range stays open.
      const reader = rest?.at === offset ? rest.reader : await readerAt(offset, signal);
      rest = undefined;
      let left = length;
      return pulled({
        async next() {
          const bytes = await reader.read(Math.min(left, pieceBytes));
          left -= bytes.length;
          if (left === 0) rest = { at: offset + length, reader };
          return bytes.length === 0 ? undefined : bytes;
        },
        cancel: async (reason) => (left === 0 ? undefined : reader.cancel(reason)),
      });
    },
  };
}
