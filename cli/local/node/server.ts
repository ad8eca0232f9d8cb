/** The HTTP server of the embedded node: access control, dispatch of commands, and their errors. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { createServer, readRest } from '../../io/node-http.ts';
import { refusal } from '../origin.ts';
import { listenOn } from '../port.ts';
import { catalogError } from './catalog.ts';
import { commands } from './commands.ts';
import { bytesOfFile, carOfFile, placesOfFile, receive, receiveParts } from './direct.ts';
import { fail, respondWithText } from './rpc.ts';
import { openStore, type Store } from './store.ts';
import { verifyBlocks } from './verify-blocks.ts';

export type NodeOptions = {
  /** Its own directory; made when missing. */
  dir: string;
  /** Every request must carry `Authorization: Bearer <token>`. */
  token: string;
  /** TCP port on 127.0.0.1; 0, the default, takes a free one. */
  port?: number;
  /** The clock in milliseconds since 1970. */
  now?(): number;
  /** Gets a sentence for each problem that the start found on disk, and what it did about it. */
  note?(text: string): void;
};

/** A running node; `url` is its RPC endpoint. */
export type RunningNode = Awaited<ReturnType<typeof startNode>>;

/** Interval of the collection of files that were never pinned. */
const sweepMs = 60_000;

/** Kubo's response to a wrong or missing secret (core/corehttp/commands.go). */
const denied =
  'Kubo RPC Access Denied: Please provide a valid authorization token as defined in the ' +
  'API.Authorizations configuration.';

/** Starts a node. @throws port_in_use; config_invalid for a damaged or newer index */
export async function startNode({ dir, token, port = 0, now = Date.now, note = () => undefined }: NodeOptions) {
  const store = await openStore(dir, now, note);
  const expected = digest(`Bearer ${token}`);
  const table = commands(store, expected);
  const running = new Set<Promise<void>>();
  let ownPort = '';

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const why = refusalOf(request, ownPort, expected);
    if (why !== undefined) respondWithText(response, 403, why);
    else await handle(request, response, table);
  }

  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 600_000 }, (request, response) => {
    response.setHeader('server', 'sealpin');
    const done = answer(request, response)
      .catch((cause: unknown) => fail(response, cause))
      .finally(() => {
        running.delete(done);
        readRest(request);
      });
    running.add(done);
  });
  server.on('clientError', (_, socket) => socket.destroy());

  try {
    ownPort = String(await listenOn(server, port));
    await store.collect();
  } catch (cause) {
    server.close();
    await store.close();
    throw catalogError(join(dir, 'node.db'), cause);
  }
  // On an error of the disk the next sweep tries again.
  const sweep = setInterval(() => void store.collect().catch(() => undefined), sweepMs).unref();

  return {
    url: `http://127.0.0.1:${ownPort}`,
    ...filesOf(store),
    /** Reads every block that it holds, and compares it with its CID. */
    verify: (position?: string) => verifyBlocks(store, position),
    /**
     * Copies its index to a new file; what that names stays on the disk until the result is called.
     */
    keep: (path: string) => store.keep(path),
    async close() {
      clearInterval(sweep);
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      await Promise.all(running);
      await store.close();
    },
  };
}

const filesOf = (store: Store) => ({
  /** Takes a file from within this process, and gives one as a CAR (`direct.ts`). */
  receive: receive.bind(undefined, store),
  /** The same in parts (`Received`). */
  receiveParts: receiveParts.bind(undefined, store),
  carOf: carOfFile.bind(undefined, store),
  /** Gives bytes of a file, verified. */
  bytesOf: bytesOfFile.bind(undefined, store),
  /** Places of a file on the disk. */
  placesOf: placesOfFile.bind(undefined, store),
});

async function handle(request: IncomingMessage, response: ServerResponse, table: ReturnType<typeof commands>) {
  if (request.method === 'OPTIONS') return void response.writeHead(204, { allow: 'OPTIONS, POST' }).end();
  if (request.method !== 'POST')
    return respondWithText(response.setHeader('allow', 'OPTIONS, POST'), 405, '405 - Method Not Allowed');
  const url = new URL(request.url ?? '/', 'http://127.0.0.1');
  const command = url.pathname.startsWith('/api/v0/') ? table.get(url.pathname.slice('/api/v0/'.length)) : undefined;
  if (!command) return respondWithText(response, 404, '404 page not found');
  await command({ request, response, query: url.searchParams });
}

const digest = (value: string): Buffer => createHash('sha256').update(value).digest();

/** Returns why a request is refused; undefined when it is allowed. */
function refusalOf(request: IncomingMessage, ownPort: string, expected: Buffer): string | undefined {
  // Not the class `Headers`, which loads all of Node's fetch.
  const headers = {
    get: (name: string) => request.headers[name]?.toString() ?? null,
    keys: () => Object.keys(request.headers),
  };
  if (refusal(headers, ownPort) !== undefined) return '403 - Forbidden';
  // A browser whose request has neither Origin nor Referer is refused, too (go-ipfs-cmds
  // http/config.go, allowUserAgent).
  const agent = headers.get('user-agent') ?? '';
  const browser = agent.startsWith('Mozilla') && !agent.includes('Electron');
  const referer = headers.get('referer');
  const foreign =
    referer !== null && !/^http:\/\/(127\.0\.0\.1|localhost|\[::1\]):(\d+)\//.exec(referer)?.includes(ownPort);
  if (foreign || (browser && headers.get('origin') === null && referer === null)) return '403 - Forbidden';
  if (!timingSafeEqual(digest(headers.get('authorization') ?? ''), expected)) return denied;
  return undefined;
}
