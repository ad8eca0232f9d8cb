/**
 * HTTP for the command line, on node:http (its request bodies are several times as fast as those of
 * the built-in fetch). One connection per request, no redirects; a request to a peer that is too
 * slow fails. Only a read that a peer closes without an answer is sent again, once.
 */
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { SealpinError } from '../../shared/errors.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { within } from '../../shared/streams/timing.ts';
import { isLoopback } from '../../shared/loopback.ts';
import { bytesFrom, release } from './byte-stream.ts';
import { visible } from '../terminal/output.ts';
import type { Timeouts } from '../timeouts.ts';
import { sizeText } from '../terminal/size.ts';

/** A response whose body is not read yet. */
export type HttpResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: ReadableStream<Uint8Array>;
};

export type RequestOptions = {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  /** Its chunks are released once they are sent. Without `bytes`, its encoding is chunked. */
  readonly body?: { readonly stream: AsyncIterable<Uint8Array>; readonly bytes: number | undefined } | undefined;
  readonly signal: AbortSignal;
  readonly timeouts: Timeouts;
  /** Name of the peer in errors; its host when left out. */
  readonly name?: string;
  /** Called when the last byte of the body has been handed to the system. */
  readonly onSent?: () => void;
  /** Called with the status and headers of each informational response but `100`. */
  readonly onInformation?: ((status: number, headers: IncomingHttpHeaders) => void) | undefined;
};

/**
 * Sends one request.
 * @throws service_unreachable (also when the peer is too slow, or closes the connection early),
 * service_answer for a redirect, the errors of the request's body, the reason of the signal
 */
export async function sendRequest(url: URL, o: RequestOptions): Promise<HttpResponse> {
  try {
    return await sendOnce(url, o);
  } catch (error) {
    // A proxy ends a request like this when the connection behind it was just closed.
    const isUnanswered = error instanceof SealpinError && error.reason === 'unanswered';
    if (!isUnanswered || !['GET', 'HEAD'].includes(o.method)) throw error;
    return sendOnce(url, o);
  }
}

async function sendOnce(url: URL, o: RequestOptions): Promise<HttpResponse> {
  const { request: requestBy } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
  o.signal.throwIfAborted();
  const { body } = o;
  const peer: Peer = { url, name: o.name ?? url.host, sentBytes: 0, bodyBytes: body?.bytes };
  const request = requestBy(url, {
    method: o.method,
    agent: false,
    // A header that comes twice is never mistaken for its first value.
    joinDuplicateHeaders: true,
    headers: { ...o.headers, ...(body?.bytes === undefined ? {} : { 'content-length': String(body.bytes) }) },
  });
  const stop = (): void => void request.destroy(o.signal.reason as Error);
  o.signal.addEventListener('abort', stop, { once: true });
  request.once('close', () => o.signal.removeEventListener('abort', stop));
  request.on('information', ({ statusCode, headers }) => {
    if (statusCode !== 100) o.onInformation?.(statusCode, headers);
  });
  try {
    const message = await exchange(request, o, peer);
    const { statusCode: status = 0, headers } = message;
    if (status >= 300 && status < 400 && status !== 304) {
      request.destroy();
      throw redirect(peer, status, headers.location);
    }
    return { status, headers, body: responseBody(message, peer, o) };
  } catch (error) {
    request.destroy();
    throw exchangeFailure(error, peer, 'request', o.signal);
  }
}

/**
 * A redirect to a subdomain of the CID is how some gateways answer every request (subdomain gateway
 * specification).
 */
function redirect(peer: Peer, status: number, location: string | undefined): SealpinError {
  const where = location === undefined ? 'another address' : visible(location);
  const isSubdomainGateway = location !== undefined && /^https?:\/\/b[a-z2-7]+\.ipfs\./.test(location);
  return new SealpinError('service_answer', `${peer.name} redirects to ${where} (status ${status})`, {
    reason: isSubdomainGateway ? 'subdomain_gateway' : 'redirected',
  });
}

/**
 * The other side of a request, for error messages. `bodyBytes`: of the request's body, if known.
 */
type Peer = { readonly url: URL; readonly name: string; sentBytes: number; readonly bodyBytes: number | undefined };

/**
 * Sends the body until it ends or the response comes: a refusal may come long before the last byte.
 */
async function exchange(request: ClientRequest, o: RequestOptions, peer: Peer): Promise<IncomingMessage> {
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', reject);
  });
  if (o.body === undefined) request.end();
  else {
    const iterator = o.body.stream[Symbol.asyncIterator]();
    // A response before the end, or a broken connection, ends the sending; the response says more
    // than the broken pipe.
    const settled = Promise.allSettled([response]).then(() => true);
    const sent =
      (await isAskedFor(request, settled, o)) && (await sendBody(request, iterator, settled, o.timeouts, peer));
    if (!sent) await iterator.return?.();
    else {
      request.end();
      o.onSent?.();
    }
  }
  return await within(response, o.timeouts.responseMs, tooSlow);
}

/** Waits for `100 Continue`, where expected. @returns false when the response came first */
async function isAskedFor(request: ClientRequest, settled: Promise<boolean>, o: RequestOptions): Promise<boolean> {
  if (o.headers?.['expect'] === undefined) return true;
  const asked = new Promise<boolean>((resolve) => request.once('continue', () => resolve(true)));
  return await within(Promise.race([asked, settled.then(() => false)]), o.timeouts.responseMs, tooSlow);
}

/** Sends the body. @returns false when the response, or an error, came first */
async function sendBody(
  request: ClientRequest,
  body: AsyncIterator<Uint8Array>,
  settled: Promise<boolean>,
  timeouts: Timeouts,
  peer: Peer,
): Promise<boolean> {
  const beforeStall = stallTimer(timeouts);
  let isSettled = false;
  let wake = (): void => undefined;
  void settled.then(() => {
    isSettled = true;
    wake();
  });
  // `Promise.race` with `settled` would keep something of each of its waits.
  const room = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      request.once('drain', resolve);
    });
  for (;;) {
    const { done, value } = await body.next();
    if (isSettled) return false;
    if (done === true) return true;
    const { length } = value;
    // After a failure the system may still be reading it, so its memory is not released.
    const isRoom = request.write(value, (failed) => failed ?? release(value));
    if (!isRoom) await beforeStall(room(), length);
    peer.sentBytes += length;
  }
}

/**
 * A clock that runs only while we wait for the peer: the wait fails when fewer than `bytes` moved
 * in `stallMs`.
 */
function stallTimer({ stallMs, bytes: minBytes }: Timeouts) {
  let waitedMs = 0;
  let moved = 0;
  return async <T>(work: Promise<T>, bytes: number | ((result: T) => number)): Promise<T> => {
    const start = performance.now();
    const result = await within(work, stallMs - waitedMs, tooSlow);
    waitedMs += performance.now() - start;
    moved += typeof bytes === 'number' ? bytes : bytes(result);
    if (moved >= minBytes) {
      moved = 0;
      waitedMs = 0;
    }
    return result;
  };
}

class TooSlow extends Error {}

function tooSlow(): never {
  throw new TooSlow();
}

function responseBody(message: IncomingMessage, peer: Peer, o: RequestOptions): ReadableStream<Uint8Array> {
  const iterator: AsyncIterator<Buffer<ArrayBuffer>> = message[Symbol.asyncIterator]();
  const beforeStall = stallTimer(o.timeouts);
  return bytesFrom({
    async next() {
      try {
        const { done, value } = await beforeStall(iterator.next(), (result) =>
          result.done === true ? 0 : result.value.length,
        );
        return done === true ? undefined : value;
      } catch (error) {
        message.destroy();
        throw exchangeFailure(error, peer, 'response', o.signal);
      }
    },
    used: release,
    cancel: () => void message.destroy(),
  });
}

const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'host not found',
  EAI_AGAIN: 'DNS lookup failed',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  EPROTO: 'the server does not speak HTTPS',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak HTTPS',
};
/** Errors of a connection that ends in the middle of a request or a response. */
const resets = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE']);

function exchangeFailure(error: unknown, peer: Peer, during: 'request' | 'response', signal: AbortSignal): unknown {
  const { url, name } = peer;
  if (signal.aborted) return signal.reason;
  if (error instanceof SealpinError) return error;
  if (error instanceof TooSlow)
    return unreachable(`${name} is too slow: the request was cancelled`, { hint: 'try again later' });
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  if (code === undefined) return error;
  if (resets.has(code)) return brokenOff(error, peer, during);
  const tls =
    url.protocol === 'https:' &&
    !Object.hasOwn(causes, code) &&
    (code.includes('CERT') || code.includes('SIGNATURE') || code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL'));
  if (tls)
    return unreachable(`the TLS certificate of ${name} is not trusted (${code})`, {
      hint: 'for a certificate of your own, name it in NODE_EXTRA_CA_CERTS',
      cause: error,
    });
  const why = causes[code] ?? (code.startsWith('HPE_') ? 'the server does not speak HTTP' : code);
  return unreachable(`${name} cannot be reached: ${why}`, { hint: hintFor(code, url), cause: error });
}

function unreachable(detail: string, o: ConstructorParameters<typeof SealpinError>[2]): SealpinError {
  return new SealpinError('service_unreachable', detail, o);
}

function hintFor(code: string, url: URL): string {
  if (/EPROTO|WRONG_VERSION|^HPE_/.test(code))
    return `check the port and whether the address begins with ${url.protocol}`;
  if (code === 'ECONNREFUSED' && isLoopback(url)) return 'is it running? See: sealpin status, sealpin start';
  return 'check the address and your connection, and try again';
}

/** It accepted the connection, so it can be reached; `during` says what is incomplete. */
function brokenOff(error: unknown, { name, sentBytes, bodyBytes }: Peer, during: 'request' | 'response'): SealpinError {
  if (during === 'response')
    return unreachable(`${name} closed the connection mid-response`, { reason: 'broken_off', cause: error });
  if (bodyBytes !== undefined && sentBytes > 0 && sentBytes < bodyBytes)
    return unreachable(`${name} broke off the upload at ${sizeText(sentBytes)} of ${sizeText(bodyBytes)}`, {
      hint: 'nothing was stored; try again',
      cause: error,
    });
  return unreachable(`${name} closed the connection without an answer`, { reason: 'unanswered', cause: error });
}

/** The body of a short response as text. @throws service_answer beyond `limitBytes` */
export async function readText(response: HttpResponse, limitBytes = 1024 * 1024): Promise<string> {
  const tooLarge = () => new SealpinError('service_answer', 'the response of the service is too large');
  return new TextDecoder().decode(await readAll(response.body, limitBytes, tooLarge));
}

/** One header of a response, safe to show; `name` is in lower case. */
export function headerOf(response: Pick<HttpResponse, 'headers'>, name: string): string | undefined {
  const value = response.headers[name];
  return value === undefined ? undefined : visible(Array.isArray(value) ? value.join(', ') : value);
}
