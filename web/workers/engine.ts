/**
 * The engine of a page, in a thread of its own: it reads links, fetches, verifies and opens.
 * Secrets and plaintext stay here, but for what goes into a sink.
 */
import { openBlob } from '../../client/blobs.ts';
import { inspect, open } from '../../client/containers.ts';
import { identitiesOf, type Credentials as KnownCredentials } from '../../client/credentials.ts';
import { openReceived, recordOf, type OpenedFile } from '../../client/receiving.ts';
import { serviceHttp, type Fetch } from '../../client/service-http.ts';
import { ShareStatus } from '../../shared/api/shares-shapes.ts';
import { fileKeyOf, type Identity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { isCid } from '../../shared/ipfs/cid.ts';
import { openParcel, parseLink, printLink, type Link, type Parcel } from '../../shared/link/index.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { BufferPool } from '../../shared/streams/buffer-pool.ts';
import { chunksOf } from '../../shared/streams/read-all.ts';
import type { Credentials, FileView, Found, OpenedView, RangeWanted, Receiving } from '../protocol.ts';
import { inboxCalls, listedDelivery } from './inbox-reader.ts';
import { loadCurves } from './lazy-curves.ts';
import { serveCalls, type Running } from './serve-calls.ts';
import { signIn } from './signed-in.ts';
import { copiesGone, writeTo } from './sinks.ts';
import { readInWindows } from './windows.ts';
import { safeNames, zipBytes, zipped } from './zip.ts';

/** Opens a found link or file, which waits for a password or a click. */
type OpenFound = (credentials: Credentials, signal: AbortSignal) => Promise<Contents>;
/** What was opened, before its files have IDs. */
type Contents = Omit<OpenedView, 'files'> & { files: Openable[] };
type Openable = Omit<FileView, 'id'> & {
  read(running: Pick<Running, 'signal' | 'stalled'>): AsyncIterable<Uint8Array>;
  /** Any part of a file that is fetched. */
  openRanges?(signal: AbortSignal): Promise<OpenedFile>;
};

/** Of the pieces of what is saved. */
const pool = new BufferPool();
/** Looks once more at what was found last. */
let findAgain: ((signal: AbortSignal) => Promise<Found>) | undefined;
let openFound: OpenFound | undefined;
/** Of the share that was opened. */
let opensLeft: number | undefined;
/** Files of what was opened last, and their ZIP, by their IDs. */
let files: ReadonlyMap<number, Openable> = new Map();
let lastFile = -1;

/** Looks for something. What was open before is closed. */
function beginSearch(look: (signal: AbortSignal) => Promise<Found>, signal: AbortSignal): Promise<Found> {
  [findAgain, openFound, opensLeft, files] = [look, undefined, undefined, new Map()];
  return look(signal);
}

async function find({ text, root, opening }: Parameters<Receiving['find']>[0], signal: AbortSignal): Promise<Found> {
  const { link, exposed } = linkIn(text, root);
  const { kind } = link;
  if (kind === 'inbox' || kind === 'invitation') return { kind, address: printLink(link) };
  if (link.service !== root) return { kind: 'elsewhere', host: new URL(link.service).host, address: printLink(link) };
  return link.kind === 'share' ? findShare(link, opening, exposed, signal) : findBlob(link, exposed, signal);
}

/** A link, or a blob ID as people write it down. */
function linkIn(text: string, root: string): { link: Link; exposed: boolean } {
  const cid = /^\s*(?:ipfs:\/\/|\/ipfs\/)?(\w+)\/?\s*$/.exec(text)?.[1] ?? '';
  return isCid(cid) ? { link: { kind: 'blob', service: root, cid }, exposed: false } : parseLink(text);
}

async function findShare(
  link: Extract<Link, { kind: 'share' }>,
  opening: string,
  exposed: boolean,
  signal: AbortSignal,
): Promise<Found> {
  const http = serviceHttp({ service: link.service });
  const status = await http.json(ShareStatus, { path: `v1/shares/${link.id}`, signal });
  let record: Uint8Array | undefined;
  openFound = async ({ password, keys }, signal) => {
    // A wrong password costs no other open.
    if (record === undefined) ({ record, opensLeft } = await recordOf(http, link.id, opening, signal));
    const identities = (): readonly Identity[] => (keys === undefined ? [] : identitiesOf({ keys }));
    const parcel = await openParcel(record, { secret: link.secret, password, identities, place: link });
    return { ...parcel, files: parcelFiles(parcel, link.service) };
  };
  const { password, ...about } = status;
  return { kind: 'share', exposed, ...about, needs: password ? 'password' : undefined };
}

async function findBlob(link: Extract<Link, { kind: 'blob' }>, exposed: boolean, signal: AbortSignal): Promise<Found> {
  const { cid, service, fileKey } = link;
  const stored = async (signal: AbortSignal): Promise<ReadableStream<Uint8Array>> =>
    (await openBlob(cid, service, signal)).read();
  openFound = async (credentials, signal) => {
    const known =
      fileKey ?? (await fileKeyOf(await stored(signal), { identities: identitiesOf(knownOf(credentials)) }));
    const { size } = await openReceived({ cid }, { with: { fileKey: known }, from: service }, signal);
    return { files: [remoteFile({ cid, name: `${cid}.bin` }, size, known, service)] };
  };
  if (fileKey !== undefined) return { kind: 'blob', exposed };
  const stop = new AbortController();
  const kind = await inspect(await stored(AbortSignal.any([signal, stop.signal]))).finally(() => stop.abort());
  return { kind: 'blob', exposed, needs: needsOf(kind) };
}

/** Returns what opens a container. @throws SealpinError `not_encrypted`, `wrong_kind` */
function needsOf(inspection: Awaited<ReturnType<typeof inspect>>): 'password' | 'keys' {
  if ('opens' in inspection) return inspection.opens;
  if (inspection.kind === 'plain') throw new SealpinError('not_encrypted');
  // It has no header: only the link that was made for it opens it.
  throw new SealpinError('wrong_kind');
}

function knownOf({ password, keys }: Credentials): KnownCredentials {
  if (password !== undefined) return { password };
  if (keys !== undefined) return { keys };
  throw new SealpinError('wrong_kind');
}

/**
 * Large files come once: copies in the browser's cache would cost a third of the time, and room on
 * the disk.
 */
const fetchOnce: Fetch = (url, init) => fetch(url, { ...init, cache: 'no-store' });

function parcelFiles({ files }: Parcel, from: string): Openable[] {
  return files.map(({ fileKey, ...file }) => remoteFile(file, file.size, fileKey, from));
}

function remoteFile(file: { cid: string; name: string }, size: number, fileKey: Uint8Array, from: string): Openable {
  const { cid } = file;
  const open = (signal: AbortSignal): Promise<OpenedFile> =>
    openReceived({ cid, size }, { with: { fileKey }, from, fetch: fetchOnce, pool }, signal);
  return {
    ...file,
    size,
    read: (running) => readInWindows(() => open(running.signal), size, running),
    openRanges: open,
  };
}

async function findFile({ file }: { file: File }): Promise<Found> {
  const needs = needsOf(await inspect(file));
  openFound = async (credentials, signal) => {
    const by = { with: knownOf(credentials) };
    const { size, stream } = await open(file, { ...by, signal });
    await cancelQuietly(stream);
    const name = file.name.replace(/\.(?:age|sealpin|asc)$/i, '') || 'file';
    async function* read({ signal }: Pick<Running, 'signal'>): AsyncGenerator<Uint8Array> {
      yield* chunksOf((await open(file, { ...by, signal })).stream);
    }
    return { files: [{ name, size, read }] };
  };
  return { kind: 'container', needs };
}

/** Keeps the files that were opened. @returns what the page learns of them */
function opened({ files: all, ...words }: Contents): OpenedView {
  const hasZip = all.length > 1 && all.every(({ size }) => size !== undefined);
  const listed = hasZip ? [...all, zipOf(all)] : all;
  files = new Map(listed.map((file) => [(lastFile += 1), file]));
  const views = [...files].map(([id, { name, size, cid }]) => ({ id, name, size, cid }));
  return { ...words, zip: views[all.length], files: views.slice(0, all.length) };
}

/** All files, as one. */
function zipOf(all: readonly Openable[]): Openable {
  const names = safeNames(all.map(({ name }) => name));
  const listed = all.map(({ size = 0, read }, index) => ({ name: names[index] ?? '', size, read }));
  const read: Openable['read'] = (running) =>
    zipped(listed.map((each) => ({ ...each, read: () => each.read(running) })));
  return { name: '', size: zipBytes(listed), read };
}

function fileWithId(id: number): Openable {
  const file = files.get(id);
  if (file === undefined) throw new TypeError('the file is not of what was opened last');
  return file;
}

/** Bytes by which every format that a page shows tells what it is. */
const beginBytes = 16;

serveCalls<Receiving>({
  find: (argument, { signal }) => beginSearch((each) => find(argument, each), signal),
  findFile: (argument, { signal }) => beginSearch(() => findFile(argument), signal),
  async findAgain(_, { signal }) {
    if (findAgain === undefined) throw new SealpinError('link_invalid');
    return beginSearch(findAgain, signal);
  },
  async open(credentials, { signal }) {
    if (openFound === undefined) throw new SealpinError('link_invalid');
    return opened(await openFound(credentials, signal));
  },
  opensLeft: async () => opensLeft,
  async save(argument, { signal, report, stalled }) {
    const file = fileWithId(argument.file);
    let bytes = 0;
    async function* counted(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        report(bytes);
        yield chunk;
      }
      report(bytes, { isLast: true });
    }
    return await writeTo(argument.sink, counted(file.read({ signal, stalled })), { size: file.size, signal, pool });
  },
  copiesGone,
  async begin({ file }, { signal }) {
    const { openRanges, size = 0 } = fileWithId(file);
    const stop = new AbortController();
    try {
      const ranges = await openRanges?.(AbortSignal.any([signal, stop.signal]));
      const stream = await ranges?.read({ start: 0, end: Math.min(size, beginBytes) });
      return new Uint8Array(await new Response((stream ?? null) as BodyInit | null).arrayBuffer());
    } finally {
      stop.abort();
    }
  },
  /** It ends when the page cancels it. */
  async serveRanges({ file, port }, { signal }) {
    const { openRanges, size = 0 } = fileWithId(file);
    let whole: Promise<OpenedFile> | undefined;
    async function* bytesOf({ start, end }: RangeWanted): AsyncGenerator<Uint8Array> {
      // What failed once is opened again, because the browser asks again.
      whole ??= openRanges?.(signal).catch((error: unknown) => {
        whole = undefined;
        throw error;
      });
      const ranges = await whole;
      if (ranges !== undefined) yield* chunksOf(await ranges.read({ start, end: Math.min(end, size) }));
    }
    port.addEventListener('message', ({ data, ports: [to] }: MessageEvent<RangeWanted>) => {
      if (to === undefined) return;
      const size = data.end - data.start;
      // The browser hears of a failure over the port, and of nothing else.
      writeTo({ kind: 'stream', port: to }, bytesOf(data), { size, signal, pool }).catch(() => undefined);
    });
    port.start();
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    port.close();
  },
  async prepare() {
    loadCurves();
  },
  signIn,
  ...inboxCalls,
  async openDelivery({ id }) {
    const { parcel, service } = listedDelivery(id);
    return opened({ ...parcel, files: parcelFiles(parcel, service) });
  },
});
