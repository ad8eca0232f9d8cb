/**
 * HTTP requests to a pinning service, and how their failures are reported. No response is trusted.
 */
import { SealpinError } from '../../shared/errors.ts';
import { concat } from '../../shared/streams/concat.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { printable } from './printable.ts';

export type HttpOptions = {
  /** The service's name in errors. */
  id: string;
  /** The root of the API. */
  url: string;
  headers: Readonly<Record<string, string>>;
  fetch: typeof fetch;
};

/** API that is expected at the address. */
type HttpApi = {
  /** Added to the root, with a slash at its end. */
  path: string;
  /** The statuses whose responses the caller reads. */
  statuses: readonly number[];
  /** Its name, with an article, and how its address looks; both are part of a hint. */
  name: string;
  address: string;
};

type Request = {
  method: string;
  query?: Record<string, string>;
  upload?: Upload | undefined;
  /** The body, as JSON, or as it is. */
  json?: unknown;
  bytes?: Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
  /** Another address than that of the command. */
  at?: URL;
};

/** The body of a request, streamed. */
type Upload = { body: ReadableStream<Uint8Array>; contentType: string };

/** The largest response in JSON, where the caller does not expect a larger one. */
const maxResponseBytes = 65_536;

/**
 * Bytes that are read of a response with an unexpected status, and characters of it that are shown.
 */
const maxWordsBytes = 2_048;
const maxWords = 200;
/** Length below which a part of our headers is a word, such as `Bearer`, and no secret. */
const minSecretChars = 8;

/** Makes the client of an API, as functions that know how its failures are reported. */
export function httpClient(o: HttpOptions, api: HttpApi) {
  const root = o.url.replace(/\/+$/, '');

  function failed(detail: string, cause?: unknown): SealpinError {
    return new SealpinError('pinning_failed', `${o.id}: ${detail}`, { cause });
  }

  /**
   * The configuration names a service that cannot be used: no request will succeed before the
   * operator changes it.
   */
  function misconfigured(detail: string, hint: string): SealpinError {
    return new SealpinError('misconfigured', `${o.id} at ${root}: ${detail}`, { hint });
  }

  /** The address leads to something else. */
  function notTheApi(detail: string): SealpinError {
    return misconfigured(
      detail,
      `what answers at the address of the pinning service is not ${api.name}: the operator must check ` +
        `the address (${api.address})`,
    );
  }

  /** The error for the message of an error that the service reports. */
  function refused(message: string): SealpinError {
    if (!/no space left on device|disk quota exceeded/i.test(message)) return failed(message);
    return new SealpinError('disk_full', `the disk of the pinning service ${o.id} is full`, {
      hint: 'nothing was kept; the operator must make room there',
    });
  }

  /** The plan that the service is paid for, or its quota, is used up. */
  function exhausted(detail: string): SealpinError {
    return new SealpinError('disk_full', `${o.id}: ${detail}`, {
      hint: `the pinning service ${o.id} takes no more: the operator must look at its plan and its bills`,
    });
  }

  function unavailable(what: string, cause?: unknown): SealpinError {
    return new SealpinError('pinning_unavailable', `${o.id} ${what}`, { cause });
  }

  function timeoutError(timeoutMs: number): SealpinError {
    return new SealpinError('pinning_timeout', `${o.id} made no progress for ${timeoutMs / 1000} s`);
  }

  /** Runs `work` under the caller's signal and a time limit of its own. */
  async function withTimeout<T>(
    signal: AbortSignal,
    timeoutMs: number,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted();
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(timeoutError(timeoutMs)), timeoutMs);
    try {
      return await work(AbortSignal.any([signal, limit.signal]));
    } catch (cause) {
      signal.throwIfAborted();
      limit.signal.throwIfAborted();
      throw cause;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Sends a request. The response has one of the expected statuses.
   * @param command names the request in errors, too
   */
  async function send(
    command: string,
    { method, query = {}, upload, json, bytes, headers: own, at }: Request,
    signal: AbortSignal,
  ): Promise<Response> {
    const { fetch } = o;
    const contentType = json === undefined ? upload?.contentType : 'application/json';
    const headers = { ...o.headers, ...(contentType !== undefined && { 'content-type': contentType }), ...own };
    // Node wants `duplex` with a streamed body; workerd does not know it.
    const init: RequestInit & { duplex?: 'half' } = {
      method,
      redirect: 'manual',
      headers,
      signal,
      ...(upload && { body: upload.body, duplex: 'half' }),
      ...(json !== undefined && { body: JSON.stringify(json) }),
      ...(bytes && { body: bytes }),
    };
    let response: Response;
    try {
      const address = at?.href ?? `${root}/${api.path}${command}?${new URLSearchParams(query).toString()}`;
      response = await fetch(address, init);
    } catch (cause) {
      signal.throwIfAborted();
      throw unavailable(`at ${root} cannot be reached`, cause);
    }
    if (api.statuses.includes(response.status)) return response;
    const words = await wordsOf(response);
    if ([429, 502, 503, 504].includes(response.status)) {
      const retryAfterSeconds = secondsOf(response.headers.get('retry-after'));
      throw new SealpinError(
        'pinning_unavailable',
        `${o.id} answered ${response.status} to ${command}${words}`,
        retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
      );
    }
    if (response.status === 402) throw exhausted(`it answered 402 to ${command}${words}`);
    if (response.status === 401 || response.status === 403) {
      throw misconfigured(
        `it refused our credentials for ${command} (${response.status})${words}`,
        'the pinning service refused the credentials of this service: the operator must check the token and ' +
          'what it allows',
      );
    }
    if ([404, 405].includes(response.status) || isRedirect(response.status))
      throw notTheApi(`it answered ${response.status || 'a redirect'} to ${command}${words}`);
    throw failed(`it answered ${response.status} to ${command}${words}`);
  }

  /**
   * Quotes a response with an unexpected status, after a colon, without our credentials, should it
   * repeat them.
   */
  async function wordsOf(response: Response): Promise<string> {
    try {
      const text = new TextDecoder().decode(await readStart(response.body, maxWordsBytes));
      const told = secretsOf(o.headers).reduce((words, secret) => words.replaceAll(secret, '…'), text.trim());
      return told === '' ? '' : `: ${printable(told.replaceAll(/\s+/g, ' '), maxWords)}`;
    } catch {
      // The status says enough.
      return '';
    }
  }

  /** The whole body, at most `maxBytes`. */
  async function readBody(response: Response, maxBytes: number): Promise<Uint8Array> {
    const tooLarge = failed(`its response is larger than ${maxBytes} bytes`);
    try {
      return await readAll(response.body, maxBytes, () => tooLarge);
    } catch (cause) {
      throw cause === tooLarge ? tooLarge : unavailable('broke off its response', cause);
    }
  }

  async function readText(response: Response, maxBytes: number): Promise<string> {
    if (response.status === 200 && response.headers.get('content-type')?.startsWith('text/html')) {
      await response.body?.cancel();
      throw notTheApi('it answered with a page in HTML');
    }
    return new TextDecoder().decode(await readBody(response, maxBytes)).trim();
  }

  function recordOf(text: string, status: number): JsonRecord {
    const record = parseRecord(text);
    if (!record) throw failed(`its response (${status}) is not JSON`);
    return record;
  }

  /** The object of a whole response in JSON. */
  async function readRecord(response: Response, maxBytes = maxResponseBytes): Promise<JsonRecord> {
    return recordOf(await readText(response, maxBytes), response.status);
  }

  /** The objects of a whole response in JSON, one a line. There is one at least. */
  async function readRecords(response: Response): Promise<JsonRecord[]> {
    return (await readText(response, maxResponseBytes)).split('\n').map((line) => recordOf(line, response.status));
  }

  return {
    id: o.id,
    failed,
    refused,
    exhausted,
    unavailable,
    misconfigured,
    notTheApi,
    timeoutError,
    withTimeout,
    send,
    readBody,
    readRecord,
    readRecords,
  };
}

/** Lists the parts of our headers that a service could repeat, the longest first. */
function secretsOf(headers: HttpOptions['headers']): string[] {
  const values = Object.values(headers).flatMap((value) => [value, ...value.split(' ')]);
  const pairs = values.filter((value) => value.startsWith('Basic ')).map((value) => atob(value.slice('Basic '.length)));
  return [...values, ...pairs, ...pairs.map((pair) => pair.slice(pair.indexOf(':') + 1))]
    .filter((secret) => secret.length >= minSecretChars)
    .toSorted((a, b) => b.length - a.length);
}

/** The first bytes of a body, or what has come of them after a second; the rest is not read. */
async function readStart(body: Response['body'], maxBytes: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  const late = setTimeout(() => void reader.cancel().catch(() => undefined), 1_000);
  const chunks: Uint8Array[] = [];
  for (let bytes = 0; bytes < maxBytes;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    bytes += value.length;
  }
  clearTimeout(late);
  await reader.cancel();
  return concat(...chunks).subarray(0, maxBytes);
}

/** An object in JSON, of which nothing is known. */
export type JsonRecord = Record<string, unknown>;

/** Tells whether a value that was parsed from JSON is an object. */
export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A browser's fetch hides the status of a redirect that it does not follow. */
function isRedirect(status: number): boolean {
  return status === 0 || (status >= 300 && status < 400);
}

function parseRecord(line: string): JsonRecord | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : undefined;
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}

/** Retry-After (RFC 9110 section 10.2.3) in seconds. */
function secondsOf(text: string | null): number | undefined {
  if (text === null) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
  return Number.isSafeInteger(seconds) && seconds >= 0 ? seconds : undefined;
}
