/** A client of the API for tests. */
import { expect } from 'vitest';
import * as v from 'valibot';
import { Problem, StoredFile } from '../../shared/api.ts';
import { parseApiKey, signToken } from '../../shared/crypto/index.ts';
import { codesOf, type Route } from '../openapi/route.ts';
import { routes } from '../routes/table.ts';
import { adminToken, metricsToken } from '../../testkit/service.ts';

export type Init = { method?: string; headers?: Record<string, string>; body?: BodyInit; duplex?: 'half' };

/** The credential that a route asks for. */
export function tokenOf({ who }: Pick<Route, 'who'>, apiKey: string): string {
  return who === 'operator' ? adminToken : who === 'monitor' ? metricsToken : apiKey;
}

/** The code of a response that must be a problem, with its status. */
export async function problemOf(asked: Response | Promise<Response>): Promise<[number, string]> {
  const response = await asked;
  expect(response.headers.get('Content-Type')).toBe('application/problem+json');
  const problem = v.parse(Problem, await response.json());
  expect(problem.requestId).toBe(response.headers.get('X-Request-Id'));
  expect(problem.status).toBe(response.status);
  return [response.status, problem.code];
}

/** The JSON of a response that must have this status. */
export async function jsonOf<T = unknown>(asked: Response | Promise<Response>, status = 200): Promise<T> {
  const response = await asked;
  const text = await response.text();
  expect([response.status, response.status === status ? '' : text]).toEqual([status, '']);
  return JSON.parse(text) as T;
}

export async function bytesOf(asked: Response | Promise<Response>): Promise<Buffer> {
  return Buffer.from(await (await asked).arrayBuffer());
}

/** The route of a request. */
function routeOf(method: string, url: string): Route | undefined {
  const parts = new URL(url).pathname.split('/');
  const fits = ({ path }: Route): boolean => {
    const pattern = path.split('/');
    return (
      pattern.length === parts.length &&
      pattern.every((part, index) => part === parts[index] || (part.startsWith(':') && parts[index] !== ''))
    );
  };
  const of = (wanted: string): Route | undefined => routes.find((each) => each.method === wanted && fits(each));
  return of(method.toLowerCase()) ?? (method === 'HEAD' ? of('get') : undefined);
}

/** Length above which an answer is mostly data, which the tests compare themselves. */
const shapeBytes = 65_536;

/** Every response that a test gets must be one that its route describes. */
async function isDescribed(method: string, url: string, response: Response): Promise<void> {
  const route = routeOf(method, url);
  if (route === undefined) return;
  const type = response.headers.get('Content-Type') ?? '';
  if (type === 'application/problem+json') {
    if (method === 'HEAD') return;
    const { code } = v.parse(Problem, await response.clone().json());
    expect(codesOf(route), `${method} ${route.path} responds ${code}`).toContain(code);
    return;
  }
  const types = route.responses[response.status];
  expect(types, `${method} ${route.path} responds ${response.status}`).toBeDefined();
  if (types === null || types === undefined) return;
  const shape = types[type];
  if (shape === undefined) expect(Object.keys(types)).toContain('*/*');
  else if (shape !== null && method !== 'HEAD' && Number(response.headers.get('Content-Length')) < shapeBytes) {
    const text = await response.clone().text();
    expect(v.safeParse(shape, JSON.parse(text)).issues, text.slice(0, 300)).toBeUndefined();
  }
}

/** Requests with an API key. */
export type Client = {
  apiKey: string;
  (path: string, init?: Init): Promise<Response>;
  json(path: string, body: unknown, method?: string): Promise<Response>;
  store(
    mode: 'encrypted' | 'plain',
    bytes: Uint8Array | string,
    o?: { filename?: string; type?: string },
  ): Promise<StoredFile>;
};

/** A client with a key at a service. */
export function client(url: string, apiKey: string): Client {
  const call = async (path: string, init: Init = {}): Promise<Response> => {
    const response = await fetch(`${url}${path}`, {
      ...init,
      headers: { Authorization: `Bearer ${apiKey}`, ...init.headers },
    });
    await isDescribed(init.method ?? 'GET', `${url}${path}`, response);
    return response;
  };
  return Object.assign(call, {
    apiKey,
    json: (path: string, body: unknown, method = 'POST') =>
      call(path, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
    async store(
      mode: 'encrypted' | 'plain',
      bytes: Uint8Array | string,
      { filename = 'näme.bin', type = 'image/png' } = {},
    ) {
      const response = call(`/v1/storage/${mode}`, {
        method: 'POST',
        headers: {
          'Content-Type': type,
          'Content-Disposition': `attachment; filename*=UTF-8''${encodeURIComponent(filename)}`,
        },
        body: bytes as BodyInit,
      });
      return v.parse(StoredFile, await jsonOf(response, 201));
    },
  });
}

/** The path of a signed URL with these claims, which lasts a minute unless they say otherwise. */
export async function signedPath(apiKey: string, claims: object): Promise<string> {
  const key = await parseApiKey(apiKey);
  if (key === undefined) throw new Error('this is no API key');
  const exp = Math.floor(Date.now() / 1000) + 60;
  return `/v1/accounts/${key.account}/signed/${signToken(key, { exp, ...claims })}`;
}
