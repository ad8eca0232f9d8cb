/** The API's description, compared with the service itself. The client of the other tests compares every response with it, too. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  scopes,
  type NewAccountResponse,
  type NewApiKeyResponse,
  type Problem,
  type StoredFile,
} from '../../shared/api.ts';
import { codes, describe as describeCode } from '../../shared/errors.ts';
import { routes } from '../routes/table.ts';
import { client, jsonOf } from './client.ts';
import { adminToken, startService, type Service } from '../../testkit/service.ts';

type Schema = { [key: string]: unknown };
type Described = {
  security: Record<string, unknown>[];
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: { content: Record<string, { schema?: Schema }> };
  responses: Record<string, { content?: Record<string, { schema?: Schema }> }>;
};
type Document = {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
};

let service: Service;
let document: Document;
beforeAll(async () => {
  service = await startService();
  document = await jsonOf<Document>(fetch(`${service.url}/v1/openapi.json`));
});
afterAll(() => service.close());

/** What is wrong with a value, by a JSON Schema: as much of it as the description uses. */
function faults(schema: Schema, value: unknown, at = ''): string[] {
  if (schema['$ref'] !== undefined)
    return faults(document.components.schemas[(schema['$ref'] as string).split('/').at(-1)!]!, value, at);
  const out: string[] = [];
  const no = (what: string): void => void out.push(`${at}: ${what}`);
  for (const part of (schema['allOf'] as Schema[] | undefined) ?? []) out.push(...faults(part, value, at));
  const any = schema['anyOf'] as Schema[] | undefined;
  if (any !== undefined && any.every((part) => faults(part, value, at).length > 0)) no('fits none');
  if (schema['const'] !== undefined && value !== schema['const']) no('is not the constant');
  if (schema['enum'] !== undefined && !(schema['enum'] as unknown[]).includes(value)) no('is not one of those');
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const wanted = schema['type'];
  if (wanted === 'integer' ? !Number.isInteger(value) : wanted !== undefined && wanted !== type)
    no(`is ${type}, not ${wanted as string}`);
  if (typeof value === 'string') {
    if (schema['pattern'] !== undefined && !new RegExp(schema['pattern'] as string).test(value)) no('does not match');
    if (schema['minLength'] !== undefined && value.length < Number(schema['minLength'])) no('is too short');
    if (schema['maxLength'] !== undefined && value.length > Number(schema['maxLength'])) no('is too long');
    if (schema['format'] === 'date-time' && Number.isNaN(Date.parse(value))) no('is no time');
    if (schema['format'] === 'uuid' && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) no('is no UUID');
  }
  if (typeof value === 'number' && schema['minimum'] !== undefined && value < Number(schema['minimum']))
    no('is too small');
  if (Array.isArray(value) && schema['items'] !== undefined)
    value.forEach((each, index) => out.push(...faults(schema['items'] as Schema, each, `${at}[${index}]`)));
  if (type === 'object') {
    const members = value as Record<string, unknown>;
    const properties = (schema['properties'] as Record<string, Schema> | undefined) ?? {};
    for (const name of (schema['required'] as string[] | undefined) ?? [])
      if (!(name in members)) no(`${name} is missing`);
    for (const [name, each] of Object.entries(members)) {
      if (properties[name] !== undefined) out.push(...faults(properties[name], each, `${at}.${name}`));
      else if (schema['additionalProperties'] === false) no(`${name} is too much`);
    }
  }
  return out;
}

/** Sends a request and compares the response with its description. */
async function ask(
  method: string,
  path: string,
  o: { key: string; path?: Record<string, string>; query?: string; body?: string; headers?: Record<string, string> },
): Promise<Response> {
  const described = document.paths[path]![method]!;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => o.path![name]!);
  const response = await fetch(`${service.url}${filled}${o.query ?? ''}`, {
    method: method.toUpperCase(),
    headers: { Authorization: `Bearer ${o.key}`, ...o.headers },
    ...(o.body === undefined ? {} : { body: o.body }),
  });
  const written = described.responses[String(response.status)];
  expect(
    written,
    `${method} ${path} ${response.status} ${response.ok ? '' : await response.clone().text()}`,
  ).toBeDefined();
  const type = response.headers.get('Content-Type')?.split(';')[0] ?? '';
  const media = written!.content?.[type] ?? written!.content?.['*/*'];
  if (written!.content !== undefined) expect(media, `${path} ${type}`).toBeDefined();
  if (media?.schema !== undefined)
    expect(faults(media.schema, await response.clone().json()), `${method} ${path}`).toEqual([]);
  return response;
}

it('is OpenAPI 3.1 of this version, with every code', () => {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
    version: string;
  };
  expect([document.openapi, document.info.version]).toEqual(['3.1.0', manifest.version]);
  const written = new Set(
    Object.values(document.paths).flatMap((path) =>
      Object.values(path).flatMap((operation) =>
        Object.entries(operation.responses).flatMap(([status, { content }]) => {
          const all = content?.['application/problem+json']?.schema?.['allOf'] as Schema[] | undefined;
          const named =
            ((all?.[1]?.['properties'] as Record<string, Schema> | undefined)?.['code']?.['enum'] as
              | string[]
              | undefined) ?? [];
          for (const code of named)
            expect([code, String(describeCode(code as (typeof codes)[number]).status)]).toEqual([code, status]);
          return named;
        }),
      ),
    ),
  );
  // What only the command line and the formats can run into.
  const elsewhere = codes.filter((code) => !written.has(code));
  expect(
    elsewhere.filter((code) =>
      /^(invalid_|pinning_|idempotency_)|unauthorized|too_large|rate_limited|overloaded/.test(code),
    ),
  ).toEqual([]);
});

it('describes the shape of a body as the validator checks it', () => {
  const schema = document.paths['/v1/keys']?.['post']?.requestBody?.content['application/json']?.schema;
  expect(schema).toMatchObject({
    additionalProperties: false,
    required: ['label', 'scopes'],
    properties: {
      label: { type: 'string', minLength: 1, maxLength: 100 },
      scopes: { type: 'array', items: { enum: [...scopes] }, minItems: 1, uniqueItems: true },
      expiresAt: { type: 'string', format: 'date-time' },
    },
  });
});

it('knows every route of the service, and no other', async () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    const response = await fetch(`${service.url}${path.replaceAll(/\{\w+\}/g, 'x')}`, { method: 'PUT' });
    expect([path, response.status]).toEqual([path, 405]);
    const allowed = (response.headers.get('Allow') ?? '').toLowerCase().split(', ').sort();
    const described = new Set(Object.keys(methods));
    if (described.has('get')) described.add('head');
    expect([path, allowed]).toEqual([path, [...described].sort()]);
  }
  const described = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  );
  expect(described).toEqual(routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`));
});

it('names the scope that each route asks for', async () => {
  const { account, apiKey: owner } = await service.account();
  const withScopes = async (scopes: readonly string[]): Promise<string> =>
    (await jsonOf<NewApiKeyResponse>(client(service.url, owner).json('/v1/keys', { label: 'x', scopes }), 201)).apiKey;
  const ids: Record<string, string> = {
    id: account.id,
    fileId: crypto.randomUUID(),
    uploadId: crypto.randomUUID(),
    shareId: '0'.repeat(22),
    cid: 'bafkqaaa',
  };
  // As much of a request as it takes to ask the account.
  const storing = { 'Content-Disposition': 'attachment; filename="x"' };
  const uploading = {
    'Tus-Resumable': '1.0.0',
    'Upload-Length': '1',
    'Upload-Offset': '0',
    'Upload-Metadata': 'filename eA==',
    'Content-Type': 'application/offset+octet-stream',
  };
  let checked = 0;
  for (const route of routes) {
    if (route.who !== 'key') continue;
    const { scope } = route;
    const path = route.path.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? name);
    const headers = route.path.startsWith('/v1/uploads') ? uploading : storing;
    const codeFor = async (scopes: readonly string[]): Promise<unknown> => {
      const response = await client(service.url, await withScopes(scopes))(path, {
        method: route.method.toUpperCase(),
        headers,
      });
      if (route.method === 'head') return response.status === 403 ? 'insufficient_scope' : undefined;
      const text = await response.text();
      return response.ok ? undefined : (JSON.parse(text) as Problem).code;
    };
    const others = scopes.filter((each) => each !== scope);
    const context = `${route.method} ${route.path}`;
    if (scope !== undefined) {
      expect(await codeFor(others), context).toBe('insufficient_scope');
      expect(await codeFor([scope]), context).not.toBe('insufficient_scope');
      checked += 1;
    } else for (const each of scopes) expect(await codeFor([each]), context).not.toBe('insufficient_scope');
  }
  expect(checked).toBeGreaterThan(7);
});

it('is what the service does', async () => {
  const json = { 'Content-Type': 'application/json' };
  const created = await ask('post', '/v1/accounts', {
    key: adminToken,
    headers: json,
    body: '{"label":"a","recovery":"age1tag1qwndfwcq7uahk8styyyq3l6lqcpxvzj6g5xhlza7hf43r5tts0xc7fza0sc"}',
  });
  const { apiKey: key, account, key: record } = await created.json<NewAccountResponse>();
  await ask('post', '/v1/accounts', { key: 'x', body: '{}' });
  await ask('post', '/v1/accounts', { key: adminToken, body: '{}' });
  await ask('get', '/v1/health', { key });
  await ask('get', '/v1/openapi.json', { key });
  await ask('get', '/v1/account', { key });
  await ask('get', '/v1/accounts/{id}/recovery', { key, path: { id: account.id } });
  await ask('post', '/v1/accounts/{id}/recover', { key, path: { id: account.id }, body: '{"privateKey":"x"}' });
  const made = await (
    await ask('post', '/v1/keys', { key, body: '{"label":"k","scopes":["read"]}' })
  ).json<{ key: { id: string } }>();
  await ask('post', '/v1/keys', { key, body: '{"label":"k","scopes":["root"]}' });
  await ask('get', '/v1/keys', { key });
  await ask('delete', '/v1/keys/{id}', { key, path: { id: made.key.id }, query: '?cascade=true' });
  await ask('delete', '/v1/keys/{id}', { key, path: { id: record.id } });
  await ask('delete', '/v1/keys/{id}', { key, path: { id: 'x' }, query: '?cascade=maybe' });
  for (const mode of ['encrypted', 'plain']) {
    const path = `/v1/storage/${mode}`;
    const { fileId, cid } = await (
      await ask('post', path, { key, headers: json, body: '{"filename":"n","data":"AAAA"}' })
    ).json<StoredFile>();
    await ask('post', path, { key, headers: { 'Content-Disposition': 'attachment; filename="n"' }, body: 'raw' });
    await ask('post', path, { key, headers: json, body: '{"filename":"n","data":"*"}' });
    await ask('post', path, { key: 'x', body: '' });
    await ask('get', '/v1/storage', { key, query: '?limit=1' });
    await ask('get', '/v1/storage', { key, query: '?limit=0' });
    await ask('get', '/v1/storage/{fileId}', { key, path: { fileId } });
    await ask('get', '/v1/storage/{fileId}', { key, path: { fileId }, query: '?data=false' });
    for (const headers of [
      { Accept: 'application/octet-stream' },
      { Accept: 'application/octet-stream', Range: 'bytes=0-1' },
      { Accept: 'application/octet-stream', Range: 'bytes=9-' },
      { 'If-None-Match': '*' },
      { 'If-Match': '"x"' },
      { Accept: 'image/png' },
      { Accept: 'application/vnd.sealpin' },
    ]) {
      await ask('get', '/v1/storage/{fileId}', { key, path: { fileId }, headers });
    }
    const record = { record: 'AAAA', files: [fileId], password: true, label: 'l' };
    const share = await ask('post', '/v1/shares', { key, headers: json, body: JSON.stringify(record) });
    const ofShare = { shareId: (await share.json<{ id: string }>()).id };
    await ask('post', '/v1/shares', { key, headers: json, body: '{}' });
    await ask('get', '/v1/shares', { key });
    for (let each = 0; each < 6; each += 1) await ask('post', '/v1/shares/{shareId}/open', { key: '', path: ofShare });
    await ask('get', '/v1/shares/{shareId}', { key: '', path: ofShare });
    await ask('get', '/v1/shares/{shareId}', { key: '', path: { shareId: 'x' } });
    await ask('delete', '/v1/shares/{shareId}', { key, path: ofShare });
    await ask('delete', '/v1/shares/{shareId}', { key, path: ofShare });
    await ask('get', '/ipfs/{cid}', { key, path: { cid } });
    await ask('get', '/ipfs/{cid}', { key, path: { cid: 'x' } });
    await ask('delete', '/v1/storage/{fileId}', { key, path: { fileId } });
    await ask('delete', '/v1/storage/{fileId}', { key, path: { fileId } });
  }
  await ask('delete', '/v1/accounts/{id}', { key: adminToken, path: { id: account.id } });
  expect((await client(service.url, key)('/v1/account')).status).toBe(401);
});
