/** Accounts and API keys: what a key may do, and what nobody can do without one. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as v from 'valibot';
import {
  AccountDetails,
  AccountReceipt,
  ApiKeyList,
  FileList,
  NewAccountResponse,
  NewApiKeyResponse,
  Problem,
  Revoked,
  scopes,
  type Scope,
} from '../../../shared/api.ts';
import { identityFromPkcs8, open, parseApiKey, unsealPrivateKey } from '../../../shared/crypto/index.ts';
import { bytesOf, client, jsonOf, problemOf, type Client } from '../client.ts';
import { adminToken, startService, type Service } from '../../../testkit/service.ts';

let service: Service;

beforeAll(async () => {
  service = await startService({ entry: 'worker/test/stale.ts' });
});
afterAll(() => service.close());

type Holder = Client & { id: string };

function holder(response: { key: { id: string }; apiKey: string }): Holder {
  return Object.assign(client(service.url, response.apiKey), { id: response.key.id });
}

async function newAccount(): Promise<{ response: NewAccountResponse; owner: Holder }> {
  const response = v.parse(
    NewAccountResponse,
    await jsonOf(client(service.url, adminToken).json('/v1/operator/accounts', { label: 'team' }), 201),
  );
  return { response, owner: holder(response) };
}

async function newKey(maker: Client, scopes: Scope[], expiresAt?: string): Promise<Holder> {
  return holder(
    v.parse(NewApiKeyResponse, await jsonOf(maker.json('/v1/keys', { label: scopes.join(), scopes, expiresAt }), 201)),
  );
}

function revoke(by: Client, id: string, query = ''): Promise<Response> {
  return by(`/v1/keys/${id}${query}`, { method: 'DELETE' });
}

const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();

/** Long enough to make a key and use it also while other tests keep the machine busy. */
const briefly = 5000;

/** Waits until a time, in ISO 8601, has passed. */
const passed = (at: string): Promise<void> => new Promise((done) => setTimeout(done, Date.parse(at) - Date.now() + 50));

describe('an account', () => {
  it('shows a key its own record and the usage', async () => {
    const { response, owner } = await newAccount();
    await owner.store('plain', 'four');
    const about = v.parse(AccountDetails, await jsonOf(owner('/v1/account')));
    expect(about.account).toEqual(response.account);
    expect(about.usage).toEqual({ files: 1, bytes: 4 });
    expect(about.key).toMatchObject(response.key);
  });

  it('gives its private key to any key with read, for use offline', async () => {
    const { owner } = await newAccount();
    const file = await owner.store('encrypted', 'for the account');
    const { account, key } = v.parse(AccountDetails, await jsonOf(owner('/v1/account')));
    const spki = Buffer.from(/-----BEGIN PUBLIC KEY-----([^-]+)/.exec(account.publicKey)![1]!, 'base64');
    const pkcs8 = await unsealPrivateKey((await parseApiKey(owner.apiKey))!, {
      id: key.id,
      sealed: Buffer.from(key.sealed!, 'base64'),
      spki,
    });
    const container = await owner(`/v1/storage/${file.fileId}`, { headers: { Accept: 'application/vnd.sealpin' } });
    expect(container.headers.get('Content-Type')).toBe('application/vnd.sealpin');
    const bytes = await bytesOf(container);
    expect(bytes.length).toBe(Number(container.headers.get('Content-Length')));
    const opened = await open(new Blob([bytes]).stream());
    if (opened.kind !== 'sealpin') throw new Error(opened.kind);
    expect(await new Response(await opened.decrypt([identityFromPkcs8(pkcs8)])).text()).toBe('for the account');
  });

  it('goes with all of it', async () => {
    const { response, owner } = await newAccount();
    const operator = client(service.url, adminToken);
    const files = [await owner.store('encrypted', 'a'), await owner.store('plain', `b ${response.account.id}`)];
    await newKey(owner, ['read']);
    const path = `/v1/operator/accounts/${response.account.id}`;
    const receipt = v.parse(AccountReceipt, await jsonOf(operator(path, { method: 'DELETE' })));
    expect(receipt).toEqual({ account: response.account.id, files: 2, keys: 2, shares: 0 });
    expect(await problemOf(owner('/v1/storage'))).toEqual([401, 'unauthorized']);
    expect(await problemOf(operator(path, { method: 'DELETE' }))).toEqual([404, 'not_found']);
    for (const { cid } of files) {
      await expect.poll(async () => (await fetch(`${service.url}/ipfs/${cid}`)).status, { timeout: 10_000 }).toBe(404);
    }
    const kv = await service.miniflare.getKVNamespace('API_KEYS');
    await expect
      .poll(async () => JSON.stringify(await Promise.all((await kv.list()).keys.map((key) => kv.get(key.name)))), {
        timeout: 10_000,
      })
      .not.toContain(response.account.id);
  });
});

describe('an API key', () => {
  it('does what its scopes say and nothing else', async () => {
    const { owner } = await newAccount();
    const file = await owner.store('encrypted', 'x');
    const routes: [Scope, string, RequestInit['method']][] = [
      ['read', `/v1/storage/${file.fileId}`, 'GET'],
      ['read', '/v1/storage', 'GET'],
      ['write', '/v1/storage/plain', 'POST'],
      ['write', '/v1/storage/encrypted', 'POST'],
      ['keys', '/v1/keys', 'GET'],
      ['keys', '/v1/keys', 'POST'],
      ['keys', `/v1/keys/${owner.id}`, 'DELETE'],
      ['read', `/v1/storage/${file.fileId}/receipt`, 'GET'],
      ['delete', `/v1/storage/${file.fileId}`, 'DELETE'],
      ['delete', '/v1/storage/delete', 'POST'],
      ['share', '/v1/shares', 'POST'],
      ['share', '/v1/shares', 'GET'],
      ['share', `/v1/shares/${'0'.repeat(22)}`, 'DELETE'],
    ];
    for (const scope of ['read', 'write', 'delete', 'keys', 'share'] as const) {
      const holder = await newKey(owner, [scope]);
      expect((await holder('/v1/account')).status).toBe(200);
      for (const [needed, path, method] of routes) {
        if (needed !== scope)
          expect(await problemOf(holder(path, { method: method! }))).toEqual([403, 'insufficient_scope']);
      }
    }
    const writer = await newKey(owner, ['write']);
    const stored = await writer.store('encrypted', 'y', { filename: 'secret name' });
    expect('filename' in stored).toBe(false);
  });

  it('makes keys within its own scopes and expiry only', async () => {
    const { owner } = await newAccount();
    const expiresAt = soon(60_000);
    const maker = await newKey(owner, ['keys', 'read'], expiresAt);
    expect(await problemOf(maker.json('/v1/keys', { label: 'x', scopes: ['write'] }))).toEqual([
      403,
      'insufficient_scope',
    ]);
    expect(await problemOf(maker.json('/v1/keys', { label: 'x', scopes: ['read'], expiresAt: soon(120_000) }))).toEqual(
      [403, 'forbidden'],
    );
    expect(await problemOf(owner.json('/v1/keys', { label: 'x', scopes: ['read'], expiresAt: soon(-1000) }))).toEqual([
      400,
      'invalid_request',
    ]);
    for (const body of [
      {},
      { label: 'x', scopes: [] },
      { label: 'x', scopes: ['read', 'read'] },
      { label: 'x', scopes: ['root'] },
      { label: '', scopes: ['read'] },
      { label: 'x', scopes: ['read'], account: 'y' },
    ]) {
      expect(await problemOf(owner.json('/v1/keys', body))).toEqual([400, 'invalid_request']);
    }
    const made = await newKey(maker, ['read']);
    const { keys } = v.parse(ApiKeyList, await jsonOf(owner('/v1/keys')));
    expect(keys.find((key) => key.id === made.id)).toMatchObject({ createdBy: maker.id, expiresAt, scopes: ['read'] });
    expect(await jsonOf<FileList>(made('/v1/storage'))).toEqual({ files: [] });
  });

  it('revokes what has no scope that it lacks, with its descendants if asked to', async () => {
    const { owner } = await newAccount();
    const parent = await newKey(owner, ['keys', 'write']);
    const child = await newKey(parent, ['keys', 'write']);
    const grandchild = await newKey(child, ['write']);
    const other = await newKey(owner, ['write']);
    expect(await problemOf(revoke(parent, owner.id))).toEqual([403, 'insufficient_scope']);
    expect(v.parse(Revoked, await jsonOf(revoke(owner, child.id)))).toEqual({ revoked: [child.id] });
    expect(await problemOf(revoke(owner, child.id))).toEqual([404, 'not_found']);
    expect((await grandchild('/v1/account')).status).toBe(200);
    // The one that stood between is gone, and the family is still known.
    const { revoked } = v.parse(Revoked, await jsonOf(revoke(owner, parent.id, '?cascade=true')));
    expect([...revoked].sort()).toEqual([parent.id, grandchild.id].sort());
    for (const each of [parent, child, grandchild])
      expect(await problemOf(each('/v1/account'))).toEqual([401, 'unauthorized']);
    expect((await other('/v1/account')).status).toBe(200);
  });

  it('is marked in the list where it is the one in use', async () => {
    const { owner } = await newAccount();
    const other = await newKey(owner, ['keys']);
    for (const [by, current] of [
      [owner, owner.id],
      [other, other.id],
    ] as const) {
      const { keys } = v.parse(ApiKeyList, await jsonOf(by('/v1/keys')));
      expect(keys.filter((key) => key.current).map((key) => key.id)).toEqual([current]);
    }
  });

  it('does not revoke itself, alone or with its family, unless that is said', async () => {
    const { owner } = await newAccount();
    const spare = await newKey(owner, ['read', 'write', 'delete', 'keys']);
    const child = await newKey(spare, ['keys', 'write']);
    const parent = await newKey(child, ['keys', 'write']);
    const refused = await revoke(owner, owner.id);
    expect((await refused.clone().json<Problem>()).detail).toContain('self=true');
    expect(await problemOf(refused)).toEqual([409, 'conflict']);
    for (const query of ['', '?destroy=true', '?self=false', '?cascade=true'])
      expect(await problemOf(revoke(parent, query === '?cascade=true' ? child.id : parent.id, query))).toEqual([
        409,
        'conflict',
      ]);
    expect(v.parse(Revoked, await jsonOf(revoke(parent, parent.id, '?self=true'))).revoked).toEqual([parent.id]);
    await jsonOf(revoke(owner, owner.id, '?self=true'));
    expect(await problemOf(owner('/v1/storage'))).toEqual([401, 'unauthorized']);
    expect((await spare('/v1/storage')).status).toBe(200);
  });

  it('that is the last one to read, or to manage keys, for as long goes only when that is said', async () => {
    const { owner } = await newAccount();
    const manager = await newKey(owner, [...scopes]);
    await jsonOf(revoke(manager, owner.id));
    // Neither a reader that ends before it, nor one that has ended, takes its place.
    await newKey(manager, ['read', 'keys'], soon(3_600_000));
    const end = soon(briefly);
    await newKey(manager, ['read', 'keys'], end);
    await passed(end);
    const detail = async (): Promise<string> => {
      const response = await revoke(manager, manager.id, '?self=true');
      const problem = await response.clone().json<Problem>();
      expect(await problemOf(response)).toEqual([409, 'conflict']);
      return problem.detail ?? '';
    };
    expect(await detail()).toContain('the last key with read');
    const reader = await newKey(manager, ['read']);
    expect(await detail()).toContain('the last key with keys');
    await newKey(manager, ['keys']);
    await jsonOf(revoke(manager, manager.id, '?self=true'));
    expect((await reader('/v1/storage')).status).toBe(200);
  });

  it('that ends, and is the longest-lived to read, goes only when that is said; one that has ended goes freely', async () => {
    const { owner } = await newAccount();
    const long = await newKey(owner, ['read'], soon(7_200_000));
    const short = await newKey(owner, ['read'], soon(3_600_000));
    const end = soon(briefly);
    const ended = await newKey(owner, ['read', 'keys'], end);
    // As long as a key without an end reads, any of these may go.
    const spare = await newKey(owner, ['read'], soon(7_200_000));
    await jsonOf(revoke(owner, spare.id));
    const manager = await newKey(owner, ['read', 'write', 'delete', 'keys']);
    await newKey(owner, ['keys']);
    await jsonOf(revoke(owner, manager.id));
    await passed(end);
    await jsonOf(revoke(owner, ended.id));
    expect(await problemOf(revoke(owner, owner.id, '?self=true'))).toEqual([409, 'conflict']);
    const last = await newKey(owner, ['read', 'write', 'delete', 'keys'], soon(10_800_000));
    await jsonOf(revoke(owner, owner.id, '?self=true&destroy=true'));
    expect(await problemOf(revoke(last, last.id, '?self=true'))).toEqual([409, 'conflict']);
    for (const id of [short.id, long.id]) await jsonOf(revoke(last, id));
    await jsonOf(revoke(last, last.id, '?self=true&destroy=true'));
    expect(await problemOf(last('/v1/account'))).toEqual([401, 'unauthorized']);
  });

  it('is not made under an Idempotency-Key, which could not give it again', async () => {
    const { owner, response } = await newAccount();
    const headers = { 'Idempotency-Key': 'once', 'Content-Type': 'application/json' };
    const post = (by: Client, path: string, body: object): Promise<Response> =>
      by(path, { method: 'POST', headers, body: JSON.stringify(body) });
    const refused = await post(owner, '/v1/keys', { label: 'x', scopes: ['read'] });
    expect((await refused.clone().json<Problem>()).detail).toContain('Idempotency-Key does not work here');
    expect(await problemOf(refused)).toEqual([400, 'invalid_request']);
    expect(await problemOf(post(client(service.url, adminToken), '/v1/operator/accounts', { label: 'x' }))).toEqual([
      400,
      'invalid_request',
    ]);
    // Nobody learns that without the right to make one.
    expect(await problemOf(post(owner, '/v1/operator/accounts', { label: 'x' }))).toEqual([401, 'unauthorized']);
    expect(await jsonOf<ApiKeyList>(owner('/v1/keys'))).toMatchObject({ keys: [{ id: response.key.id }] });
  });

  it('S75 S76: gets one response whatever is wrong with it', async () => {
    const { owner, response } = await newAccount();
    const revoked = await newKey(owner, ['read']);
    await jsonOf(revoke(owner, revoked.id));
    const end = soon(briefly);
    const expired = await newKey(owner, ['read'], end);
    await passed(end);
    const { newApiKey, newAccountId } = await import('../../../shared/crypto/index.ts');
    const unknown = await newApiKey(response.account.id);
    const nobody = await newApiKey(newAccountId());
    const malformed = `${owner.apiKey.slice(0, -1)}${owner.apiKey.endsWith('0') ? '1' : '0'}`;
    const headers = [
      '',
      'Bearer',
      'Bearer x',
      `Basic ${owner.apiKey}`,
      `Bearer ${owner.apiKey} x`,
      ...[revoked.apiKey, expired.apiKey, unknown.text, nobody.text, malformed].map((key) => `Bearer ${key}`),
    ];
    const bodies = await Promise.all(
      headers.map(async (header) => {
        const response = await fetch(
          `${service.url}/v1/storage`,
          header === '' ? {} : { headers: { Authorization: header } },
        );
        expect(response.headers.get('WWW-Authenticate')).toBe('Bearer realm="sealpin"');
        const { requestId, ...rest } = v.parse(Problem, await response.json());
        expect([header, rest.status]).toEqual([header, response.status]);
        expect(requestId).toBe(response.headers.get('X-Request-Id'));
        return JSON.stringify(rest);
      }),
    );
    expect(new Set(bodies).size).toBe(1);
    expect(JSON.parse(bodies[0]!)).toMatchObject({ status: 401, code: 'unauthorized' });
    // In a query it is no key, and a query that nobody knows is refused.
    expect(await problemOf(fetch(`${service.url}/v1/storage?key=${owner.apiKey}`))).toEqual([400, 'invalid_request']);
  });
});

describe('KV', () => {
  it('may say what it likes about scopes, expiry and account', async () => {
    const { owner } = await newAccount();
    const file = await owner.store('encrypted', 'x');
    const kv = await service.miniflare.getKVNamespace('API_KEYS');
    const changed = {
      scopes: ['read', 'write', 'delete', 'keys'],
      expiresAt: soon(-1000),
      account: 'another',
      publicKey: 'another',
      id: 'another',
    };
    for (const change of [
      (record: object) => ({ ...record, ...changed }),
      (record: object) => ({ ...record, sealed: 'AAAA' }),
      () => ({ v: 1 }),
    ]) {
      // Another one each time: an isolate remembers what KV says of a key.
      const reader = await newKey(owner, ['read'], soon(3_600_000));
      const name = `key:${(await parseApiKey(reader.apiKey))!.hash}`;
      await kv.put(name, JSON.stringify(change(JSON.parse((await kv.get(name, 'text'))!) as object)));
      expect(await problemOf(reader('/v1/storage/plain', { method: 'POST', body: 'x' }))).toEqual([
        403,
        'insufficient_scope',
      ]);
      expect(
        (
          await bytesOf(reader(`/v1/storage/${file.fileId}`, { headers: { Accept: 'application/octet-stream' } }))
        ).toString(),
      ).toBe('x');
    }
  });

  // Freezes the KV of this service for good, so it comes last.
  it('that is stale and remembers misses delays neither revocation, nor expiry, nor a new key', async () => {
    const { owner } = await newAccount();
    const file = await owner.store('encrypted', 'x');
    const revoked = await newKey(owner, ['read']);
    const end = soon(briefly);
    const expiring = await newKey(owner, ['read'], end);
    await fetch(`${service.url}/test/freeze`);
    expect((await revoked('/v1/storage')).status).toBe(200);
    expect((await expiring('/v1/storage')).status).toBe(200);
    await jsonOf(revoke(owner, revoked.id));
    expect(await problemOf(revoked('/v1/storage'))).toEqual([401, 'unauthorized']);
    const fresh = await newKey(owner, ['read']);
    const raw = { headers: { Accept: 'application/octet-stream' } };
    expect((await bytesOf(fresh(`/v1/storage/${file.fileId}`, raw))).toString()).toBe('x');
    expect(v.parse(FileList, await jsonOf(fresh('/v1/storage'))).files).toEqual([file]);
    await passed(end);
    expect(await problemOf(expiring('/v1/storage'))).toEqual([401, 'unauthorized']);
  });
});
