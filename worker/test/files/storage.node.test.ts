/** Files by HTTP: stored, read, listed and deleted. */
import manifest from '../../../package.json' with { type: 'json' };
import { beforeAll, describe, expect, it } from 'vitest';
import * as v from 'valibot';
import { randomBytes } from 'node:crypto';
import { Problem, Receipt, StoredFile, type FileList } from '../../../shared/api.ts';
import { cidBuilder } from '../../../shared/ipfs/index.ts';
import { bytesOf, client, problemOf, type Client, type Init } from '../../../testkit/api-client.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { pinned } from '../stored-state.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const { version } = manifest;
const maxFileBytes = 32 * 2 ** 30;
let service: Service;
let key: string;
let call: Client;

beforeAll(async () => {
  service = await sharedService();
  key = (await service.account()).apiKey;
  call = client(service.url, key);
});

const modes = ['encrypted', 'plain'] as const;
/**
 * Selects the cases of the short form: each runs in one mode, the first half in encrypted mode, the
 * others in plain mode.
 */
const inForm = <T>(mode: (typeof modes)[number], cases: readonly T[]): readonly T[] => {
  const half = Math.ceil(cases.length / 2);
  if (long) return cases;
  return mode === 'encrypted' ? cases.slice(0, half) : cases.slice(half);
};
const names = ['é.txt', '😀.txt', ...(long ? ['€uro.txt', '日本語.txt', 'файл.txt', '“q”.txt', 'a\u200db.txt'] : [])];

describe.each(modes)('a file in %s mode', (mode) => {
  it.each(inForm(mode, [0, 65_537, 3_000_000, 1, 5]))(
    'of %i bytes is returned unchanged, raw and in JSON',
    async (size) => {
      const bytes = randomBytes(size);
      const file = await call.store(mode, bytes);
      expect(file).toMatchObject({
        mode,
        size,
        filename: 'näme.bin',
        contentType: 'image/png',
        pins: [{ service: 'node', status: 'pinned' }],
      });

      const raw = await call.ask(
        'getFile',
        { fileId: file.fileId },
        { headers: { Accept: 'application/octet-stream' } },
      );
      expect(raw.headers.get('Content-Type')).toBe('image/png');
      expect(raw.headers.get('Content-Length')).toBe(String(size));
      expect(raw.headers.get('Content-Disposition')).toContain("filename*=UTF-8''n%C3%A4me.bin");
      expect(raw.headers.get('Cache-Control')).toBe('no-transform, no-store');
      expect(Buffer.compare(await bytesOf(raw), bytes)).toBe(0);

      const json = await call.ask('getFile', { fileId: file.fileId });
      const { data, ...rest } = await json.json<{ data: string }>();
      expect(rest).toEqual(file);
      expect(Buffer.compare(Buffer.from(data, 'base64'), bytes)).toBe(0);

      const alone = await call.ask('getFile', { fileId: file.fileId, data: false });
      expect(await alone.json()).toEqual(file);

      for (const accept of ['application/json', 'application/octet-stream']) {
        const get = await call.ask('getFile', { fileId: file.fileId }, { headers: { Accept: accept } });
        await get.arrayBuffer();
        const head = await call(`/v1/storage/${file.fileId}`, { method: 'HEAD', headers: { Accept: accept } });
        expect(head.status).toBe(200);
        expect(head.headers.get('Content-Length')).toBe(get.headers.get('Content-Length'));
        expect(await head.text()).toBe('');
      }
    },
  );

  it.each(inForm(mode, [0, 5, 1, 2_000_000]))('of %i bytes may arrive in chunks', async (size) => {
    const bytes = randomBytes(size);
    const response = await call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Disposition': 'attachment; filename=chunks' },
      body: new Blob([bytes]).stream(),
      duplex: 'half',
    });
    const { fileId } = v.parse(StoredFile, await response.json());
    const raw = await call.ask('getFile', { fileId }, { headers: { Accept: 'application/octet-stream' } });
    expect(Buffer.compare(await bytesOf(raw), bytes)).toBe(0);
  });
  it.each(inForm(mode, names))('is called %s by a JSON body in UTF-8, as by a header', async (filename) => {
    const body = JSON.stringify({ filename, data: 'AAAA' });
    expect(body).toContain(filename);
    const response = await call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body,
    });
    expect(await response.json()).toMatchObject({ filename, size: 3 });
    expect(await call.store(mode, 'abc', { filename })).toMatchObject({ filename });
  });

  it('may be JSON, too, with members in any order', async () => {
    const bytes = randomBytes(2_000_000);
    const body = JSON.stringify({ data: bytes.toString('base64'), filename: 'a.txt' }).replaceAll('/', '\\/');
    const response = await call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json; charset=utf-8' },
      body,
    });
    expect(response.status).toBe(201);
    const file = v.parse(StoredFile, await response.json());
    expect(response.headers.get('Location')).toBe(`/v1/storage/${file.fileId}`);
    expect(file).toMatchObject({
      mode,
      size: bytes.length,
      filename: 'a.txt',
      contentType: 'application/octet-stream',
    });
    const raw = await call.ask('getFile', { fileId: file.fileId }, { headers: { Accept: 'application/octet-stream' } });
    expect(Buffer.compare(await bytesOf(raw), bytes)).toBe(0);
  });

  it('is deleted once, with a receipt', async () => {
    const file = await call.store(mode, randomBytes(1000));
    const response = await call.ask('deleteFile', { fileId: file.fileId });
    expect(response.status).toBe(200);
    expect(v.parse(Receipt, await response.json())).toEqual({
      fileId: file.fileId,
      reason: 'deleted',
      deletedAt: expect.any(String),
      key: mode === 'encrypted' ? 'destroyed' : 'none',
      pins: [{ service: 'node', status: 'unpinned' }],
    });
    expect(await problemOf(call.ask('deleteFile', { fileId: file.fileId }))).toBe('404 not_found');
    expect(await problemOf(call.ask('getFile', { fileId: file.fileId }))).toBe('404 not_found');
    expect(await problemOf(fetch(`${service.url}/ipfs/${file.cid}`))).toBe('404 not_found');
  });
});

it.each([
  ['an age file', 'age-encryption.org/v1\n-> x\n\n', 'in-container'],
  ['a Sealpin container', 'sealpin/v1\n-> x\n\n', 'in-container'],
  ['an armored age file', '-----BEGIN AGE ENCRYPTED FILE-----\nAAAA\n', 'in-container'],
  ['an armored age file after a newline', '\n-----BEGIN AGE ENCRYPTED FILE-----\nAAAA\n', 'in-container'],
  ['an armored age file after 1,024 spaces', `${' '.repeat(1024)}-----BEGIN AGE ENCRYPTED FILE-----\n`, 'in-container'],
  ['a container of a later version', 'sealpin/v2\n-> x\n\n', 'in-container'],
  ['a payload without its header', 'sealpin/v1 detached\n', 'elsewhere'],
  ['a plain file', 'hello\n', 'none'],
])('says what happened to the key of %s', async (_what, text, expected) => {
  const file = await call.store('plain', Buffer.from(text));
  const response = await call.ask('deleteFile', { fileId: file.fileId });
  expect(v.parse(Receipt, await response.json()).key).toBe(expected);
});

it('lists newest first, by cursor, and by CID', async () => {
  const call = client(service.url, (await service.account()).apiKey);
  const files: StoredFile[] = [];
  for (let index = 0; index < 5; index += 1) {
    const response = await call(`/v1/storage/${present(modes[index % 2])}`, {
      method: 'POST',
      headers: { 'Content-Disposition': `attachment; filename="${index}"` },
      body: `file ${index}`,
    });
    files.unshift(v.parse(StoredFile, await response.json()));
  }
  const seen: StoredFile[] = [];
  let cursor: string | undefined;
  do {
    const page: FileList = await call.listFiles({ limit: 2, cursor });
    expect(page.files.length).toBeLessThanOrEqual(2);
    seen.push(...page.files);
    ({ cursor } = page);
  } while (cursor !== undefined);
  expect(seen).toEqual(files);
  const byCid = await call.listFiles({ cid: itemOf(files, 3).cid });
  expect(byCid.files).toEqual([files[3]]);
  const others = await client(service.url, key).listFiles();
  expect(others.files.some((file) => file.cid === first(files).cid)).toBe(false);
});

it('S67: refuses bytes that do not have the CID that was announced, and keeps nothing', async () => {
  const file = await call.store('plain', Buffer.from('one'));
  // Bytes that no other test has left at this service.
  const other = randomBytes(3000);
  const builder = cidBuilder();
  await builder.write(other);
  const { cid } = await builder.finish();
  const list = async () => (await call.listFiles()).files.map(({ fileId }) => fileId);
  const before = await list();
  const pins = new Set(await pinned(service));
  expect(await problemOf(call.ask('storePlain', { cid: file.cid }, { body: other }))).toBe('422 cid_mismatch');
  expect(await list()).toEqual(before);
  expect((await call.listFiles({ cid })).files).toEqual([]);
  expect(await problemOf(fetch(`${service.url}/ipfs/${cid}`))).toBe('404 not_found');
  expect((await pinned(service)).filter((each) => !pins.has(each))).toEqual([]);
  expect((await call.ask('storePlain', { cid: file.cid }, { body: 'one' })).status).toBe(201);
});

it('S78: reveals nothing about a file to a stranger', async () => {
  const file = await call.store('plain', Buffer.from('mine'));
  const stranger = client(service.url, (await service.account()).apiKey);
  for (const method of ['GET', 'DELETE']) {
    expect(await problemOf(stranger(`/v1/storage/${file.fileId}`, { method }))).toBe('404 not_found');
    expect(await problemOf(stranger(`/v1/storage/${crypto.randomUUID()}`, { method }))).toBe('404 not_found');
    expect(await problemOf(stranger('/v1/storage/..%2f', { method }))).toBe('404 not_found');
  }
});

it('S76: gives one response to every key that is not good', async () => {
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`;
  const bodies = await Promise.all(
    ['', 'Bearer', 'Bearer x', `Bearer ${wrong}`, `Basic ${key}`, `Bearer ${key} x`].map(async (header) => {
      const response = await fetch(
        `${service.url}/v1/storage`,
        header === '' ? {} : { headers: { Authorization: header } },
      );
      expect(response.headers.get('WWW-Authenticate')).toBe('Bearer realm="sealpin"');
      const { requestId, ...rest } = v.parse(Problem, await response.json());
      expect(requestId).toBeTypeOf('string');
      expect(rest.status).toBe(response.status);
      return rest;
    }),
  );
  expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
  expect(bodies[0]).toMatchObject({ status: 401, code: 'unauthorized' });
});

it('refuses what it does not understand, with the code that says why', async () => {
  const post = (path: string, init: Init): Promise<string> => problemOf(call(path, { method: 'POST', ...init }));
  const json = { 'Content-Type': 'application/json' };
  expect(await post('/v1/storage/encrypted', { body: 'x' })).toBe('400 invalid_filename');
  expect(
    await post('/v1/storage/plain', { body: 'x', headers: { 'Content-Disposition': 'attachment; filename="a/b"' } }),
  ).toBe('400 invalid_filename');
  expect(await post('/v1/storage/plain', { body: '{', headers: json })).toBe('400 invalid_json');
  expect(await post('/v1/storage/plain', { body: '{"data":"A*=="}', headers: json })).toBe('400 invalid_base64');
  expect(await post('/v1/storage/encrypted', { body: '{"data":"AA=="}', headers: json })).toBe('400 invalid_json');
  expect(await post('/v1/storage/encrypted', { body: '{"data":"AA==","filename":"../x"}', headers: json })).toBe(
    '400 invalid_filename',
  );
  expect(await post('/v1/storage/plain?cid=Qm', { body: 'x' })).toBe('400 invalid_cid');
  expect(await problemOf(call.ask('listFiles', { limit: 101 }))).toBe('400 invalid_request');
  expect(await problemOf(call.ask('listFiles', { cursor: '*' }))).toBe('400 invalid_request');
  expect(await problemOf(call('/v1/nothing'))).toBe('404 not_found');
  const put = await call('/v1/storage', { method: 'PUT' });
  expect(put.headers.get('Allow')).toBe('GET, HEAD');
  expect(await problemOf(put)).toBe('405 method_not_allowed');
});

it('serves what is stored here to anybody, and nothing else', async () => {
  const bytes = randomBytes(1_500_000);
  const file = await call.store('plain', bytes);
  const response = await fetch(`${service.url}/ipfs/${file.cid}`);
  expect(response.status).toBe(200);
  expect(Buffer.compare(await bytesOf(response), bytes)).toBe(0);
  const head = await fetch(`${service.url}/ipfs/${file.cid}`, { method: 'HEAD' });
  expect(head.headers.get('Content-Length')).toBe(String(bytes.length));
  const stranger = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
  expect(await problemOf(fetch(`${service.url}/ipfs/${stranger}`))).toBe('404 not_found');
  expect(await problemOf(fetch(`${service.url}/ipfs/nonsense`))).toBe('400 invalid_cid');
});

it('S66: what is no spelling of a CID is refused', async () => {
  const { cid } = await call.store('plain', 'spelling');
  for (const text of [
    cid.slice(1).toUpperCase(),
    `b${cid.slice(1).toUpperCase()}`,
    `${cid}=`,
    `f${cid.slice(1)}`,
    `${cid}/x`,
    `${cid}%2f..`,
    cid.slice(1),
    `z${cid.slice(1)}`,
    'QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH',
    'bafkqaaa',
  ]) {
    const response = await fetch(`${service.url}/ipfs/${text}`);
    expect(await problemOf(response), text).toMatch(/^40[04] /);
  }
  expect((await fetch(`${service.url}/ipfs/${cid}`)).status).toBe(200);
});

it('S89: many clients that read at once get what is their own', async () => {
  const files = await Promise.all(
    Array.from({ length: long ? 24 : 8 }, async (_, index): Promise<[StoredFile, Buffer]> => {
      const bytes = randomBytes(200_000 + index);
      return [await call.store(index % 2 === 0 ? 'plain' : 'encrypted', bytes, { filename: `${index}` }), bytes];
    }),
  );
  await Promise.all(
    files.map(async ([file, bytes], index) => {
      expect(file.filename).toBe(`${index}`);
      expect(Buffer.compare(await call.read(file.fileId), bytes)).toBe(0);
    }),
  );
});

it('reports its version and its limit', async () => {
  const response = await fetch(`${service.url}/v1/health`);
  expect(await response.json()).toEqual({
    status: 'ok',
    version,
    maxUploadBytes: null,
    maxFileBytes,
    shares: { maxDays: 30, maxOpens: 100 },
    pages: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
});

it('lets only the operator create accounts', async () => {
  for (const Authorization of ['', 'Bearer wrong', `Bearer ${key}`]) {
    const asked = client(service.url, '', { Authorization }).ask('createAccount', { label: 'x' });
    expect(await problemOf(asked)).toBe('401 unauthorized');
  }
});
