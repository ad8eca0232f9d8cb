/** Requests to Kubo's RPC and the parsing of its responses, none of which is trusted. */
import { SealpinError } from '../../shared/errors.ts';
import { readAll } from '../../shared/streams/read-all.ts';

export type RpcOptions = {
  /** The service's name in errors. */
  id: string;
  /** The root of the API, to which `/api/v0/` is added. */
  url: string;
  headers: Readonly<Record<string, string>>;
  fetch: typeof fetch;
};

type RpcRecord = Record<string, unknown>;

/** The first and the last record of a response in NDJSON, often the same one; or the message of Kubo's error. */
export type RpcResult = { first: RpcRecord; last: RpcRecord } | { message: string };

/** The largest response in JSON. */
const maxResponseBytes = 65_536;

/** The client of an RPC API. */
export type Rpc = ReturnType<typeof rpc>;

/** Makes the client of an RPC API, as functions that know how its failures are reported. */
export function rpc(o: RpcOptions) {
  const root = o.url.replace(/\/+$/, '');

  function failed(detail: string, cause?: unknown): SealpinError {
    return new SealpinError('pinning_failed', `${o.id}: ${detail}`, { cause });
  }

  /** The configuration names a service that cannot be used: no request will succeed before the operator changes it. */
  function misconfigured(detail: string, hint: string): SealpinError {
    return new SealpinError('misconfigured', `${o.id} at ${root}: ${detail}`, { hint });
  }

  /** The address leads to something that is not Kubo's RPC. */
  function notKubo(detail: string): SealpinError {
    return misconfigured(
      detail,
      'what answers at the address of the pinning service is not the RPC API of Kubo: the operator has to check ' +
        'the address (of the API, usually port 5001, without /api/v0)',
    );
  }

  /** The error for the message of Kubo's error. */
  function refused(message: string): SealpinError {
    if (!/no space left on device|disk quota exceeded/i.test(message)) return failed(message);
    return new SealpinError('disk_full', `the disk of the pinning service ${o.id} is full`, {
      hint: 'nothing was kept; the operator has to make room there',
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
   * Sends a command. The response has status 200, or 500 with an error of Kubo's in it.
   * @param o.upload the body of the request, streamed
   */
  async function send(
    command: string,
    query: Record<string, string>,
    signal: AbortSignal,
    { upload }: { upload?: { body: ReadableStream<Uint8Array>; contentType: string } } = {},
  ): Promise<Response> {
    const { fetch } = o;
    const headers = { ...o.headers, ...(upload && { 'content-type': upload.contentType }) };
    // Node wants `duplex` with a streamed body; workerd does not know it.
    const init: RequestInit & { duplex?: 'half' } = {
      method: 'POST',
      redirect: 'manual',
      headers,
      signal,
      ...(upload && { body: upload.body, duplex: 'half' }),
    };
    let response: Response;
    try {
      response = await fetch(`${root}/api/v0/${command}?${new URLSearchParams(query).toString()}`, init);
    } catch (cause) {
      signal.throwIfAborted();
      throw unavailable(`at ${root} cannot be reached`, cause);
    }
    if ([200, 500].includes(response.status)) return response;
    await response.body?.cancel();
    if ([429, 502, 503, 504].includes(response.status)) {
      const retryAfterSeconds = secondsOf(response.headers.get('retry-after'));
      throw new SealpinError(
        'pinning_unavailable',
        `${o.id} answered ${response.status} to ${command}`,
        retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
      );
    }
    if (response.status === 401 || response.status === 403) {
      throw misconfigured(
        `it refused our credentials for ${command} (${response.status})`,
        'the pinning service refused the credentials of this service: the operator has to check the token and ' +
          'what it allows',
      );
    }
    if ([404, 405].includes(response.status) || isRedirect(response.status))
      throw notKubo(`it answered ${response.status || 'a redirect'} to ${command}`);
    throw failed(`it answered ${response.status} to ${command}`);
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

  /**
   * Parses a whole response in JSON. After a first record Kubo can no longer change the status, so the last one
   * decides.
   */
  async function parse(response: Response): Promise<RpcResult> {
    if (response.status === 200 && response.headers.get('content-type')?.startsWith('text/html')) {
      await response.body?.cancel();
      throw notKubo('it answered with a page in HTML');
    }
    const text = new TextDecoder().decode(await readBody(response, maxResponseBytes));
    const [head = '', ...rest] = text.trim().split('\n');
    const recordOf = (line: string): RpcRecord => {
      const record = parseRecord(line);
      if (!record) throw failed(`its response (${response.status}) is not JSON`);
      return record;
    };
    const first = recordOf(head);
    const last = rest.map((line) => recordOf(line)).at(-1) ?? first;
    return response.status === 500 || last['Type'] === 'error' ? { message: String(last['Message']) } : { first, last };
  }

  /** Runs a command with a small response, within a time limit. */
  function ask(
    command: string,
    query: Record<string, string>,
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<RpcResult> {
    return withTimeout(signal, timeoutMs, async (limited) => parse(await send(command, query, limited)));
  }

  return { id: o.id, ask, failed, refused, unavailable, timeoutError, withTimeout, send, readBody, parse };
}

/** A browser's fetch hides the status of a redirect that it does not follow. */
function isRedirect(status: number): boolean {
  return status === 0 || (status >= 300 && status < 400);
}

function parseRecord(line: string): RpcRecord | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as RpcRecord) : undefined;
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
