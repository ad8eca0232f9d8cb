/** The operator's routes: accounts as a whole, and the denylist. */
import { beforeEach, describe, expect, it } from 'vitest';
import type { AccountList, AccountSummary, NewAccountResponse, ResumableUpload } from '../../../shared/api.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { adminToken, type Service } from '../../../testkit/service.ts';
import { listed } from '../../objects/account/account-list.ts';
import { bytesOf, client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { newOwner, pinned, pinObject, type Owner } from '../stored-state.ts';
import { create, patch } from '../uploads/tus-client.ts';
import { inCi } from '../../../testkit/long-run.ts';

let service: Service;
let operator: Client;
let owner: Owner;
const restart = restartable(
  'operator',
  (started) => {
    service = started;
    operator = client(service.url, adminToken);
  },
  () => ({ vars: { CORS_ORIGINS: 'https://a.example, https://b.example' } }),
);
beforeEach(async () => {
  owner = await newOwner(service);
});

let made = 0;
/** Bytes that nobody has stored before. */
function fresh(length: number): string {
  made += 1;
  return `operator ${made} `.padEnd(length, 'x');
}
const change = (id: string, changes: object): Promise<Response> => operator.ask('changeAccount', { id, ...changes });
const summary = (id: string): Promise<AccountSummary> => operator.getAccountSummary({ id });
const put = (call: Client, body: BodyInit): Promise<Response> =>
  call.ask('storePlain', {}, { body, ...(typeof body === 'string' ? {} : { duplex: 'half' }) });
const full = '413 quota_exceeded';

/** All pages of the list. */
async function accounts(limit: number): Promise<AccountSummary[]> {
  const all: AccountSummary[] = [];
  let cursor: string | undefined;
  do {
    const page: AccountList = await operator.listAccounts({ limit, cursor });
    expect(page.accounts.length).toBeLessThanOrEqual(limit);
    all.push(...page.accounts);
    ({ cursor } = page);
  } while (cursor !== undefined);
  return all;
}

/** Lets the outbox deliver what is due. */
const settle = (of: Owner): Promise<void> => of.object.ring(0);

describe('the list of accounts', () => {
  it('has each account once, with what it uses, until it is deleted', async () => {
    const others = [await newOwner(service), await newOwner(service)];
    await owner.call.store('plain', 'four');
    for (const each of [owner, ...others]) await settle(each);
    for (const limit of [1, 100]) {
      const all = await accounts(limit);
      expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
      expect(all.find(({ id }) => id === owner.id)).toEqual({
        id: owner.id,
        label: 'test',
        createdAt: expect.any(String),
        usage: { files: 1, bytes: 4 },
        disabled: false,
      });
      for (const { id } of others) expect(all.map((each) => each.id)).toContain(id);
    }
    await operator.deleteAccount({ id: owner.id });
    expect((await accounts(100)).map(({ id }) => id)).not.toContain(owner.id);
    await settle(owner);
    const store = await service.miniflare.getKVNamespace('API_KEYS');
    expect(await store.get(`account:${owner.id}`)).toBe(null);
    expect(await problemOf(operator.ask('getAccountSummary', { id: owner.id }))).toBe('404 not_found');
  });

  it('has an account as soon as it is made', async () => {
    for (let times = 0; times < 10; times += 1) {
      const { account } = await operator.createAccount({ label: 'new' });
      expect((await accounts(100)).map(({ id }) => id)).toContain(account.id);
    }
  });

  it('refuses pages and accounts that cannot be', async () => {
    for (const query of [{ cursor: '\0' }, { limit: 0 }, { limit: 101 }])
      expect(await problemOf(operator.ask('listAccounts', query))).toBe('400 invalid_request');
    expect(await problemOf(operator.ask('getAccountSummary', { id: 'x' }))).toBe('404 not_found');
    expect(await problemOf(change('0'.repeat(22), { label: 'x' }))).toBe('404 not_found');
  });
});

it('the list of accounts tells a cursor that KV refuses from a KV that fails', async () => {
  const failing = (message: string): KVNamespace =>
    ({ list: () => Promise.reject(new Error(message)) }) as unknown as KVNamespace;
  const refused = 'KV LIST failed: 400 Invalid cursor';
  await expect(listed(failing(refused), { limit: 1, cursor: 'x' })).rejects.toMatchObject({ code: 'invalid_request' });
  await expect(listed(failing(refused), { limit: 1 })).rejects.toThrow(refused);
  await expect(listed(failing('KV LIST failed: 503'), { limit: 1, cursor: 'x' })).rejects.toThrow('503');
});

describe('an account', () => {
  it('takes another label, and keeps what is not sent', async () => {
    expect(await jsonOf(change(owner.id, { label: 'new', quotaBytes: 5 }))).toMatchObject({
      label: 'new',
      quotaBytes: 5,
    });
    expect(await jsonOf(change(owner.id, {}))).toMatchObject({ label: 'new', quotaBytes: 5, disabled: false });
    expect((await owner.call.getAccount()).account.label).toBe('new');
    expect('quotaBytes' in (await jsonOf<object>(change(owner.id, { quotaBytes: null })))).toBe(false);
    for (const changes of [{ quotaBytes: -1 }, { quotaBytes: 1.5 }, { label: '' }, { disabled: 1 }, { other: 1 }])
      expect(await problemOf(change(owner.id, changes))).toBe('400 invalid_request');
  });

  it('stores no more than its quota, whatever the key and the way, and reads what it has', async () => {
    const { apiKey } = await owner.call.createKey({ label: 'w', scopes: ['write'] });
    const writer = client(service.url, apiKey);
    const first = await owner.call.store('plain', fresh(600));
    await change(owner.id, { quotaBytes: 1000 });
    for (const call of [owner.call, writer]) {
      expect(await problemOf(put(call, fresh(401)))).toEqual(full);
      expect(await problemOf(put(call, new Blob([fresh(401)]).stream()))).toEqual(full);
    }
    // Its bytes on IPFS are more than those of the file.
    expect(
      await problemOf(owner.call.json('/v1/storage/encrypted', { filename: 'n', data: btoa(fresh(390)) })),
    ).toEqual(full);
    await writer.store('plain', fresh(400));
    const details = await owner.call.getAccount();
    expect(details.usage).toEqual({ files: 2, bytes: 1000 });
    expect(details.quotaBytes).toBe(1000);
    const seen = await writer.getAccount();
    expect({ usage: seen.usage, quotaBytes: seen.quotaBytes }).toEqual({ usage: undefined, quotaBytes: undefined });
    await change(owner.id, { quotaBytes: 0 });
    expect(await problemOf(put(owner.call, 'x'))).toEqual(full);
    expect((await owner.call.getFileContent({ fileId: first.fileId })).length).toBe(600);
    expect(await summary(owner.id)).toMatchObject({ usage: { files: 2, bytes: 1000 }, quotaBytes: 0 });
    await owner.call.deleteFile({ fileId: first.fileId });
    await change(owner.id, { quotaBytes: 1000 });
    await owner.call.store('plain', fresh(600));
  });

  it('of several uploads at once stores what its quota allows', async () => {
    await change(owner.id, { quotaBytes: 1000 });
    const statuses = await Promise.all(
      Array.from({ length: 4 }, async () => (await put(owner.call, fresh(400))).status),
    );
    expect(statuses.toSorted((a, b) => a - b)).toEqual([201, 201, 413, 413]);
    expect((await summary(owner.id)).usage).toEqual({ files: 2, bytes: 800 });
    await owner.object.ring(2 * 3_600_000);
    expect(await owner.object.rows('file')).toHaveLength(2);
  });

  it('keeps its quota in uploads of several requests', async () => {
    await change(owner.id, { quotaBytes: 1000 });
    const tooLong = owner.call.ask(
      'createUploadPlain',
      {},
      { headers: { 'Tus-Resumable': '1.0.0', 'Upload-Length': '1001' } },
    );
    expect(await problemOf(tooLong)).toEqual(full);
    const unknown = await create(owner.call, 'plain', undefined);
    expect(await problemOf(patch(owner.call, unknown.path, 0, Buffer.from(fresh(1001))))).toEqual(full);
    expect(await jsonOf<ResumableUpload>(owner.call(unknown.path))).toMatchObject({
      state: 'failed',
      code: 'quota_exceeded',
    });
    const [one, other] = [await create(owner.call, 'plain', 500), await create(owner.call, 'plain', 500)];
    await change(owner.id, { quotaBytes: 900 });
    expect((await patch(owner.call, one.path, 0, Buffer.from(fresh(500)))).status).toBe(204);
    expect(await problemOf(patch(owner.call, other.path, 0, Buffer.from(fresh(500))))).toEqual(full);
    expect((await summary(owner.id)).usage).toEqual({ files: 1, bytes: 500 });
  });

  it('that is disabled refuses every key, keeps everything, and works again when it is enabled', async () => {
    const bytes = fresh(20);
    const file = await owner.call.store('plain', bytes);
    const { apiKey, key } = await owner.call.createKey({ label: 'revoked', scopes: ['read'] });
    await owner.call.revokeKey({ id: key.id });
    await jsonOf(change(owner.id, { disabled: true }));
    const refused = '403 account_disabled';
    expect(await problemOf(owner.call.ask('getAccount'))).toEqual(refused);
    expect(await problemOf(owner.call.ask('getFile', { fileId: file.fileId }))).toEqual(refused);
    expect(await problemOf(put(owner.call, 'x'))).toEqual(refused);
    expect(await problemOf(owner.call.ask('listKeys'))).toEqual(refused);
    expect(await problemOf(owner.call.ask('listShares'))).toEqual(refused);
    expect(await problemOf(owner.call.ask('listUploads'))).toEqual(refused);
    // Who has no valid key does not learn it.
    expect(await problemOf(client(service.url, apiKey).ask('getAccount'))).toBe('401 unauthorized');
    expect((await bytesOf(fetch(`${service.url}/ipfs/${file.cid}`))).toString()).toBe(bytes);
    expect(await summary(owner.id)).toMatchObject({ disabled: true, usage: { files: 1 } });
    await jsonOf(change(owner.id, { disabled: false }));
    expect(String(await owner.call.getFileContent({ fileId: file.fileId }))).toBe(bytes);
  });
});

it('an account has origins of its own, whose pages alone may use its keys', async () => {
  const from = (Origin?: string): Promise<Response> =>
    owner.call('/v1/account', Origin === undefined ? {} : { headers: { Origin } });
  const [a, b] = ['https://a.example', 'https://b.example'];
  expect(await jsonOf(change(owner.id, { origins: [a] }))).toMatchObject({ origins: [a] });
  for (const origin of [undefined, a, new URL(service.url).origin]) await jsonOf(from(origin));
  for (const origin of [b, 'null', 'https://a.example.evil.example'])
    expect(await problemOf(from(origin))).toBe('403 forbidden');
  // The page can read why.
  expect((await from(b)).headers.get('Access-Control-Allow-Origin')).toBe(b);
  await jsonOf((await newOwner(service)).call('/v1/account', { headers: { Origin: b } }));
  const store = await service.miniflare.getKVNamespace('API_KEYS');
  await store.put(`origins:${owner.id}`, '{"another": "shape"}');
  expect(await problemOf(from(a))).toBe('403 forbidden');
  await jsonOf(change(owner.id, { origins: [] }));
  expect(await problemOf(from(a))).toBe('403 forbidden');
  expect('origins' in (await jsonOf<object>(change(owner.id, { origins: null })))).toBe(false);
  await jsonOf(from(b));
  for (const origins of [['*'], ['https://a.example/'], ['a.example'], Array.from({ length: 21 }, () => a)])
    expect(await problemOf(change(owner.id, { origins }))).toBe('400 invalid_request');
  await jsonOf(change(owner.id, { origins: [a] }));
  await operator.deleteAccount({ id: owner.id });
  await settle(owner);
  expect(await store.get(`origins:${owner.id}`)).toBe(null);
});

describe('a CID on the denylist', () => {
  const denied = '410 content_denied';

  it('is not served, neither to anybody nor to its owners, until it is taken off', async () => {
    const bytes = fresh(20);
    const other = await newOwner(service);
    const file = await owner.call.store('plain', bytes);
    const { fileId } = await other.call.store('plain', bytes);
    expect(await problemOf(operator.ask('getDeniedCid', { cid: file.cid }))).toBe('404 not_found');
    expect(await operator.denyCid({ cid: file.cid })).toEqual({ cid: file.cid, accounts: 2 });
    expect(await operator.getDeniedCid({ cid: file.cid })).toEqual({ cid: file.cid, createdAt: expect.any(String) });
    for (const query of ['', '?format=car', '?format=raw'])
      expect(await problemOf(fetch(`${service.url}/ipfs/${file.cid}${query}`))).toEqual(denied);
    for (const path of [`/v1/storage/${file.fileId}`, `/v1/storage/${file.fileId}/content`])
      expect(await problemOf(owner.call(path))).toEqual(denied);
    expect(await problemOf(other.call.ask('getFile', { fileId, data: false }))).toEqual(denied);
    await other.call.deleteFile({ fileId });
    expect(await operator.allowCid({ cid: file.cid })).toEqual({ cid: file.cid, accounts: 1 });
    expect(String(await owner.call.getFileContent({ fileId: file.fileId }))).toBe(bytes);
    expect((await bytesOf(fetch(`${service.url}/ipfs/${file.cid}`))).toString()).toBe(bytes);
    await other.call.store('plain', bytes);
  });

  it('of more accounts than one request can tell is denied in several', async () => {
    const file = await owner.call.store('plain', fresh(25));
    await (await pinObject(service, file.cid)).refer(250, file.cid);
    const read = (): Promise<Response> => owner.call.ask('getFileContent', { fileId: file.fileId });
    const first = await operator.denyCid({ cid: file.cid });
    expect(first).toMatchObject({ accounts: 250, cursor: expect.any(String) });
    const next = { cid: file.cid, cursor: first.cursor };
    expect(await operator.denyCid(next)).toEqual({ cid: file.cid, accounts: 1 });
    expect(await problemOf(read())).toEqual(denied);
    expect(await operator.allowCid(next)).toEqual({ cid: file.cid, accounts: 1 });
    expect((await read()).status).toBe(200);
    expect(await problemOf(operator.ask('denyCid', { cid: file.cid, cursor: 'x' }))).toBe('400 invalid_request');
  });

  it('is not stored, in one request or several, and leaves nothing behind', async () => {
    const bytes = fresh(30);
    const cid = await cidOfBytes(Buffer.from(bytes));
    expect(await operator.denyCid({ cid })).toEqual({ cid, accounts: 0 });
    expect(await operator.denyCid({ cid })).toEqual({ cid, accounts: 0 });
    expect(await problemOf(fetch(`${service.url}/ipfs/${cid}`))).toEqual(denied);
    expect(await problemOf(put(owner.call, bytes))).toBe('403 forbidden');
    const upload = await create(owner.call, 'plain', 30);
    expect(await problemOf(patch(owner.call, upload.path, 0, Buffer.from(bytes)))).toBe('403 forbidden');
    expect(await jsonOf<ResumableUpload>(owner.call(upload.path))).toMatchObject({
      state: 'failed',
      code: 'forbidden',
    });
    await owner.object.ring(2 * 3_600_000);
    expect(await owner.object.rows('file')).toEqual([]);
    expect(await owner.object.rows('outbox')).toEqual([]);
    expect(await pinned(service)).not.toContain(cid);
    await operator.allowCid({ cid });
    await owner.call.store('plain', bytes);
    expect(await problemOf(operator.ask('denyCid', { cid: 'bafk' }))).toBe('400 invalid_cid');
  });
});

inCi('of an earlier version, accounts are listed once used or asked for, CIDs can be denied', async () => {
  const [used, asked] = [await newOwner(service), await newOwner(service)];
  const file = await used.call.store('plain', 'stored before');
  await restart.again((db) => {
    for (const table of ['account_setting', 'denied_file', 'denied']) db.exec(`DROP TABLE IF EXISTS ${table}`);
  });
  const store = await service.miniflare.getKVNamespace('API_KEYS');
  for (const { id } of [used, asked]) await store.delete(`account:${id}`);
  const ids = async (): Promise<string[]> =>
    (await accounts(100)).map(({ id }) => id).filter((id) => id === used.id || id === asked.id);
  expect(await ids()).toEqual([]);
  const call = client(service.url, used.call.apiKey);
  expect(String(await call.getFileContent({ fileId: file.fileId }))).toBe('stored before');
  await expect.poll(ids).toEqual([used.id]);
  await operator.getAccountSummary({ id: asked.id });
  await expect.poll(ids).toEqual([used.id, asked.id].toSorted());
  await operator.denyCid({ cid: file.cid });
  expect(await problemOf(call.ask('getFile', { fileId: file.fileId }))).toBe('410 content_denied');
  expect(await problemOf(fetch(`${service.url}/ipfs/${file.cid}`))).toBe('410 content_denied');
});

it('an account has its quota, if any, and a place in the list from its creation', async () => {
  const made = operator.ask('createAccount', { label: 'x', quotaBytes: 5 });
  const limited = await jsonOf<NewAccountResponse>(made, 201);
  expect(await summary(limited.account.id)).toMatchObject({ quotaBytes: 5 });
  expect(await problemOf(operator.ask('createAccount', { label: 'x', quotaBytes: null }))).toBe('400 invalid_request');
  const created: NewAccountResponse = await service.account();
  expect('quotaBytes' in (await client(service.url, created.apiKey).getAccount())).toBe(false);
  await expect.poll(async () => (await accounts(100)).map(({ id }) => id)).toContain(created.account.id);
});
