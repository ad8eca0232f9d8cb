/** Requests to a service with the operator's token. */
import type * as v from 'valibot';
import { refuseUnencrypted } from '../cli/remote/client.ts';
import { parseResponse, Problem, restoreHeader } from '../shared/api.ts';
import { isCode, SealpinError } from '../shared/errors.ts';

/** Timeout of a response: a page of a backup asks the pinning service for each of its files. */
const operatorResponseMs = 120_000;

/** Client of the operator's routes. */
export type OperatorApi = ReturnType<typeof operatorApi>;

/** Options of a request: a token besides the operator's, and what ends the request. */
type OperatorApiOptions = { restoreToken?: string; signal?: AbortSignal };

/**
 * Makes a client.
 * @param url the service's origin
 * @throws usage where the token would be sent unencrypted; on each call: the code of the service's
 * problem, service_unreachable, service_answer, and the reason of the signal
 */
export function operatorApi(url: string, token: string, { restoreToken, signal }: OperatorApiOptions = {}) {
  refuseUnencrypted(new URL(url), 'the operator’s token');
  const headers = {
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
    ...(restoreToken !== undefined && { [restoreHeader]: restoreToken }),
  };
  async function send<S extends v.GenericSchema>(path: string, init: RequestInit, shape: S): Promise<v.InferOutput<S>> {
    const ending = AbortSignal.any([
      AbortSignal.timeout(operatorResponseMs),
      ...(signal === undefined ? [] : [signal]),
    ]);
    const request = { ...init, headers, redirect: 'manual', signal: ending } as const;
    const response = await fetch(`${url}${path}`, request).catch((cause: unknown) => {
      signal?.throwIfAborted();
      throw new SealpinError('service_unreachable', `${url} does not respond`, { hint: 'check --url', cause });
    });
    const body: unknown = await response.json().catch(() => undefined);
    if (response.ok) return parseResponse(shape, body);
    const { code, detail, title, hint } = parseResponse(Problem, body);
    throw new SealpinError(isCode(code) ? code : 'service_answer', detail ?? title, { hint });
  }
  return {
    get: <S extends v.GenericSchema>(path: string, shape: S) => send(path, {}, shape),
    post: <S extends v.GenericSchema>(path: string, body: string, shape: S) =>
      send(path, { method: 'POST', body }, shape),
    put: <S extends v.GenericSchema>(path: string, body: string, shape: S) =>
      send(path, { method: 'PUT', body }, shape),
  };
}
