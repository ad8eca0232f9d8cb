/** Storing a stream of container bytes as a blob, and checking what the service stored. */
import type { StoredFile } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { cidBuilder, type SizedCid } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { sizeText } from '../terminal/progress.ts';
import { type Api } from './client.ts';

/**
 * A container of up to this size is buffered until its blob ID is known, so that the service can check the bytes
 * before it keeps them.
 */
export const bufferedBytes = 32 * 1024 * 1024;
const lookUpPausesMs = [0, 1000, 3000];

/**
 * Stores a container.
 *
 * @param container `bytes` is its exact length, if it is known
 * @param o `onBytes` is called with the length of each chunk that the service has taken
 * @throws cid_mismatch when the service stored something else (it is then deleted), and what the service or the stream throws
 */
export async function store(
  container: { readonly stream: ReadableStream<Uint8Array>; readonly bytes: number | undefined },
  o: { readonly api: Api; readonly context: Pick<Context, 'signal'>; readonly onBytes: (bytes: number) => void },
): Promise<StoredFile> {
  // Hashed right here: WebCrypto would copy every byte into another thread first, which takes longer than the hash.
  const builder = cidBuilder({ digest: nodeBackend.sha256 });
  const reader = container.stream.getReader();
  let computed: SizedCid | undefined;
  const next = async (): Promise<Uint8Array | undefined> => {
    const { done, value } = await reader.read();
    if (done) computed = await builder.finish();
    else await builder.write(value);
    return value;
  };
  try {
    const buffered: Uint8Array[] = [];
    for (let bytes = 0; (container.bytes ?? 0) <= bufferedBytes && bytes <= bufferedBytes;) {
      const chunk = await next();
      if (chunk === undefined) break;
      buffered.push(chunk);
      bytes += chunk.length;
    }
    let sent = false;
    const body = {
      stream: forward(buffered, computed === undefined ? next : undefined, o.onBytes),
      bytes: computed?.bytes ?? container.bytes,
    };
    let file;
    try {
      file = await o.api.store(body, { cid: computed?.cid, onSent: () => (sent = true) });
    } catch (error) {
      if (!sent || !isSealpinError(error, 'service_unreachable')) throw error;
      file = await lookUp(computedCid(computed).cid, error, o);
    }
    await refuseOther(file, computedCid(computed), o.api);
    return file;
  } catch (error) {
    await reader.cancel(error);
    throw error;
  }
}

function computedCid(computed: SizedCid | undefined): SizedCid {
  if (computed === undefined)
    throw new SealpinError('service_answer', 'the service responded before it had received everything');
  return computed;
}

async function* forward(
  buffered: Uint8Array[],
  next: (() => Promise<Uint8Array | undefined>) | undefined,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for (;;) {
    const chunk = buffered.shift() ?? (await next?.());
    if (chunk === undefined) return;
    // The chunk is empty once it is sent.
    const { length } = chunk;
    yield chunk;
    onBytes(length);
  }
}

/**
 * The response was lost after the last byte. Every encryption has a blob ID of its own, so a file with this one is
 * ours.
 */
async function lookUp(
  cid: string,
  lost: SealpinError,
  o: { readonly api: Api; readonly context: Pick<Context, 'signal'> },
): Promise<StoredFile> {
  for (const pauseMs of lookUpPausesMs) {
    await new Promise((resolve) => {
      setTimeout(resolve, pauseMs);
    });
    o.context.signal.throwIfAborted();
    try {
      const [file] = (await o.api.list({ cid, limit: 1 })).files;
      if (file !== undefined) return file;
    } catch (error) {
      // A key that only stores, as that of an inbox, may not ask.
      if (isSealpinError(error, 'insufficient_scope')) break;
      if (!isSealpinError(error, 'service_unreachable')) throw error;
    }
  }
  throw new SealpinError('service_unreachable', `${lost.message}; all bytes were sent, and no response came`, {
    hint: `see whether it was stored: sealpin list (blob ID ${cid})`,
    cause: lost,
  });
}

/**
 * Compares what the service stored with what was computed here, and deletes something else again.
 *
 * @throws cid_mismatch
 */
export async function refuseOther(
  file: Pick<StoredFile, 'fileId' | 'cid' | 'size'>,
  { cid, bytes }: SizedCid,
  api: Api,
): Promise<void> {
  if (file.cid === cid && file.size === bytes) return;
  const detail =
    file.cid === cid
      ? `the service stored ${sizeText(file.size)} of another size`
      : `the service stored it as ${file.cid}, and it is ${cid}`;
  try {
    await api.remove(file.fileId);
  } catch (error) {
    throw new SealpinError('cid_mismatch', `${detail}; deleting it failed, too`, {
      hint: `delete it by hand: sealpin delete ${file.fileId}`,
      cause: error,
    });
  }
  throw new SealpinError('cid_mismatch', `${detail}; it was deleted again`);
}
