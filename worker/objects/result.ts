/**
 * The results of calls to Durable Objects. An error that is thrown over RPC loses its class, so the
 * objects return failures as values, and the Worker turns them into errors.
 */
import { describe, SealpinError, type Code } from '../../shared/errors.ts';

/** Failure of a call: the code and details of the error that `toError` makes of it. */
export type Failure = {
  ok: false;
  code: Code;
  detail?: string | undefined;
  hint?: string | undefined;
  retryAfterSeconds?: number | undefined;
};

/** The result of a call: its value, beside `ok`, or a failure. */
export type Result<T extends object = object> = ({ ok: true } & T) | Failure;

/**
 * Makes a failure.
 * @param detail what happened, for a person; left out, the code's own title says it
 */
export function err(code: Code, detail?: string, retryAfterSeconds?: number): Failure {
  return { ok: false, code, detail, retryAfterSeconds };
}

/** Turns an error into a failure. The detail of a system fault stays in the log. */
export function toFailure(error: SealpinError): Failure {
  const { code, hint, message, retryAfterSeconds } = error;
  return { ...err(code, describe(code).fault === 'user' ? message : undefined, retryAfterSeconds), hint };
}

/** Turns a failure into the error that it describes. */
export function toError(failure: Failure): SealpinError {
  const { code, detail, hint, retryAfterSeconds } = failure;
  return new SealpinError(code, detail, { hint, retryAfterSeconds });
}

/** Seconds after which a client may try an object again that was overloaded, or was being moved. */
const objectRetrySeconds = 2;

/**
 * Awaits the result of a call to an object, and returns its value.
 * @throws the code of the failure; `disk_full` when the object could not write (under
 * `sealpin start`); `overloaded` when the object is overloaded or was moved; `internal` when it
 * threw
 */
export async function unwrap<P extends PromiseLike<{ ok: boolean }>>(
  call: P,
): Promise<Extract<Awaited<P>, { ok: true }>> {
  let result: Awaited<P>;
  try {
    result = await call;
  } catch (cause) {
    const { overloaded, retryable } = cause as { overloaded?: boolean; retryable?: boolean };
    if (overloaded === true || retryable === true) {
      throw new SealpinError('overloaded', undefined, { cause, retryAfterSeconds: objectRetrySeconds });
    }
    if (/SQLITE_FULL|database or disk is full/.test(String(cause))) {
      throw new SealpinError('disk_full', 'the disk of this service is full, and nothing was changed', {
        hint: 'the operator must make room',
        cause,
      });
    }
    throw new SealpinError('internal', undefined, { cause });
  }
  if (!result.ok) throw toError(result as unknown as Failure);
  return result as Extract<Awaited<P>, { ok: true }>;
}
