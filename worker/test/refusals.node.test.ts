/** Requests that plainly mean something else are refused with what to do, and no response can be taken for something else. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FileList, Problem } from '../../shared/api.ts';
import { codesOf } from '../routes/route.ts';
import { routes } from '../routes/table.ts';
import { problemType } from '../../shared/problem-object.ts';
import { client, jsonOf, problemOf, type Client } from './client.ts';
import { startService, type Service } from '../../testkit/service.ts';

let service: Service;
let call: Client;
beforeAll(async () => {
  service = await startService();
  call = client(service.url, (await service.account()).apiKey);
});
afterAll(() => service.close());

describe.each(['plain', 'encrypted'])('an upload in %s mode', (mode) => {
  const post = (headers: Record<string, string>, body: BodyInit = 'x'): Promise<Response> =>
    call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Disposition': 'attachment; filename=x', ...headers },
      body,
    });
  const nothingIsStored = async (): Promise<void> =>
    expect((await jsonOf<FileList>(call('/v1/storage'))).files).toEqual([]);

  it('that is a form is refused, with the command that sends the file', async () => {
    const form = new FormData();
    form.append('file', new Blob(['hello']), 'hello.txt');
    // In one piece: the service refuses without reading, and would close the connection under a body that still goes out.
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
      expect(await problemOf(response)).toEqual([415, 'unsupported_media_type']);
    }
    await nothingIsStored();
  });

  it('that is compressed is refused, with the coding that is accepted', async () => {
    for (const coding of ['gzip', 'br', 'identity, gzip', 'aws-chunked']) {
      const response = await post({ 'Content-Encoding': coding });
      expect(response.headers.get('Accept-Encoding')).toBe('identity');
      expect(await problemOf(response)).toEqual([415, 'unsupported_media_type']);
    }
    await nothingIsStored();
  });

  it('that is a part of a file is refused', async () => {
    expect(await problemOf(post({ 'Content-Range': 'bytes 0-0/10' }))).toEqual([400, 'invalid_request']);
    await nothingIsStored();
  });

  it('that says it is not encoded is taken', async () => {
    const { fileId } = await jsonOf<{ fileId: string }>(post({ 'Content-Encoding': 'identity' }), 201);
    await jsonOf(call(`/v1/storage/${fileId}`, { method: 'DELETE' }));
  });
});

describe('a parameter of the query', () => {
  const strict = routes.filter(({ path, ignoresUnknownQuery }) => path.startsWith('/v1/') && !ignoresUnknownQuery);

  it.each(strict.map((each) => [each.method, each.path] as const))(
    'that is not known, or comes twice, is refused: %s %s',
    async (method, path) => {
      const filled = path.replaceAll(/:\w+/g, 'x');
      const headers = { 'Tus-Resumable': '1.0.0' };
      for (const query of ['filename=a', '__proto__=', 'limit=1&limit=1', 'cid=a&cid=b', 'x']) {
        const response = call(`${filled}?${query}`, { method: method.toUpperCase(), headers });
        expect([query, await problemOf(response)]).toEqual([query, [400, 'invalid_request']]);
      }
    },
  );

  it('that is not known is named, with those that are', async () => {
    const { detail, errors } = await (await call('/v1/storage?state=plain')).json<Problem>();
    expect(detail).toBe(
      'the query has "state", and this route takes limit, cursor, order, cid, mode, createdAfter, createdBefore, minSize, maxSize, contentType, name, tag, createdBy, once each',
    );
    expect(errors).toEqual([{ parameter: 'state', detail }]);
    expect(await problemOf(call('/v1/storage/encrypted?cid=bafkqaaa', { method: 'POST' }))).toEqual([
      400,
      'invalid_request',
    ]);
  });

  it('with a wrong value is named in one line, without the value', async () => {
    const errorsOf = async (path: string) => (await (await call(path)).json<Problem>()).errors;
    expect(await errorsOf('/v1/storage?limit=canary')).toEqual([
      { parameter: 'limit', detail: 'limit is a number from 1 to 100' },
    ]);
    expect(await errorsOf(`/v1/storage/${crypto.randomUUID()}?data=canary`)).toEqual([
      { parameter: 'data', detail: 'data has to be true or false' },
    ]);
  });

  it('that is not known is ignored by the gateway, as its specification says', async () => {
    const file = await call.store('plain', 'x');
    expect((await fetch(`${service.url}/ipfs/${file.cid}?whatever=1`)).status).toBe(200);
  });
});

describe('a response', () => {
  it('of the API is nothing that a browser would run', async () => {
    for (const path of ['/v1/health', '/v1/openapi.json', '/v1/storage', '/v1/account', '/nothing', '/ipfs/<script>']) {
      const { headers } = await call(path);
      expect([path, headers.get('X-Content-Type-Options')]).toEqual([path, 'nosniff']);
      expect([path, headers.get('Content-Security-Policy')]).toEqual([path, "default-src 'none'"]);
    }
  });

  it('about a problem has a type that leads to its description', async () => {
    const document = await jsonOf(call('/v1/openapi.json'));
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
