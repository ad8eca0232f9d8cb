/** A client of the API for tests. */
import { expect } from 'vitest';
import * as v from 'valibot';
import { Problem, StoredFile } from '../../shared/api.ts';

export type Init = { method?: string; headers?: Record<string, string>; body?: BodyInit };

/** The code of an answer that has to be a problem, with its status. */
export async function problemOf(asked: Response | Promise<Response>): Promise<[number, string]> {
  const answer = await asked;
  expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
  const problem = v.parse(Problem, await answer.json());
  expect(problem.requestId).toBe(answer.headers.get('X-Request-Id'));
  expect(problem.status).toBe(answer.status);
  return [answer.status, problem.code];
}

/** The JSON of an answer that has to have this status. */
export async function jsonOf<T = unknown>(asked: Response | Promise<Response>, status = 200): Promise<T> {
  const answer = await asked;
  const text = await answer.text();
  expect([answer.status, answer.status === status ? '' : text]).toEqual([status, '']);
  return JSON.parse(text) as T;
}

export async function bytesOf(asked: Response | Promise<Response>): Promise<Buffer> {
  return Buffer.from(await (await asked).arrayBuffer());
}

/** Requests with an API key. */
export type Client = {
  apiKey: string;
  (path: string, init?: Init): Promise<Response>;
  json(path: string, body: unknown, method?: string): Promise<Response>;
  store(mode: 'encrypted' | 'plain', bytes: Uint8Array | string, o?: { filename?: string; type?: string }): Promise<StoredFile>;
};

/** A client with a key at a service. */
export function client(url: string, apiKey: string): Client {
  const call = (path: string, init: Init = {}): Promise<Response> =>
    fetch(`${url}${path}`, { ...init, headers: { Authorization: `Bearer ${apiKey}`, ...init.headers } });
  return Object.assign(call, {
    apiKey,
    json: (path: string, body: unknown, method = 'POST') =>
      call(path, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
    async store(mode: 'encrypted' | 'plain', bytes: Uint8Array | string, { filename = 'näme.bin', type = 'image/png' } = {}) {
      const answer = call(`/v1/storage/${mode}`, {
        method: 'POST',
        headers: { 'Content-Type': type, 'Content-Disposition': `attachment; filename*=UTF-8''${encodeURIComponent(filename)}` },
        body: bytes as BodyInit,
      });
      return v.parse(StoredFile, await jsonOf(answer, 201));
    },
  });
}
