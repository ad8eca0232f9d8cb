/** Proxy between a client and a server, which breaks connections on demand, to the byte. */
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startLoopbackServer } from '../../../../testkit/loopback-server.ts';
import { present } from '../../../../testkit/present.ts';

/**
 * Bytes after which both connections break. Of the `head` or the `body` of the request: the server
 * gets so many of them. Of the `response`: the client gets so many of them, but never the last,
 * after the server has sent all; 0 is a request that was carried out, and nobody knows.
 */
export type Cut = { of: 'head' | 'body' | 'response'; bytes: number };

type Plan = {
  cut?: Cut;
  /** Time that the request waits before it is passed on, and the response as well, in ms. */
  delayMs?: number;
};

export type BreakingProxy = {
  /** The origin that it listens on. */
  origin: string;
  /** Server that requests are passed on to; it may come back at another address. */
  target: string;
  /** The methods of the requests that have come, in order. */
  seen: string[];
  /** Plans what to do with a request; undefined: pass it on. */
  plan: ((request: { method: string; path: string }) => Plan | undefined) | undefined;
  close(): Promise<void>;
};

/**
 * Starts a proxy in front of an origin. Each request has connections of its own, so that a break
 * meets one request.
 */
export async function startBreakingProxy(target: string): Promise<BreakingProxy> {
  const server = await startLoopbackServer((request) => {
    void pass(request).catch(() => request.socket.destroy());
  });
  const proxy: BreakingProxy = { origin: server.url, target, seen: [], plan: undefined, close: server.close };

  async function pass(request: IncomingMessage): Promise<void> {
    const { method = '', url: path = '', socket: client } = request;
    proxy.seen.push(method);
    const { cut, delayMs = 0 } = proxy.plan?.({ method, path }) ?? {};
    await delay(delayMs);
    const { host, hostname, port } = new URL(proxy.target);
    const onward = connect(Number(port), hostname);
    const responded = respond(onward, client, cut, delayMs);
    client.once('close', () => onward.destroy());
    const head = headOf(request, host);
    await write(onward, cut?.of === 'head' ? head.subarray(0, cut.bytes) : head);
    if (cut?.of !== 'head') await passBody(request, onward, cut?.of === 'body' ? cut.bytes : Infinity);
    if (cut === undefined || cut.of === 'response') return await responded;
    onward.destroy();
    client.destroy();
  }

  return proxy;
}

/**
 * The head of a request, as it came but for the host, and for the connection, which ends after the
 * response.
 */
function headOf({ method, url, rawHeaders, headers }: IncomingMessage, host: string): Buffer {
  const lines = [`${method} ${url} HTTP/1.1`, `Host: ${host}`, `X-Forwarded-Host: ${headers.host}`];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = present(rawHeaders[index]);
    if (!/^(host|connection|keep-alive|expect)$/i.test(name)) lines.push(`${name}: ${rawHeaders[index + 1]}`);
  }
  return Buffer.from([...lines, 'Connection: close', '', ''].join('\r\n'), 'latin1');
}

/**
 * Passes on the first bytes of a body, in the framing of the request; resolves once they are on
 * their way.
 */
async function passBody(request: IncomingMessage, onward: Socket, limit: number): Promise<void> {
  const isChunked = request.headers['transfer-encoding'] !== undefined;
  let left = limit;
  if (left === 0) return;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    const part = chunk.subarray(0, left);
    left -= part.length;
    if (isChunked) await write(onward, Buffer.from(`${part.length.toString(16)}\r\n`));
    await write(onward, part);
    if (isChunked) await write(onward, Buffer.from('\r\n'));
    if (left === 0) return;
  }
  if (isChunked && limit === Infinity) await write(onward, Buffer.from('0\r\n\r\n'));
}

/**
 * Resolves when the bytes have left, or the server has broken off: then its response is what
 * counts.
 */
function write(onward: Socket, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    onward.write(bytes, () => resolve());
  });
}

/**
 * Passes the response on to the client, or its first bytes, and ends the connection; resolves when
 * it has.
 */
async function respond(onward: Socket, client: Socket, cut: Cut | undefined, delayMs: number): Promise<void> {
  const held: Buffer[] = [];
  onward.on('error', () => undefined); // it is followed by `close`
  client.on('error', () => undefined);
  onward.on('data', (chunk: Buffer) => {
    if (cut === undefined && delayMs === 0) client.write(chunk);
    else held.push(chunk);
  });
  await new Promise<void>((resolve) => {
    onward.once('end', resolve).once('close', () => resolve());
  });
  await delay(delayMs);
  const response = Buffer.concat(held);
  if (cut === undefined) {
    client.end(response);
    return;
  }
  const delivered = cut.of === 'response' ? Math.min(cut.bytes, response.length - 1) : 0;
  await write(client, response.subarray(0, Math.max(0, delivered)));
  client.destroy();
}
