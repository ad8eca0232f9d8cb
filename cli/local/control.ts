/** Channel of `stop`, `status` and others to the service: HTTP on a socket of its owner alone. */
import { once } from 'node:events';
import { chmodSync, closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import type { Agent, Server } from 'node:http';
import { basename, dirname } from 'node:path';
import type { Health } from '../../shared/api.ts';
import { isCode, isSealpinError, otherwise, SealpinError } from '../../shared/errors.ts';
import { toProblem } from '../../shared/problem-object.ts';
import { errnoOf, systemFailure } from '../errno.ts';
import { jsonIn } from '../io/json-text.ts';
import type { VerifiedBlocks } from './node/verify-blocks.ts';
import { createServer, request } from '../io/node-http.ts';
import { isRunning } from './process.ts';
import type { Snapshot, Stamps } from './snapshot/state-files.ts';
import { localPaths, readState, startCommand } from './state.ts';

/** Counts of what a backend stores. `deletions`: pins still to be removed there. */
export type StoredCounts = { readonly files: number; readonly deletions: number };

/** The Kubo of the service. `peers`: how many it is connected to; undefined: it does not say. */
type KuboState = { readonly url: string; readonly peerId: string } & (
  | { readonly status: 'ok'; readonly version: string; readonly peers?: number | undefined }
  | { readonly status: 'failing'; readonly reason: string }
);

/** Backends besides the embedded node: the Kubo in use, or what is left in one that is not. */
export type OtherBackends = { readonly kubo?: KuboState; readonly left?: StoredCounts & { readonly url: string } };

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
} & OtherBackends;

/** Calls that other processes can make to a service; each result is JSON. */
export type Controls = {
  /**
   * Returns the URL on which this service takes requests. Resolves only while its own workerd holds
   * the port. `isDirect`: the bytes of plain uploads go to the embedded node, which hashes them.
   */
  address(): Promise<{ url: string; isDirect?: boolean }>;
  status(): Promise<Status>;
  /** Asks the Worker, as its operator, whether it can store and read. */
  health(): Promise<Health>;
  rebuild(): Promise<{ bytes: number; ms: number }>;
  /** Reads blocks of the embedded node, behind a position. */
  verify(o: { position?: string | undefined }): Promise<VerifiedBlocks>;
  /** Takes a snapshot, which is there until the connection of the question ends (`closed`). */
  snapshot(o: { known: Stamps }, closed: AbortSignal): Promise<Snapshot>;
  stop(): Promise<Record<string, never>>;
};
/** The name of a question. */
export type Control = keyof Controls;

/** Questions whose answer takes no work: what delays one is a failure. */
const prompt: readonly string[] = ['address', 'status'] satisfies Control[];
/** Time between two signs that a question is worked on, in ms. */
const beatMs = 5_000;

/** Bytes of a path that every socket takes: sun_path has 104 on macOS, 108 on Linux, with a NUL. */
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
    if (!prompt.includes(name)) {
      // Who asks hears at once, and then again and again, that it is worked on.
      const beat = (): void => (response.headersSent ? undefined : response.writeProcessing());
      beat();
      const beats = setInterval(beat, beatMs);
      response.once('close', () => clearInterval(beats));
    }
    const closed = new AbortController();
    request.socket.once('close', () => closed.abort());
    const call: (question: never, closed: AbortSignal) => Promise<unknown> = controls[name as Control];
    textOf(request)
      .then((question) => call.call(controls, (question === '' ? {} : JSON.parse(question)) as never, closed.signal))
      .then(
        (body) => respond(200, body),
        (error: unknown) => {
          const own = isSealpinError(error) ? error : systemFailure(error);
          const failure = own ?? new SealpinError('internal', String(error));
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

/** The longest silence at first, in ms: the service waits less for its Kubo and its runtime. */
const answerMs = 15_000;
/** The longest silence while it works, in ms: it says nothing while it copies databases. */
const workMs = 300_000;

/** A data directory, whose service is asked; the signal ends the waiting. */
export type AskedService = { readonly dataDir: string; readonly signal?: AbortSignal | undefined };

/**
 * The status of the service of a data directory; undefined where there is none, or it says nothing.
 */
export async function statusAt(asking: AskedService, timeoutMs: number): Promise<Status | undefined> {
  try {
    return await control(asking, 'status', { timeoutMs });
  } catch (error) {
    if (isSealpinError(error, 'not_running', 'service_unreachable')) return undefined;
    throw error;
  }
}

/** Says which process does not answer, and what can be done about it. */
export async function silenceHint(dataDir: string): Promise<string> {
  const { service } = (await readState(dataDir, 'run').catch(() => undefined)) ?? {};
  const see = `see ${localPaths(dataDir).log}`;
  if (service === undefined) return see;
  const { pid } = service;
  const what = `kill -CONT ${pid} resumes it, kill -KILL ${pid} ends it`;
  return `its process is ${pid}, which may be suspended: ${what}; ${see}`;
}

/**
 * Asks the service of a data directory. Before a question that takes work comes one that no
 * service has, and that all refuse at once: one of an earlier version says nothing while it works,
 * and one that hangs never does.
 * @param o.timeoutMs the longest silence until it is first heard; `agent` keeps the connection
 * afterwards
 * @throws not_running when no service listens there; service_unreachable when it says nothing; the
 * reason of the signal; otherwise the error that it reports
 */
export async function control<C extends Control>(
  asking: AskedService,
  name: C,
  o: QuestionOptions = {},
): Promise<Awaited<ReturnType<Controls[C]>>> {
  if (prompt.includes(name)) return await askOnce(asking, name, { timeoutMs: answerMs, ...o });
  const refused = askOnce(asking, 'nothing' as Control, { timeoutMs: answerMs });
  await otherwise(refused, 'not_found', undefined);
  return await askOnce(asking, name, { timeoutMs: workMs, ...o });
}

type QuestionOptions = { timeoutMs?: number; body?: object; agent?: Agent | false };

function askOnce<C extends Control>(
  { dataDir, signal }: AskedService,
  name: C,
  { timeoutMs, body: asked, agent = false }: QuestionOptions & { timeoutMs: number },
): Promise<Awaited<ReturnType<Controls[C]>>> {
  return withSocketPath<Awaited<ReturnType<Controls[C]>>>(
    localPaths(dataDir).control,
    (short) =>
      new Promise((resolve, reject) => {
        // Of the name that is the default Node asks whether it is an IPv6 address, by an expression
        // that takes 4 ms to compile.
        const to = { host: '127.0.0.1', socketPath: short, path: `/${name}`, method: 'POST', agent };
        const question = request({ ...to, ...(signal && { signal }) }, (response) => {
          textOf(response)
            .then((text) => resolve(answerIn<C>(response.statusCode, text)))
            .catch(reject);
        });
        let limitMs = timeoutMs;
        const silence = async (): Promise<void> => {
          const detail = `the local service does not answer: nothing for ${limitMs / 1000} s`;
          question.destroy(new SealpinError('service_unreachable', detail, { hint: await silenceHint(dataDir) }));
        };
        question.setTimeout(limitMs, () => void silence());
        question.once('information', () => question.setTimeout((limitMs = workMs)));
        question.on('error', (error) => {
          const isAbsent = ['ENOENT', 'ECONNREFUSED', 'ENOTDIR'].includes(errnoOf(error) ?? '');
          reject(
            signal?.aborted === true ? (signal.reason as Error) : isAbsent ? new SealpinError('not_running') : error,
          );
        });
        question.end(asked === undefined ? '' : JSON.stringify(asked));
      }),
  ).catch(async (error: unknown) => {
    if (!isSealpinError(error, 'not_running')) throw error;
    throw new SealpinError('not_running', undefined, { hint: `start it with: ${await startCommand(dataDir)}` });
  });
}

/** @throws the error that the service reports */
function answerIn<C extends Control>(status: number | undefined, text: string): Awaited<ReturnType<Controls[C]>> {
  const body = jsonIn(text) as { code?: unknown; detail?: string; hint?: string } | undefined;
  if (body === undefined) throw new SealpinError('internal', 'the response of the local service cannot be read');
  if (status === 200) return body as Awaited<ReturnType<Controls[C]>>;
  throw new SealpinError(isCode(body.code) ? body.code : 'internal', body.detail, { hint: body.hint });
}

/**
 * The running local service of a data directory with the operator's token and the API key of its
 * account, if there is one. The service itself reports where it listens, on a socket that only this
 * user can open: another user's program may have taken the port in a file, and must not get the
 * key.
 * @param at where it must be, as otherwise it is not asked
 * @throws service_unreachable when it runs but takes no requests
 */
export async function localService(asking: AskedService, at?: URL) {
  const { dataDir } = asking;
  const run = await readState(dataDir, 'run');
  if (run === undefined || !isRunning(run.service)) return undefined;
  if (at !== undefined && new URL(run.url).href !== at.href) return undefined;
  const secrets = await readState(dataDir, 'secrets');
  if (secrets === undefined) return undefined;
  try {
    const { url, isDirect = false } = await control(asking, 'address');
    return { url, isDirect, apiKey: secrets.apiKey, adminToken: secrets.adminToken };
  } catch (error) {
    if (isSealpinError(error, 'not_running')) return undefined; // it is starting or stopping
    throw error;
  }
}
