/**
 * Problem documents of a service that refuses (RFC 9457), read for the SDK and for the command
 * line.
 */
import { parseResponse, Problem } from '../shared/api.ts';
import { defaultMessage, describe, isCode, orUndefined, SealpinError, type Code } from '../shared/errors.ts';
import { isFromGateway } from '../shared/gateway-status.ts';
import type { GatewayProblem, GatewayResponse } from '../shared/ipfs/gateway.ts';
import { readAll } from '../shared/streams/read-all.ts';
import { parseRetryAfter } from '../shared/streams/timing.ts';

/** The problem in the body of a refusal; undefined when it is from another program. */
export function parseProblem(text: string): Problem | undefined {
  return orUndefined(() => parseResponse(Problem, JSON.parse(text)));
}

/** Far more than a problem has. */
const maxProblemBytes = 65_536;

/**
 * The problem of a service that refuses as a gateway; undefined for that of another program.
 */
export async function gatewayProblem({ headers, body }: GatewayResponse): Promise<GatewayProblem | undefined> {
  if (headers.get('content-type')?.startsWith('application/problem+json') !== true) return undefined;
  const bytes = await readAll(body, maxProblemBytes, () => new RangeError('too large')).catch(() => undefined);
  const problem = parseProblem(new TextDecoder().decode(bytes));
  if (problem === undefined) return undefined;
  const { detail, hint } = problem;
  const title = titleOf(problem);
  return { code: codeOf(problem), detail: detail ?? (hint === undefined ? title : `${title}: ${hint}`) };
}

/**
 * The code of a problem. A newer service may have codes that are unknown here: they are
 * `service_answer`, and its words the best.
 */
export function codeOf({ code }: Problem): Code {
  return isCode(code) ? code : 'service_answer';
}

/** Codes by status alone: a proxy in front of a service has no problem document. */
const bareCodes: Readonly<Record<number, Code>> = {
  401: 'forbidden',
  403: 'forbidden',
  407: 'forbidden',
  413: 'too_large',
};

/**
 * The error for a refusal that is no problem document: it is from a program in front of the
 * service, or from no service.
 * @param o.retryAfter as for `problemError`
 */
export function bareRefusal(host: string, status: number, o: { retryAfter: string | null | undefined }): SealpinError {
  const code = bareCodes[status];
  if (code !== undefined)
    return new SealpinError(code, `${host} refuses this with status ${status}, without a reason`, {
      hint: 'a program in front of the service, such as a proxy, may refuse it: ask who runs the service',
    });
  const isBusy = status === 429 || status >= 500;
  const retryAfterSeconds = isBusy ? parseRetryAfter(o.retryAfter) || undefined : undefined;
  if (isFromGateway(status)) {
    const detail = `${host} cannot be reached: a program in front of it says ${status}`;
    return new SealpinError('service_unreachable', detail, { hint: 'try again later', retryAfterSeconds });
  }
  const what = isBusy
    ? `failed with status ${status}, without a reason`
    : `is not a Sealpin service (status ${status})`;
  return new SealpinError('service_answer', `${host} ${what}`, { hint: 'check the address', retryAfterSeconds });
}

/** The title of a problem as a message: in lower case, where it is that of its code. */
function titleOf(problem: Problem): string {
  const code = codeOf(problem);
  return problem.title === describe(code).title ? defaultMessage(code) : problem.title;
}

/**
 * The error that a problem stands for, in the words of the service; an internal one names its
 * request.
 * @param o.retryAfter the value of `Retry-After`, if the response has one
 * @param o.hint instead of that of the service
 * @param o.show escapes text of the service; without it the text stays as it is
 */
export function problemError(
  problem: Problem,
  o: { retryAfter: string | null | undefined; hint?: string | undefined; show?: (text: string) => string },
): SealpinError {
  const { show = (text) => text } = o;
  const code = codeOf(problem);
  const hint = o.hint ?? problem.hint;
  const retryAfterSeconds = parseRetryAfter(o.retryAfter) || undefined;
  const request = code === 'internal' && problem.requestId !== undefined ? ` (request ${problem.requestId})` : '';
  return new SealpinError(code, show(`${problem.detail ?? titleOf(problem)}${request}`), {
    hint: hint === undefined ? undefined : show(hint),
    retryAfterSeconds,
  });
}
