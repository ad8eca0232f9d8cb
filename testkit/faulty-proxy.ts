/** An HTTP proxy on loopback that does to chosen requests what networks do. */
import {
  request as requestHttp,
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { once } from 'node:events';
import { Transform } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { startLoopbackServer } from './loopback-server.ts';

export type ProxyFault =
  /** The connection breaks when so many bytes of the body have passed. */
  | { readonly kind: 'break'; readonly afterBytes: number }
  // The connection breaks after so many bytes; `stall`: it stays open, and no more comes.
  | { readonly kind: 'cut' | 'stall'; readonly afterBytes: number }
  /** This byte of the response arrives as another one. */
  | { readonly kind: 'flip'; readonly atByte: number }
  /** The service gets the whole request; its response gets lost. */
  | { readonly kind: 'swallow' }
  /** The service gets the whole request twice; its second response arrives. */
  | { readonly kind: 'twice' }
  /** Something between answers in another language than HTTP, and hangs up. */
  | { readonly kind: 'nonsense' }
  /** The response arrives as another one, which the service did not give. */
  | { readonly kind: 'rewrite'; readonly rewrite: (answer: WholeAnswer) => WholeAnswer | Promise<WholeAnswer> }
  /** The request waits; then something else may happen to it. */
  | { readonly kind: 'late'; readonly until: Promise<unknown>; readonly next?: ProxyFault }
  /** Something between answers instead of the service. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
    };

/** A response to rewrite. Unless for a HEAD, its `Content-Length` becomes that of the body. */
export type WholeAnswer = { readonly status: number; readonly headers: OutgoingHttpHeaders; readonly body: Buffer };

export type Passed = { readonly method: string; readonly path: string; readonly headers: IncomingMessage['headers'] };

export type FaultyProxy = { readonly url: string; readonly passed: Passed[] };

/** Decides what happens to a request, with those before it; undefined passes it on. */
export type Choice = (
  request: Passed,
  before: readonly Passed[],
) => ProxyFault | undefined | Promise<ProxyFault | undefined>;

/** Starts a proxy in front of a service; it ends with the test. */
export async function faultyProxy(target: () => string, fault: Choice): Promise<FaultyProxy> {
  const { close, ...proxy } = await startFaultyProxy(target, fault);
  onTestFinished(close);
  return proxy;
}

/**
 * Starts a proxy in front of a service.
 * @param o.keepsHost whether the service sees the host of the proxy, as it must where requests are
 * signed
 */
export async function startFaultyProxy(
  target: () => string,
  fault: Choice,
  o: { keepsHost?: boolean } = {},
): Promise<FaultyProxy & { close(): Promise<void> }> {
  const passed: Passed[] = [];
  const server = await startLoopbackServer((request, response) => {
    const { method = '', url: path = '', headers } = request;
    const seen = { method, path, headers };
    const before = [...passed];
    passed.push(seen);
    request.on('error', () => undefined);
    const work = async (): Promise<void> => {
      const found = await fault(seen, before);
      const url = new URL(path, target());
      const all = o.keepsHost ? headers : { ...headers, host: url.host };
      await pass({ request, response, url, headers: all }, found);
    };
    work().catch(() => request.socket.destroy());
  });
  return { url: server.url, passed, close: () => server.close() };
}

type Exchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
};

/** Passes a request on, and its response back, with a fault. */
async function pass(exchange: Exchange, found: ProxyFault | undefined): Promise<void> {
  const { request, response } = exchange;
  if (found?.kind === 'late') {
    await found.until;
    return pass(exchange, found.next);
  }
  if (found?.kind === 'nonsense') {
    request.socket.end('220 a server of something else\r\n\r\n');
    return undefined;
  }
  if (found?.kind === 'answer') {
    request.resume();
    response.writeHead(found.status, found.headers).end(found.body);
    return undefined;
  }
  const answer = found?.kind === 'twice' ? await sendTwice(exchange) : await sendOnce(exchange, found);
  if (found?.kind === 'swallow') {
    answer.resume();
    await once(answer, 'end');
    request.socket.destroy();
    return undefined;
  }
  if (found?.kind === 'rewrite') {
    const given = { status: answer.statusCode ?? 500, headers: answer.headers, body: await buffer(answer) };
    const { status, headers, body } = await found.rewrite(given);
    const { 'transfer-encoding': _, ...own } = headers;
    const length = request.method === 'HEAD' ? {} : { 'content-length': body.length };
    response.writeHead(status, { ...own, ...length }).end(body);
    return undefined;
  }
  response.writeHead(answer.statusCode ?? 500, answer.headers);
  response.once('close', () => answer.destroy());
  if (found?.kind === 'flip') return void answer.pipe(flipping(found.atByte)).pipe(response);
  if (found?.kind !== 'cut' && found?.kind !== 'stall') return void answer.pipe(response);
  let left = found.afterBytes;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    await new Promise((resolve) => response.write(chunk.subarray(0, left), resolve));
    left -= chunk.length;
    if (left <= 0) break;
  }
  if (found.kind === 'cut') response.destroy();
}

function startRequest({ request, response, url, headers }: Exchange): ClientRequest {
  const onward = requestHttp(url.href, { agent: false, method: request.method ?? '', headers });
  onward.on('error', () => response.destroy());
  return onward;
}

const answerTo = async (onward: ClientRequest): Promise<IncomingMessage> =>
  ((await once(onward, 'response')) as [IncomingMessage])[0];

/**
 * Passes a request on. A client that breaks off breaks off there, too.
 * @returns the response, with its body still to come
 */
export async function sendOnce(exchange: Exchange, found?: ProxyFault): Promise<IncomingMessage> {
  const { request } = exchange;
  const onward = startRequest(exchange);
  request.once('close', () => void (request.complete || onward.destroy()));
  let bytes = 0;
  if (found?.kind === 'break')
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes < found.afterBytes) return;
      request.unpipe(onward);
      // What was passed on is on its way: only then the line breaks.
      onward.write('', () => {
        request.destroy();
        onward.destroy();
      });
    });
  request.pipe(onward);
  return answerTo(onward);
}

async function sendTwice(exchange: Exchange): Promise<IncomingMessage> {
  const body = await buffer(exchange.request);
  const first = await answerTo(startRequest(exchange).end(body));
  await buffer(first);
  return answerTo(startRequest(exchange).end(body));
}

/** Passes bytes on, one of them changed. */
function flipping(atByte: number): Transform {
  let left = atByte;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      if (left >= 0 && left < chunk.length) chunk.writeUInt8(chunk.readUInt8(left) ^ 1, left);
      left -= chunk.length;
      done(null, chunk);
    },
  });
}
