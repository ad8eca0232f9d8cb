/** HTTP requests to a pinning service, of which no response is trusted. */
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { httpFailures, statusError, wholeBody, type HttpFailures } from './http-failures.ts';
import { withinLimit } from './time-limit.ts';

export type HttpOptions = {
  /** The service's name in errors. */
  id: string;
  /** The root of the API, without a slash at its end. */
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

export type Request = {
  method: string;
  query?: Query;
  upload?: Upload | undefined;
  /** The body, as JSON, or as it is. */
  json?: unknown;
  bytes?: Uint8Array<ArrayBuffer>;
  headers?: Record<string, string>;
  /** Another address than that of the command. */
  at?: URL;
};

/** The parameters of a request. */
export type Query = Record<string, string>;

/** The body of a request, streamed. */
export type Upload = { body: ReadableStream<Uint8Array>; contentType: string };

/** The largest response in JSON, where the caller does not expect a larger one. */
const maxResponseBytes = 65_536;

export type HttpClient = ReturnType<typeof httpClient>;

/** Makes the client of an API, as functions that know how its failures are reported. */
export function httpClient(o: HttpOptions, api: HttpApi) {
  const { id, url: root, headers } = o;
  const failures = httpFailures({ id, root, headers, api });

  /** Runs `work` under the caller's signal and a time limit of its own. */
  function withTimeout<T>(signal: AbortSignal, ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return withinLimit(signal, { ms, late: () => failures.timeoutError(ms) }, work);
  }

  /**
   * Sends a request. The response has one of the expected statuses.
   * @param command names the request in errors, too
   */
  async function send(command: string, request: Request, signal: AbortSignal): Promise<Response> {
    const { fetch } = o;
    const { at, query = {} } = request;
    let response: Response;
    try {
      const address = at?.href ?? `${root}/${api.path}${command}?${new URLSearchParams(query).toString()}`;
      response = await fetch(address, initOf(request, headers, signal));
    } catch (cause) {
      signal.throwIfAborted();
      throw failures.unavailable(`at ${root} cannot be reached`, cause);
    }
    if (api.statuses.includes(response.status)) return response;
    throw await statusError(failures, response, command);
  }

  return { ...failures, ...bodyReader(failures), withTimeout, send };
}

function initOf(
  { method, upload, json, bytes, headers: own }: Request,
  common: HttpOptions['headers'],
  signal: AbortSignal,
): RequestInit {
  const contentType = json === undefined ? upload?.contentType : 'application/json';
  // Node wants `duplex` with a streamed body; workerd does not know it.
  const init: RequestInit & { duplex?: 'half' } = {
    method,
    redirect: 'manual',
    headers: { ...common, ...(contentType !== undefined && { 'content-type': contentType }), ...own },
    signal,
    ...(upload && { body: upload.body, duplex: 'half' }),
    ...(json !== undefined && { body: JSON.stringify(json) }),
    ...(bytes && { body: bytes }),
  };
  return init;
}

/** Makes the functions that read the bodies of responses. */
function bodyReader({ id, failed, notTheApi }: HttpFailures) {
  /** The whole body, at most `maxBytes`. */
  async function readBody(response: Response, maxBytes: number): Promise<Uint8Array> {
    return await wholeBody(id, response.body, maxBytes, () => failed(`its response is larger than ${maxBytes} bytes`));
  }

  async function readText(response: Response, maxBytes: number): Promise<string> {
    if (response.status === 200 && response.headers.get('content-type')?.startsWith('text/html')) {
      await cancelQuietly(response.body);
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

  return { readBody, readRecord, readRecords };
}

/** An object in JSON, of which nothing is known. */
export type JsonRecord = Record<string, unknown>;

/** Tells whether a value that was parsed from JSON is an object. */
export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parseRecord(line: string): JsonRecord | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
