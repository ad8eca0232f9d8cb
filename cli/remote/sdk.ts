/**
 * The SDK over the HTTP client of the command line, with its time limits, and its words for what a
 * service refuses.
 */
import { serviceHttp, type Fetch, type ServiceHttp } from '../../client/service-http.ts';
import type { Context } from '../context.ts';
import { type ApiCaller, responseProblem } from './client.ts';
import { sendRequest } from '../io/http.ts';

/** Responses with these have no body (Fetch standard, "null body status"). */
const bodiless = new Set([204, 205, 304]);

/**
 * Requests to a service, as the functions of `client/` take them. Fails as they say, and with the
 * codes of `sendRequest`.
 */
export function sdkHttp(service: ApiCaller, context: Pick<Context, 'signal' | 'timeouts'>): ServiceHttp {
  return serviceHttp({
    service: service.url,
    apiKey: service.apiKey,
    fetch: fetchWith(context),
    errorOf: ({ status }, text, retryAfter) =>
      responseProblem({ status, text, headers: retryAfter === null ? {} : { 'retry-after': retryAfter } }, service),
  });
}

function fetchWith({ signal: ownSignal, timeouts }: Pick<Context, 'signal' | 'timeouts'>): Fetch {
  return async (url, init) => {
    const body = await nodeBody(init.body);
    const response = await sendRequest(url, {
      method: init.method as Parameters<typeof sendRequest>[1]['method'],
      headers: init.headers as Record<string, string>,
      signal: init.signal ? AbortSignal.any([init.signal, ownSignal]) : ownSignal,
      timeouts,
      body,
    });
    const headers = Object.entries(response.headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, [value].flat().join(', ')] as [string, string]],
    );
    const { status } = response;
    return new Response(bodiless.has(status) ? null : response.body, { status, headers });
  };
}

async function nodeBody(
  body: BodyInit | null | undefined,
): Promise<{ stream: AsyncIterable<Uint8Array>; bytes: number | undefined } | undefined> {
  if (body === null || body === undefined) return undefined;
  if (body instanceof ReadableStream) return { stream: body as ReadableStream<Uint8Array>, bytes: undefined };
  const blob = await new Response(body).blob();
  return { stream: blob.stream(), bytes: blob.size };
}
