/** Client of a service: its choice with an API key, its routes, and the SDK over its requests. */
import * as shapes from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { cleanFilename } from '../../shared/filename.ts';
import { carType } from '../../shared/ipfs/index.ts';
import type { Context } from '../context.ts';
import { type HttpResponse, headerOf, readText, sendRequest, type RequestOptions } from '../io/http.ts';
import { isLoopback } from '../../shared/loopback.ts';
import type { ListOptions } from '../../client/connection.ts';
import type { Transport } from '../../client/resumable-upload.ts';
import { type Fetch, serviceHttp, type ServiceHttp, type Shape, urlBelow } from '../../client/service-http.ts';
import { bareRefusal, codeOf, parseProblem, problemError } from '../../client/service-problem.ts';
import { visible } from '../terminal/output.ts';
import { findService, type KeyFrom, type Service } from './service-choice.ts';

/**
 * The service, ready for requests that need an API key.
 * @param noneHint what helps where no service is configured, instead of the usual hint
 * @throws service_unreachable when there is none, usage without a key and when it would be sent
 * unencrypted
 */
export async function authorizedService(context: Context, noneHint?: string) {
  const { url, apiKey, keyFrom, local = false, isDirect, profile, gateways } = await findService(context);
  if (url === undefined) throw noService(noneHint);
  refuseUnencrypted(url, 'the API key');
  if (apiKey === undefined) {
    throw new SealpinError('usage', `there is no API key for ${url.host}`, {
      hint: `run: sealpin login ${url.href}; or set SEALPIN_API_KEY`,
    });
  }
  return { url, apiKey, keyFrom, local, isDirect, profile, gateways };
}

/** Refuses to send a secret over `http:` to another machine. @throws usage */
export function refuseUnencrypted(url: URL, what: string): void {
  if (url.protocol === 'http:' && !isLoopback(url))
    throw new SealpinError('usage', `${what} would be sent to ${url.host} unencrypted`, { hint: 'use https:' });
}

/** Refuses an API key that lacks a scope. @throws insufficient_scope */
export function requireScopes(given: readonly shapes.Scope[], needed: readonly shapes.Scope[], hint?: string): void {
  const missing = needed.find((scope) => !given.includes(scope));
  if (missing !== undefined)
    throw new SealpinError('insufficient_scope', `the API key lacks the scope ${missing}`, {
      hint: hint ?? `use a key with the scopes ${needed.join(' and ')}`,
    });
}

/**
 * The service, ready for the operator's requests: with `SEALPIN_ADMIN_TOKEN`, or the token of the
 * local service.
 * @throws service_unreachable when there is none, usage without a token and when it would be sent
 * unencrypted
 */
export async function operatedService(context: Context): Promise<ApiCaller> {
  const { url, local = false } = await findService(context);
  if (url === undefined) throw noService();
  refuseUnencrypted(url, "the operator's token");
  const given = context.env['SEALPIN_ADMIN_TOKEN'];
  const { localService } = await import('../local/control.ts');
  const token = given ?? (local ? (await localService(context))?.adminToken : undefined);
  if (token === undefined)
    throw new SealpinError('usage', `there is no operator's token for ${url.host}`, {
      hint: "set SEALPIN_ADMIN_TOKEN to the service's ADMIN_TOKEN",
    });
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new SealpinError('unauthorized', "SEALPIN_ADMIN_TOKEN is not an operator's token", {
      hint: 'it has no spaces and no line breaks',
    });
  return { url, apiKey: token, keyFrom: given === undefined ? 'local/secrets.json' : 'SEALPIN_ADMIN_TOKEN' };
}

/**
 * The error when there is no service.
 * @param hint replaces the usual one, which starts a service
 */
export function noService(hint?: string): SealpinError {
  return new SealpinError('service_unreachable', 'no service is configured, and no local service is running', { hint });
}

export type ApiCaller = Pick<Service, 'url' | 'apiKey' | 'keyFrom'> & Partial<Pick<Service, 'local'>>;

/**
 * Sends one request to the API.
 * @param path relative to the URL of the service
 * @throws the problem that the service reports, for any status but 2xx; service_answer when it is
 * none; the codes of `sendRequest`
 */
export async function call(service: ApiCaller, path: string, o: RequestOptions): Promise<HttpResponse> {
  const response = await sendApiRequest(service, path, o);
  if (response.status >= 200 && response.status < 300) return response;
  throw responseProblem({ ...response, text: await readText(response) }, service);
}

/** Sends one request to the API, whatever its response is. Fails as `sendRequest`. */
function sendApiRequest(service: ApiCaller, path: string, o: RequestOptions): Promise<HttpResponse> {
  const headers = {
    ...o.headers,
    accept: o.headers?.['accept'] ?? 'application/json',
    ...(service.apiKey === undefined ? {} : { authorization: `Bearer ${service.apiKey}` }),
  };
  return sendRequest(urlBelow(service.url, path), { ...o, headers });
}

/** The problem in a response whose body is `text`, with where the API key comes from. */
export function responseProblem(
  response: Pick<HttpResponse, 'status' | 'headers'> & { readonly text: string },
  { url, keyFrom, local }: ApiCaller,
): SealpinError {
  const { text } = response;
  if (response.status === 503 && isDegraded(text)) {
    const detail = `${url.host} is degraded: a part of it does not respond, so some requests can fail`;
    return new SealpinError('pinning_unavailable', detail);
  }
  const problem = parseProblem(text);
  const retryAfter = headerOf(response, 'retry-after');
  if (problem === undefined) return bareRefusal(url.host, response.status, { retryAfter });
  // On this machine the node is part of the service, and ends before the rest of it.
  if (local === true && problem.code === 'pinning_unavailable')
    return problemError(
      { ...problem, detail: 'the local service is stopping, or its IPFS node cannot be reached' },
      { retryAfter, hint: 'see: sealpin status, sealpin start' },
    );
  return problemError(problem, { retryAfter, hint: keyHint(codeOf(problem), keyFrom), show: visible });
}

/** Recognizes the health of a running service whose storage or pinning service fails. */
function isDegraded(text: string): boolean {
  try {
    return shapes.parseResponse(shapes.Health, JSON.parse(text)).status === 'degraded';
  } catch {
    return false;
  }
}

/** The hint for a refused API key, by where the key was found. */
function keyHint(code: string, keyFrom: KeyFrom | undefined): string | undefined {
  if (code === 'insufficient_scope' && keyFrom !== undefined)
    return (
      `the key is from ${keyFrom}; a key with the scope keys can create another: sealpin key create <label> ` +
      '--scopes …'
    );
  if (code !== 'unauthorized') return undefined;
  if (keyFrom === 'the link of the inbox') return 'the inbox may be closed: ask its owner for a new link';
  if (keyFrom !== 'local/secrets.json') return `check ${keyFrom ?? 'the API key'}`;
  return (
    'the key is from local/secrets.json: set SEALPIN_API_KEY to another key of the account, or, for a new account, ' +
    'stop the service, remove "account" and "apiKey" from that file and start it again; decrypt works without a key'
  );
}

/** A page of the list of files is far smaller. */
const maxJsonBytes = 16 * 1024 * 1024;

/** Reads a response as JSON of a shape. @throws service_answer */
export async function jsonIn<S extends Shape>(
  response: HttpResponse,
  shape: S,
  url: URL,
): Promise<ReturnType<typeof shapes.parseResponse<S>>> {
  const text = await readText(response, maxJsonBytes);
  try {
    return shapes.parseResponse(shape, JSON.parse(text));
  } catch (error) {
    throw new SealpinError('service_answer', `unexpected response: ${url.host} is not a Sealpin service`, {
      hint: 'check the address',
      cause: error,
    });
  }
}

/** Sends requests whose bodies, if any, and responses are JSON. Fails as `call` and `jsonIn`. */
export function requester(service: ApiCaller, { signal, timeouts }: Pick<Context, 'signal' | 'timeouts'>) {
  return async <S extends Shape>(shape: S, path: string, method: RequestOptions['method'] = 'GET', body?: unknown) => {
    const options = { method, ...(body === undefined ? {} : jsonBody(body)), signal, timeouts };
    return await jsonIn(await call(service, path, options), shape, service.url);
  };
}

/** Header that says that a body is written where the service keeps it (`cli/store/in-place.ts`). */
export type InPlaceOptions = Pick<RequestOptions, 'headers' | 'onInformation'>;

/** A description of a file. `null`, an empty type and what is missing say nothing. */
export type FileDescription = {
  readonly filename?: string | null | undefined;
  readonly contentType?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly tags?: readonly string[] | undefined;
  /** `null`: no end any more. */
  readonly expiresAt?: string | null | undefined;
};

export type Api = ReturnType<typeof api>;

/**
 * The routes that the command line uses (worker/README.md). All throw the problem that the service
 * reports, and the codes of `sendRequest`.
 */
export function api(service: ApiCaller, context: Pick<Context, 'signal' | 'timeouts'>) {
  const { url } = service;
  const request = requester(service, context);
  return {
    health: () => askHealth(url, context),
    /**
     * Stores a file, or with `car` the file whose blocks the body has. The service checks `cid`, if
     * given, before it keeps anything.
     */
    async store(
      body: { stream: AsyncIterable<Uint8Array>; bytes: number | undefined; car: boolean },
      o: { cid: string | undefined; provisional: boolean; onSent: () => void } & InPlaceOptions,
    ) {
      const { cid, provisional, headers: more, ...options } = o;
      const path = `v1/storage/plain${queryOf({ cid, provisional: provisional || undefined })}`;
      const headers = { 'content-type': body.car ? carType : 'application/octet-stream', ...more };
      const { signal, timeouts } = context;
      return jsonIn(
        await call(service, path, { method: 'POST', headers, body, ...options, signal, timeouts }),
        shapes.StoredFile,
        url,
      );
    },
    list: (o: Omit<ListOptions, 'signal'>) => request(shapes.FileList, `v1/storage${queryOf(o)}`),
    /** Everything about a file, without its bytes. */
    file: (fileId: string) => request(shapes.StoredFile, `v1/storage/${encodeURIComponent(fileId)}?data=false`),
    /** Describes a file, which takes the scopes `read` and `write`, and `delete` for an expiry. */
    async describe(
      fileId: string,
      { filename, contentType, metadata, tags, expiresAt }: FileDescription,
    ): Promise<void> {
      // JSON leaves out what is undefined.
      const change = {
        filename: typeof filename === 'string' ? cleanFilename(filename) : undefined,
        contentType: contentType || undefined,
        metadata,
        tags,
        expiresAt,
      };
      if (Object.values(change).every((value) => value === undefined)) return;
      await request(shapes.StoredFile, `v1/storage/${fileId}`, 'PATCH', change);
    },
    /** Sets the sealed name of a file, in base64. */
    setDetails: (fileId: string, details: string) =>
      request(shapes.StoredFile, `v1/storage/${fileId}`, 'PATCH', { details }),
    remove: (fileId: string) => request(shapes.Receipt, `v1/storage/${fileId}`, 'DELETE'),
    account: () => request(shapes.AccountDetails, 'v1/account'),
    createKey: (key: shapes.NewApiKey) => request(shapes.NewApiKeyResponse, 'v1/keys', 'POST', key),
    listKeys: () => request(shapes.ApiKeyList, 'v1/keys'),
    listUploads: () => request(shapes.ResumableUploadList, 'v1/uploads'),
    /** `self`: also the key of this request, `destroy`: also the last key with `read` or `keys`. */
    revokeKey(id: string, { cascade, destroy, self }: { cascade: boolean; destroy: boolean; self: boolean }) {
      const query = { cascade: cascade || undefined, destroy: destroy || undefined, self: self || undefined };
      return request(shapes.Revoked, `v1/keys/${encodeURIComponent(id)}${queryOf(query)}`, 'DELETE');
    },
  };
}

/** What a service says of itself. `nowMs`: the time there; NaN where it does not say. */
async function askHealth(url: URL, { signal, timeouts }: Pick<Context, 'signal' | 'timeouts'>) {
  const response = await call({ url, apiKey: undefined }, 'v1/health', { method: 'GET', signal, timeouts });
  const nowMs = Date.parse(headerOf(response, 'date') ?? '');
  return { ...(await jsonIn(response, shapes.Health, url)), nowMs };
}

/** A query with what is not undefined. */
export function queryOf(values: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const given = Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

/**
 * Fetches what the service takes and the API key in use, at the same time.
 * @throws the codes of both; what is wrong with the service comes first
 */
export async function introduction(routes: Pick<Api, 'health' | 'account'>) {
  const [health, account] = await Promise.allSettled([routes.health(), routes.account()]);
  if (health.status === 'rejected') throw health.reason;
  if (account.status === 'rejected') throw account.reason;
  return { health: health.value, key: account.value.key };
}

function jsonBody(value: unknown): Pick<RequestOptions, 'headers' | 'body'> {
  const body = Buffer.from(JSON.stringify(value));
  return { headers: { 'content-type': 'application/json' }, body: { stream: onePiece(body), bytes: body.length } };
}

async function* onePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Responses with these have no body (Fetch standard, "null body status"). */
const bodiless = new Set([204, 205, 304]);

/**
 * Requests to a service, as the functions of `client/` take them. Fails as they say, and with the
 * codes of `sendRequest`.
 */
export function sdkHttp(service: ApiCaller, context: Pick<Context, 'signal' | 'timeouts'>): ServiceHttp {
  return serviceHttp({
    service: service.url,
    apiKey: service.apiKey,
    fetch: fetchWith(context),
    errorOf: ({ status }, text, retryAfter) =>
      responseProblem({ status, text, headers: { 'retry-after': retryAfter ?? undefined } }, service),
  });
}

function fetchWith({ signal: ownSignal, timeouts }: Pick<Context, 'signal' | 'timeouts'>): Fetch {
  return async (url, init) => {
    const response = await sendRequest(url, {
      method: init.method as RequestOptions['method'],
      headers: init.headers as Record<string, string>,
      signal: init.signal ? AbortSignal.any([init.signal, ownSignal]) : ownSignal,
      timeouts,
      body: await nodeBody(init.body),
    });
    const headers = Object.entries(response.headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, [value].flat().join(', ')] as [string, string]],
    );
    const { status } = response;
    return new Response(bodiless.has(status) ? null : response.body, { status, headers });
  };
}

async function nodeBody(body: BodyInit | null | undefined): Promise<RequestOptions['body']> {
  if (body === null || body === undefined) return undefined;
  if (body instanceof ReadableStream) return { stream: body as ReadableStream<Uint8Array>, bytes: undefined };
  const blob = await new Response(body).blob();
  return { stream: blob.stream(), bytes: blob.size };
}

/** The transport of a service for resumable uploads. Errors name where the API key comes from. */
export function uploadTransport(service: ApiCaller, { timeouts }: Pick<Context, 'timeouts'>): Transport {
  return {
    async request({ path, ...o }) {
      const response = await sendApiRequest(service, path, { ...o, timeouts });
      const text = await readText(response);
      return { status: response.status, text, header: (name) => headerOf(response, name) };
    },
    errorOf: ({ status, text, header }) =>
      responseProblem({ status, text, headers: { 'retry-after': header('retry-after') } }, service),
  };
}
