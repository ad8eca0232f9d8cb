/** Errors as responses: `application/problem+json` (RFC 9457). */
import { describe, SealpinError, type Code, type Reason } from '../../shared/errors.ts';
import type { Problem } from '../../shared/api.ts';

/** Default of `Retry-After` in seconds, by status (RFC 9110 section 10.2.3, RFC 6585 section 4). */
const retrySeconds: Readonly<Record<number, number>> = { 429: 60, 503: 5 };

/** The `type` of a problem: where `/v1/openapi.json` describes its code, with a JSON pointer as fragment (RFC 6901 section 6). */
export function problemType(code: Code): string {
  return `/v1/openapi.json#/components/examples/${code}`;
}

/** What a client of the API can do, by the reason that the core gives. */
const hints: Readonly<Partial<Record<Reason, string>>> = {
  mistyped: 'send the whole key again',
  is_private: 'send the public key, and keep the private key to yourself',
  is_public: 'send the private key',
  is_ssh: 'send age1…, age1tag1… or the PEM block of a P-256 public key',
  unsupported_key: 'send age1…, age1tag1… or the PEM block of a P-256 key',
  not_a_key: 'send age1…, age1tag1… or the PEM block of a P-256 key',
};

/**
 * The response for an error. That for a system fault, or for anything but a SealpinError, reveals no internals.
 * @param thrown what was caught
 * @param requestId the id of the request in the log
 */
export function problem(thrown: unknown, requestId: string): Response {
  const error = thrown instanceof SealpinError ? thrown : new SealpinError('internal');
  const { status, title, fault } = describe(error.code);
  const hint = (error.reason === undefined ? undefined : hints[error.reason]) ?? error.hint;
  const body: Problem = {
    type: problemType(error.code),
    title,
    status,
    ...(fault === 'user' ? { detail: error.message } : {}),
    code: error.code,
    ...(hint === undefined ? {} : { hint }),
    requestId,
  };
  const headers = new Headers({ 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' });
  if (status === 401) headers.set('WWW-Authenticate', 'Bearer realm="sealpin"');
  const retryAfterSeconds = error.retryAfterSeconds ?? retrySeconds[status];
  if (retryAfterSeconds !== undefined) headers.set('Retry-After', String(Math.ceil(retryAfterSeconds)));
  return new Response(`${JSON.stringify(body)}\n`, { status, headers });
}
