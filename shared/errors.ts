/** The one error class of all rooms, with the codes of error-codes.ts. */
import { describe, type Code } from './error-codes.ts';

export { codes, describe, exitOf, isCode, type Code } from './error-codes.ts';

/**
 * The cause behind a code, for programs: a client of the core picks its own words and hints by it.
 * `decrypt_failed` has `wrong_password`, `no_key` (none of the keys opens it), `header` (a key
 * fits, and the header is damaged) and `payload` (the header opened, and the data is damaged or cut
 * off). `wrong_kind` has `needs_password` and `needs_key`. `invalid_request` has
 * `password_and_keys` and `mixed_recipients`. `service_unreachable` has `broken_off` (it answered,
 * and stopped in the middle) and `unanswered` (it closed the connection before). `link_invalid` has
 * `incomplete` and `not_a_link`. `invalid_cid` has `foreign_layout` (no file as Sealpin stores
 * them), `not_found` has `blob_absent`, `pinning_unavailable` has `blob_unavailable`, and
 * `service_answer` has `redirected`, `subdomain_gateway`, `server_error` and `not_a_gateway`.
 * `internal` has `bug`, of the command line. `key_invalid` has the others.
 */
export type Reason =
  | 'wrong_password'
  | 'no_key'
  | 'header'
  | 'payload'
  | 'needs_password'
  | 'needs_key'
  | 'password_and_keys'
  | 'mixed_recipients'
  | 'mistyped'
  | 'is_public'
  | 'is_private'
  | 'is_protected'
  | 'is_ssh'
  | 'unsupported_key'
  | 'not_a_key'
  | 'incomplete'
  | 'not_a_link'
  | 'broken_off'
  | 'unanswered'
  | 'foreign_layout'
  | 'other_bytes'
  | 'blob_absent'
  | 'blob_unavailable'
  | 'redirected'
  | 'subdomain_gateway'
  | 'server_error'
  | 'not_a_gateway'
  | 'bug';

/**
 * One fault of a request: `pointer` into its body (RFC 6901, as a URI fragment), or the `parameter`
 * of its query.
 */
export type Fault = { pointer?: string; parameter?: string; detail: string };

/**
 * The message of an error without details: the title of its code, in lower case like every message.
 */
export function defaultMessage(code: Code): string {
  const { title } = describe(code);
  return title.charAt(0).toLowerCase() + title.slice(1);
}

/** The error for every failure that is not a bug; a wrong call throws `TypeError`. */
export class SealpinError extends Error {
  override readonly name = 'SealpinError';
  readonly code: Code;
  readonly hint: string | undefined;
  /** More precise than the code, where several causes share it. */
  readonly reason: Reason | undefined;
  /** Seconds to wait before another attempt makes sense. */
  readonly retryAfterSeconds: number | undefined;
  /** The faults of a request, where there may be several. */
  readonly faults: readonly Fault[] | undefined;

  /**
   * @param code one of `codes`
   * @param detail one sentence about this occurrence, without secrets; by default the title of the
   * code, in lower case
   * @param options `reason` the cause among those of the code, `hint` what to do about it, `cause`
   * the error below (never one that carries a secret), `faults` of a request
   */
  constructor(
    code: Code,
    detail?: string,
    options: {
      reason?: Reason | undefined;
      hint?: string | undefined;
      cause?: unknown;
      retryAfterSeconds?: number | undefined;
      faults?: readonly Fault[] | undefined;
    } = {},
  ) {
    const entry = describe(code);
    super(detail ?? defaultMessage(code), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.reason = options.reason;
    this.hint = options.hint ?? entry.hint;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.faults = options.faults;
  }
}

/** The hint of an occurrence; that of its code is for clients of the API. */
export function ownHint({ code, hint }: SealpinError): string | undefined {
  return hint === describe(code).hint ? undefined : hint;
}

/** Recognizes a SealpinError, with one of some codes if any are given. */
export function isSealpinError(thrown: unknown, ...codes: readonly Code[]): thrown is SealpinError {
  return thrown instanceof SealpinError && (codes.length === 0 || codes.includes(thrown.code));
}

/** Awaits some work; where that fails with a certain code, `other` stands for its result. */
export async function otherwise<T, U>(work: Promise<T>, code: Code, other: U): Promise<T | U> {
  return work.catch((error: unknown) => {
    if (isSealpinError(error, code)) return other;
    throw error;
  });
}

/** Returns the result of some work, or undefined where it fails, whatever the error. */
export function orUndefined<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
