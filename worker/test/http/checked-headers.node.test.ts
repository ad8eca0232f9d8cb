/**
 * Headers that ask for a check are checked or refused by every route that changes something, and
 * never ignored.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { routes } from '../../routes/table.ts';
import { client, problemOf, tokenOf } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { modesInForm } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
  owner = await newOwner(service);
});

const digest = `sha-256=:${'A'.repeat(43)}=:`;
const long = 'Sun, 06 Nov 1994 08:49:37 GMT';
/** A value of each that does not hold. */
const failing: Record<string, string> = {
  'If-Match': '"other"',
  'If-None-Match': '*',
  'If-Modified-Since': 'Sun, 06 Nov 2044 08:49:37 GMT',
  'If-Unmodified-Since': long,
  'If-Range': '"other"',
  'Content-Digest': digest,
  'Repr-Digest': digest,
  Digest: `SHA-256=${'A'.repeat(43)}=`,
  'Content-MD5': 'AAAAAAAAAAAAAAAAAAAAAA==',
};

const id = 'b8a7c0de-0000-4000-8000-000000000000';
const changing = routes.filter(({ method }) => ['post', 'put', 'patch', 'delete'].includes(method));
const refused = changing.flatMap(({ who, method, path, headers = {} }) =>
  Object.keys(failing)
    .filter((name) => !(name in headers))
    .map((name) => ({ who, method: method.toUpperCase(), path: path.replaceAll(/:\w+/g, id), name })),
);

it('refuses every header that a route does not check', async () => {
  expect(refused.length).toBeGreaterThan(200);
  for (const { who, method, path, name } of refused) {
    const headers = { 'Tus-Resumable': '1.0.0', [name]: present(failing[name]) };
    const response = await client(service.url, tokenOf({ who }, owner.call.apiKey))(path, { method, headers });
    const { detail } = await response.clone().json<{ detail?: string }>();
    expect(detail, `${method} ${path}`).toBe(`${name} is not checked by this route`);
    expect(await problemOf(response)).toBe('400 invalid_request');
  }
});

it('checks every other one', () => {
  const checked = changing.flatMap(({ method, path, headers = {} }) =>
    Object.keys(failing)
      .filter((name) => name in headers)
      .map((name) => `${method} ${path} ${name}`),
  );
  // Each has a test in this folder: here, in digests, uploads/protocol, changed-terms and signed.
  expect(checked).toEqual([
    'post /v1/storage/encrypted Content-Digest',
    'post /v1/storage/encrypted Repr-Digest',
    'post /v1/storage/plain If-None-Match',
    'post /v1/storage/plain Content-Digest',
    'post /v1/storage/plain Repr-Digest',
    'post /v1/uploads/encrypted Content-Digest',
    'post /v1/uploads/plain Content-Digest',
    'patch /v1/uploads/:uploadId Content-Digest',
    'delete /v1/storage/:fileId If-Match',
    'delete /v1/storage/:fileId If-None-Match',
    'delete /v1/storage/:fileId If-Unmodified-Since',
    'patch /v1/storage/:fileId If-Match',
    'patch /v1/storage/:fileId If-None-Match',
    'patch /v1/storage/:fileId If-Unmodified-Since',
    'patch /v1/shares/:shareId If-Match',
    'patch /v1/shares/:shareId If-None-Match',
    'post /v1/accounts/:id/signed/:token Content-Digest',
    'post /v1/accounts/:id/signed/:token Repr-Digest',
  ]);
});

it('refuses conditions of readings whose answers have no ETag to compare', async () => {
  const lists = ['/v1/storage', '/v1/keys', '/v1/health?live', '/v1/shares', '/v1/uploads', '/v1/events'];
  for (const path of lists) {
    for (const headers of [{ 'If-Match': '"x"' }, { 'If-None-Match': '*' }])
      expect(await problemOf(owner.call(path, { headers })), path).toBe('400 invalid_request');
    for (const headers of [{ 'If-Match': '*' }, { 'If-None-Match': '"x"' }, { 'If-Modified-Since': long }])
      expect((await owner.call(path, { headers })).status, path).toBe(200);
  }
});

describe.each(modesInForm)('a file in %s mode', (mode) => {
  const change = { method: 'PATCH', headers: { 'Content-Type': 'application/json' }, body: '{"contentType":"a/b"}' };
  const removal = { method: 'DELETE', headers: {} };
  const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();

  it.each([change, removal])('is kept from $method by each condition that does not hold', async (init) => {
    const { fileId } = await owner.call.store(mode, 'x');
    const path = `/v1/storage/${fileId}`;
    const etags = await Promise.all(
      ['', '?data=false', '/content'].map(async (form) =>
        present((await owner.call(`${path}${form}`)).headers.get('ETag')),
      ),
    );
    const asked = (headers: Record<string, string>): Promise<Response> =>
      owner.call(path, { ...init, headers: { ...init.headers, ...headers } });
    const untrue = [
      { 'If-Match': '"other"' },
      { 'If-Match': `W/${etags[0]}` },
      { 'If-None-Match': '*' },
      ...etags.map((etag) => ({ 'If-None-Match': `"other", W/${etag}` })),
      { 'If-Unmodified-Since': long },
    ];
    for (const headers of untrue) expect(await problemOf(asked(headers))).toBe('412 precondition_failed');
    for (const headers of [{ 'If-Match': 'x' }, { 'If-None-Match': 'x' }, { 'If-Unmodified-Since': 'yesterday' }])
      expect(await problemOf(asked(headers))).toBe('400 invalid_request');
    expect((await owner.call(path)).status).toBe(200);
    const held = { 'If-Match': `"x", ${etags[0]}`, 'If-None-Match': '"x"', 'If-Unmodified-Since': long };
    expect((await asked(held)).status).toBe(200);
  });

  it.each([change, removal])('is changed by $method where all conditions hold', async (init) => {
    for (const headers of [{ 'If-Match': '*' }, { 'If-Unmodified-Since': inAnHour }, { 'If-None-Match': '"x"' }]) {
      const { fileId } = await owner.call.store(mode, 'x');
      const response = await owner.call(`/v1/storage/${fileId}`, { ...init, headers: { ...init.headers, ...headers } });
      expect(response.status, JSON.stringify(headers)).toBe(200);
    }
  });

  it('is not deleted in another version than the one that was seen, however many change it', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    const path = `/v1/storage/${fileId}`;
    const etag = present((await owner.call(`${path}/content`)).headers.get('ETag'));
    const names = ['a', 'b', 'c', 'd'];
    const [removed, ...changed] = await Promise.all([
      owner.call(path, { method: 'DELETE', headers: { 'If-Match': etag } }),
      ...names.map((name) => owner.call.json(path, { filename: name }, 'PATCH')),
    ]);
    const file = await owner.call(`${path}?data=false`);
    if (removed.status === 200) expect(file.status).toBe(404);
    else {
      expect(await problemOf(removed)).toBe('412 precondition_failed');
      expect(names).toContain((await file.json<StoredFile>()).filename);
    }
    for (const response of changed) await response.body?.cancel();
  });

  it('that too many change at once says when to try again', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    const change = (name: string): Promise<Response> => owner.call.ask('changeFile', { fileId, filename: name });
    let refused: Response | undefined;
    for (let round = 0; round < 20 && refused === undefined; round += 1) {
      const answers = await Promise.all(Array.from({ length: 12 }, (_, number) => change(`${number}`)));
      refused = answers.find(({ status }) => status !== 200);
    }
    expect(refused?.headers.get('Retry-After')).toBe('1');
    expect(await problemOf(present(refused))).toBe('409 conflict');
  });
});

it('stores nothing where a condition or a digest does not hold', async () => {
  const own = await newOwner(service);
  for (const mode of modesInForm)
    for (const [name, value] of Object.entries(failing)) {
      if (name === 'If-None-Match' && mode === 'plain') continue;
      const response = await own.call(`/v1/storage/${mode}`, {
        method: 'POST',
        headers: { 'Content-Disposition': 'attachment; filename=x', [name]: value },
        body: 'x',
      });
      expect(response.status, `${mode} ${name}`).toEqual(name.endsWith('-Digest') ? 422 : 400);
    }
  expect((await own.call.listFiles()).files).toEqual([]);
});
