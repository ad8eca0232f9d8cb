/** Limits of API keys: how much may be stored with one, whatever the way. */
import { request as httpRequest } from 'node:http';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AccountDetails, ResumableUpload, Scope } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { ask, begin, dayMs, request, share, soon, store } from '../invitations/guest.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { present } from '../../../testkit/present.ts';

type Limits = { files?: number; bytes?: number; fileBytes?: number };

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  owner = await newOwner(service);
});

async function limited(limits: Limits, by: Client = owner.call): Promise<Client & { id: string }> {
  const call = await by.withKey(['read', 'write', 'keys'], { limits });
  expect((await call.getAccount()).key.limits).toMatchObject(limits);
  return call;
}

let made = 0;
/** Bytes that nobody has stored before. */
function fresh(length: number): string {
  made += 1;
  return `${made} `.padEnd(length, 'x');
}
const put = (call: Client, bytes: BodyInit, mode = 'plain', o: Record<string, string> = {}): Promise<Response> =>
  call(`/v1/storage/${mode}`, {
    method: 'POST',
    headers: { 'Content-Disposition': 'attachment; filename="n"', ...o },
    body: bytes,
    ...(typeof bytes === 'string' ? {} : { duplex: 'half' as const }),
  });
const streamed = (bytes: string): ReadableStream => new Blob([bytes]).stream();
const full = '413 quota_exceeded';
const files = async (): Promise<number> => present((await owner.call.getAccount()).usage).files;

describe('an API key with limits', () => {
  it('stores so many files, and another one when one is deleted', async () => {
    const call = await limited({ files: 2 });
    const first = await call.store('plain', fresh(10));
    await call.store('encrypted', fresh(10));
    expect(await problemOf(put(call, fresh(10)))).toEqual(full);
    expect(await problemOf(put(call, fresh(10), 'encrypted'))).toEqual(full);
    await owner.call.store('plain', fresh(10));
    await owner.call.deleteFile({ fileId: first.fileId });
    await call.store('plain', fresh(10));
    expect(await problemOf(put(call, fresh(10)))).toEqual(full);
    expect(await files()).toBe(3);
  });

  it('stores so many bytes, in files of so many, whether their length is announced or not', async () => {
    const call = await limited({ bytes: 2500, fileBytes: 1000 });
    for (const body of [fresh(1001), streamed(fresh(1001))]) expect(await problemOf(put(call, body))).toEqual(full);
    const json = { 'Content-Type': 'application/json' };
    const inJson = JSON.stringify({ filename: 'n', data: Buffer.from(fresh(1001)).toString('base64') });
    expect(await problemOf(put(call, inJson, 'plain', json))).toEqual(full);
    // What counts is stored: the tags of an encrypted file, too.
    expect(await problemOf(put(call, fresh(1000), 'encrypted'))).toEqual(full);
    await call.store('plain', fresh(1000));
    await call.store('encrypted', fresh(800));
    expect(await problemOf(put(call, fresh(700)))).toEqual(full);
    expect(await problemOf(put(call, streamed(fresh(700))))).toEqual(full);
    expect(await files()).toBe(2);
    expect(await owner.object.rows('file')).toHaveLength(2);
  });

  it('is refused before its body has come where the length is announced', async () => {
    const call = await limited({ fileBytes: 1000 });
    const { hostname, port } = new URL(service.url);
    const status = await new Promise((resolve, reject) => {
      const asked = httpRequest({
        hostname,
        port,
        path: '/v1/storage/plain',
        method: 'POST',
        headers: { Authorization: `Bearer ${call.apiKey}`, 'Content-Length': '1001' },
      });
      asked.on('response', (response) => {
        resolve(response.statusCode);
        asked.destroy();
      });
      asked.on('error', reject);
      asked.flushHeaders();
    });
    expect(status).toBe(413);
  });

  it('of two uploads at once stores one where only one fits', async () => {
    const call = await limited({ files: 1 });
    const statuses = await Promise.all(
      Array.from({ length: 4 }, async () => (await put(call, fresh(10), 'encrypted')).status),
    );
    expect(statuses.toSorted((a, b) => a - b)).toEqual([201, 413, 413, 413]);
    expect(await files()).toBe(1);
    await owner.object.ring(2 * 3_600_000);
    expect(await owner.object.rows('file')).toHaveLength(1);
  });

  it('holds them in uploads of several requests, too', async () => {
    const call = await limited({ fileBytes: 1000, files: 1 });
    const tus = { 'Tus-Resumable': '1.0.0' };
    const begin = (headers: Record<string, string>): Promise<Response> =>
      call.ask('createUploadPlain', {}, { headers: { ...tus, ...headers } });
    const patch = (at: string, offset: number, body: string, more: Record<string, string> = {}): Promise<Response> =>
      call(at, {
        method: 'PATCH',
        headers: {
          ...tus,
          'Content-Type': 'application/offset+octet-stream',
          'Upload-Offset': String(offset),
          ...more,
        },
        body,
      });
    expect(await problemOf(begin({ 'Upload-Length': '1001' }))).toEqual(full);
    const later = present((await begin({ 'Upload-Defer-Length': '1' })).headers.get('Location'));
    expect(await problemOf(patch(later, 0, 'x', { 'Upload-Length': '1001' }))).toEqual(full);
    expect(await problemOf(patch(later, 0, fresh(1001)))).toEqual(full);
    expect(await jsonOf<ResumableUpload>(call(later))).toMatchObject({ state: 'failed', code: 'quota_exceeded' });
    const one = present((await begin({ 'Upload-Length': '9' })).headers.get('Location'));
    expect(await problemOf(begin({ 'Upload-Length': '9' }))).toEqual(full);
    expect((await patch(one, 0, fresh(9))).status).toBe(204);
    expect(await problemOf(begin({ 'Upload-Length': '9' }))).toEqual(full);
    expect(await files()).toBe(1);
    expect(await owner.object.rows('part')).toEqual([]);
  });

  it('holds them where several such uploads, begun before there were limits, end at once', async () => {
    const call = await limited({ files: 3 });
    const tus = { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream' };
    const begun = await Promise.all(
      Array.from({ length: 3 }, () => call.ask('createUploadPlain', {}, { headers: { ...tus, 'Upload-Length': '9' } })),
    );
    await owner.object.change('UPDATE key_limit SET max_files = 1');
    const last = { method: 'PATCH', headers: { ...tus, 'Upload-Offset': '0' } };
    const statuses = begun.map(
      async ({ headers }) => (await call(present(headers.get('Location')), { ...last, body: fresh(9) })).status,
    );
    expect((await Promise.all(statuses)).toSorted((a, b) => a - b)).toEqual([204, 413, 413]);
    expect(await files()).toBe(1);
  });

  it('gives a repeated request with its Idempotency-Key the first file, though a second would not fit', async () => {
    const call = await limited({ files: 1 });
    const bytes = fresh(10);
    const o = { 'Idempotency-Key': 'k' };
    const first = await jsonOf<{ fileId: string }>(put(call, bytes, 'plain', o), 201);
    const second = await jsonOf<{ fileId: string }>(put(call, bytes, 'plain', o), 201);
    expect(second.fileId).toBe(first.fileId);
    expect(await problemOf(put(call, fresh(10), 'plain', { 'Idempotency-Key': 'other' }))).toEqual(full);
  });

  it('gives keys that it makes no more than it has, and counts what they store', async () => {
    const call = await limited({ files: 2, bytes: 1000 });
    for (const limits of [{ files: 3 }, { bytes: 1001 }])
      expect(await problemOf(call.ask('createKey', { label: 'x', scopes: ['write'], limits }))).toBe('403 forbidden');
    const inherited = await limited({ fileBytes: 500 }, call);
    const grandchild = await limited({ files: 1 }, inherited);
    const { keys } = await owner.call.listKeys();
    expect(keys.map(({ limits }) => limits)).toEqual([
      undefined,
      { files: 2, bytes: 1000 },
      { files: 2, bytes: 1000, fileBytes: 500 },
      { files: 1, bytes: 1000, fileBytes: 500 },
    ]);
    await grandchild.store('plain', fresh(100));
    await inherited.store('plain', fresh(100));
    expect(await problemOf(put(call, fresh(10)))).toEqual(full);
    // A new one has stored nothing, and no room.
    expect(await problemOf(put(await limited({}, call), fresh(10)))).toEqual(full);
    for (const limits of [{ files: 0 }, { files: 1.5 }, { bytes: -1 }, { other: 1 }, { files: null }])
      expect(await problemOf(owner.call.ask('createKey', { label: 'x', scopes: ['write'], limits }))).toBe(
        '400 invalid_request',
      );
  });
});

describe('what a key with limits adds to the log', () => {
  const scopes: Scope[] = ['read', 'write', 'delete', 'keys', 'share'];
  const limits = { files: 200, bytes: 10_000 };
  const events = () => owner.object.rows('event');
  const added = async ({ id }: { id: string }): Promise<unknown> =>
    (await owner.object.rows('key_limit')).find((row) => row['key_id'] === id)?.['added'];
  const byKey = async ({ id }: { id: string }): Promise<number> =>
    (await events()).filter((row) => row['api_key'] === id).length;
  const useUp = ({ id }: { id: string }): Promise<unknown> => {
    const today = Math.floor(Date.now() / dayMs);
    return owner.object.change(`UPDATE key_limit SET added = 5000, added_on = ${today} WHERE key_id = '${id}'`);
  };
  const upload = { 'Tus-Resumable': '1.0.0', 'Upload-Length': '3', 'Upload-Metadata': 'filename eA==' };
  const details = Buffer.from(`sealpin/v1\n${'x'.repeat(2000)}`).toString('base64');
  type Had = { fileId: string; shareId: string; publicKey: string };
  const ways: [string, (by: Client, had: Had) => Promise<Response>][] = [
    ['storing', (by) => ask(by, fresh(10), soon(dayMs))],
    ['an upload', (by) => begin(by, 3)],
    ['an encrypted upload', (by) => by.ask('createUploadEncrypted', {}, { headers: upload })],
    ['a change of a file', (by, { fileId }) => by.ask('changeFile', { fileId, details })],
    ['a share', (by, { fileId }) => by.ask('createShare', request([fileId]))],
    ['a change of a share', (by, { shareId }) => by.ask('changeShare', { shareId, opens: 9 })],
    ['a key', (by) => by.ask('createKey', { label: 'x', scopes: ['write'] })],
    ['another pair', (by, { publicKey }) => by.ask('rotateAccount', { publicKey })],
  ];

  it.each<[string, Scope[], string[]]>([
    ['a guest', ['send'], ['storing', 'an upload', 'a share', 'a change of a share']],
    ['an inbox', ['write'], ['storing', 'an upload', 'an encrypted upload', 'a change of a file']],
    ['any other', scopes, ways.map(([name]) => name)],
  ])('is so much a day (%s), refused before anything is changed', async (_, of, can) => {
    const by = await owner.call.withKey(of, { limits });
    const { fileId } = await store(by);
    const sharer = of.includes('write') ? owner.call : by;
    const { id: shareId } = await share(sharer, [fileId]);
    const { publicKey } = (await by.getAccount()).account;
    await useUp(by);
    const before = await events();
    for (const [name, way] of ways.filter(([each]) => can.includes(each))) {
      const refused = await way(by, { fileId, shareId, publicKey });
      const seconds = Number(refused.headers.get('Retry-After'));
      expect(seconds > 0 && seconds <= dayMs / 1000, name).toBe(true);
      expect(await problemOf(refused), name).toBe('429 rate_limited');
    }
    expect(await events()).toEqual(before);
    expect(await owner.object.rows('upload')).toEqual([]);
    // What ends something is not refused, nor what others do.
    if (of.includes('send')) await by.deleteShare({ shareId });
    if (of.includes('delete')) await by.deleteFile({ fileId });
    await store(await owner.call.withKey(of, { limits }));
    await store(owner.call);
    await owner.object.wait(dayMs);
    expect((await ask(by, fresh(10), soon(2 * dayMs))).status).toBe(201);
    expect(await added(by)).toBe(1);
  });

  it('is every event of its own, and of keys that it made but for guests', async () => {
    const by = await owner.call.withKey(scopes, { limits });
    const inbox = await by.withKey(['write'], { limits: { files: 10 } });
    const guest = await by.withKey(['send'], { limits: { files: 5, bytes: 100 } });
    const { fileId } = await store(guest);
    const { id } = await share(guest, [fileId]);
    await guest.changeShare({ shareId: id, expiresAt: soon(3_600_000) });
    await guest.deleteShare({ shareId: id });
    const stored = await store(inbox);
    await inbox.ask('changeFile', { fileId: stored.fileId, details });
    await by.deleteFile({ fileId: stored.fileId });
    expect(await byKey(guest)).toBe(6);
    expect(await added(guest)).toBe(6);
    expect(await byKey(inbox)).toBe(2);
    expect(await added(inbox)).toBe(2);
    expect(await byKey(by)).toBe(3);
    expect(await added(by)).toBe(5);
    await useUp(by);
    expect(await problemOf(ask(inbox, fresh(10)))).toBe('429 rate_limited');
    await store(guest);
  });
});

it('what is left for a key without read tells nothing of what others store, and holds them, too', async () => {
  const maker = await limited({ files: 3, bytes: 3000 });
  const inbox = await maker.withKey(['write'], { limits: { files: 3, bytes: 3000 } });
  const left = async (): Promise<unknown> => (await inbox.getAccount()).key.left;
  expect(await left()).toEqual({ files: 3, bytes: 3000 });
  await put(maker, fresh(1000));
  await (await maker.withKey(['write'])).store('plain', fresh(1000));
  expect(await left()).toEqual({ files: 3, bytes: 3000 });
  expect(await problemOf(put(inbox, fresh(1001)))).toBe(full);
  await inbox.store('plain', fresh(10));
  expect(await left()).toEqual({ files: 2, bytes: 2990 });
  expect(await problemOf(put(inbox, fresh(10)))).toBe(full);
});

it('usage is for keys with read', async () => {
  const about = async (scopes: Scope[]): Promise<AccountDetails> =>
    await (await owner.call.withKey(scopes)).getAccount();
  await owner.call.store('plain', 'four');
  expect((await about(['read'])).usage).toEqual({ files: 1, bytes: 4 });
  expect('usage' in (await about(['write', 'delete', 'keys', 'share']))).toBe(false);
});
