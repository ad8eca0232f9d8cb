/**
 * What the Durable Objects answer. An error that is thrown over RPC loses its class, so objects never throw: they answer with
 * one of these, and the Worker turns a refusal into the error that its code says.
 */
import { describe, SealpinError, type Code } from '../../shared/errors.ts';

export type Refusal = { ok: false; code: Code; detail?: string; hint?: string; retryAfterSeconds?: number };

/** The answer of an object: what was asked for, or why not. */
export type Answer<T extends object = object> = ({ ok: true } & T) | Refusal;

/** A refusal, as objects write it. */
export function refuse(code: Code, detail?: string, retryAfterSeconds?: number): Refusal {
  return {
    ok: false,
    code,
    ...(detail === undefined ? {} : { detail }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
}

/** An error as a refusal, for what an object itself was refused. The detail of a system fault stays in the log. */
export function refusalOf(error: SealpinError): Refusal {
  const { code, hint, message, retryAfterSeconds } = error;
  const refusal = refuse(code, describe(code).fault === 'user' ? message : undefined, retryAfterSeconds);
  return hint === undefined ? refusal : { ...refusal, hint };
}

/** The error that a refusal stands for. */
export function errorOf(refusal: Refusal): SealpinError {
  const { code, detail, hint, retryAfterSeconds } = refusal;
  return new SealpinError(code, detail, {
    ...(hint === undefined ? {} : { hint }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}

/** Seconds after which a client may come back to an object that had too much to do, or was being moved. */
const objectRetrySeconds = 2;

/**
 * Waits for an object's answer.
 * @throws the code of the refusal; `disk_full` when the object could not write (under `sealpin start`); `overloaded` when the object has too much to do or was moved; `internal` when it failed
 */
export async function settled<P extends PromiseLike<{ ok: boolean }>>(
  asked: P,
): Promise<Extract<Awaited<P>, { ok: true }>> {
  let answer: Awaited<P>;
  try {
    answer = await asked;
  } catch (cause) {
    const { overloaded, retryable } = cause as { overloaded?: boolean; retryable?: boolean };
    if (overloaded === true || retryable === true) {
      throw new SealpinError('overloaded', undefined, { cause, retryAfterSeconds: objectRetrySeconds });
    }
    if (/SQLITE_FULL|database or disk is full/.test(String(cause))) {
      throw new SealpinError('disk_full', 'the disk of this service is full, and nothing was changed', {
        hint: 'the operator has to make room',
        cause,
      });
    }
    throw new SealpinError('internal', undefined, { cause });
  }
  if (!answer.ok) throw errorOf(answer as unknown as Refusal);
  return answer as Extract<Awaited<P>, { ok: true }>;
}
