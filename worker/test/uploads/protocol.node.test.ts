/** tus 1.0.0, request by request: the statuses, the headers, and who may. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { client, problemOf, type Client } from '../../../testkit/api-client.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import {
  create,
  expectStored,
  head,
  metadataOf,
  modes,
  modesInForm,
  offsetOf,
  patch,
  random,
  send,
  stateOf,
  version,
} from './tus-client.ts';
import { present } from '../../../testkit/present.ts';

let service: Service;
let call: Client;
beforeAll(async () => {
  service = await startService({
    vars: { MAX_UPLOAD_BYTES: '3000000', MAX_FILE_BYTES: '9000000', CORS_ORIGINS: 'https://page.example' },
  });
});
afterAll(() => service.close());
beforeEach(async () => {
  // A key has ten unfinished uploads at most.
  call = client(service.url, (await service.account()).apiKey);
});

const chunk = { 'Content-Type': 'application/offset+octet-stream' };
const begin = (headers: Record<string, string>, mode = 'plain'): Promise<Response> =>
  call(`/v1/uploads/${mode}`, { method: 'POST', headers: { ...version, ...headers } });

describe('OPTIONS', () => {
  it.each(['', '/plain', '/encrypted', `/${crypto.randomUUID()}`])('tells anybody what is served: %j', async (path) => {
    const response = await fetch(`${service.url}/v1/uploads${path}`, { method: 'OPTIONS' });
    expect(response.status).toBe(204);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'tus-resumable': '1.0.0',
      'tus-version': '1.0.0',
      'tus-extension': 'creation,creation-with-upload,creation-defer-length,expiration,termination',
      'tus-max-size': '9000000',
      'cache-control': 'no-store',
    });
  });

  it('lets a page of a listed origin send what the protocol needs, and read what it answers', async () => {
    const headers = { Origin: 'https://page.example', 'Access-Control-Request-Method': 'PATCH' };
    const preflight = await fetch(`${service.url}/v1/uploads/plain`, { method: 'OPTIONS', headers });
    expect(preflight.headers.get('Access-Control-Allow-Methods')).toContain('PATCH');
    const allowed = preflight.headers.get('Access-Control-Allow-Headers')?.toLowerCase().split(',');
    for (const name of ['tus-resumable', 'upload-length', 'upload-offset', 'upload-metadata', 'authorization'])
      expect(allowed).toContain(name);
    const response = await fetch(`${service.url}/v1/uploads/plain`, { method: 'POST', headers });
    const exposed = response.headers.get('Access-Control-Expose-Headers')?.toLowerCase().split(',');
    for (const name of ['location', 'upload-offset', 'upload-expires', 'tus-resumable', 'sealpin-cid', 'sealpin-file'])
      expect(exposed).toContain(name);
  });
});

describe('every request', () => {
  it.each([{}, { 'Tus-Resumable': '0.2.2' }])('in another version is 412, and nothing happens: %j', async (headers) => {
    const { path } = await create(call, 'plain', 5);
    const requests: [string, string][] = [
      ['POST', '/v1/uploads/plain'],
      ['PATCH', path],
      ['HEAD', path],
      ['DELETE', path],
    ];
    for (const [method, where] of requests) {
      const response = await call(where, {
        method,
        headers: { ...headers, ...chunk, 'Upload-Offset': '0', 'Upload-Length': '5' },
        ...(method === 'PATCH' ? { body: 'abcde' } : {}),
      });
      expect({ method, status: response.status, 'Tus-Version': response.headers.get('Tus-Version') }).toEqual({
        method,
        status: 412,
        'Tus-Version': '1.0.0',
      });
    }
    expect(await offsetOf(call, path)).toBe(0);
  });

  it('names the version, and is kept out of caches', async () => {
    const { path } = await create(call, 'plain', 3);
    const responses = [
      await head(call, path),
      await head(call, `/v1/uploads/${crypto.randomUUID()}`),
      await patch(call, path, 7, random(1)),
      await patch(call, path, 0, random(3)),
      await call(path),
      await call.ask('listUploads'),
      await call(path, { method: 'DELETE', headers: version }),
      await fetch(`${service.url}${path}`, { method: 'PUT', headers: version }),
    ];
    for (const { headers } of responses)
      expect({ 'Tus-Resumable': headers.get('Tus-Resumable'), 'Cache-Control': headers.get('Cache-Control') }).toEqual({
        'Tus-Resumable': '1.0.0',
        'Cache-Control': 'no-store',
      });
  });

  it('may come as POST with its method in X-HTTP-Method-Override', async () => {
    const { path } = await create(call, 'plain', 6);
    const as = (method: string, headers: Record<string, string> = {}, body?: string): Promise<Response> =>
      fetch(`${service.url}${path}`, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${call.apiKey}`,
          ...version,
          ...headers,
          'X-HTTP-Method-Override': method,
        },
        ...(body === undefined ? {} : { body }),
      });
    const patched = await as('PATCH', { ...chunk, 'Upload-Offset': '0' }, 'abc');
    expect(patched.status).toBe(204);
    expect(patched.headers.get('Upload-Offset')).toBe('3');
    expect((await as('HEAD')).headers.get('Upload-Offset')).toBe('3');
    expect((await as('DELETE')).status).toBe(204);
    expect((await head(call, path)).status).toBe(404);
    expect((await as('PURGE')).status).toBe(405);
  });
});

describe('POST', () => {
  it.each([
    [{}, 400, 'invalid_request'],
    [{ 'Upload-Length': '-1' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '1e3' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '99999999999999999' }, 400, 'invalid_request'],
    [{ 'Upload-Defer-Length': '0' }, 400, 'invalid_request'],
    [{ 'Upload-Defer-Length': '1', 'Upload-Length': '5' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '9000001' }, 413, 'too_large'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': 'filename !!!' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': 'filename /w==' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': 'a YQ==,a YQ==' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': 'a YQ== YQ==' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': `a ${'YQ=='.repeat(2000)}` }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ filename: '../x' }) }, 400, 'invalid_filename'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ filetype: 'ä' }) }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ filetype: 'x' }) }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': 'filename ' }, 400, 'invalid_filename'],
    [{ 'Upload-Length': '5', 'Upload-Concat': 'partial' }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ cid: 'x' }) }, 400, 'invalid_cid'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ provisional: '1' }) }, 400, 'invalid_request'],
    [{ 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ expiresAt: 'x' }) }, 400, 'invalid_request'],
    [
      { 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ expiresAt: '2020-01-01T00:00:00Z' }) },
      400,
      'invalid_request',
    ],
    [{ 'Upload-Length': '5', 'Content-Encoding': 'gzip' }, 415, 'unsupported_media_type'],
  ])('%j: %d %s', async (headers, status, code) => {
    expect(await problemOf(begin(headers as Record<string, string>))).toBe(`${status} ${code}`);
  });

  it('refuses a body of another type', async () => {
    const response = call.ask(
      'createUploadPlain',
      {},
      { headers: { ...version, 'Upload-Length': '3', 'Content-Type': 'image/png' }, body: 'abc' },
    );
    expect(await problemOf(response)).toBe('415 unsupported_media_type');
  });

  it('asks for a name in encrypted mode, and takes neither cid nor provisional there', async () => {
    const named = metadataOf({ name: 'a', type: 'text/plain' });
    expect((await begin({ 'Upload-Length': '5', 'Upload-Metadata': named }, 'encrypted')).status).toBe(201);
    expect(await problemOf(begin({ 'Upload-Length': '5' }, 'encrypted'))).toBe('400 invalid_filename');
    for (const refused of [{ cid: `bafkrei${'a'.repeat(52)}` }, { provisional: 'true' }, { provisional: 'false' }]) {
      const headers = { 'Upload-Length': '5', 'Upload-Metadata': metadataOf({ name: 'a', ...refused }) };
      expect(await problemOf(begin(headers, 'encrypted')), JSON.stringify(refused)).toBe('400 invalid_request');
    }
  });

  it('with an Idempotency-Key begins one upload', async () => {
    const key = { 'Idempotency-Key': crypto.randomUUID() };
    const first = await create(call, 'encrypted', 5, { headers: key });
    await patch(call, first.path, 0, random(2));
    const second = await create(call, 'encrypted', 5, { headers: key, body: random(1) });
    expect(second.path).toBe(first.path);
    expect(second.response.headers.get('Idempotency-Replayed')).toBe('true');
    expect(second.response.headers.get('Upload-Offset')).toBe('2');
    const other = begin({ ...key, 'Upload-Length': '6', 'Upload-Metadata': metadataOf({ name: 'a' }) }, 'encrypted');
    expect(await problemOf(other)).toBe('422 idempotency_mismatch');
    await call(first.path, { method: 'DELETE', headers: version });
    expect((await create(call, 'encrypted', 5, { headers: key })).path).not.toBe(first.path);
  });
});

describe.each(modesInForm)('PATCH, %s', (mode) => {
  it('at another offset is 409, and changes nothing', async () => {
    const { path } = await create(call, mode, 10);
    await patch(call, path, 0, random(4));
    for (const offset of [0, 3, 5, 10])
      expect(await problemOf(patch(call, path, offset, random(2)))).toBe('409 offset_mismatch');
    expect(await offsetOf(call, path)).toBe(4);
  });

  it.each([
    ['without a type', { 'Content-Type': '' }, 415, 'unsupported_media_type'],
    ['of another type', { 'Content-Type': 'application/octet-stream' }, 415, 'unsupported_media_type'],
    ['without an offset', { 'Upload-Offset': '' }, 400, 'invalid_request'],
    ['with an offset that is none', { 'Upload-Offset': '+1' }, 400, 'invalid_request'],
    ['with another length', { 'Upload-Length': '11' }, 400, 'invalid_request'],
    ['with too large a length', { 'Upload-Length': '9000001' }, 413, 'too_large'],
  ])('%s: %j is %d %s', async (_, headers, status, code) => {
    const { path } = await create(call, mode, 10);
    expect(await problemOf(patch(call, path, 0, random(2), headers as Record<string, string>))).toBe(
      `${status} ${code}`,
    );
    expect(await offsetOf(call, path)).toBe(0);
  });

  it('with more bytes than the file has, or a request may have, is 413, and changes nothing', async () => {
    const { path } = await create(call, mode, 10);
    expect(await problemOf(patch(call, path, 0, random(11)))).toBe('413 too_large');
    const large = await create(call, mode, 8_000_000);
    expect(await problemOf(patch(call, large.path, 0, random(3_000_001)))).toBe('413 too_large');
    expect(await offsetOf(call, path)).toBe(0);
    expect(await offsetOf(call, large.path)).toBe(0);
  });

  it('of a length that is told too late, or as less than what is there, is refused', async () => {
    const { path } = await create(call, mode, undefined);
    expect((await head(call, path)).headers.get('Upload-Defer-Length')).toBe('1');
    await patch(call, path, 0, random(5));
    expect(await problemOf(patch(call, path, 5, random(0), { 'Upload-Length': '4' }))).toBe('400 invalid_request');
    expect((await patch(call, path, 5, random(1), { 'Upload-Length': '7' })).status).toBe(204);
    expect((await head(call, path)).headers.get('Upload-Length')).toBe('7');
  });

  it('of a length that is never told ends at the largest file', async () => {
    const { path } = await create(call, mode, undefined);
    await send(call, path, random(9_000_000), 3_000_000);
    expect(await problemOf(patch(call, path, 9_000_000, random(1)))).toBe('413 too_large');
  });

  it('of a file that is there already is 204 without bytes, and names it again', async () => {
    const bytes = random(7);
    const { path } = await create(call, mode, 7);
    const first = await patch(call, path, 0, bytes);
    const again = await patch(call, path, 7, new Uint8Array(0));
    expect(again.status).toBe(204);
    expect(again.headers.get('Sealpin-Cid')).toEqual(first.headers.get('Sealpin-Cid'));
    await expectStored(call, again, bytes);
    expect(await problemOf(patch(call, path, 7, random(1)))).toBe('413 too_large');
    expect(await problemOf(patch(call, path, 0, random(1)))).toBe('409 offset_mismatch');
  });
});

it('HEAD tells offset, length and the metadata as they were given, and when the upload expires', async () => {
  const metadata = `${metadataOf({ filename: 'a', other: 'ä' })},flag`;
  for (const mode of modes) {
    const { path } = await create(call, mode, 10, { headers: { 'Upload-Metadata': metadata } });
    const patched = await patch(call, path, 0, random(4));
    const response = await head(call, path);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'upload-offset': '4',
      'upload-length': '10',
      'upload-metadata': metadata,
      'upload-expires': patched.headers.get('Upload-Expires'),
    });
    const days = (Date.parse(present(response.headers.get('Upload-Expires'))) - Date.now()) / 86_400_000;
    expect(days > 6.9 && days < 7.1).toBe(true);
  }
});

it('DELETE ends an upload, and leaves the file of a complete one', async () => {
  const open = await create(call, 'encrypted', 10);
  await patch(call, open.path, 0, random(4));
  const done = await create(call, 'plain', 4);
  const bytes = random(4);
  const finished = await patch(call, done.path, 0, bytes);
  for (const { path } of [open, done]) {
    expect((await call(path, { method: 'DELETE', headers: version })).status).toBe(204);
    expect((await head(call, path)).status).toBe(404);
    expect(await problemOf(call(path))).toBe('404 not_found');
    expect(await problemOf(patch(call, path, 4, random(1)))).toBe('404 not_found');
    expect(await problemOf(call(path, { method: 'DELETE', headers: version }))).toBe('404 not_found');
  }
  await expectStored(call, finished, bytes);
});

it('GET tells the state of an upload, and of all uploads of the key', async () => {
  const own = client(service.url, (await service.account()).apiKey);
  const open = await create(own, 'encrypted', undefined);
  const done = await create(own, 'plain', 3);
  const finished = await patch(own, done.path, 0, random(3));
  const file = { fileId: done.id, cid: finished.headers.get('Sealpin-Cid') };
  expect(await stateOf(own, open.path)).toMatchObject({ mode: 'encrypted', offset: 0, length: null, state: 'open' });
  expect(await stateOf(own, done.path)).toMatchObject({ mode: 'plain', offset: 3, length: 3, state: 'done', file });
  const { uploads } = await own.listUploads();
  expect(uploads.map(({ uploadId }) => uploadId)).toEqual([open.id, done.id]);
});

it('only the key that began an upload continues it, and only one with keys sees it besides', async () => {
  const { path } = await create(call, 'plain', 4);
  await patch(call, path, 0, random(2));
  const { apiKey } = await call.createKey({ label: 'x', scopes: ['read', 'write', 'delete', 'share'] });
  const keeper = await call.createKey({ label: 'x', scopes: ['keys', 'write'] });
  const reader = await call.createKey({ label: 'x', scopes: ['read'] });
  const stranger = client(service.url, (await service.account()).apiKey);
  for (const other of [client(service.url, apiKey), stranger]) {
    expect((await head(other, path)).status).toBe(404);
    expect(await problemOf(patch(other, path, 2, random(2)))).toBe('404 not_found');
    expect(await problemOf(other(path))).toBe('404 not_found');
    expect(await problemOf(other(path, { method: 'DELETE', headers: version }))).toBe('404 not_found');
    expect((await other.listUploads()).uploads).toEqual([]);
  }
  const seeing = client(service.url, keeper.apiKey);
  expect((await head(seeing, path)).status).toBe(404);
  expect(await problemOf(patch(seeing, path, 2, random(2)))).toBe('404 not_found');
  expect(await stateOf(seeing, path)).toMatchObject({ offset: 2, state: 'open' });
  expect((await head(client(service.url, reader.apiKey), path)).status).toBe(403);
  expect((await head(client(service.url, 'x'), path)).status).toBe(401);
  expect(await offsetOf(call, path)).toBe(2);
});

it('the CID that a client announced must be that of the bytes', async () => {
  const bytes = random(5);
  const named = { filename: 'näme.bin', filetype: 'image/png' };
  const probe = await create(call, 'plain', 5, { body: bytes });
  const cid = present(probe.response.headers.get('Sealpin-Cid'));
  const right = await create(call, 'plain', 5, { headers: { 'Upload-Metadata': metadataOf({ ...named, cid }) } });
  await expectStored(call, await patch(call, right.path, 0, bytes), bytes);
  const wrong = await create(call, 'plain', 5, { headers: { 'Upload-Metadata': metadataOf({ ...named, cid }) } });
  expect(await problemOf(patch(call, wrong.path, 0, random(5)))).toBe('422 cid_mismatch');
  expect(await stateOf(call, wrong.path)).toMatchObject({ state: 'failed', code: 'cid_mismatch' });
  expect((await head(call, wrong.path)).status).toBe(410);
  expect(await problemOf(patch(call, wrong.path, 5, random(0)))).toBe('410 gone');
});
