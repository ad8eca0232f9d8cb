/**
 * The listener of a service on loopback. It looks at how each request begins: from one on whose
 * bytes the embedded node may take or give, a connection is read as HTTP here. Until then it is
 * passed on as it is, so that a small request costs hardly more than without. The guard in the
 * runtime says who may call.
 */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createSocketServer, type Socket } from 'node:net';
import { createServer } from '../../io/node-http.ts';
import { listenOn } from '../port.ts';
import { endToEnd } from './forwarded-headers.ts';
import { isHandedHead, type Direct } from './handover.ts';
import { connected, connectionsTo, relay, type RelayOptions } from './relay.ts';

/** Options of the listener. */
export type LoopbackOptions = Pick<RelayOptions, 'path'> & {
  readonly port: number;
  readonly direct: Direct;
  /** Gets lines of JSON. */
  log(line: string): void;
};

/** Headers by which only this process speaks to the runtime. */
const internal = ['handover', 'length', 'front', 'control'].flatMap((name) => [`sealpin-${name}`, `sealpin_${name}`]);

/** Listens on 127.0.0.1 until `close`. @throws port_in_use */
export async function startLoopback({ port, path, direct, log }: LoopbackOptions): Promise<{ close(): Promise<void> }> {
  const connections = connectionsTo(path);
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const forwarded = unexamined(request);
    relay(request, response, { path, connections, headers: [], direct, forwarded }).catch((error: unknown) => {
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
    pass(socket, path).then(
      (isHanded) => isHanded && http.emit('connection', socket) && socket.resume(),
      () => socket.destroy(),
    );
  });
  await listenOn(server, port);
  return {
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      connections.destroy();
      await closed;
    },
  };
}

/** The longest head of a request that is looked at, in bytes. */
const maxHeadBytes = 64 * 1024;

/**
 * Passes the requests of a connection on as they are, until one begins that is read here.
 * @returns whether one did; it is put back, and the responses before it have ended
 */
async function pass(socket: Socket, path: string | number): Promise<boolean> {
  let upstream: Socket | undefined;
  let isHanded = false;
  /** Of a request whose head is not complete, and bytes of a body that are to come. */
  let start: Buffer = Buffer.alloc(0);
  let left = 0;
  const send = async (bytes: Buffer): Promise<void> => {
    upstream ??= joined(socket, await connected(path), () => isHanded);
    if (!upstream.write(bytes) && !upstream.destroyed) await drained(upstream);
  };
  for await (const piece of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const bytes = start.length === 0 ? piece : Buffer.concat([start, piece]);
    let at = Math.min(left, bytes.length);
    left -= at;
    while (left === 0 && at < bytes.length) {
      const end = bytes.indexOf('\n\r\n', at) + 3;
      const isWhole = end >= 3 && !bytes.subarray(at, end).includes('\n\n');
      if (!isWhole && bytes.length - at < maxHeadBytes && !bytes.includes('\n\n', at)) break;
      const head = isWhole ? bytes.toString('latin1', at, end) : '';
      const length = bodyLength(head);
      isHanded = isHandedHead(head, length);
      if (isHanded) break;
      at = Math.min(end + length, bytes.length);
      left = end + length - at;
    }
    if (at > 0) await send(bytes.subarray(0, at));
    start = bytes.subarray(at);
    if (isHanded) break;
  }
  if (isHanded) socket.pause().unshift(start);
  else if (start.length > 0) await send(start);
  upstream?.end();
  if (isHanded && upstream?.closed === false) await once(upstream, 'close');
  return isHanded;
}

/** Passes what the runtime answers back, to its end. */
function joined(socket: Socket, upstream: Socket, isHanded: () => boolean): Socket {
  upstream.on('error', () => socket.destroy());
  upstream.once('close', () => isHanded() || socket.destroySoon());
  socket.once('close', () => upstream.destroy());
  upstream.pipe(socket, { end: false });
  return upstream;
}

/** Waits until a socket takes more bytes, or none any more. */
async function drained(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      socket.off('drain', end).off('close', end);
      resolve();
    };
    socket.on('drain', end).on('close', end);
  });
}

/** Bytes of the body behind a head; infinite where only the runtime is to say where it ends. */
function bodyLength(head: string): number {
  // Two of them, a folded line, or a line that ends otherwise, may be read in more than one way.
  // Browsers ask for HTTPS in a header that has nothing to do with it.
  const told =
    head.match(/\r\n(?:content-length|transfer-encoding|upgrade(?!-insecure-requests:)|[ \t])[^\r]*|[^\r]\n/gi) ?? [];
  if (told.length === 0 && head !== '') return 0;
  const [, length] = /^\r\ncontent-length:[ \t]*([0-9]+)[ \t]*$/i.exec(told[0] ?? '') ?? [];
  return told.length > 1 || length === undefined ? Number.POSITIVE_INFINITY : Number(length);
}

/** A request as the guard is to examine it. */
function unexamined({ rawHeaders, headers }: IncomingMessage): RelayOptions['forwarded'] {
  const kept = endToEnd(rawHeaders, internal);
  const isChunked = headers['transfer-encoding'] !== undefined;
  const hasBody = isChunked || Number(headers['content-length']) > 0;
  return {
    headers: [...kept, ...(isChunked ? ['Transfer-Encoding', 'chunked'] : [])],
    hasBody,
    expects: hasBody && headers.expect?.toLowerCase() === '100-continue',
  };
}
