/** Failures of a backend with an API over HTTP, as errors that name the backend. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { isFromGateway } from '../../shared/gateway-status.ts';
import { cancelQuietly } from '../../shared/streams/cancel-quietly.ts';
import { concat } from '../../shared/streams/concat.ts';
import { readAll } from '../../shared/streams/read-all.ts';
import { parseRetryAfter } from '../../shared/streams/timing.ts';
import { printable } from './printable.ts';

/** A service at an address, and the API that is expected there. */
type Addressed = {
  /** The service's name in errors. */
  id: string;
  /** The address, without a slash at its end. */
  root: string;
  headers: Readonly<Record<string, string>>;
  /** The name of the API, with an article, and how its address looks; both are part of a hint. */
  api: { name: string; address: string };
};

/** Bytes that are read of an unexpected response, and characters that are shown of it. */
const maxWordsBytes = 2_048;
const maxWords = 200;
/** Length below which a part of our headers is a word, such as `Bearer`, and no secret. */
const minSecretChars = 8;

/** Makes the error for what a backend refuses with, in its own words. */
export function refusalBy(id: string, message: string): SealpinError {
  if (!/no space left on device|disk quota exceeded/i.test(message))
    return new SealpinError('pinning_failed', `${id}: ${printable(message)}`);
  return new SealpinError('disk_full', `the disk of the pinning service ${id} is full`, {
    hint: 'nothing was kept; the operator must make room there',
  });
}

export type HttpFailures = ReturnType<typeof httpFailures>;

/** Makes the errors of a service. */
export function httpFailures({ id, root, headers, api }: Addressed) {
  function failed(detail: string, cause?: unknown): SealpinError {
    return new SealpinError('pinning_failed', `${id}: ${printable(detail)}`, { cause });
  }

  /**
   * The configuration names a service that cannot be used: no request will succeed before the
   * operator changes it.
   */
  function misconfigured(detail: string, hint: string): SealpinError {
    return new SealpinError('misconfigured', `${id} at ${root}: ${detail}`, { hint });
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
  const refused = (message: string): SealpinError => refusalBy(id, message);

  /** The plan that the service is paid for, or its quota, is used up. */
  function exhausted(detail: string): SealpinError {
    return new SealpinError('disk_full', `${id}: ${printable(detail)}`, {
      hint: `the pinning service ${id} takes no more: the operator must look at its plan and its bills`,
    });
  }

  function unavailable(what: string, cause?: unknown): SealpinError {
    return new SealpinError('pinning_unavailable', `${id} ${what}`, { cause });
  }

  function timeoutError(timeoutMs: number): SealpinError {
    return new SealpinError('pinning_timeout', `${id} made no progress for ${timeoutMs / 1000} s`);
  }

  return { id, headers, failed, misconfigured, notTheApi, refused, exhausted, unavailable, timeoutError };
}

/** The error for a response with an unexpected status. @param command names the request */
export async function statusError(of: HttpFailures, response: Response, command: string): Promise<SealpinError> {
  const { id, headers, failed, misconfigured, notTheApi, exhausted } = of;
  const { status } = response;
  const words = await quoteResponse(response, headers);
  if (status === 429 || isFromGateway(status)) {
    const retryAfterSeconds = parseRetryAfter(response.headers.get('retry-after'));
    return new SealpinError('pinning_unavailable', `${id} answered ${status} to ${command}${words}`, {
      retryAfterSeconds,
    });
  }
  if (status === 402) return exhausted(`it answered 402 to ${command}${words}`);
  if (status === 401 || status === 403)
    return misconfigured(
      `it refused our credentials for ${command} (${status})${words}`,
      'the pinning service refused the credentials of this service: the operator must check the token and ' +
        'what it allows',
    );
  if ([404, 405].includes(status) || isRedirect(status))
    return notTheApi(`it answered ${status || 'a redirect'} to ${command}${words}`);
  return failed(`it answered ${status} to ${command}${words}`);
}

/**
 * Quotes a response with an unexpected status, after a colon, without our credentials, should it
 * repeat them.
 */
async function quoteResponse(response: Response, headers: Addressed['headers']): Promise<string> {
  try {
    const text = new TextDecoder().decode(await readStart(response.body, maxWordsBytes));
    const told = secretsOf(headers).reduce((words, secret) => words.replaceAll(secret, '…'), text.trim());
    return told === '' ? '' : `: ${printable(told.replaceAll(/\s+/g, ' '), maxWords)}`;
  } catch {
    // The status says enough.
    return '';
  }
}

/** Lists the parts of our headers that a service could repeat, the longest first. */
function secretsOf(headers: Addressed['headers']): string[] {
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
  await cancelQuietly(reader);
  return concat(...chunks).subarray(0, maxBytes);
}

/** The whole body of a response of a backend. @throws pinning_unavailable where it breaks off */
export async function wholeBody(
  id: string,
  body: ReadableStream | null,
  maxBytes: number,
  tooLarge: () => SealpinError,
): Promise<Uint8Array> {
  try {
    return await readAll(body, maxBytes, tooLarge);
  } catch (cause) {
    if (isSealpinError(cause)) throw cause;
    throw new SealpinError('pinning_unavailable', `${id} broke off its response`, { cause });
  }
}

/** A browser's fetch hides the status of a redirect that it does not follow. */
function isRedirect(status: number): boolean {
  return status === 0 || (status >= 300 && status < 400);
}
