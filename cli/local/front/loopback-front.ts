/**
 * The listener of a service on loopback. It looks at how a connection begins: one that begins with
 * an upload or a download of the embedded node is read as HTTP here, and every other one is passed
 * on as it is, so that a small request costs hardly more than without. The guard in the runtime
 * says who may call.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createSocketServer, type Socket } from 'node:net';
import { SealpinError } from '../../../shared/errors.ts';
import { errnoOf } from '../../errno.ts';
import { createServer } from '../../io/node-http.ts';
import { endToEnd } from './forwarded-headers.ts';
import { handedPrefixes, type Direct } from './handover.ts';
import { connected, relay } from './relay.ts';

/** Options of the listener. */
export type LoopbackOptions = {
  readonly port: number;
  /** Path of the socket of the runtime. */
  readonly path: string;
  readonly direct: Direct;
  /** Gets lines of JSON. */
  log(line: string): void;
};

/** Headers by which only this process speaks to the runtime. */
const internal = /^sealpin[-_](?:handover|length|front|control)$/i;

/** Listens on 127.0.0.1 until `close`. @throws port_in_use */
export async function startLoopback({ port, path, direct, log }: LoopbackOptions): Promise<{ close(): Promise<void> }> {
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    relay(request, response, { path, headers: [], direct, forwarded: unexamined(request) }).catch((error: unknown) => {
      log(JSON.stringify({ event: 'front.failed', error: String(error) }));
      response.destroy();
    });
  };
  // An upload may take days, and the Worker ends one that stalls.
  const http = createServer({ requestTimeout: 0, keepAliveTimeout: 600_000 }, answer);
  http.on('checkContinue', answer);
  const sockets = new Set<Socket>();
  const server = createSocketServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    begin(socket, (isDirect) => {
      if (isDirect) http.emit('connection', socket);
      else pass(socket, path).catch(() => socket.destroy());
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve);
  }).catch((error: unknown) => {
    if (!['EADDRINUSE', 'EACCES'].includes(errnoOf(error) ?? '')) throw error;
    throw new SealpinError('port_in_use', `port ${port} is in use by another program`, { cause: error });
  });
  return {
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const longestPrefix = Math.max(...handedPrefixes.map(({ length }) => length));

/** Reads how a connection begins, and puts it back. */
function begin(socket: Socket, decide: (isDirect: boolean) => void): void {
  let start: Buffer = Buffer.alloc(0);
  const read = (piece: Buffer): void => {
    start = start.length === 0 ? piece : Buffer.concat([start, piece]);
    const text = start.toString('latin1', 0, longestPrefix);
    const isDirect = handedPrefixes.some((prefix) => text.startsWith(prefix));
    if (!isDirect && handedPrefixes.some((prefix) => prefix.startsWith(text))) return;
    socket.off('data', read).pause();
    socket.unshift(start);
    decide(isDirect);
    if (isDirect) process.nextTick(() => socket.resume());
  };
  socket.on('data', read);
}

/** Passes a connection on, both ways. */
async function pass(socket: Socket, path: string): Promise<void> {
  const upstream = await connected(path);
  upstream.on('error', () => socket.destroy());
  upstream.once('close', () => socket.destroySoon());
  socket.once('close', () => upstream.destroy());
  socket.pipe(upstream);
  upstream.pipe(socket);
}

/** A request as the guard is to examine it. */
function unexamined({ rawHeaders, headers }: IncomingMessage): Parameters<typeof relay>[2]['forwarded'] {
  const own = endToEnd(rawHeaders);
  const kept = own.filter((_, index) => !internal.test(own[index - (index % 2)] ?? ''));
  const isChunked = headers['transfer-encoding'] !== undefined;
  const hasBody = isChunked || Number(headers['content-length']) > 0;
  return {
    headers: [...kept, ...(isChunked ? ['Transfer-Encoding', 'chunked'] : [])],
    hasBody,
    expects: hasBody && headers.expect?.toLowerCase() === '100-continue',
  };
}
