/** Errors as the API reports them: `application/problem+json` (RFC 9457). */
import { describe, SealpinError, type Reason } from '../../shared/errors.ts';
import type { Ctx } from './app.ts';
import { problemType, toProblem } from '../../shared/problem-object.ts';

/**
 * Default of `Retry-After` in seconds, by status (RFC 9110 section 10.2.3, RFC 6585 section 4, RFC
 * 4918 section 11.3).
 */
const retrySeconds: Readonly<Record<number, number>> = { 423: 2, 429: 60, 503: 5 };

/** Hints for clients of the API, by the reason that the core gives. */
const hints: Readonly<Partial<Record<Reason, string>>> = {
  mistyped: 'send the whole key again',
  is_private: 'send the public key, and keep the private key to yourself',
  is_public: 'send the private key',
  is_ssh: 'send age1…, age1tag1… or the PEM block of a P-256 public key',
  unsupported_key: 'send age1…, age1tag1… or the PEM block of a P-256 key',
  not_a_key: 'send age1…, age1tag1… or the PEM block of a P-256 key',
};

/**
 * The response for an error. That for a system fault, or for anything but a SealpinError, reveals
 * no internals.
 * @param thrown what was caught
 * @param c the context of the request, which takes note of the code
 */
export function problem(thrown: unknown, c: Ctx): Response {
  const { requestId } = c.var;
  const error = thrown instanceof SealpinError ? thrown : new SealpinError('internal');
  c.set('code', error.code);
  const { status, fault } = describe(error.code);
  const hint = (error.reason === undefined ? undefined : hints[error.reason]) ?? error.hint;
  const type = problemType(error.code);
  const body = toProblem(error, { type, detail: fault === 'user' ? error.message : undefined, hint, requestId });
  const headers = new Headers({ 'Content-Type': 'application/problem+json' });
  if (status === 401) headers.set('WWW-Authenticate', 'Bearer realm="sealpin"');
  const retryAfterSeconds = error.retryAfterSeconds ?? retrySeconds[status];
  if (retryAfterSeconds !== undefined) headers.set('Retry-After', String(Math.ceil(retryAfterSeconds)));
  return new Response(`${JSON.stringify(body)}\n`, { status, headers });
}
