/** Signed requests to an S3 API, limited to what all stores have, and what its errors mean. */
import { AwsV4Signer } from 'aws4fetch';
import { SealpinError } from '../../../shared/errors.ts';
import { isFromGateway } from '../../../shared/gateway-status.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { parseRetryAfter } from '../../../shared/streams/timing.ts';
import type { ObjectBody } from '../objects/bucket.ts';
import { repeated, slowDownSeconds } from '../objects/store-requests.ts';
import { wholeBody } from '../http-failures.ts';
import { printable } from '../printable.ts';
import { hex } from '../../../shared/crypto/bytes.ts';

export type S3Options = {
  /** The backend's name in errors. */
  id: string;
  /** The root of the API, without a slash at its end. */
  url: string;
  bucket: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  fetch: typeof fetch;
};

export type S3Request = {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  key?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: ObjectBody;
  /** Statuses that the caller understands, besides 2xx. */
  expected?: readonly number[];
};

/** The largest response in XML: a page of a listing. */
const maxXmlBytes = 4 * 1_048_576;
/** Difference of clocks at which every store accepts a request, in ms. */
const fineSkewMs = 60_000;
/** Characters of a message that are shown. */
const maxWords = 200;

/** Meaning of an error code of S3 for the configuration, and what the operator must look at. */
const faults: Record<string, string> = {
  NoSuchBucket: 'there is no such bucket: the operator must make it, or check its name',
  AccessDenied:
    'the operator must check what the key may do: read, write, delete and list in this bucket, ' +
    'and whether it locks objects',
  InvalidAccessKeyId: 'the operator must check the access key',
  XAdminUserNotFound: 'the operator must check the access key',
  ExpiredToken: 'the operator must check the access key, which has expired',
  SignatureDoesNotMatch: 'the operator must check the secret of the access key',
  AuthorizationHeaderMalformed: 'the operator must check the region',
  AuthorizationQueryParametersError: 'the operator must check the region',
  IllegalLocationConstraintException: 'the operator must check the region',
  PermanentRedirect: 'the operator must check the address and the region: the bucket is elsewhere',
  RequestTimeTooSkewed: 'the clocks of the store and of this service differ: the operator must set them',
  NotImplemented: 'this store lacks what Sealpin needs of S3',
  MethodNotAllowed: 'the operator must check the address, and whether the bucket is read-only',
};
const full = ['QuotaExceeded', 'InsufficientStorage', 'XMinioStorageFull', 'EntityTooLarge', 'StorageFull'];
/** Meaning of 404 for an object, or a property of the bucket: any other reason is a fault. */
const absent = ['NoSuchKey', 'NoSuchVersion', 'NoSuchLifecycleConfiguration', 'NotFound'];
/** Statuses that ask for another attempt, besides those of a gateway. */
const slow = [408, 429, 500];
/** Codes of the same meaning, whatever the status: some stores say 200 first. */
const slowCodes = ['InternalError', 'RequestTimeout', 'ServiceUnavailable', 'SlowDown'];

/** The text between two tags; undefined where they are not there. */
export function textIn(xml: string, tag: string): string | undefined {
  const start = xml.indexOf(`<${tag}>`);
  const end = start === -1 ? -1 : xml.indexOf(`</${tag}>`, start);
  return end === -1 ? undefined : xml.slice(start + tag.length + 2, end);
}

/** The elements with a tag, one after the other. */
export function elementsIn(xml: string, tag: string): string[] {
  return xml
    .split(`<${tag}>`)
    .slice(1)
    .map((rest) => rest.slice(0, Math.max(0, rest.indexOf(`</${tag}>`))));
}

type S3Answer = { response: Response; xml: string };

export type S3Requests = ReturnType<typeof s3Requests>;

/** Makes the function that sends requests to a bucket. */
export function s3Requests(o: S3Options) {
  const { id } = o;
  const store = { id, root: `${o.url}/${o.bucket}` };
  /** The store's clock as against ours, in ms. */
  let skewMs = 0;
  const signingKeys: SigningKeys = new Map();

  /**
   * Sends a request once, or again where our clock was wrong, or was set right since.
   * @returns a response that the caller understands
   */
  async function ask(request: S3Request, signal: AbortSignal, isAgain = false): Promise<S3Answer> {
    const usedMs = skewMs;
    const response = await send(o, request, { root: store.root, skewMs, signingKeys, signal });
    const isData = request.method === 'GET' && request.key !== undefined;
    if (response.ok && isData) return { response, xml: '' };
    const xml = request.method === 'HEAD' ? '' : await xmlText(id, response);
    // Some say 200 before they know.
    const code = textIn(xml, 'Code');
    const isRight = response.ok
      ? code === undefined || !xml.includes('<Error>')
      : request.expected?.includes(response.status) === true &&
        (response.status !== 404 || code === undefined || absent.includes(code));
    if (isRight) return { response, xml };
    const foundMs = Date.parse(response.headers.get('Date') ?? '') - Date.now();
    const isOff = Math.abs(foundMs - usedMs) > fineSkewMs;
    // The answer to HEAD does not say why.
    const isSkewed = code === 'RequestTimeTooSkewed' || (request.method === 'HEAD' && response.status === 403 && isOff);
    if (isSkewed && !isAgain && Number.isFinite(foundMs)) {
      skewMs = foundMs;
      if (request.body === undefined || request.body instanceof Uint8Array) return await ask(request, signal, true);
      if (isOff) throw new SealpinError('pinning_unavailable', `${id}: our clock was wrong`, { retryAfterSeconds: 1 });
    }
    throw failure(store, request, response, xml);
  }

  return {
    id,
    /** Sends a request once: its body, or the answer, is a stream. */
    once: ask,
    /** Sends a request, again where the store asks for that. */
    again: (request: S3Request, signal: AbortSignal) => repeated(id, signal, (limited) => ask(request, limited)),
  };
}

/** A backend, and the address of its bucket. */
type Store = { id: string; root: string };

function misconfigured({ id, root }: Store, detail: string, hint: string): SealpinError {
  // The log has no hints.
  return new SealpinError('misconfigured', `${id} at ${root}: ${detail}; ${hint}`, { hint });
}

function failure(store: Store, { method }: S3Request, response: Response, xml: string): SealpinError {
  const { id } = store;
  const { status } = response;
  const code = textIn(xml, 'Code') ?? '';
  const words = printable((textIn(xml, 'Message') ?? '').replaceAll(/\s+/g, ' '), maxWords);
  const said = `answered ${status}${code && ` ${code}`} to ${method}${words && `: ${words}`}`;
  if (full.includes(code) || status === 507)
    return new SealpinError('disk_full', `${id} ${said}`, {
      hint: `the object store ${id} takes no more: the operator must look at its quota`,
    });
  const hint = faults[code] ?? (status === 401 || status === 403 ? faults['AccessDenied'] : undefined);
  if (hint !== undefined) return misconfigured(store, said, hint);
  if (slow.includes(status) || isFromGateway(status) || slowCodes.includes(code)) {
    const wait = status === 429 || status === 503 ? slowDownSeconds : undefined;
    const retryAfterSeconds = parseRetryAfter(response.headers.get('Retry-After')) ?? wait;
    return new SealpinError('pinning_unavailable', `${id} ${said}`, { retryAfterSeconds });
  }
  if (status >= 300 && status < 400)
    return misconfigured(store, said, 'the operator must check the address and the region: the bucket is elsewhere');
  return new SealpinError('pinning_failed', `${id} ${said}`);
}

/** Keys that the signer derives from the secret, one for each day that an isolate lives. */
type SigningKeys = Map<string, ArrayBuffer>;

/** Sends a signed request. @param o.skewMs the store's clock as against ours */
async function send(
  { id, region, accessKeyId, secretAccessKey, fetch }: S3Options,
  request: S3Request,
  o: { root: string; skewMs: number; signingKeys: SigningKeys; signal: AbortSignal },
): Promise<Response> {
  const { root, skewMs, signingKeys, signal } = o;
  const { method, key, query = {}, headers: own = {}, body } = request;
  const url = new URL(`${root}${key === undefined ? '' : `/${key}`}`);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const held = body instanceof Uint8Array ? body : undefined;
  const headers = {
    ...own,
    'x-amz-content-sha256': held === undefined && body !== undefined ? 'UNSIGNED-PAYLOAD' : await hashOf(held),
  };
  const datetime = new Date(Date.now() + skewMs).toISOString().replaceAll(/[:-]|\.\d{3}/g, '');
  const credentials = { accessKeyId, secretAccessKey, service: 's3', region, datetime, cache: signingKeys };
  const signed = await new AwsV4Signer({ method, url: url.href, headers, ...credentials }).sign();
  const init: RequestInit & { duplex?: 'half' } = {
    method,
    redirect: 'manual',
    headers: signed.headers,
    signal,
    ...(held && { body: held }),
    ...(body !== undefined &&
      held === undefined && { body: (body as { stream: ReadableStream }).stream, duplex: 'half' }),
  };
  try {
    return await fetch(signed.url.href, init);
  } catch (cause) {
    signal.throwIfAborted();
    throw new SealpinError('pinning_unavailable', `${id} at ${root} cannot be reached`, { cause });
  }
}

/** The text of a response in XML. */
async function xmlText(id: string, response: Response): Promise<string> {
  const tooLarge = () => new SealpinError('pinning_failed', `${id}: its response is too large`);
  return new TextDecoder().decode(await wholeBody(id, response.body, maxXmlBytes, tooLarge));
}

/** SHA-256 in hex, of nothing where there is nothing. */
async function hashOf(bytes: Uint8Array = new Uint8Array()): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', concat(bytes))));
}
