/** Storing a stream of container bytes as a blob, and checking what the service stored. */
import type { StoredFile } from '../../shared/api.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { carBytesOf, carOfBytes, cidBuilder, type SizedCid } from '../../shared/ipfs/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { observed, peeked } from '../../shared/streams/pulled.ts';
import { byteReader } from '../../shared/streams/reader.ts';
import { sleep } from '../../shared/streams/timing.ts';
import type { Context } from '../context.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { sizeText } from '../terminal/size.ts';
import { type Api } from '../remote/client.ts';
import { storeInPlace } from './in-place.ts';
import { maxCarBytes } from './limits.ts';

/** A smaller container waits for its blob ID, so that the service checks it before it keeps it. */
export const bufferedBytes = 32 * 1024 * 1024;
const lookUpPausesMs = [0, 1000, 3000];

/**
 * Stores a container.
 * @param container `bytes` is its exact length, if it is known
 * @param o `onBytes` is called with the length of each chunk that the service has taken
 * @throws cid_mismatch when the service stored something else (it is then deleted), and what the
 * service or the stream throws
 */
export async function store(
  container: { readonly stream: ReadableStream<Uint8Array>; readonly bytes: number | undefined },
  o: {
    readonly api: Api;
    readonly context: Pick<Context, 'signal'>;
    readonly onBytes: (bytes: number) => void;
    /** Keeps the file only if a parcel names it. */
    readonly provisional?: boolean | undefined;
    /** Set if the service hashes what it stores as it takes it. */
    readonly isDirect?: boolean | undefined;
    /** Folder in which such a service keeps it. */
    readonly folder?: string | undefined;
  },
): Promise<StoredFile> {
  const { stream, bytes } = container;
  const { provisional = false, isDirect = false } = o;
  const sending = isCar(bytes) && !isDirect ? await asCar(stream, bytes, o) : await asBytes(container, o);
  let sent = false;
  try {
    let file;
    try {
      const options = { cid: sending.known, provisional, onSent: () => (sent = true) };
      const folder = isDirect && (bytes ?? 0) > bufferedBytes ? o.folder : undefined;
      file = await storeInPlace(folder, sending.body, (body, more) => o.api.store(body, { ...options, ...more }));
    } catch (error) {
      if (!sent || !isSealpinError(error, 'service_unreachable') || error.retryAfterSeconds !== undefined) throw error;
      file = await lookUp(sending.computed().cid, error, o);
    }
    await refuseOther(file, sending.computed(), o.api);
    return file;
  } catch (error) {
    await cancelQuietly(sending, error);
    throw error;
  }
}

type SentContainer = {
  readonly body: Parameters<Api['store']>[0];
  /** Its CID, where that is known before it is sent. */
  readonly known: string | undefined;
  /** The CID and size of what was sent. @throws service_answer before all of it was */
  computed(): SizedCid;
  /** Ends the reading of the container. */
  cancel(reason: unknown): Promise<void>;
};
type ContainerToStore = Parameters<typeof store>[0];
type Hooks = Pick<Parameters<typeof store>[1], 'onBytes'>;

/** Hashes right here: WebCrypto would copy every byte into another thread, which takes longer. */
const digest = nodeProvider.sha256;

const isCar = (bytes: number | undefined): bytes is number =>
  bytes !== undefined && bytes > bufferedBytes && bytes <= maxCarBytes;

/** Bytes of the request that stores a container of so many. */
export const bodyBytesOf = async (bytes: number): Promise<number> => (isCar(bytes) ? await carBytesOf(bytes) : bytes);

/** As blocks, hashed here and again by the node that keeps them: so the Worker need not. */
async function asCar(
  stream: ContainerToStore['stream'],
  bytes: number,
  { onBytes: onTaken }: Hooks,
): Promise<SentContainer> {
  const source = byteReader(stream);
  let computed: SizedCid | undefined;
  async function* blocks(): AsyncGenerator<Uint8Array> {
    computed = yield* carOfBytes(source, { digest, onTaken });
  }
  return {
    body: { stream: blocks(), bytes: await bodyBytesOf(bytes), car: true },
    known: undefined,
    computed: () => computedCid(computed),
    cancel: (reason) => source.cancel(reason),
  };
}

/** As it is; up to `bufferedBytes`, once its CID is known. */
async function asBytes({ stream, bytes }: ContainerToStore, { onBytes }: Hooks): Promise<SentContainer> {
  const builder = cidBuilder({ digest });
  let computed: SizedCid | undefined;
  const hashed = observed(stream, {
    onChunk: (chunk) => builder.write(chunk),
    async onEnd() {
      computed = await builder.finish();
    },
  });
  const whole = await peeked(hashed, (bytes ?? 0) <= bufferedBytes ? bufferedBytes + 1 : 0);
  const known: SizedCid | undefined = computed;
  const reader = whole.stream.getReader();
  return {
    body: { stream: countedChunks(reader, onBytes), bytes: known?.bytes ?? bytes, car: false },
    known: known?.cid,
    computed: () => computedCid(computed),
    cancel: (reason) => reader.cancel(reason),
  };
}

function computedCid(computed: SizedCid | undefined): SizedCid {
  if (computed === undefined)
    throw new SealpinError('service_answer', 'the service responded before it had received everything');
  return computed;
}

async function* countedChunks(reader: ReadableStreamDefaultReader<Uint8Array>, onBytes: (bytes: number) => void) {
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    // The chunk is empty once it is sent.
    const { length } = next.value;
    yield next.value;
    onBytes(length);
  }
}

/**
 * The response was lost after the last byte. Every encryption has a blob ID of its own, so a file
 * with this one is ours.
 */
async function lookUp(
  cid: string,
  lost: SealpinError,
  o: { readonly api: Api; readonly context: Pick<Context, 'signal'> },
): Promise<StoredFile> {
  for (const pauseMs of lookUpPausesMs) {
    await sleep(pauseMs, o.context.signal);
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

/** Deletes again what the service stored instead of this. @throws cid_mismatch if it did */
export async function refuseOther(
  file: Pick<StoredFile, 'fileId' | 'cid' | 'size'>,
  { cid, bytes }: SizedCid,
  api: Api,
): Promise<void> {
  if (file.cid === cid && file.size === bytes) return;
  const detail =
    file.cid === cid
      ? `the service stored a different size: ${sizeText(file.size)}`
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
