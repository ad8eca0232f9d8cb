/** One request to the runtime and back, with neither body ever held in memory. */
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { callbackify } from 'node:util';
import { errnoOf } from '../../errno.ts';
import { Agent, readRest, request as httpRequest } from '../../io/node-http.ts';
import { endToEnd, type Forwarded } from './forwarded-headers.ts';
import {
  give,
  givenHeaders,
  handedHeaders,
  handOver,
  isContinued,
  isHandedOver,
  placeOf,
  tellPlaces,
  wantsBody,
  type Direct,
  type Place,
} from './handover.ts';

/** Wait for a runtime that is being replaced, in ms. */
const absentMs = 5_000;

/**
 * A connection to the runtime, which closes it on a body that it does not want: what cannot be
 * written any more is dropped, so that the response that came before is still read.
 */
class Upstream extends Socket {
  override _write(piece: unknown, encoding: BufferEncoding, done: () => void): void {
    super._write(piece, encoding, () => done());
  }

  override _writev(pieces: { chunk: unknown; encoding: BufferEncoding }[], done: () => void): void {
    super._writev?.(pieces, () => done());
  }
}

/** Connects to the runtime. No byte of the request is read before, so it can wait for a new one. */
export async function connected(path: string | number): Promise<Socket> {
  for (const end = performance.now() + absentMs; ; await sleep(20)) {
    try {
      const socket = new Upstream();
      await once(typeof path === 'string' ? socket.connect(path) : socket.connect(path, '127.0.0.1'), 'connect');
      return socket;
    } catch (error) {
      const isAbsent = ['ENOENT', 'ECONNREFUSED', 'EAGAIN'].includes(errnoOf(error) ?? '');
      if (!isAbsent || performance.now() > end) throw error;
    }
  }
}

/** Connections to the runtime, which are used again: a new one costs a third of a small request. */
export function connectionsTo(path: string | number): Connections {
  const connect = callbackify(connected);
  const createConnection = (_: object, done: Parameters<typeof connect>[1]): void => connect(path, done);
  return Object.assign(new Agent({ keepAlive: true }), { createConnection });
}
export type Connections = InstanceType<typeof Agent>;

/** Options of `relay`. */
export type RelayOptions = {
  /** For requests that may be sent again. */
  readonly connections: Connections;
  /** Path of the socket of the runtime, or its port. */
  readonly path: string | number;
  readonly forwarded: Pick<Forwarded, 'headers' | 'hasBody' | 'expects'>;
  /** Besides those of the client. */
  readonly headers: readonly string[];
  /** Takes and gives bytes, where the embedded node has them. */
  readonly direct: Direct | undefined;
};

/**
 * Passes a request on, and its response back. Resolves when the response has begun, or when the
 * client has left.
 * @throws what kept it from being answered, if nothing of a response was sent
 */
export async function relay(request: IncomingMessage, response: ServerResponse, o: RelayOptions): Promise<void> {
  const { path, forwarded, connections } = o;
  const direct = isHandedOver(request) ? o.direct : undefined;
  const own = direct === undefined ? forwarded.headers : await handedHeaders(request, forwarded.headers, direct);
  const isRead = request.method === 'GET' && !forwarded.hasBody;
  const by = isRead ? connections : await connected(path);
  if (response.destroyed) {
    if (by instanceof Socket) by.destroy();
    return;
  }
  const expect = forwarded.hasBody ? ['Expect', '100-continue'] : [];
  const upstream = runtimeRequest(request, by, [...own, ...o.headers, ...expect]);
  let isKept = false;
  // Also when it is complete: then there is nothing to end.
  response.once('close', () => isKept || upstream.destroy());
  // Asked for first, since the runtime closes the connection on a body that it does not want, and a
  // response that is not yet read would be lost with it.
  let isAwaited = forwarded.hasBody;
  upstream.once('continue', () => {
    isAwaited = false;
    isKept = direct !== undefined && isContinued(request);
    passBody(request, response, upstream, { direct, expects: forwarded.expects });
  });
  if (isAwaited) upstream.flushHeaders();
  else upstream.end();
  let mayRepeat = isRead;
  await new Promise<void>((resolve, reject) => {
    upstream.once('response', (answer) => {
      mayRepeat = isKept = false;
      if (response.destroyed) {
        upstream.destroy();
        return resolve();
      }
      if (direct !== undefined && wantsBody(request, answer)) {
        upstream.destroy();
        return resolve(relay(request, response, { ...o, direct: undefined }));
      }
      // What the client sends next would be the body that it was not asked for.
      const isUnasked = isAwaited && forwarded.expects;
      if (isUnasked) response.shouldKeepAlive = false;
      const place = direct && placeOf(answer);
      if (direct !== undefined && place !== undefined)
        return resolve(giveDirectly(request, response, { ...o, answer, place, direct }));
      beginResponse(response, answer, endToEnd(answer.rawHeaders));
      // A response that breaks off breaks the connection, so that it does not look complete.
      pipeline(answer, response, () => (isUnasked ? request.destroy() : readRest(request)));
      return resolve();
    });
    // After the response has begun, `pipeline` knows.
    upstream.on('error', (error) => {
      if (response.destroyed) resolve();
      else if (mayRepeat && upstream.reusedSocket) resolve(relay(request, response, o));
      else reject(error);
    });
  });
}

/** Passes a body on that the runtime asks for, or has the node take it. */
function passBody(
  request: IncomingMessage,
  response: ServerResponse,
  upstream: ClientRequest,
  { direct, expects }: { direct: Direct | undefined; expects: boolean },
): void {
  const ask = (file?: string): void => {
    if (file !== undefined) response.writeEarlyHints({ link: `<${file}>; rel=item` });
    if (expects) response.writeContinue();
  };
  if (direct !== undefined) return void handOver(request, upstream, direct, ask);
  ask();
  request.pipe(upstream);
}

/** A request to the runtime, not yet ended. */
function runtimeRequest({ method, url: path }: IncomingMessage, by: Socket | Connections, headers: readonly string[]) {
  const way = by instanceof Socket ? { createConnection: () => by } : { agent: by };
  return httpRequest({ ...way, method, path, headers: [...headers], setHost: false });
}

function beginResponse(response: ServerResponse, { statusCode, statusMessage }: IncomingMessage, headers: string[]) {
  response.writeHead(statusCode ?? 502, statusMessage, headers);
  response.flushHeaders();
}

/**
 * Gives what the node has, or tells where it lies. Of what it lacks the runtime says what is wrong,
 * and has it checked. A response that has begun breaks off, and its connection with it.
 */
async function giveDirectly(
  request: IncomingMessage,
  response: ServerResponse,
  o: RelayOptions & { answer: IncomingMessage; place: Place; direct: Direct },
): Promise<void> {
  const { answer, place, direct, forwarded, path } = o;
  readRest(answer);
  if (tellPlaces(request, response, place, direct)) return;
  const failedAt = await give(response, place, direct, () =>
    beginResponse(response, answer, givenHeaders(answer.rawHeaders, place)),
  );
  if (failedAt === undefined) return;
  if (!response.headersSent) return await relay(request, response, { ...o, direct: undefined });
  response.destroy();
  if (place.form === undefined) return;
  const range = ['Range', `bytes=${failedAt}-${failedAt}`];
  const headers = [...endToEnd(forwarded.headers, ['range', 'if-range']), ...o.headers, ...range];
  runtimeRequest(request, await connected(path), headers)
    .on('error', () => undefined)
    .once('response', (answer) => readRest(answer))
    .end();
}
