/** Failures as JSON: the problem details of RFC 9457. */
import { describe, type Code, type SealpinError } from './errors.ts';

/**
 * Returns where `/v1/openapi.json` describes a code: its fragment is a JSON pointer (RFC 6901
 * section 6).
 */
export function problemType(code: Code): string {
  return `/v1/openapi.json#/components/examples/${code}`;
}

/**
 * Makes the problem object of an error.
 * @param o.type a URI reference that identifies the kind of problem; `about:blank` by default
 * @param o.detail left out when undefined: the caller decides whether its reader may see the
 * message of the error
 * @param o.hint left out when undefined
 */
export function toProblem(
  error: SealpinError,
  o: { type?: string; detail: string | undefined; hint: string | undefined; requestId?: string | undefined },
) {
  const { title, status } = describe(error.code);
  return {
    type: o.type ?? 'about:blank',
    title,
    status,
    detail: o.detail,
    code: error.code,
    hint: o.hint,
    requestId: o.requestId,
    errors: error.faults,
  };
}
