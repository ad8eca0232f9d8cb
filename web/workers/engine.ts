/**
 * The engine of a page, in a thread of its own: it reads links, fetches, verifies and opens. Secrets and plaintext stay here, but for
 * what goes into a sink.
 */
import { openBlob } from '../../client/blobs.ts';
import { inspect, open } from '../../client/containers.ts';
import { identitiesOf, type Credentials as KnownCredentials } from '../../client/credentials.ts';
import { receivedFile, recordOf } from '../../client/receiving.ts';
import { serviceHttp } from '../../client/service-http.ts';
import { ShareStatus } from '../../shared/api/shares-shapes.ts';
import { fileKeyOf } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { isCid } from '../../shared/ipfs/cid.ts';
import { openParcel, parseLink, printLink, type Link } from '../../shared/link/index.ts';
import { chunksOf } from '../../shared/streams/read-all.ts';
import type { Credentials, Failure, FileView, Found, FromEngine, FromPage, Opened, Request } from '../protocol.ts';
import { sweepDisk, writeTo } from './sinks.ts';
import { readInWindows } from './windows.ts';

/** What was found, as it waits for a password or a click. */
type Closed = { open(credentials: Credentials, signal: AbortSignal): Promise<Opened & { files: Openable[] }> };
type Openable = FileView & { read(signal: AbortSignal): AsyncIterable<Uint8Array> };

let closed: Closed | undefined;
let files: readonly Openable[] = [];
const running = new Map<number, AbortController>();

const post = (message: FromEngine): void => postMessage(message);

async function find({ text, root }: { text: string; root: string }, signal: AbortSignal): Promise<Found> {
  const { link, exposed } = linkIn(text, root);
  if (link.kind === 'inbox') return { kind: 'inbox' };
  if (link.service !== root) return { kind: 'elsewhere', host: new URL(link.service).host, address: printLink(link) };
  return link.kind === 'share' ? findShare(link, exposed, signal) : findBlob(link, exposed, signal);
}

/** A link, or a blob ID as people write it down. */
function linkIn(text: string, root: string): { link: Link; exposed: boolean } {
  const cid = /^\s*(?:ipfs:\/\/|\/ipfs\/)?(\w+)\/?\s*$/.exec(text)?.[1] ?? '';
  return isCid(cid) ? { link: { kind: 'blob', service: root, cid }, exposed: false } : parseLink(text);
}

async function findShare(
  link: Extract<Link, { kind: 'share' }>,
  exposed: boolean,
  signal: AbortSignal,
): Promise<Found> {
  const http = serviceHttp({ service: link.service });
  const { state, password, expiresAt, opensLeft } = await http.json(ShareStatus, {
    path: `v1/shares/${link.id}`,
    signal,
  });
  let record: Uint8Array | undefined;
  closed = {
    async open(credentials, signal) {
      // A wrong password costs no other open.
      record ??= await recordOf(http, link.id, signal);
      const { files, ...words } = await openParcel(record, {
        secret: link.secret,
        password: credentials.password,
        identities: () => (credentials.keys === undefined ? [] : identitiesOf({ keys: credentials.keys })),
      });
      return {
        ...words,
        files: files.map(({ fileKey, ...file }) => remoteFile(file, file.size, fileKey, link.service)),
      };
    },
  };
  return { kind: 'share', exposed, state, ...(password ? { needs: 'password' } : {}), expiresAt, opensLeft };
}

async function findBlob(link: Extract<Link, { kind: 'blob' }>, exposed: boolean, signal: AbortSignal): Promise<Found> {
  const { cid, service, fileKey } = link;
  const stored = async (signal: AbortSignal): Promise<ReadableStream<Uint8Array>> =>
    (await openBlob(cid, service, signal)).read();
  closed = {
    async open(credentials, signal) {
      const known =
        fileKey ?? (await fileKeyOf(await stored(signal), { identities: identitiesOf(knownOf(credentials)) }));
      const file = receivedFile({ cid }, { with: { fileKey: known }, from: service });
      const probe = new AbortController();
      const { size } = await file.open({ signal: AbortSignal.any([signal, probe.signal]) });
      probe.abort();
      return { files: [remoteFile({ cid, name: `${cid}.bin` }, size, known, service)] };
    },
  };
  if (fileKey !== undefined) return { kind: 'blob', exposed };
  const stop = new AbortController();
  const kind = await inspect(await stored(AbortSignal.any([signal, stop.signal]))).finally(() => stop.abort());
  return { kind: 'blob', exposed, needs: needsOf(kind) };
}

/** What opens a container. @throws SealpinError `not_encrypted`, `wrong_kind` for a payload that only a link opens */
function needsOf(inspection: Awaited<ReturnType<typeof inspect>>): 'password' | 'keys' {
  if ('opens' in inspection) return inspection.opens;
  if (inspection.kind === 'plain') throw new SealpinError('not_encrypted');
  throw new SealpinError('wrong_kind', 'It has no header: only the link that was made for it opens it');
}

function knownOf({ password, keys }: Credentials): KnownCredentials {
  if (password !== undefined) return { password };
  if (keys !== undefined) return { keys };
  throw new SealpinError('wrong_kind', 'It needs a password, or a private key');
}

function remoteFile(file: { cid: string; name: string }, size: number, fileKey: Uint8Array, from: string): Openable {
  const received = receivedFile({ cid: file.cid, size }, { with: { fileKey }, from });
  return { ...file, size, read: (signal) => readInWindows(received, size, signal) };
}

async function findFile({ file }: { file: File }): Promise<Found> {
  const needs = needsOf(await inspect(file));
  closed = {
    async open(credentials, signal) {
      const by = { with: knownOf(credentials) };
      const { size, stream } = await open(file, { ...by, signal });
      await stream.cancel();
      const name = file.name.replace(/\.(?:age|sealpin|asc)$/i, '') || 'file';
      const view = size === undefined ? { name } : { name, size };
      return {
        files: [
          {
            ...view,
            async *read(signal) {
              yield* chunksOf((await open(file, { ...by, signal })).stream);
            },
          },
        ],
      };
    },
  };
  return { kind: 'container', needs };
}

async function openFound(credentials: Credentials, signal: AbortSignal): Promise<Opened> {
  if (closed === undefined) throw new SealpinError('link_invalid');
  const { files: opened, ...words } = await closed.open(credentials, signal);
  files = opened;
  return {
    ...words,
    files: opened.map(({ name, size, cid }) => ({
      name,
      ...(size === undefined ? {} : { size }),
      ...(cid === undefined ? {} : { cid }),
    })),
  };
}

/** Progress is reported this often, in ms. */
const progressMs = 200;

async function save(request: Extract<Request, { call: 'save' }>, signal: AbortSignal): Promise<Blob | undefined> {
  const { id, argument } = request;
  const file = files[argument.file];
  if (file === undefined) throw new TypeError('there is no such file');
  let bytes = 0;
  let reportedAt = 0;
  async function* counted(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (performance.now() - reportedAt > progressMs) {
        reportedAt = performance.now();
        post({ id, progress: bytes });
      }
      yield chunk;
    }
    post({ id, progress: bytes });
  }
  return await writeTo(argument.sink, counted(file.read(signal)), { size: file.size, signal });
}

function perform(request: Request, signal: AbortSignal): Promise<Found | Opened | Blob | undefined> {
  if (request.call === 'find') return find(request.argument, signal);
  if (request.call === 'findFile') return findFile(request.argument);
  if (request.call === 'open') return openFound(request.argument, signal);
  return save(request, signal);
}

function failureOf(error: unknown, signal: AbortSignal): Failure {
  if (signal.aborted) return { code: 'aborted', message: '' };
  if (isSealpinError(error)) return { code: error.code, reason: error.reason, message: error.message };
  if (error instanceof DOMException && error.name === 'AbortError') return { code: 'aborted', message: '' };
  if (error instanceof DOMException && error.name === 'QuotaExceededError')
    return { code: 'disk_full', message: error.message };
  return { code: 'internal', message: error instanceof Error ? error.message : '' };
}

addEventListener('message', ({ data }: MessageEvent<FromPage>) => {
  if ('cancel' in data) {
    running.get(data.id)?.abort();
    return;
  }
  const stop = new AbortController();
  running.set(data.id, stop);
  perform(data, stop.signal)
    .then(
      (result) => post({ id: data.id, result }),
      (error: unknown) => post({ id: data.id, failure: failureOf(error, stop.signal) }),
    )
    .finally(() => running.delete(data.id));
});

void sweepDisk();
