/**
 * HTTP for the command line, on node:http (its request bodies are several times as fast as those of the built-in fetch).
 * One connection a request, no redirects, no retries; a peer that is too slow is given up.
 */
import { request as requestHttp, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';
import { once } from 'node:events';
import { SealpinError } from '../../shared/errors.ts';
import { bytesFrom, release } from '../io/byte-stream.ts';
import { isLoopback } from '../local/origin.ts';
import { visible } from '../terminal/output.ts';
import type { Timeouts } from './timeouts.ts';
import { sizeText } from '../terminal/progress.ts';

export type HttpResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: ReadableStream<Uint8Array>;
};

export type SendOptions = {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it comes, and its pieces are used up: they are empty once sent. `bytes` is its exact length, if known (else it goes chunked). */
  readonly body?: { readonly stream: AsyncIterable<Uint8Array>; readonly bytes: number | undefined };
  readonly signal: AbortSignal;
  readonly timeouts: Timeouts;
  /** What the peer is called in errors; its host when left out. */
  readonly name?: string;
  /** Called when the last byte of the body has been handed to the system. */
  readonly onSent?: () => void;
};

/**
 * One request.
 *
 * @throws service_unreachable (also when the peer is too slow or breaks off), service_answer for a redirect, whatever the body
 *   throws, the reason of the signal
 */
export async function send(url: URL, o: SendOptions): Promise<HttpResponse> {
  o.signal.throwIfAborted();
  const { body } = o;
  const peer: Peer = { url, name: o.name ?? url.host, sentBytes: 0, bodyBytes: body?.bytes };
  const request = (url.protocol === 'https:' ? requestHttps : requestHttp)(url, {
    method: o.method,
    agent: false,
    headers: { ...o.headers, ...(body?.bytes === undefined ? {} : { 'content-length': String(body.bytes) }) },
  });
  const stop = (): void => void request.destroy(o.signal.reason as Error);
  o.signal.addEventListener('abort', stop, { once: true });
  request.once('close', () => o.signal.removeEventListener('abort', stop));
  try {
    const message = await exchange(request, o, peer);
    const { statusCode: status = 0, headers } = message;
    if (status >= 300 && status < 400 && status !== 304) {
      request.destroy();
      const { location } = headers;
      const where = location === undefined ? 'another address' : visible(location);
      throw new SealpinError('service_answer', `${peer.name} redirects to ${where} (status ${status})`, {
        hint: 'redirects are not followed: if you trust that address, name it instead',
      });
    }
    return { status, headers, body: bodyOf(message, peer, o) };
  } catch (error) {
    request.destroy();
    throw failure(error, peer, 'request', o.signal);
  }
}

/** The other side of a request, for what is said about it. `bodyBytes`: of the request's body, if known. */
type Peer = { readonly url: URL; readonly name: string; sentBytes: number; readonly bodyBytes: number | undefined };

/** Sends the body and gives the answer, whichever ends first: a refusal may come long before the last byte. */
async function exchange(request: ClientRequest, o: SendOptions, peer: Peer): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', reject);
  });
  if (o.body === undefined) request.end();
  else {
    const iterator = o.body.stream[Symbol.asyncIterator]();
    // An answer before the end, or a broken connection, ends the sending; the answer says more than the broken pipe.
    const over = answered.then(
      () => true,
      () => true,
    );
    const sent = await sendBody(request, iterator, over, o.timeouts, peer);
    if (!sent) await iterator.return?.();
    else {
      request.end();
      o.onSent?.();
    }
  }
  return await inTime(answered, o.timeouts.answerMs);
}

/** @returns false when the answer came first */
async function sendBody(
  request: ClientRequest,
  body: AsyncIterator<Uint8Array>,
  over: Promise<boolean>,
  timeouts: Timeouts,
  peer: Peer,
): Promise<boolean> {
  const patience = patient(timeouts);
  let answered = false;
  void over.then(() => (answered = true));
  for (;;) {
    const { done, value } = await body.next();
    if (answered) return false;
    if (done === true) return true;
    const { length } = value;
    // After a failure the system may still be reading it.
    const room = request.write(value, (failed) => failed ?? release(value));
    if (!room) await patience(Promise.race([once(request, 'drain'), over]), length);
    peer.sentBytes += length;
  }
}

/** A clock that runs only while we wait for the peer: throws when it gave or took less than `timeouts.bytes` in `timeouts.stallMs`. */
function patient(timeouts: Timeouts): <T>(work: Promise<T>, bytes: number | ((result: T) => number)) => Promise<T> {
  let waitedMs = 0;
  let moved = 0;
  return async (work, bytes) => {
    const start = performance.now();
    const result = await inTime(work, timeouts.stallMs - waitedMs);
    waitedMs += performance.now() - start;
    moved += typeof bytes === 'number' ? bytes : bytes(result);
    if (moved >= timeouts.bytes) {
      moved = 0;
      waitedMs = 0;
    }
    return result;
  };
}

class TooSlow extends Error {}

async function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TooSlow()), Math.max(0, ms));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function bodyOf(message: IncomingMessage, peer: Peer, o: SendOptions): ReadableStream<Uint8Array> {
  const iterator: AsyncIterator<Buffer<ArrayBuffer>> = message[Symbol.asyncIterator]();
  const patience = patient(o.timeouts);
  return bytesFrom({
    async next() {
      try {
        const { done, value } = await patience(iterator.next(), (result) =>
          result.done === true ? 0 : result.value.length,
        );
        return done === true ? undefined : value;
      } catch (error) {
        message.destroy();
        throw failure(error, peer, 'answer', o.signal);
      }
    },
    used: release,
    cancel: () => void message.destroy(),
  });
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing answers there',
  ENOTFOUND: 'there is no host of that name',
  EAI_AGAIN: 'its name cannot be looked up',
  ETIMEDOUT: 'it does not answer',
  EHOSTUNREACH: 'there is no way to it',
  ENETUNREACH: 'there is no way to it',
  EPROTO: 'what answers there does not speak https',
  ERR_SSL_WRONG_VERSION_NUMBER: 'what answers there does not speak https',
};
/** Of a connection that ends in the middle of a request or an answer. */
const broken = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE']);

function failure(error: unknown, peer: Peer, during: 'request' | 'answer', signal: AbortSignal): unknown {
  const { url, name } = peer;
  if (signal.aborted) return signal.reason;
  if (error instanceof SealpinError) return error;
  if (error instanceof TooSlow)
    return new SealpinError('service_unreachable', `${name} is too slow, and was given up`, {
      hint: 'try again later',
    });
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  if (code === undefined) return error;
  if (broken.has(code)) return brokenOff(error, peer, during);
  const tls =
    url.protocol === 'https:' &&
    !Object.hasOwn(reasons, code) &&
    (code.includes('CERT') || code.includes('SIGNATURE') || code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL'));
  if (tls) {
    return new SealpinError('service_unreachable', `the TLS certificate of ${name} is not trusted (${code})`, {
      hint: 'for a certificate of your own, name it in NODE_EXTRA_CA_CERTS',
      cause: error,
    });
  }
  const reason = reasons[code] ?? (code.startsWith('HPE_') ? 'what answers there does not speak http' : code);
  return new SealpinError('service_unreachable', `${name} cannot be reached: ${reason}`, {
    hint: hintFor(code, url),
    cause: error,
  });
}

function hintFor(code: string, url: URL): string {
  if (/EPROTO|WRONG_VERSION|^HPE_/.test(code))
    return `check the port and whether the address begins with ${url.protocol}`;
  if (code === 'ECONNREFUSED' && isLoopback(url)) return 'is it running? See: sealpin status, sealpin start';
  return 'check the address and your connection, and try again';
}

/** It answered the connection, so it can be reached; the place says whether our request or its answer is incomplete. */
function brokenOff(error: unknown, { name, sentBytes, bodyBytes }: Peer, during: 'request' | 'answer'): SealpinError {
  if (during === 'answer')
    return new SealpinError('service_unreachable', `${name} stopped in the middle of its answer`, {
      reason: 'broken_off',
      cause: error,
    });
  if (bodyBytes !== undefined && sentBytes > 0 && sentBytes < bodyBytes)
    return new SealpinError(
      'service_unreachable',
      `${name} broke off the upload at ${sizeText(sentBytes)} of ${sizeText(bodyBytes)}`,
      { hint: 'nothing was stored; try again', cause: error },
    );
  return new SealpinError('service_unreachable', `${name} closed the connection without an answer`, {
    hint: 'try again; if it happens again, check the address',
    cause: error,
  });
}

/**
 * All of a short answer.
 *
 * @throws service_answer when it is longer than `limitBytes`
 */
export async function readText(answer: HttpResponse, limitBytes = 1024 * 1024): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body) {
    bytes += chunk.length;
    if (bytes > limitBytes) throw new SealpinError('service_answer', 'the service gave an endless answer');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** One header of an answer, safe to show. */
export function headerOf(answer: HttpResponse, name: string): string | undefined {
  const value = answer.headers[name];
  return value === undefined ? undefined : visible(Array.isArray(value) ? value.join(', ') : value);
}
