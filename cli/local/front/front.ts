/**
 * The listener of a public service, behind a proxy that terminates TLS. Only the proxy can connect;
 * what it says of the client is checked here, and nothing else that speaks of clients gets to the
 * Worker. The runtime itself listens on a socket of this user alone.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError, type Code } from '../../../shared/errors.ts';
import { problemType, toProblem } from '../../../shared/problem-object.ts';
import { errnoOf } from '../../errno.ts';
import { createServer, readRest } from '../../io/node-http.ts';
import { listenOn } from '../port.ts';
import { forwardedHeaders, type Refused } from './forwarded-headers.ts';
import { plainAddress, type Proxies } from './proxies.ts';
import { type Connections, connectionsTo, relay, type RelayOptions } from './relay.ts';

/** Options of the listener. */
export type FrontOptions = Pick<RelayOptions, 'path' | 'direct' | 'headers'> & {
  /** Origin at which clients reach the service, such as `https://files.example.com`. */
  readonly origin: string;
  readonly proxies: Proxies;
  /** 0 is not allowed. */
  readonly port: number;
  /** Gets lines of JSON. */
  log(line: string): void;
};

/** Proxies keep connections for a minute or two, and must not meet one that was just closed. */
const keepAliveMs = 150_000;

/** Time for requests to end before their connections are closed, in ms. */
const drainMs = 10_000;

/** Strangers that the log names, so that one who tries again and again does not fill it. */
const maxStrangers = 100;

/** Listens until `close`, which lets requests end for a while. @throws port_in_use */
export async function startFront(options: FrontOptions): Promise<{ close(): Promise<void> }> {
  const servers: Server[] = [];
  const running = new Set<ServerResponse>();
  const connections = connectionsTo(options.path);
  const close = async (): Promise<void> => {
    const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const end = performance.now() + drainMs; running.size > 0 && performance.now() < end;) await sleep(20);
    for (const server of servers) server.closeAllConnections();
    connections.destroy();
    await Promise.all(closed);
  };
  const listen = async (host: string): Promise<void> => {
    const server = serverOf(options, connections, running);
    await listenOn(server, options.port, host);
    servers.push(server);
  };
  // Machines without IPv6, or without IPv4, have the other one.
  const isMissing = (error: unknown) => ['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(errnoOf(error) ?? '');
  try {
    for (const host of options.proxies.hosts ?? ['::'])
      await listen(host).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
    if (servers.length === 0) await listen('0.0.0.0');
  } catch (error) {
    await close();
    throw error;
  }
  return { close };
}

/** @param running gets the responses that have not ended */
function serverOf(options: FrontOptions, connections: Connections, running: Set<ServerResponse>): Server {
  const { proxies, log } = options;
  const { host, port } = new URL(options.origin);
  const hosts = port === '' ? [host, `${host}:443`] : [host];
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const { url = '', method = '', rawHeaders, socket } = request;
    running.add(response);
    response.once('close', () => running.delete(response));
    // The proxy takes its next request to the service that comes after this one.
    if (!server.listening) response.shouldKeepAlive = false;
    const forwarded = forwardedHeaders(rawHeaders, { hosts, method, peer: socket.remoteAddress ?? '' });
    if ('status' in forwarded) return refuseRequest(request, response, { log, ...forwarded });
    // A path, or `OPTIONS *`: a whole URL would bring a second host with it.
    if (!url.startsWith('/') && url !== '*') return refuseRequest(request, response, { log, status: 400, ...wholeUrl });
    relay(request, response, { ...options, connections, forwarded }).catch((error: unknown) => {
      log(JSON.stringify({ event: 'front.failed', error: String(error) }));
      if (response.headersSent) response.destroy();
      else respond(request, response, { status: 503, code: 'overloaded' });
    });
  };
  // An upload may take days, and the Worker ends one that stalls.
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: keepAliveMs }, handle);
  // The runtime says when it reads the body.
  server.on('checkContinue', handle);
  const strangers = new Set<string>();
  server.on('connection', (socket: Socket) => {
    const { remoteAddress: peer = '' } = socket;
    if (proxies.has(peer)) return;
    socket.destroy();
    if (strangers.has(peer) || strangers.size === maxStrangers) return;
    strangers.add(peer);
    log(JSON.stringify({ event: 'front.stranger', error: `${plainAddress(peer)} is not a proxy of this service` }));
  });
  return server;
}

const wholeUrl = { detail: 'the target of the request is not a path', hint: 'send the path alone' };

function refuseRequest(
  request: IncomingMessage,
  response: ServerResponse,
  { log, status, detail, hint }: Refused & Pick<FrontOptions, 'log'>,
): void {
  const code = status === 421 ? 'forbidden' : 'invalid_request';
  const requestId = respond(request, response, { status, code, detail, hint });
  const { method } = request;
  log(JSON.stringify({ event: 'request', requestId, method, route: 'refused', status, ms: 0, reason: detail }));
}

/** Answers with a problem object, and reads no body. */
function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { status, code, detail, hint }: { status: number; code: Code; detail?: string; hint?: string },
): string {
  const requestId = randomUUID();
  const problem = toProblem(new SealpinError(code), { type: problemType(code), detail, hint, requestId });
  response.writeHead(status, {
    'content-type': 'application/problem+json',
    'cache-control': 'no-store',
    'x-request-id': requestId,
    ...(status === 503 && { 'retry-after': '5' }),
  });
  response.end(`${JSON.stringify({ ...problem, status })}\n`, () => readRest(request));
  return requestId;
}
