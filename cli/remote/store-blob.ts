/** From a stream of container bytes to a blob that is stored and checked. */
import type { StoredFile } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { cidBuilder } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { nodeBackend } from '../keys/node-backend.ts';
import { sizeText } from '../terminal/progress.ts';
import { type Api } from './client.ts';

/** A container of up to this size is held until its blob ID is known, so that the service can check it before it keeps it. */
const heldBytes = 32 * 1024 * 1024;
const lookUpPausesMs = [0, 1000, 3000];

/**
 * @param container its bytes, and their exact number if known
 * @param o `onBytes` is told how many bytes have been passed on to the service
 * @throws cid_mismatch when the service stored something else (it is then deleted), and whatever the service or the stream throws
 */
export async function store(
  container: { readonly stream: ReadableStream<Uint8Array>; readonly bytes: number | undefined },
  o: { readonly api: Api; readonly context: Pick<Context, 'signal'>; readonly onBytes: (bytes: number) => void },
): Promise<StoredFile> {
  // Hashed right here: WebCrypto would copy every byte into another thread first, which takes longer than the hash.
  const builder = cidBuilder({ digest: nodeBackend.sha256 });
  const reader = container.stream.getReader();
  let measured: Measured | undefined;
  const next = async (): Promise<Uint8Array | undefined> => {
    const { done, value } = await reader.read();
    if (done) measured = await builder.finish();
    else await builder.write(value);
    return value;
  };
  try {
    const held: Uint8Array[] = [];
    for (let bytes = 0; (container.bytes ?? 0) <= heldBytes && bytes <= heldBytes;) {
      const chunk = await next();
      if (chunk === undefined) break;
      held.push(chunk);
      bytes += chunk.length;
    }
    let sent = false;
    const body = {
      stream: passOn(held, measured === undefined ? next : undefined, o.onBytes),
      bytes: measured?.bytes ?? container.bytes,
    };
    let file;
    try {
      file = await o.api.store(body, { cid: measured?.cid, onSent: () => (sent = true) });
    } catch (error) {
      if (!sent || !isSealpinError(error, 'service_unreachable')) throw error;
      file = await lookUp(complete(measured).cid, error, o);
    }
    const { cid, bytes: size } = complete(measured);
    if (file.cid === cid && file.size === size) return file;
    throw await undo(file, cid, o.api);
  } catch (error) {
    await reader.cancel(error);
    throw error;
  }
}

type Measured = { readonly cid: string; readonly bytes: number };

function complete(measured: Measured | undefined): Measured {
  if (measured === undefined) throw new SealpinError('service_answer', 'the service answered before it had everything');
  return measured;
}

async function* passOn(
  held: Uint8Array[],
  next: (() => Promise<Uint8Array | undefined>) | undefined,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for (;;) {
    const chunk = held.shift() ?? (await next?.());
    if (chunk === undefined) return;
    const { length } = chunk; // empty once sent
    yield chunk;
    onBytes(length);
  }
}

/** The answer was lost after the last byte: every encryption has a blob ID of its own, so that a file with ours is ours. */
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
      if (!isSealpinError(error, 'service_unreachable')) throw error;
    }
  }
  throw new SealpinError('service_unreachable', `${lost.message}; all bytes were sent, and no answer came`, {
    hint: `see whether it was stored: sealpin list (blob ID ${cid})`,
    cause: lost,
  });
}

async function undo(file: StoredFile, cid: string, api: Api): Promise<SealpinError> {
  const detail =
    file.cid === cid
      ? `the service stored ${sizeText(file.size)} of another size`
      : `the service stored it as ${file.cid}, and it is ${cid}`;
  try {
    await api.remove(file.fileId);
    return new SealpinError('cid_mismatch', `${detail}; it was deleted again`);
  } catch (error) {
    return new SealpinError('cid_mismatch', `${detail}; deleting it failed, too`, {
      hint: `delete it by hand: sealpin delete ${file.fileId}`,
      cause: error,
    });
  }
}
