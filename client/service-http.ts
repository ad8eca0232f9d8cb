/**
 * Requests to a service over `fetch`: where the API key goes, and what comes back when something
 * fails.
 */
import { parseResponse } from '../shared/api.ts';
import { apiKeyHint, isApiKeyText } from '../shared/crypto/index.ts';
import { streamOf } from '../shared/crypto/bytes.ts';
import { orUndefined, SealpinError } from '../shared/errors.ts';
import { observed } from '../shared/streams/pulled.ts';
import { readAll } from '../shared/streams/read-all.ts';
import { isLoopback } from '../shared/loopback.ts';
import { parseTime } from '../shared/time.ts';
import { bareRefusal, parseProblem, problemError } from './service-problem.ts';

/** Part of `fetch` that is used. */
export type Fetch = (url: URL, init: RequestInit) => Promise<Response>;

/** One request; `path` is relative to the URL of the service. */
type ServiceRequest = {
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: BodyInit | undefined;
  /** A body that is sent as JSON. */
  readonly content?: object | undefined;
  readonly signal?: AbortSignal | undefined;
};

export type Shape = Parameters<typeof parseResponse>[0];

export interface ServiceHttp {
  /** The URL of the service, with a slash at its end. */
  readonly url: string;
  /** For requests that need no API key. */
  readonly fetch: Fetch;
  /**
   * Sends a request, whatever its response is. Throws `service_unreachable`, `service_answer` for a
   * redirect, the signal's reason.
   */
  send(request: ServiceRequest): Promise<Response>;
  /**
   * Sends a request; throws what the service refuses with for any status but 2xx, and what `send`
   * throws.
   */
  call(request: ServiceRequest): Promise<Response>;
  /**
   * Sends a request whose response is JSON of this shape; throws `service_answer` for another one,
   * and what `call` throws.
   */
  json<S extends Shape>(shape: S, request: ServiceRequest): Promise<ReturnType<typeof parseResponse<S>>>;
  /** The body of a response as JSON of this shape, as `json`. */
  jsonIn<S extends Shape>(
    shape: S,
    response: Response,
    signal: AbortSignal | undefined,
  ): Promise<ReturnType<typeof parseResponse<S>>>;
  /** The body of a response, which is not longer than a page of a list. */
  text(response: Response, signal: AbortSignal | undefined): Promise<string>;
  /** The error for a response other than 2xx, by its body. */
  errorOf(response: Pick<Response, 'status'>, text: string, retryAfter: string | null): SealpinError;
  /**
   * The body of a response; it fails with `service_unreachable` when it ends early.
   * @param length in bytes, if it is known
   */
  body(response: Response, length: number | undefined, signal: AbortSignal | undefined): ReadableStream<Uint8Array>;
}

/** Far more than a page of a list has. */
const maxTextBytes = 16 * 1024 * 1024;

/**
 * Requests to one service. The API key goes to it alone: redirects are refused, and no URL and no
 * error has the key.
 * @param o.service its URL
 * @param o.errorOf instead of the words that a program is told for a refusal
 * @throws SealpinError `invalid_request` for a URL that cannot be a service, or when the key would
 * be sent unencrypted to another machine; `unauthorized` for a text that is no API key
 */
export function serviceHttp(o: {
  service: string | URL;
  apiKey?: string | undefined;
  fetch?: Fetch | undefined;
  errorOf?: ServiceHttp['errorOf'];
}): ServiceHttp {
  const { apiKey, fetch: fetchFrom = (url, init) => fetch(url, init) } = o;
  const root = parseService(o.service);
  const { host } = root;
  const errorOf: ServiceHttp['errorOf'] =
    o.errorOf ?? (({ status }, text, retryAfter) => refusal(host, status, text, retryAfter));
  checkKey(apiKey, root);

  async function send(request: ServiceRequest): Promise<Response> {
    const { path, query = {}, signal } = request;
    signal?.throwIfAborted();
    const url = urlBelow(root, path);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const response = await fetchFrom(url, initOf(request, apiKey)).catch((cause: unknown) => {
      throw requestFailure(cause, `${host} cannot be reached`, signal, { hint: originHint(cause, root) });
    });
    // A browser hides what a redirect is: its status is 0.
    if (response.status === 0 || (response.status >= 300 && response.status < 400)) {
      response.body?.cancel().catch(() => undefined);
      throw new SealpinError('service_answer', `${host} redirects to another address`, { reason: 'redirected' });
    }
    return response;
  }

  const body = bodyFrom(host);

  async function text(response: Response, signal: AbortSignal | undefined): Promise<string> {
    const tooLarge = () => new SealpinError('service_answer', 'the response of the service is too large');
    return new TextDecoder().decode(await readAll(body(response, undefined, signal), maxTextBytes, tooLarge));
  }

  async function call(request: ServiceRequest): Promise<Response> {
    const response = await send(request);
    if (response.ok) return response;
    throw errorOf(response, await text(response, request.signal), response.headers.get('Retry-After'));
  }

  const jsonIn: ServiceHttp['jsonIn'] = async (shape, response, signal) =>
    parseResponse(shape, jsonOrUndefined(await text(response, signal)) ?? null);

  return {
    url: root.href,
    fetch: fetchFrom,
    send,
    call,
    text,
    errorOf,
    body,
    jsonIn,
    json: async (shape, request) => jsonIn(shape, await call(request), request.signal),
  };
}

function checkKey(apiKey: string | undefined, root: URL): void {
  if (apiKey === undefined) return;
  if (!isApiKeyText(apiKey)) throw new SealpinError('unauthorized', 'the text is not an API key', { hint: apiKeyHint });
  if (root.protocol === 'http:' && !isLoopback(root))
    throw new SealpinError('invalid_request', `the API key would be sent to ${root.host} unencrypted`, {
      hint: 'use https:',
    });
}

function initOf(request: ServiceRequest, apiKey: string | undefined): RequestInit {
  const { method = 'GET', headers, content, body = content && JSON.stringify(content), signal } = request;
  return {
    method,
    headers: {
      Accept: 'application/json',
      ...(apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }),
      ...(content && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    redirect: 'manual',
    body: body ?? null,
    signal: signal ?? null,
    // Required for a stream (Fetch standard, "RequestInit.duplex"), which types of the DOM do not
    // have.
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  };
}

function bodyFrom(host: string): ServiceHttp['body'] {
  return ({ body }, length, signal) => {
    let received = 0;
    return observed(body ?? streamOf(new Uint8Array()), {
      onChunk(chunk) {
        received += chunk.length;
      },
      onEnd() {
        if (length === undefined || received === length) return;
        throw new SealpinError('service_unreachable', `${host} sent ${received} of ${length} bytes`, broken);
      },
      onFail: (cause) => requestFailure(cause, `${host} stopped in the middle of its response`, signal, broken),
    });
  };
}

function refusal(host: string, status: number, problemText: string, retryAfter: string | null): SealpinError {
  const problem = parseProblem(problemText);
  if (problem !== undefined) {
    // The service's hint is for who writes the HTTP request.
    const hint = problem.code === 'unauthorized' ? 'check the API key' : undefined;
    return problemError(problem, { retryAfter, hint });
  }
  return bareRefusal(host, status, { retryAfter });
}

/**
 * Writes when something ends, as a request has it.
 * @param time text is a time of RFC 3339, or a day, which begins at 00:00 UTC
 * @throws SealpinError `invalid_request` for other text
 */
export function endTime(time: Date | string): string;
export function endTime(time: Date | string | undefined): string | undefined;
export function endTime(time: Date | string | undefined): string | undefined {
  if (time === undefined) return undefined;
  const known = (typeof time === 'string' ? parseTime(time) : time.getTime()) ?? Number.NaN;
  if (Number.isNaN(known))
    throw new SealpinError('invalid_request', 'expiresAt must be a time such as 2030-01-31T00:00:00Z, or a day');
  return new Date(known).toISOString();
}

/** The URL of a service, with a slash at its end. @throws SealpinError `invalid_request` */
export function parseService(service: string | URL): URL {
  const url = URL.canParse(service) ? new URL(service) : undefined;
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (url === undefined || !isWeb || `${url.username}${url.password}${url.search}${url.hash}` !== '')
    throw new SealpinError(
      'invalid_request',
      'service must be an https: URL without user, password, query and fragment',
    );
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/** The error for a request that failed without a response, or in the middle of one. */
function requestFailure(
  cause: unknown,
  what: string,
  signal: AbortSignal | undefined,
  o: { readonly reason?: 'broken_off'; readonly hint?: string | undefined } = {},
): unknown {
  if (signal?.aborted) return signal.reason;
  if (cause instanceof SealpinError) return cause;
  return new SealpinError('service_unreachable', what, { cause, ...o });
}

/** The value of a text; undefined where it is not JSON. */
export function jsonOrUndefined(text: string): unknown {
  return orUndefined<unknown>(() => JSON.parse(text));
}

const broken = { reason: 'broken_off' } as const;

/**
 * A browser does not say whether it found no service or one that admits no page of this origin:
 * both are a TypeError.
 */
function originHint(cause: unknown, service: URL): string | undefined {
  const { origin } = globalThis.location ?? {};
  if (!(cause instanceof TypeError) || origin === undefined || origin === service.origin) return undefined;
  return (
    `check the address; or the service does not admit pages of ${origin}, which CORS_ORIGINS ` +
    'names (of a local one, --cors-origin)'
  );
}

/**
 * The URL of a path of the API. An ID that is empty, or goes up with dots, would be the path of
 * something else.
 *
 * @param path relative, with a query at most
 * @throws SealpinError `not_found`
 */
export function urlBelow(root: URL, path: string): URL {
  const url = new URL(path, root);
  const [plain = ''] = path.split('?');
  if (url.pathname === root.pathname + plain && !`/${plain}/`.includes('//')) return url;
  throw new SealpinError('not_found', 'there is nothing with this ID: it is empty, or not an ID');
}
