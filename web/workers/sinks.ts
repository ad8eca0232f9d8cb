/** Destinations of a file. What fails before all of it has arrived is removed, or errors. */
import { SealpinError } from '../../shared/errors.ts';
import type { BufferPool } from '../../shared/streams/buffer-pool.ts';
import { deliveryMs, heartbeatMs, privateFolder } from '../protocol.ts';
import type { FromServiceWorker, PageSink, ToPort } from '../protocol.ts';

type ByteIterable = AsyncIterable<Uint8Array>;
/** `pool` gets the memory of what was written. */
type PageSinkOptions = { readonly size: number | undefined; readonly signal: AbortSignal; readonly pool: BufferPool };

/**
 * Writes a file.
 * @returns the file itself where the page still has to hand it to the browser
 * @throws what `bytes` throws, the signal's reason, DOMException `QuotaExceededError`
 */
export function writeTo(sink: PageSink, bytes: ByteIterable, o: PageSinkOptions): Promise<Blob | undefined> {
  if (sink.kind === 'handle') return writeToHandle(sink.handle, bytes, o);
  if (sink.kind === 'memory') return writeToMemory(bytes, o);
  return sink.kind === 'disk' ? writeToDisk(bytes, o) : writeToPort(sink.port, bytes, o);
}

/** A file that was picked keeps its old content until `close`. */
async function writeToHandle(
  handle: FileSystemFileHandle,
  bytes: ByteIterable,
  { signal, pool }: PageSinkOptions,
): Promise<undefined> {
  const isNew = (await handle.getFile()).size === 0;
  const writable = await handle.createWritable();
  try {
    for await (const chunk of bytes) {
      await writable.write(chunk as Uint8Array<ArrayBuffer>);
      pool.giveBack(chunk);
    }
    signal.throwIfAborted();
    await writable.close();
  } catch (error) {
    await writable.abort(error).catch(() => undefined); // the first error is the one to report
    // The picker creates an empty file; `remove` is in Chromium, which alone has the picker.
    if (isNew) await (handle as { remove?(): Promise<void> }).remove?.().catch(() => undefined);
    throw error;
  }
}

async function writeToMemory(bytes: ByteIterable, { signal }: PageSinkOptions): Promise<Blob> {
  const chunks: BlobPart[] = [];
  for await (const chunk of bytes) chunks.push(chunk as Uint8Array<ArrayBuffer>);
  signal.throwIfAborted();
  return new Blob(chunks, { type: 'application/octet-stream' });
}

/** Part of a file handle that only workers have. */
type Synchronous = FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncAccess> };
type SyncAccess = { write(bytes: Uint8Array, o: { at: number }): number; flush(): void; close(): void };

/** The removals to come of what was handed over. */
const removals = new Set<Promise<void>>();

/** Ends when every file that was handed over so far is removed. */
export async function copiesGone(): Promise<void> {
  await Promise.all(removals);
}

async function writeToDisk(bytes: ByteIterable, { signal, pool }: PageSinkOptions): Promise<File> {
  const name = crypto.randomUUID();
  const directory = await (await navigator.storage.getDirectory()).getDirectoryHandle(privateFolder, { create: true });
  await holdLock(name);
  const handle = await directory.getFileHandle(name, { create: true });
  const remove = (): Promise<void> => directory.removeEntry(name).catch(() => undefined);
  const access = await (handle as Synchronous).createSyncAccessHandle();
  try {
    let at = 0;
    for await (const chunk of bytes) {
      for (let rest = chunk; rest.length > 0;) {
        const written = access.write(rest, { at });
        at += written;
        rest = rest.subarray(written);
      }
      pool.giveBack(chunk);
    }
    signal.throwIfAborted();
    access.flush();
    access.close();
    const file = await handle.getFile();
    const removal = new Promise((resolve) => setTimeout(resolve, deliveryMs(at)))
      .then(remove)
      .then(() => void removals.delete(removal));
    removals.add(removal);
    return file;
  } catch (error) {
    access.close();
    await remove();
    throw error;
  }
}

/** Takes a lock that ends with this thread, and shows other pages that a file is in use. */
async function holdLock(name: string): Promise<void> {
  const { promise: held, resolve } = Promise.withResolvers<void>();
  void navigator.locks.request(name, async () => {
    resolve();
    await new Promise(() => undefined);
  });
  await held;
}

/** Timeout of a browser from the click to its first pull, in ms. */
const startMs = 15_000;

/**
 * The service worker pulls, so nothing is read that the disk does not take; it compares the number
 * of bytes with `size` itself.
 */
function writeToPort(port: MessagePort, bytes: ByteIterable, { signal, pool }: PageSinkOptions): Promise<undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const chunks = bytes[Symbol.asyncIterator]();
  const send = (message: ToPort, transfer: Transferable[] = []): void => port.postMessage(message, transfer);
  const notStarted = new SealpinError('internal', 'the browser did not start the download');
  const start = setTimeout(() => reject(notStarted), startMs);
  const fail = (error: unknown): void => {
    send('failed');
    reject(error);
  };
  async function next(): Promise<void> {
    const heartbeat = setInterval(() => send('wait'), heartbeatMs);
    try {
      const { done, value } = await chunks.next();
      signal.throwIfAborted();
      if (done === true) return send('end');
      // A piece of its own, because a part of a buffer would take all of it along.
      const piece = value.slice();
      pool.giveBack(value);
      send(piece, [piece.buffer]);
    } catch (error) {
      fail(error);
    } finally {
      clearInterval(heartbeat);
    }
  }
  signal.addEventListener('abort', () => fail(signal.reason), { once: true });
  port.addEventListener('message', ({ data }: MessageEvent<FromServiceWorker>) => {
    clearTimeout(start);
    if (data === 'pull') void next();
    else if (data === 'done') resolve(undefined);
    else if (data === 'cancelled') reject(new DOMException('the download was cancelled in the browser', 'AbortError'));
    else reject(new SealpinError('internal', 'the browser gave the download up'));
  });
  port.start();
  return promise.finally(() => {
    clearTimeout(start);
    port.close();
    // Ends the request behind it.
    void chunks.return?.();
  });
}
