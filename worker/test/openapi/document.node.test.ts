/**
 * The API's two descriptions, compared with the service itself. The client of the other tests
 * compares every response with it, too.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { scopes, type NewAccountResponse, type StoredFile } from '../../../shared/api.ts';
import { describe as describeCode } from '../../../shared/errors.ts';
import { codesOf } from '../../openapi/route.ts';
import { routes } from '../../routes/table.ts';
import { client } from '../../../testkit/api-client.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { itemOf, present } from '../../../testkit/present.ts';

type Schema = { [key: string]: unknown };
type Content = Record<string, { schema?: Schema; example?: unknown; examples?: Record<string, unknown> }>;
type Link = { operationId: string; parameters: Record<string, string> };
type Described = {
  operationId: string;
  security: Record<string, string[]>[];
  'x-codes': string[];
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { headers: Record<string, unknown>; content?: Content; links?: Record<string, Link> }>;
};
type Document = {
  openapi: string;
  info: { version: string };
  'x-codes': string[];
  paths: Record<string, Record<string, Described>>;
  components: Record<
    'schemas' | 'responses' | 'parameters' | 'securitySchemes' | 'headers' | 'examples',
    Record<string, Schema>
  >;
};

const paths = { users: '/v1/openapi.json', operators: '/v1/operator/openapi.json' };
let service: Service;
let texts: Record<keyof typeof paths, string>;
/** Both documents as one, without references to responses and parameters. */
let document: Document;
let operations: Described[];
beforeAll(async () => {
  service = await sharedService();
  const text = async (path: string): Promise<string> => await (await fetch(`${service.url}${path}`)).text();
  texts = { users: await text(paths.users), operators: await text(paths.operators) };
  const [users, operators] = [resolved(texts.users), resolved(texts.operators)];
  document = { ...users, paths: { ...users.paths, ...operators.paths } };
  for (const kind of ['schemas', 'headers', 'securitySchemes'] as const)
    document.components[kind] = { ...users.components[kind], ...operators.components[kind] };
  operations = Object.values(document.paths).flatMap((path) => Object.values(path));
});

function resolved(text: string): Document {
  const { responses, parameters } = (JSON.parse(text) as Document).components;
  return JSON.parse(text, (_, value: Schema | null) => {
    const [, kind, name = ''] = /^#.components.(responses|parameters).(.*)$/.exec(String(value?.['$ref'])) ?? [];
    return kind === undefined ? value : (kind === 'responses' ? responses : parameters)[name];
  }) as Document;
}

it('are small, and the operator’s routes are in one of their own', () => {
  expect(Buffer.byteLength(texts.users)).toBeLessThanOrEqual(120_000);
  expect(Buffer.byteLength(texts.operators)).toBeLessThanOrEqual(60_000);
  const isOperators = (path: string): boolean => path.startsWith('/v1/operator/');
  expect(Object.keys(resolved(texts.users).paths).filter((path) => isOperators(path))).toEqual([]);
  expect(Object.keys(resolved(texts.operators).paths).filter((path) => !isOperators(path))).toEqual([]);
});

it('say nothing twice that can be referred to', () => {
  for (const text of Object.values(texts)) {
    const { paths: described } = JSON.parse(text) as Document;
    const all = Object.values(described).flatMap((path) => Object.values(path));
    const parts = all.flatMap(({ parameters = [], responses }) => [...parameters, ...Object.values(responses)]);
    const written = parts.map((part) => JSON.stringify(part)).filter((part) => !part.startsWith('{"$ref"'));
    expect(written.filter((part, index) => written.indexOf(part) !== index)).toEqual([]);
    expect(text.split('application/problem+json').length).toBeLessThan(25);
    // What may be null twice has one list of types.
    expect(text).not.toContain('"type":[[');
  }
});

/** Lists the faults of a value, by a JSON Schema: by as much of it as the description uses. */
function faults(schema: Schema, value: unknown, at = ''): string[] {
  if (schema['$ref'] !== undefined)
    return faults(present(document.components.schemas[itemOf((schema['$ref'] as string).split('/'), -1)]), value, at);
  const out: string[] = [];
  const no = (what: string): void => void out.push(`${at}: ${what}`);
  for (const part of (schema['allOf'] as Schema[] | undefined) ?? []) out.push(...faults(part, value, at));
  const any = schema['anyOf'] as Schema[] | undefined;
  if (any !== undefined && any.every((part) => faults(part, value, at).length > 0)) no('fits none');
  if (schema['const'] !== undefined && value !== schema['const']) no('is not the constant');
  if (schema['enum'] !== undefined && !(schema['enum'] as unknown[]).includes(value)) no('is not one of those');
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const wanted = schema['type'];
  const fits = (each: unknown): boolean => (each === 'integer' ? Number.isInteger(value) : each === type);
  if (wanted !== undefined && ![wanted].flat().some((each) => fits(each)))
    no(`is ${type}, not ${JSON.stringify(wanted)}`);
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
  const described = present(present(document.paths[path])[method]);
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => present(present(o.path)[name]));
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
  const media = present(written).content?.[type] ?? present(written).content?.['*/*'];
  if (present(written).content !== undefined) expect(media, `${path} ${type}`).toBeDefined();
  const sent = Object.keys(document.components.headers).filter(
    // Every response may have these.
    (name) => !['Content-Length', 'RateLimit-Policy', 'X-Request-Id'].includes(name) && response.headers.has(name),
  );
  expect(Object.keys(present(written).headers ?? {}), `${method} ${path} ${response.status}`).toEqual(
    expect.arrayContaining(sent),
  );
  if (method !== 'head' && media?.schema !== undefined && media.schema['format'] !== 'binary')
    expect(faults(media.schema, await response.clone().json()), `${method} ${path}`).toEqual([]);
  return response;
}

it('are OpenAPI 3.1 of this version, and name the codes that each route may have', () => {
  const manifest = readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8');
  const { version } = JSON.parse(manifest) as Document['info'];
  for (const text of Object.values(texts)) {
    const { openapi, info } = JSON.parse(text) as Document;
    expect({ openapi, version: info.version }).toEqual({ openapi: '3.1.0', version });
  }
  for (const route of routes) {
    const described = present(operations.find(({ operationId }) => operationId === route.operationId));
    const schemes = [...new Set(described.security.flatMap((each) => Object.keys(each)))];
    const ofSchemes = schemes.flatMap(
      (name) => present(document.components.securitySchemes[name])['x-codes'] as string[],
    );
    const named = [...document['x-codes'], ...ofSchemes, ...described['x-codes']];
    expect(named.toSorted(), route.operationId).toEqual(codesOf(route).toSorted());
    // The response of a status has an example of each.
    for (const code of codesOf(route)) {
      const { content } = described.responses[String(describeCode(code).status)] ?? {};
      expect(content?.['application/problem+json']?.examples, `${route.operationId} ${code}`).toHaveProperty(code);
    }
  }
});

it('has an example of every code, where the type of its problem points', () => {
  const { examples } = (JSON.parse(texts.users) as Document).components;
  for (const code of new Set(routes.flatMap((route) => codesOf(route)))) {
    const { status } = describeCode(code);
    expect(examples[code]?.['value']).toMatchObject({
      type: `${paths.users}#/components/examples/${code}`,
      status,
      code,
    });
  }
});

it('describes the shape of a body as the validator checks it', () => {
  const body = document.paths['/v1/keys']?.['post']?.requestBody?.content['application/json'];
  expect(body?.schema).toEqual({ $ref: '#/components/schemas/NewApiKey' });
  expect(document.components.schemas['Scope']).toEqual({ type: 'string', enum: [...scopes] });
  expect(document.components.schemas['NewApiKey']).toMatchObject({
    additionalProperties: false,
    required: ['label', 'scopes'],
    properties: {
      label: { type: 'string', minLength: 1, maxLength: 100 },
      scopes: { type: 'array', items: { $ref: '#/components/schemas/Scope' }, minItems: 1, uniqueItems: true },
      expiresAt: { type: 'string', format: 'date-time' },
    },
  });
  const account = { anyOf: [{ $ref: '#/components/schemas/BackupAccount' }, { type: 'null' }] };
  expect(document.components.schemas['BackupPage']).toMatchObject({ properties: { account } });
});

it('describes a parameter by what its text means, and by what it is when it is left out', () => {
  const schemaOf = (path: string, method: string, name: string): Schema | undefined =>
    document.paths[path]?.[method]?.parameters?.find((each) => each.name === name)?.schema;
  const limit = { type: 'integer', minimum: 1, maximum: 100, default: 50 };
  expect(schemaOf('/v1/storage', 'get', 'limit')).toEqual(limit);
  expect(schemaOf('/v1/storage/{fileId}', 'get', 'data')).toEqual({ type: 'boolean' });
  expect(schemaOf('/v1/storage/{fileId}', 'head', 'fileId')).toMatchObject({ type: 'string', format: 'uuid' });
  // OpenAPI ignores a parameter of this name: it is in the description.
  expect(schemaOf('/v1/storage/{fileId}', 'get', 'Accept')).toBeUndefined();
});

it('marks the headers without which a route refuses every request', async () => {
  const required = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters = [] }]) =>
      parameters
        .filter((each) => each.in === 'header' && each.required === true)
        .map(({ name }) => `${method} ${path} ${name}`),
    ),
  );
  expect(required.sort()).toEqual([
    'delete /v1/uploads/{uploadId} Tus-Resumable',
    'head /v1/uploads/{uploadId} Tus-Resumable',
    'patch /v1/uploads/{uploadId} Tus-Resumable',
    'patch /v1/uploads/{uploadId} Upload-Offset',
    'post /v1/uploads/encrypted Tus-Resumable',
    'post /v1/uploads/plain Tus-Resumable',
    'put /v1/operator/accounts/{id}/backup Sealpin-Restore',
  ]);
  const { account, apiKey } = await service.account();
  const begin = { 'Tus-Resumable': '1.0.0', 'Upload-Length': '1' };
  const begun = await ask('post', '/v1/uploads/plain', { key: apiKey, headers: begin });
  const uploadId = itemOf(present(begun.headers.get('Location')).split('/'), -1);
  const statuses = required.map(async (each) => {
    const [method = '', path = '', missing = ''] = each.split(' ');
    const headers = { ...begin, 'Upload-Offset': '0', 'Content-Type': 'application/offset+octet-stream' };
    const sent = Object.fromEntries(Object.entries(headers).filter(([name]) => name !== missing));
    const key = path.startsWith('/v1/operator/') ? adminToken : apiKey;
    return (await ask(method, path, { key, path: { uploadId, id: account.id }, headers: sent })).status;
  });
  expect(await Promise.all(statuses)).toEqual([412, 412, 412, 400, 412, 412, 401]);
});

it('gives each operation, and each shape, one name that generators can use', () => {
  const names = operations.map(({ operationId }) => operationId);
  expect(names).not.toContain(undefined);
  expect(names.filter((name) => !/^[a-z][A-Za-z]+$/.test(name))).toEqual([]);
  expect(new Set(names).size).toBe(names.length);
  // In Go the constructor of X is NewX.
  const schemas = Object.keys(document.components.schemas);
  expect(schemas.filter((name) => schemas.includes(`New${name}`))).toEqual([]);
  // A shape without a name becomes a type with a name that nobody would choose.
  const bodies = operations.flatMap(({ requestBody, responses }) =>
    [requestBody, ...Object.values(responses)].flatMap((each) => Object.values(each?.content ?? {})),
  );
  const inline = bodies.filter(({ schema }) => schema?.['$ref'] === undefined && schema?.['format'] !== 'binary');
  expect(inline).toEqual([{ schema: { type: 'object' } }, { schema: { type: 'object' } }]);
});

it('links results to the routes that take their IDs', () => {
  const links = operations.flatMap(({ responses }) =>
    Object.values(responses).flatMap((response) =>
      Object.values(response.links ?? {}).map((link) => ({ link, body: response.content?.['application/json'] })),
    ),
  );
  expect(links.length).toBeGreaterThan(8);
  const follow = (schema: Schema | undefined): Schema =>
    document.components.schemas[present(String(schema?.['$ref']).split('/').at(-1))] ?? present(schema);
  for (const { link, body } of links) {
    const target = operations.find(({ operationId }) => operationId === link.operationId);
    expect(target, link.operationId).toBeDefined();
    for (const [name, expression] of Object.entries(link.parameters)) {
      expect(present(target).parameters?.map((each) => each.name)).toContain(name);
      const [, ...tokens] = expression.replace('$response.body#', '').split('/');
      const membersOf = ({ properties = {}, allOf = [] }: Schema): Record<string, Schema> =>
        Object.assign({}, properties, ...(allOf as Schema[]).map((each) => membersOf(follow(each))));
      const member = (at: Schema, token: string) => follow(membersOf(at)[token]);
      expect(tokens.reduce(member, follow(body?.schema))['type'], expression).toBe('string');
    }
  }
});

it('can be revalidated by anybody', async () => {
  for (const path of Object.values(paths)) {
    const first = await fetch(`${service.url}${path}`);
    const etag = first.headers.get('ETag') ?? '';
    const again = await fetch(`${service.url}${path}`, { headers: { 'If-None-Match': etag } });
    expect(first.status).toBe(200);
    expect(first.headers.get('Cache-Control')).toBe('no-cache');
    expect(again.status).toBe(304);
  }
});

it('knows every route of the service, and no other', async () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    const response = await fetch(`${service.url}${path.replaceAll(/\{\w+\}/g, 'x')}`, { method: 'PROPFIND' });
    expect(response.status, path).toBe(405);
    const allowed = (response.headers.get('Allow') ?? '').toLowerCase().split(', ').sort();
    const described = new Set(Object.keys(methods));
    if (described.has('get')) described.add('head');
    expect(allowed, path).toEqual([...described].sort());
  }
  const rows = routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`);
  const described = Object.entries(document.paths)
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
    // HEAD comes with a GET, unless it has a row of its own.
    .filter((each) => !each.startsWith('head ') || rows.includes(each));
  expect(described.sort()).toEqual(rows.sort());
});

it('is what the service does', async () => {
  const json = { 'Content-Type': 'application/json' };
  const created = await ask('post', '/v1/operator/accounts', {
    key: adminToken,
    headers: json,
    body: '{"label":"a","recovery":"age1tag1qwndfwcq7uahk8styyyq3l6lqcpxvzj6g5xhlza7hf43r5tts0xc7fza0sc"}',
  });
  const { apiKey: key, account, key: record } = await created.json<NewAccountResponse>();
  await ask('post', '/v1/operator/accounts', { key: 'x', body: '{}' });
  await ask('post', '/v1/operator/accounts', { key: adminToken, body: '{}' });
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
    await ask('head', '/v1/storage/{fileId}', { key, path: { fileId } });
    await ask('get', '/v1/storage/{fileId}/content', { key, path: { fileId } });
    await ask('head', '/v1/storage/{fileId}/content', { key, path: { fileId } });
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
  const operator = { key: adminToken, path: { id: account.id } };
  await ask('get', '/v1/operator/accounts', { key: adminToken });
  await ask('get', '/v1/operator/accounts', { key: adminToken, query: '?limit=0' });
  await ask('get', '/v1/operator/accounts/{id}', operator);
  await ask('patch', '/v1/operator/accounts/{id}', { ...operator, body: '{"label":"b","quotaBytes":1}' });
  await ask('patch', '/v1/operator/accounts/{id}', { ...operator, body: '{"quotaBytes":-1}' });
  const cid = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku';
  for (const method of ['put', 'get', 'delete', 'get'] as const)
    await ask(method, '/v1/operator/denylist/{cid}', { key: adminToken, path: { cid } });
  await ask('put', '/v1/operator/denylist/{cid}', { key: adminToken, path: { cid: 'x' } });
  await ask('delete', '/v1/operator/accounts/{id}', { key: adminToken, path: { id: account.id } });
  expect((await client(service.url, key)('/v1/account')).status).toBe(401);
});
