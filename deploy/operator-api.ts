/** Requests to a service with the operator's token. */
import type * as v from 'valibot';
import { refuseUnencrypted } from '../cli/remote/client.ts';
import { untilAnswered } from '../client/attempts.ts';
import { jsonOrUndefined } from '../client/service-http.ts';
import { bareRefusal, parseProblem, problemError } from '../client/service-problem.ts';
import { parseResponse, restoreHeader } from '../shared/api.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';

/** Timeout of a response: a page of a backup asks the pinning service for each of its files. */
const operatorResponseMs = 120_000;

/** Client of the operator's routes. */
export type OperatorApi = ReturnType<typeof operatorApi>;

/** Options of a client: a second token, what ends its requests, and what prints that it waits. */
type OperatorApiOptions = { restoreToken?: string; signal?: AbortSignal; print?: (line: string) => void };

/**
 * Makes a client. What the service refuses for a while is sent again, and a GET whose response
 * breaks off.
 * @param url the service's origin
 * @throws usage where the token would be sent unencrypted; on each call: the code of the service's
 * problem, service_unreachable, service_answer, and the reason of the signal, which ends no POST
 */
export function operatorApi(url: string, token: string, { restoreToken, signal, print }: OperatorApiOptions = {}) {
  refuseUnencrypted(new URL(url), 'the operator’s token');
  const headers = {
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
    ...(restoreToken !== undefined && { [restoreHeader]: restoreToken }),
  };
  const onRetry = ({ message, retryAfterSeconds: seconds }: SealpinError): void =>
    print?.(`  ${message}: trying again${seconds === undefined ? '' : ` in ${seconds} s`} …`);
  async function send<S extends v.GenericSchema>(path: string, init: RequestInit, shape: S): Promise<v.InferOutput<S>> {
    signal?.throwIfAborted();
    const isTemporary = (error: unknown): error is SealpinError =>
      isSealpinError(error) &&
      (error.retryAfterSeconds !== undefined || (init.method === undefined && error.reason === 'broken_off'));
    return await untilAnswered(() => sendOnce(path, init, shape), { signal, isTemporary, onRetry });
  }
  async function sendOnce<S extends v.GenericSchema>(path: string, init: RequestInit, shape: S) {
    const timeout = AbortSignal.timeout(operatorResponseMs);
    // What a POST makes would be lost with its response.
    const ending = signal === undefined || init.method === 'POST' ? timeout : AbortSignal.any([timeout, signal]);
    const request = { ...init, headers, redirect: 'manual', signal: ending } as const;
    const failed = (what: string, o: { reason?: 'broken_off'; hint?: string }) => (cause: unknown) => {
      signal?.throwIfAborted();
      throw new SealpinError('service_unreachable', `${url} ${what}`, { ...o, cause });
    };
    const response = await fetch(`${url}${path}`, request).catch(failed('does not respond', { hint: 'check --url' }));
    const broken = failed('stopped in the middle of its response', { reason: 'broken_off' });
    const text = await response.text().catch(broken);
    if (response.ok) return parseResponse(shape, jsonOrUndefined(text) ?? null);
    const problem = parseProblem(text);
    const about = { retryAfter: response.headers.get('Retry-After') };
    throw problem === undefined ? bareRefusal(new URL(url).host, response.status, about) : problemError(problem, about);
  }
  return {
    get: <S extends v.GenericSchema>(path: string, shape: S) => send(path, {}, shape),
    post: <S extends v.GenericSchema>(path: string, body: string, shape: S) =>
      send(path, { method: 'POST', body }, shape),
    put: <S extends v.GenericSchema>(path: string, body: string, shape: S) =>
      send(path, { method: 'PUT', body }, shape),
  };
}
