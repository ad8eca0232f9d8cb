/** A client of the API for tests. */
import { expect } from 'vitest';
import * as v from 'valibot';
import { Problem, StoredFile } from '../../shared/api.ts';
import { codesOf } from '../routes/openapi.ts';
import { operations, type Operation } from '../routes/table.ts';

export type Init = { method?: string; headers?: Record<string, string>; body?: BodyInit; duplex?: 'half' };

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

/** The operation that a request is. */
function operationOf(method: string, url: string): Operation | undefined {
  const parts = new URL(url).pathname.split('/');
  const fits = ({ path }: Operation): boolean => {
    const pattern = path.split('/');
    return (
      pattern.length === parts.length &&
      pattern.every((part, index) => part === parts[index] || (part.startsWith(':') && parts[index] !== ''))
    );
  };
  const wanted = method === 'HEAD' ? 'get' : method.toLowerCase();
  return operations.find((each) => each.method === wanted && fits(each));
}

/** Above this an answer is mostly data, which the tests compare themselves. */
const shapeBytes = 65_536;

/** Every answer that a test gets has to be one that the description knows. */
async function isDescribed(method: string, url: string, answer: Response): Promise<void> {
  const operation = operationOf(method, url);
  if (operation === undefined) return;
  const type = answer.headers.get('Content-Type') ?? '';
  if (type === 'application/problem+json') {
    if (method === 'HEAD') return;
    const { code } = v.parse(Problem, await answer.clone().json());
    expect(codesOf(operation), `${method} ${operation.path} answers ${code}`).toContain(code);
    return;
  }
  const types = operation.answers[answer.status];
  expect(types, `${method} ${operation.path} answers ${answer.status}`).toBeDefined();
  if (types === null || types === undefined) return;
  const shape = types[type];
  if (shape === undefined) expect(Object.keys(types)).toContain('*/*');
  else if (shape !== null && method !== 'HEAD' && Number(answer.headers.get('Content-Length')) < shapeBytes) {
    const text = await answer.clone().text();
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
    const answer = await fetch(`${url}${path}`, {
      ...init,
      headers: { Authorization: `Bearer ${apiKey}`, ...init.headers },
    });
    await isDescribed(init.method ?? 'GET', `${url}${path}`, answer);
    return answer;
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
      const answer = call(`/v1/storage/${mode}`, {
        method: 'POST',
        headers: {
          'Content-Type': type,
          'Content-Disposition': `attachment; filename*=UTF-8''${encodeURIComponent(filename)}`,
        },
        body: bytes as BodyInit,
      });
      return v.parse(StoredFile, await jsonOf(answer, 201));
    },
  });
}
