/** How `stop`, `status` and `rebuild` speak to the running service: HTTP on a socket that only its owner can open. */
import { chmodSync, closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { Server } from 'node:http';
import { basename, dirname } from 'node:path';
import { SealpinError, isCode, isSealpinError, toProblem } from '../../shared/errors.ts';

/** What lies at a home of the bytes. `deletions`: pins that still have to be removed there. */
export type Kept = { readonly files: number; readonly deletions: number };

/** How the Kubo of the service is doing. `peers`: how many it is connected to; undefined when it does not say. */
export type KuboState = { readonly url: string; readonly peerId: string } & (
  | { readonly status: 'ok'; readonly version: string; readonly peers?: number }
  | { readonly status: 'failing'; readonly reason: string }
);

/** Where bytes live besides the embedded node: the Kubo in use, or what waits for one that is not. */
export type Homes = { readonly kubo?: KuboState; readonly left?: Kept & { readonly url: string } };

/** What a running service tells of itself. */
export type Status = {
  url: string;
  pid: number;
  startedAt: string;
  version: string;
  /** The embedded node. */
  ipfs: string;
  running: number;
} & Homes;

/** What a service lets others do; each answers with JSON. */
export type Controls = {
  /** Where this service takes requests. Answered only while its own workerd holds the port. */
  address(): Promise<{ url: string }>;
  status(): Promise<Status>;
  rebuild(): Promise<{ bytes: number; ms: number }>;
  stop(): Promise<Record<string, never>>;
};
export type Control = keyof Controls;

const names: readonly (string | undefined)[] = ['address', 'status', 'rebuild', 'stop'] satisfies Control[];

function isControl(name: string | undefined): name is Control {
  return names.includes(name);
}

/** Bytes of a socket's path that every system takes (sun_path is 104 bytes on macOS and 108 on Linux, with the final NUL). */
const maxSocketPathBytes = 103;

/**
 * Runs `use` with a path for the socket that is short enough. On Linux a longer one is reached through the folder's
 * descriptor.
 */
async function withSocketPath<T>(path: string, use: (path: string) => Promise<T>): Promise<T> {
  if (Buffer.byteLength(path) <= maxSocketPathBytes) return use(path);
  if (process.platform !== 'linux') {
    throw new SealpinError('config_invalid', `the path of the data directory is too long: ${path}`, {
      hint: 'choose a shorter one with --data-dir',
    });
  }
  const folder = openSync(dirname(path), 'r');
  try {
    return await use(`/proc/self/fd/${folder}/${basename(path)}`);
  } finally {
    closeSync(folder);
  }
}

/**
 * Listens at `path`. The caller holds the lock of the data directory, so a socket that is there is left over.
 */
export async function listenForControl(path: string, controls: Controls): Promise<{ close(): Promise<void> }> {
  await rm(path, { force: true });
  const server: Server = createServer((incoming, outgoing) => {
    const name = incoming.url?.slice(1);
    const answer = (status: number, body: unknown) =>
      outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (incoming.method !== 'POST' || !isControl(name)) {
      answer(404, { code: 'not_found', detail: 'no such control' });
      return;
    }
    (controls[name]() as Promise<unknown>).then(
      (body) => answer(200, body),
      (error: unknown) => {
        const told = isSealpinError(error) ? error : new SealpinError('internal', String(error));
        answer(500, toProblem(told, { detail: told.message, hint: told.hint }));
      },
    );
  });
  await withSocketPath(
    path,
    (short) =>
      new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(short, () => {
          chmodSync(short, 0o600);
          resolve();
        });
      }),
  );
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
 * Asks the service that listens at `path`.
 *
 * @throws not_running when there is none; otherwise what the service says
 */
export function control<C extends Control>(path: string, name: C): Promise<Awaited<ReturnType<Controls[C]>>> {
  return withSocketPath(
    path,
    (short) =>
      new Promise((resolve, reject) => {
        const outgoing = request({ socketPath: short, path: `/${name}`, method: 'POST', agent: false }, (incoming) => {
          let text = '';
          incoming.setEncoding('utf8');
          incoming.on('data', (part: string) => (text += part));
          incoming.on('error', reject);
          incoming.on('end', () => {
            try {
              const body = JSON.parse(text) as { code?: unknown; detail?: string; hint?: string };
              if (incoming.statusCode === 200) resolve(body as Awaited<ReturnType<Controls[C]>>);
              else
                reject(
                  new SealpinError(
                    isCode(body.code) ? body.code : 'internal',
                    body.detail,
                    body.hint === undefined ? {} : { hint: body.hint },
                  ),
                );
            } catch (error) {
              reject(
                new SealpinError('internal', 'the local service gave an answer that cannot be read', { cause: error }),
              );
            }
          });
        });
        outgoing.on('error', (error: NodeJS.ErrnoException) => {
          const absent = error.code === 'ENOENT' || error.code === 'ECONNREFUSED' || error.code === 'ENOTDIR';
          reject(absent ? new SealpinError('not_running') : error);
        });
        outgoing.end();
      }),
  );
}
