/**
 * Requests that plainly mean something else are refused with what to do, and no response can be
 * taken for something else.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import * as v from 'valibot';
import { Problem } from '../../../shared/api.ts';
import { codesOf } from '../../openapi/route.ts';
import { routes } from '../../routes/table.ts';
import { problemType } from '../../../shared/problem-object.ts';
import { client, jsonOf, pathOf, problemOf, tokenOf, type Client } from '../../../testkit/api-client.ts';
import { adminToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';

let service: Service;
let call: Client;
let ownKey: string;
beforeAll(async () => {
  service = await sharedService();
  const { apiKey, key } = await service.account();
  call = client(service.url, apiKey);
  ownKey = key.id;
});

describe.each(['plain', 'encrypted'])('an upload in %s mode', (mode) => {
  const post = (headers: Record<string, string>, body: BodyInit = 'x'): Promise<Response> =>
    call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Disposition': 'attachment; filename=x', ...headers },
      body,
    });
  const nothingIsStored = async (): Promise<void> => expect((await call.listFiles()).files).toEqual([]);

  it('that is a form is refused, with the command that sends the file', async () => {
    const form = new FormData();
    form.append('file', new Blob(['hello']), 'hello.txt');
    // In one piece: the service refuses without reading, and would close the connection under a
    // body that still goes out.
    const encoded = new Response(form);
    const responses = [
      await post({ 'Content-Type': encoded.headers.get('Content-Type') ?? '' }, await encoded.arrayBuffer()),
      await post({ 'Content-Type': 'application/x-www-form-urlencoded' }, '{"filename":"a.txt","data":"aGVsbG8="}'),
      await post({ 'Content-Type': 'Multipart/Form-Data ; boundary=x' }),
    ];
    for (const response of responses) {
      expect(response.headers.get('Accept-Encoding')).toBeNull();
      const { hint } = await response.clone().json<Problem>();
      expect(hint).toContain(`curl -X POST -T FILE -H 'Content-Type: application/octet-stream' …/v1/storage/${mode}`);
      expect(await problemOf(response)).toBe('415 unsupported_media_type');
    }
    await nothingIsStored();
  });

  it('that is compressed is refused, with the coding that is accepted', async () => {
    for (const coding of ['gzip', 'br', 'identity, gzip', 'aws-chunked']) {
      const response = await post({ 'Content-Encoding': coding });
      expect(response.headers.get('Accept-Encoding')).toBe('identity');
      expect(await problemOf(response)).toBe('415 unsupported_media_type');
    }
    await nothingIsStored();
  });

  it('that is a part of a file is refused', async () => {
    expect(await problemOf(post({ 'Content-Range': 'bytes 0-0/10' }))).toBe('400 invalid_request');
    await nothingIsStored();
  });

  it('that says it is not encoded is taken', async () => {
    const { fileId } = await jsonOf<{ fileId: string }>(post({ 'Content-Encoding': 'identity' }), 201);
    await call.deleteFile({ fileId });
  });
});

describe('a parameter of the query', () => {
  const strict = routes.filter(({ path, ignoresUnknownQuery }) => path.startsWith('/v1/') && !ignoresUnknownQuery);

  it.each(strict.map((each) => [each.method, each.path, each] as const))(
    'that is not known, or comes twice, is refused: %s %s',
    async (method, path, route) => {
      const filled = path.replaceAll(/:\w+/g, 'x');
      const headers = { 'Tus-Resumable': '1.0.0' };
      for (const query of ['filename=a', '__proto__=', 'limit=1&limit=1', 'cid=a&cid=b', 'x']) {
        const caller = client(service.url, tokenOf(route, call.apiKey));
        const response = caller(`${filled}?${query}`, { method: method.toUpperCase(), headers });
        expect(await problemOf(response), query).toBe('400 invalid_request');
      }
    },
  );

  it('that is not known is named, with those that are', async () => {
    const { detail, errors } = await (await call('/v1/storage?state=plain')).json<Problem>();
    expect(detail).toBe(
      'the query has "state", and this route takes limit, cursor, order, cid, mode, createdAfter, createdBefore, ' +
        'minSize, maxSize, contentType, name, tag, createdBy, once each',
    );
    expect(errors).toEqual([{ parameter: 'state', detail }]);
    expect(await problemOf(call('/v1/storage/encrypted?cid=bafkqaaa', { method: 'POST' }))).toBe('400 invalid_request');
  });

  it('with a wrong value is named in one line, without the value', async () => {
    const errorsOf = async (path: string) => (await (await call(path)).json<Problem>()).errors;
    expect(await errorsOf('/v1/storage?limit=canary')).toEqual([
      { parameter: 'limit', detail: 'limit is a number from 1 to 100' },
    ]);
    expect(await errorsOf(`/v1/storage/${crypto.randomUUID()}?data=canary`)).toEqual([
      { parameter: 'data', detail: 'data must be true or false' },
    ]);
  });

  it('that is not known is ignored by the gateway, as its specification says', async () => {
    const file = await call.store('plain', 'x');
    expect((await fetch(`${service.url}/ipfs/${file.cid}?whatever=1`)).status).toBe(200);
  });
});

describe('a request with a wrong value', () => {
  it('is told in plain words what is wrong with it, and no value is repeated', async () => {
    const cases: [unknown, string][] = [
      [{ scopes: ['read'] }, 'label is missing'],
      [{ label: 7, scopes: ['read'] }, 'label must be a string'],
      [{ label: '', scopes: ['read'] }, 'label has 1 to 100 characters, without control characters and invisible ones'],
      [
        { label: 'x'.repeat(101), scopes: ['read'] },
        'label has 1 to 100 characters, without control characters and invisible ones',
      ],
      ...['a\u200b', 'a\u2060b', '\u200ca'].map((label): [unknown, string] => [
        { label, scopes: ['read'] },
        'label has 1 to 100 characters, without control characters and invisible ones',
      ]),
      [{ label: 'x', scopes: [] }, 'scopes must be a list that is not empty'],
      [{ label: 'x', scopes: 'read' }, 'scopes must be a list'],
      [
        { label: 'x', scopes: ['read', 'hunter2'] },
        'scopes[1] must be read or write or delete or keys or share or send',
      ],
      [{ label: 'x', scopes: ['read', 'read'] }, 'a scope appears twice'],
      [{ label: 'x', scopes: ['read'], expiresAt: 'hunter2' }, 'expiresAt must be a time such as 2030-01-31T00:00:00Z'],
      [{ label: 'x', scopes: ['read'], quota: 'hunter2' }, 'there is no member quota'],
      [{ label: 'x', scopes: ['read'], '\u001b[2J': 1 }, String.raw`there is no member "\u001b[2J"`],
      [{ label: 'x', scopes: ['read'], limits: { files: 0 } }, 'limits.files must be at least 1'],
      [{ label: 'x', scopes: ['read'], limits: { bytes: 1.5 } }, 'limits.bytes must be a whole number'],
      ['hunter2', 'the body must be an object'],
    ];
    for (const [body, detail] of cases) {
      const problem = v.parse(Problem, await (await call.json(pathOf('createKey'), body)).json());
      expect({ code: problem.code, detail: problem.detail }).toEqual({ code: 'invalid_request', detail });
    }
    const shares: [unknown, string][] = [
      [{ record: 'hunter2', files: [] }, 'record must be base64; password is missing'],
      [{ record: '', files: ['hunter2'], password: true }, 'files[0] must be a UUID'],
      [
        { record: '', files: Array.from({ length: 501 }, () => crypto.randomUUID()), password: true },
        'files must be a list of at most 500',
      ],
    ];
    for (const [body, detail] of shares) {
      const problem = v.parse(Problem, await (await call.json(pathOf('createShare'), body)).json());
      expect({ code: problem.code, detail: problem.detail }).toEqual({ code: 'invalid_request', detail });
    }
    const query = await call.ask('listFiles', { limit: 1000 });
    expect((await query.json<Problem>()).detail).toBe('limit is a number from 1 to 100');
    const [tag, tags] = ['/v1/storage?tag=%0A', `/v1/storage/${crypto.randomUUID()}`];
    const words = 'a tag has 1 to 100 characters, without control characters and invisible ones';
    expect((await (await call(tag)).json<Problem>()).detail).toBe(words);
    expect((await (await call.json(tags, { tags: ['\n'] }, 'PATCH')).json<Problem>()).detail).toBe(words);
    const live = await call.ask('getHealth', { live: 'hunter2' });
    expect((await live.json<Problem>()).detail).toBe('live must be empty or true');
    const flag = await call.ask('revokeKey', { id: ownKey, cascade: 'hunter2' });
    expect((await flag.json<Problem>()).detail).toBe('cascade must be true or false');
  });

  it('is told where it is wrong, by pointers into the body', async () => {
    const errorsOf = async (body: unknown) =>
      v.parse(Problem, await (await call.json(pathOf('createKey'), body)).json()).errors;
    expect(await errorsOf({ label: 7, scopes: ['read', 'hunter2'] })).toEqual([
      { pointer: '#/label', detail: 'label must be a string' },
      { pointer: '#/scopes/1', detail: 'scopes[1] must be read or write or delete or keys or share or send' },
    ]);
    expect(await errorsOf('hunter2')).toEqual([{ pointer: '#', detail: 'the body must be an object' }]);
    const [odd] = (await errorsOf({ label: 'x', scopes: ['read'], 'a/b~c d': 1 })) ?? [];
    expect(odd?.pointer).toBe('#/a~1b~0c%20d');
  });
});

describe('a body of JSON', () => {
  const taking = routes.filter(
    ({ body, path }) => body?.['application/json'] && !/plain|encrypted|signed|recover$/.test(path),
  );

  it.each(taking.map(({ method, path, who }) => ({ method, path, who })))(
    'is not taken for another format, or with a member that comes twice: $method $path',
    async ({ method, path, who }) => {
      const isOfShare = method === 'patch' && path.startsWith('/v1/shares/');
      const share = isOfShare ? await call.createShare({ record: 'AAAA', files: [], password: false }) : undefined;
      const id = share?.id ?? (/accounts|keys/.test(path) ? '0'.repeat(22) : crypto.randomUUID());
      const send = (type: string | undefined, body: string): Promise<Response> =>
        call(path.replace(/:\w+/, id), {
          method: method.toUpperCase(),
          headers: {
            ...(type === undefined ? {} : { 'Content-Type': type }),
            ...(who === 'operator' ? { Authorization: `Bearer ${adminToken}`, 'Sealpin-Restore': restoreToken } : {}),
          },
          body,
        });
      for (const type of [
        'application/merge-patch+json',
        'application/json-patch+json',
        'application/octet-stream',
        'x',
      ])
        expect(await problemOf(send(type, '{}')), type).toBe('415 unsupported_media_type');
      for (const body of [
        '{"a":1,"a":1}',
        '{"b":[{}, {"\\u0061" : {"a":1},"c":"a\\"","a":2}]}',
        '{"__proto__":1,"__proto__":2}',
      ])
        expect(await problemOf(send('application/json; charset=utf-8', body)), body).toBe('400 invalid_json');
      // As fetch and curl send it where nobody names a type.
      for (const type of [undefined, 'application/x-www-form-urlencoded']) {
        const body = '{"a":[{"a":"a"},{"a":"\\\\"}],"b":"a"}';
        expect(await problemOf(send(type, body))).toBe('400 invalid_request');
      }
    },
  );
});

describe('a response', () => {
  it('of the API is nothing that a browser would run', async () => {
    for (const path of ['/v1/health', '/v1/openapi.json', '/v1/storage', '/v1/account', '/nothing', '/ipfs/<script>']) {
      const { headers } = await call(path);
      expect(headers.get('X-Content-Type-Options'), path).toBe('nosniff');
      expect(headers.get('Content-Security-Policy'), path).toBe("default-src 'none'");
    }
  });

  it('about a problem has a type that leads to its description', async () => {
    const document = await jsonOf(call.ask('getDescription'));
    const { type, code } = await (await call('/v1/nothing')).json<Problem>();
    const find = (type: string): unknown =>
      new URL(type, service.url).hash
        .slice(2)
        .split('/')
        .reduce((value, name) => (value as Record<string, unknown>)[name], document);
    expect(find(type)).toMatchObject({ value: { type, code, status: 404 } });
    for (const code of new Set(routes.flatMap((each) => codesOf(each))))
      expect(find(problemType(code))).toMatchObject({ value: { code } });
  });
});
