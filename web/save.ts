/** Five ways to the disk, of which the first is taken that there is, and that has room. */
import { within, withStop } from '../shared/streams/timing.ts';
import type { CallOptions, Engine } from './engine-client.ts';
import { deliveryMs, type AskedServiceWorker, type FileView } from './protocol.ts';
import type { PageSink, Receiving, ToServiceWorker } from './protocol.ts';
import { trustedAddress } from './page-scripts.ts';
import { safeNames } from './workers/zip.ts';

/** A browser has no place for a file of this size. */
export class TooLargeToSave extends Error {}

/** The user closed the browser's dialog. */
export class Dismissed extends Error {}

/**
 * The browser ended the download before the file was whole, and may call complete what it has of
 * it.
 */
export class CutOff extends Error {}

/**
 * `picked`: in the file that the user chose; `downloads`: the browser has taken all of it.
 * `handedOver`: the browser got all of it, and does not say whether it keeps it; `copied`:
 * likewise, and the private files of this origin have a copy for a while.
 */
export type SavedPlace = 'picked' | 'downloads' | 'handedOver' | 'copied';

/** A Blob of this size fits into the memory of every device that opens pages. */
const inMemoryBytes = 32 * 1024 * 1024;
/** The most that is held in memory where there is no other way. */
const memoryBytes = 256 * 1024 * 1024;
/**
 * Interval at which the service worker is kept alive, in ms; Firefox stops an idle one after 30 s.
 */
export const aliveMs = 10_000;
/** Timeout for a service worker to start, in ms. */
const startMs = 15_000;

/** Place that the user names in a dialog, or the browser by itself; or a folder that was picked. */
export type Destination = 'asked' | { readonly into: FileSystemDirectoryHandle };

type Picker = (o: { suggestedName: string }) => Promise<FileSystemFileHandle>;
/** Has the user pick a file, where the browser lets a page write into one. */
export const picker = (): Picker | undefined => (globalThis as { showSaveFilePicker?: Picker }).showSaveFilePicker;

/** The file that the user picks for a name; undefined without a picker. @throws Dismissed */
export async function pickedFile(suggestedName: string): Promise<FileSystemFileHandle | undefined> {
  return await picker()?.({ suggestedName }).catch((error: unknown) => {
    throw error instanceof DOMException && error.name === 'AbortError' ? new Dismissed() : error;
  });
}

/**
 * Saves a file that the engine has opened. It resolves once all of the file was authenticated and
 * handed over.
 * @throws EngineError, `CutOff`, `Dismissed`, `TooLargeToSave`
 */
export async function save(
  engine: Engine<Receiving>,
  file: FileView,
  o: CallOptions & { readonly to: Destination },
): Promise<SavedPlace> {
  const { to, ...options } = o;
  const { name, size } = file;
  const write: Write = (sink, more) => engine.call('save', { file: file.id, sink }, { ...options, ...more });

  const handle = to === 'asked' ? await pickedFile(name) : await newFileIn(to.into, name);
  if (handle !== undefined) {
    await write({ kind: 'handle', handle });
    return 'picked';
  }
  const inMemory = async (): Promise<SavedPlace> => {
    download(await write({ kind: 'memory' }), name);
    return 'handedOver';
  };
  if (size === undefined || size <= inMemoryBytes) return inMemory();
  const streamed = async (): Promise<SavedPlace | undefined> => {
    const registration = await serviceWorker();
    if (registration === undefined) return undefined;
    await stream(registration, { name, size, signal: options.signal }, write);
    return 'downloads';
  };
  const onDisk = async (): Promise<SavedPlace | undefined> => {
    if (!(await hasDisk(2 * size))) return undefined;
    download(await write({ kind: 'disk' }), name);
    return 'copied';
  };
  for (const way of failsDownloads ? [streamed, onDisk] : [onDisk, streamed]) {
    const place = await way();
    if (place !== undefined) return place;
  }
  if (size <= memoryBytes) return inMemory();
  throw new TooLargeToSave();
}

/**
 * Marks a browser that fails a download whose service worker it stopped, as Chromium does, which
 * alone has this property. A service worker leaves nothing behind, so it comes first there.
 */
const failsDownloads = 'userAgentData' in navigator;

/** Writes the file to one of the ways to the disk. */
type Write = (sink: PageSink, more?: { transfer: Transferable[]; signal: AbortSignal }) => Promise<Blob | undefined>;

/** A new file in a folder, under a name that no other one there has. */
async function newFileIn(folder: FileSystemDirectoryHandle, name: string): Promise<FileSystemFileHandle> {
  const taken: string[] = [];
  for await (const each of (folder as unknown as { keys(): AsyncIterable<string> }).keys()) taken.push(each);
  return folder.getFileHandle(safeNames([...taken, name]).at(-1) ?? name, { create: true });
}

/** Hands a whole file to the browser, which copies it. */
export function download(blob: Blob | undefined, name: string): void {
  if (blob === undefined) throw new TypeError('there is no file');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // As long as it lives the browser can read from it.
  setTimeout(() => URL.revokeObjectURL(link.href), deliveryMs(blob.size));
}

/** Checks the room of private files; private windows of Firefox have none. */
async function hasDisk(bytes: number): Promise<boolean> {
  try {
    await navigator.storage.getDirectory();
    const { quota = 0, usage = 0 } = await navigator.storage.estimate();
    return quota - usage >= bytes;
  } catch {
    return false;
  }
}

/** The service worker of `/dl/`, and of `scope`; undefined where it does not start. */
export async function serviceWorker(o: { scope?: string } = {}): Promise<ServiceWorkerRegistration | undefined> {
  try {
    const address = trustedAddress('downloads');
    const registration = await navigator.serviceWorker.register(address, { updateViaCache: 'none', ...o });
    const worker = registration.active ?? registration.waiting ?? registration.installing;
    if (worker === null) return undefined;
    if (worker.state !== 'activated') await activation(worker);
    return registration;
  } catch {
    return undefined;
  }
}

function activation(worker: ServiceWorker): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  worker.addEventListener('statechange', () => {
    if (worker.state === 'activated') resolve();
    if (worker.state === 'redundant') reject(new Error('it was replaced'));
  });
  return within(promise, startMs, () => {
    throw new Error('it did not start');
  });
}

/** Lets the browser download from the service worker, which pulls from the engine. */
async function stream(
  registration: ServiceWorkerRegistration,
  { name, size, signal }: { name: string; size: number; signal: AbortSignal | undefined },
  write: Write,
): Promise<void> {
  const id = crypto.randomUUID();
  const { port1, port2 } = new MessageChannel();
  const leave = (): void => dismiss(registration, id);
  const writing = withStop(signal);
  const lost = Promise.withResolvers<never>();
  const alive = setInterval(async () => {
    if (await answered(registration, { kind: 'alive', id })) return;
    lost.reject(new CutOff());
    writing.stop();
  }, aliveMs);
  const frame = document.createElement('iframe');
  frame.hidden = true;
  // An address without a name: those of pages end up in histories.
  frame.src = `dl/${id}`;
  addEventListener('pagehide', leave);
  try {
    const written = Promise.race([
      write({ kind: 'stream', port: port1 }, { transfer: [port1], signal: writing.signal }),
      lost.promise,
    ]);
    const offered = answered(registration, { kind: 'offer', id, name, size, port: port2 }, [port2]);
    // The request can overtake the offer, and finds nothing then. An engine that nobody pulls from
    // ends the wait.
    await Promise.race([offered, written]);
    document.body.append(frame);
    await written;
  } finally {
    clearInterval(alive);
    removeEventListener('pagehide', leave);
    leave();
    frame.remove();
  }
}

/** Asks the service worker. @returns whether it has the download, which it says on a port */
export function answered(
  { active }: ServiceWorkerRegistration,
  asked: AskedServiceWorker,
  transfer: Transferable[] = [],
): Promise<boolean> {
  const { port1, port2: answer } = new MessageChannel();
  return new Promise((resolve) => {
    port1.addEventListener('message', ({ data }: MessageEvent<boolean>) => resolve(data), { once: true });
    port1.start();
    active?.postMessage({ ...asked, answer } satisfies ToServiceWorker, [...transfer, answer]);
  });
}

/** Tells the service worker that a download has ended, or that the page goes away. */
export function dismiss({ active }: ServiceWorkerRegistration, id: string): void {
  active?.postMessage({ kind: 'gone', id } satisfies ToServiceWorker);
}
