/**
 * Channel by which `stop`, `status` and `rebuild` talk to the service: HTTP on a socket of its
 * owner alone.
 */
import { once } from 'node:events';
import { chmodSync, closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import type { Agent, Server } from 'node:http';
import { basename, dirname } from 'node:path';
import { isCode, isSealpinError, SealpinError } from '../../shared/errors.ts';
import { toProblem } from '../../shared/problem-object.ts';
import { errnoOf } from '../errno.ts';
import type { VerifiedBlocks } from './node/verify-blocks.ts';
import { createServer, request } from '../io/node-http.ts';
import type { Snapshot, Stamps } from './snapshot/state-files.ts';

/** Counts of what a backend stores. `deletions`: pins still to be removed there. */
export type StoredCounts = { readonly files: number; readonly deletions: number };

/**
 * The state of the service's Kubo. `peers`: how many it is connected to; undefined when it does not
 * say.
 */
type KuboState = { readonly url: string; readonly peerId: string } & (
  | { readonly status: 'ok'; readonly version: string; readonly peers?: number | undefined }
  | { readonly status: 'failing'; readonly reason: string }
);

/** Backends besides the embedded node: the Kubo in use, or what is left in one that is not. */
export type Homes = { readonly kubo?: KuboState; readonly left?: StoredCounts & { readonly url: string } };

/** The status that a running service reports. */
export type Status = {
  url: string;
  /** Of the listener. */
  port: number;
  pid: number;
  startedAt: string;
  version: string;
  /** The embedded node. */
  ipfs: string;
  running: number;
  /** Faults that the start found in the files on disk, and what it did about them. */
  recovered?: string[];
} & Homes;

/** Calls that other processes can make to a service; each result is JSON. */
export type Controls = {
  /**
   * Returns the URL on which this service takes requests. Resolves only while its own workerd holds
   * the port. `isDirect`: the bytes of plain uploads go to the embedded node, which hashes them.
   */
  address(): Promise<{ url: string; isDirect?: boolean }>;
  status(): Promise<Status>;
  rebuild(): Promise<{ bytes: number; ms: number }>;
  /** Reads blocks of the embedded node, behind a position. */
  verify(o: { position?: string | undefined }): Promise<VerifiedBlocks>;
  /** Takes a snapshot, which is there until the connection of the question ends (`closed`). */
  snapshot(o: { known: Stamps }, closed: AbortSignal): Promise<Snapshot>;
  stop(): Promise<Record<string, never>>;
};
/** The name of a question. */
export type Control = keyof Controls;

/**
 * Bytes of a socket's path that every system accepts: sun_path has 104 on macOS, and 108 on Linux,
 * with a NUL.
 */
const maxSocketPathBytes = 103;

/** Tells whether a path is short enough for a socket. */
export function fitsSocket(path: string): boolean {
  return Buffer.byteLength(path) <= maxSocketPathBytes;
}

/** Refuses a path that is too long for a socket. @throws config_invalid */
export function refuseLongSocket(path: string): void {
  if (fitsSocket(path)) return;
  throw new SealpinError('config_invalid', `the path of the data directory is too long: ${path}`, {
    hint: 'choose a shorter one with --data-dir',
  });
}

/**
 * Runs `use` with a path that is short enough for a socket; on Linux through the folder's
 * descriptor.
 */
async function withSocketPath<T>(path: string, use: (path: string) => Promise<T>): Promise<T> {
  if (fitsSocket(path)) return use(path);
  if (process.platform !== 'linux') refuseLongSocket(path);
  const folder = openSync(dirname(path), 'r');
  try {
    return await use(`/proc/self/fd/${folder}/${basename(path)}`);
  } finally {
    closeSync(folder);
  }
}

/**
 * Listens for questions at `path`. The caller holds the lock of the data directory, so an existing
 * socket is a leftover.
 * @param path of the socket
 * @throws config_invalid when the path is too long for a socket
 */
export async function listenForControl(path: string, controls: Controls): Promise<{ close(): Promise<void> }> {
  await rm(path, { force: true });
  // A snapshot is held for as long as its connection.
  const server: Server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const name = request.url?.slice(1) ?? '';
    const respond = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (request.method !== 'POST' || !Object.hasOwn(controls, name)) {
      respond(404, { code: 'not_found', detail: 'no such control' });
      return;
    }
    const closed = new AbortController();
    request.socket.once('close', () => closed.abort());
    const call: (question: never, closed: AbortSignal) => Promise<unknown> = controls[name as Control];
    textOf(request)
      .then((question) => call.call(controls, (question === '' ? {} : JSON.parse(question)) as never, closed.signal))
      .then(
        (body) => respond(200, body),
        (error: unknown) => {
          const failure = isSealpinError(error) ? error : new SealpinError('internal', String(error));
          respond(500, toProblem(failure, { detail: failure.message, hint: failure.hint }));
        },
      );
  });
  await withSocketPath(path, async (short) => {
    await once(server.listen(short), 'listening');
    server.on('error', () => undefined); // of single connections, whose clients see it
    chmodSync(short, 0o600);
  });
  return {
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      await rm(path, { force: true });
    },
  };
}

/**
 * Timeout for the service to report its status, in ms: longer than it waits for its Kubo and its
 * runtime.
 */
const answerMs = 15_000;

/**
 * The status of the service that listens at `path`; undefined where there is none, or it says
 * nothing.
 */
export async function statusAt(path: string, timeoutMs: number): Promise<Status | undefined> {
  try {
    return await control(path, 'status', { timeoutMs });
  } catch (error) {
    if (isSealpinError(error, 'not_running', 'service_unreachable')) return undefined;
    throw error;
  }
}

/**
 * Asks the service that listens at `path`.
 * @param o.timeoutMs the longest wait: 15 s for a question, none for what takes its time; `agent`
 * keeps the connection afterwards
 * @throws not_running when no service listens there; service_unreachable when it says nothing;
 * otherwise the error that it reports
 */
export function control<C extends Control>(
  path: string,
  name: C,
  {
    timeoutMs = name === 'address' || name === 'status' ? answerMs : 0,
    body: asked,
    agent = false,
  }: { timeoutMs?: number; body?: object; agent?: Agent | false } = {},
): Promise<Awaited<ReturnType<Controls[C]>>> {
  return withSocketPath(
    path,
    (short) =>
      new Promise((resolve, reject) => {
        // Of the name that is the default Node asks whether it is an IPv6 address, by an expression
        // that takes 4 ms to compile.
        const host = '127.0.0.1';
        const question = request({ host, socketPath: short, path: `/${name}`, method: 'POST', agent }, (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (part: string) => (text += part));
          response.on('error', reject);
          response.on('end', () => {
            try {
              const body = JSON.parse(text) as { code?: unknown; detail?: string; hint?: string };
              if (response.statusCode === 200) resolve(body as Awaited<ReturnType<Controls[C]>>);
              else
                reject(new SealpinError(isCode(body.code) ? body.code : 'internal', body.detail, { hint: body.hint }));
            } catch (error) {
              reject(
                new SealpinError('internal', 'the response of the local service cannot be read', { cause: error }),
              );
            }
          });
        });
        question.setTimeout(timeoutMs, () =>
          question.destroy(
            new SealpinError('service_unreachable', `the local service says nothing for ${timeoutMs / 1000} s`, {
              hint: 'see local/service.log in the data directory; end the service with: sealpin stop',
            }),
          ),
        );
        question.on('error', (error) => {
          const isAbsent = ['ENOENT', 'ECONNREFUSED', 'ENOTDIR'].includes(errnoOf(error) ?? '');
          reject(isAbsent ? new SealpinError('not_running') : error);
        });
        question.end(asked === undefined ? '' : JSON.stringify(asked));
      }),
  );
}
