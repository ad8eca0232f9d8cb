/** Accounts and API keys: what a key may do, and what nobody can do without one. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as v from 'valibot';
import { fullScopes, Problem, type NewAccountResponse, type Scope } from '../../../shared/api.ts';
import { identityFromPkcs8, open, parseApiKey, unsealPrivateKey } from '../../../shared/crypto/index.ts';
import { bytesOf, client, problemOf, type Client } from '../../../testkit/api-client.ts';
import { adminToken, startService, type Service } from '../../../testkit/service.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { accountObject } from '../stored-state.ts';

let service: Service;

beforeAll(async () => {
  service = await startService({ entry: 'worker/test/stale.ts' });
});
afterAll(() => service.close());

type Holder = Client & { id: string };

async function newAccount(): Promise<{ response: NewAccountResponse; owner: Holder }> {
  const response = await client(service.url, adminToken).createAccount({ label: 'team' });
  return { response, owner: Object.assign(client(service.url, response.apiKey), { id: response.key.id }) };
}

const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();

const briefly = 60_000;

/** Lets an account reach the end of what ends briefly. */
const passes = ({ account }: NewAccountResponse): Promise<void> => accountObject(service, account.id).wait(briefly);

describe('an account', () => {
  it('shows a key its own record and the usage', async () => {
    const { response, owner } = await newAccount();
    await owner.store('plain', 'four');
    const about = await owner.getAccount();
    expect(about.account).toEqual(response.account);
    expect(about.usage).toEqual({ files: 1, bytes: 4 });
    expect(about.key).toMatchObject(response.key);
  });

  it('gives its private key to any key with read, for use offline', async () => {
    const { owner } = await newAccount();
    const file = await owner.store('encrypted', 'for the account');
    const { account, key } = await owner.getAccount();
    const spki = Buffer.from(itemOf(present(/-----BEGIN PUBLIC KEY-----([^-]+)/.exec(account.publicKey)), 1), 'base64');
    const pkcs8 = await unsealPrivateKey(present(await parseApiKey(owner.apiKey)), {
      id: key.id,
      sealed: Buffer.from(present(key.sealed), 'base64'),
      spki,
    });
    const container = await owner.ask(
      'getFile',
      { fileId: file.fileId },
      { headers: { Accept: 'application/vnd.sealpin' } },
    );
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
    await owner.withKey(['read']);
    const { id } = response.account;
    expect(await operator.deleteAccount({ id })).toEqual({ account: id, files: 2, keys: 2, shares: 0 });
    expect(await problemOf(owner.ask('listFiles'))).toBe('401 unauthorized');
    expect(await problemOf(operator.ask('deleteAccount', { id }))).toBe('404 not_found');
    for (const { cid } of files) {
      await expect.poll(async () => (await fetch(`${service.url}/ipfs/${cid}`)).status).toBe(404);
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
      const holder = await owner.withKey([scope]);
      expect((await holder.ask('getAccount')).status).toBe(200);
      for (const [needed, path, method] of routes) {
        if (needed !== scope)
          expect(await problemOf(holder(path, { method: present(method) }))).toBe('403 insufficient_scope');
      }
    }
    const writer = await owner.withKey(['write']);
    const stored = await writer.store('encrypted', 'y', { filename: 'secret name' });
    expect('filename' in stored).toBe(false);
  });

  it('makes keys within its own scopes and expiry only', async () => {
    const { owner } = await newAccount();
    const expiresAt = soon(60_000);
    const maker = await owner.withKey(['keys', 'read'], { expiresAt });
    expect(await problemOf(maker.ask('createKey', { label: 'x', scopes: ['write'] }))).toBe('403 insufficient_scope');
    expect(await problemOf(maker.ask('createKey', { label: 'x', scopes: ['read'], expiresAt: soon(120_000) }))).toBe(
      '403 forbidden',
    );
    expect(await problemOf(owner.ask('createKey', { label: 'x', scopes: ['read'], expiresAt: soon(-1000) }))).toBe(
      '400 invalid_request',
    );
    for (const body of [
      {},
      { label: 'x', scopes: [] },
      { label: 'x', scopes: ['read', 'read'] },
      { label: 'x', scopes: ['root'] },
      { label: '', scopes: ['read'] },
      { label: 'x', scopes: ['read'], account: 'y' },
    ]) {
      expect(await problemOf(owner.ask('createKey', body))).toBe('400 invalid_request');
    }
    const made = await maker.withKey(['read']);
    const { keys } = await owner.listKeys();
    expect(keys.find((key) => key.id === made.id)).toMatchObject({ createdBy: maker.id, expiresAt, scopes: ['read'] });
    expect(await made.listFiles()).toEqual({ files: [] });
  });

  it('revokes what has no scope that it lacks, with its descendants if asked to', async () => {
    const { owner } = await newAccount();
    const parent = await owner.withKey(['keys', 'write']);
    const child = await parent.withKey(['keys', 'write']);
    const grandchild = await child.withKey(['write']);
    const other = await owner.withKey(['write']);
    expect(await problemOf(parent.ask('revokeKey', { id: owner.id }))).toBe('403 insufficient_scope');
    expect(await owner.revokeKey({ id: child.id })).toEqual({ revoked: [child.id] });
    expect(await problemOf(owner.ask('revokeKey', { id: child.id }))).toBe('404 not_found');
    expect((await grandchild('/v1/account')).status).toBe(200);
    // The one that stood between is gone, and the family is still known.
    const { revoked } = await owner.revokeKey({ id: parent.id, cascade: true });
    expect([...revoked].sort()).toEqual([parent.id, grandchild.id].sort());
    for (const each of [parent, child, grandchild])
      expect(await problemOf(each('/v1/account'))).toBe('401 unauthorized');
    expect((await other.ask('getAccount')).status).toBe(200);
  });

  it('is marked in the list where it is the one in use', async () => {
    const { owner } = await newAccount();
    const other = await owner.withKey(['keys']);
    for (const [by, current] of [
      [owner, owner.id],
      [other, other.id],
    ] as const) {
      const { keys } = await by.listKeys();
      expect(keys.filter((key) => key.current).map((key) => key.id)).toEqual([current]);
    }
  });

  it('does not revoke itself, alone or with its family, unless that is said', async () => {
    const { owner } = await newAccount();
    const spare = await owner.withKey(['read', 'write', 'delete', 'keys']);
    const child = await spare.withKey(['keys', 'write']);
    const parent = await child.withKey(['keys', 'write']);
    const refused = await owner.ask('revokeKey', { id: owner.id });
    expect((await refused.clone().json<Problem>()).detail).toContain('self=true');
    expect(await problemOf(refused)).toBe('409 conflict');
    for (const query of [{}, { destroy: true }, { self: false }, { cascade: true }])
      expect(
        await problemOf(parent.ask('revokeKey', { id: query.cascade === true ? child.id : parent.id, ...query })),
      ).toBe('409 conflict');
    expect(await parent.revokeKey({ id: parent.id, self: true })).toEqual({ revoked: [parent.id] });
    await owner.revokeKey({ id: owner.id, self: true });
    expect(await problemOf(owner.ask('listFiles'))).toBe('401 unauthorized');
    expect((await spare.ask('listFiles')).status).toBe(200);
  });

  it('that is the last to read, or to manage keys, for as long goes only when that is said', async () => {
    const { response, owner } = await newAccount();
    const manager = await owner.withKey([...fullScopes]);
    await manager.revokeKey({ id: owner.id });
    // Neither a reader that ends before it, nor one that has ended, takes its place.
    await manager.withKey(['read', 'keys'], { expiresAt: soon(3_600_000) });
    await manager.withKey(['read', 'keys'], { expiresAt: soon(briefly) });
    await passes(response);
    const detail = async (): Promise<string> => {
      const response = await manager.ask('revokeKey', { id: manager.id, self: true });
      const problem = await response.clone().json<Problem>();
      expect(await problemOf(response)).toBe('409 conflict');
      return problem.detail ?? '';
    };
    expect(await detail()).toContain('the last key with read');
    const reader = await manager.withKey(['read']);
    expect(await detail()).toContain('the last key with keys');
    await manager.withKey(['keys']);
    await manager.revokeKey({ id: manager.id, self: true });
    expect((await reader.ask('listFiles')).status).toBe(200);
  });

  it('that reads for longest goes only on request, although it ends; an ended one goes freely', async () => {
    const { response, owner } = await newAccount();
    const long = await owner.withKey(['read'], { expiresAt: soon(7_200_000) });
    const short = await owner.withKey(['read'], { expiresAt: soon(3_600_000) });
    const ended = await owner.withKey(['read', 'keys'], { expiresAt: soon(briefly) });
    // As long as a key without an end reads, any of these may go.
    const spare = await owner.withKey(['read'], { expiresAt: soon(7_200_000) });
    await owner.revokeKey({ id: spare.id });
    const manager = await owner.withKey(['read', 'write', 'delete', 'keys']);
    await owner.withKey(['keys']);
    await owner.revokeKey({ id: manager.id });
    await passes(response);
    await owner.revokeKey({ id: ended.id });
    expect(await problemOf(owner.ask('revokeKey', { id: owner.id, self: true }))).toBe('409 conflict');
    const last = await owner.withKey(['read', 'write', 'delete', 'keys'], { expiresAt: soon(10_800_000) });
    await owner.revokeKey({ id: owner.id, self: true, destroy: true });
    expect(await problemOf(last.ask('revokeKey', { id: last.id, self: true }))).toBe('409 conflict');
    for (const id of [short.id, long.id]) await last.revokeKey({ id });
    await last.revokeKey({ id: last.id, self: true, destroy: true });
    expect(await problemOf(last.ask('getAccount'))).toBe('401 unauthorized');
  });

  it('is not made under an Idempotency-Key, which could not give it again', async () => {
    const { owner, response } = await newAccount();
    const headers = { 'Idempotency-Key': 'once' };
    const refused = await owner.ask('createKey', { label: 'x', scopes: ['read'] }, { headers });
    expect((await refused.clone().json<Problem>()).detail).toContain('Idempotency-Key does not work here');
    expect(await problemOf(refused)).toBe('400 invalid_request');
    expect(await problemOf(client(service.url, adminToken).ask('createAccount', { label: 'x' }, { headers }))).toBe(
      '400 invalid_request',
    );
    // Nobody learns that without the right to make one.
    expect(await problemOf(owner.ask('createAccount', { label: 'x' }, { headers }))).toBe('401 unauthorized');
    expect(await owner.listKeys()).toMatchObject({ keys: [{ id: response.key.id }] });
  });

  it('S75 S76: gets one response whatever is wrong with it', async () => {
    const { owner, response } = await newAccount();
    const revoked = await owner.withKey(['read']);
    await owner.revokeKey({ id: revoked.id });
    const expired = await owner.withKey(['read'], { expiresAt: soon(briefly) });
    await passes(response);
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
        expect(rest.status, header).toEqual(response.status);
        expect(requestId).toBe(response.headers.get('X-Request-Id'));
        return JSON.stringify(rest);
      }),
    );
    expect(new Set(bodies).size).toBe(1);
    expect(JSON.parse(first(bodies))).toMatchObject({ status: 401, code: 'unauthorized' });
    // In a query it is no key, and a query that nobody knows is refused.
    expect(await problemOf(fetch(`${service.url}/v1/storage?key=${owner.apiKey}`))).toBe('400 invalid_request');
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
      const reader = await owner.withKey(['read'], { expiresAt: soon(3_600_000) });
      const name = `key:${present(await parseApiKey(reader.apiKey)).hash}`;
      await kv.put(name, JSON.stringify(change(JSON.parse(present(await kv.get(name, 'text'))) as object)));
      expect(await problemOf(reader.ask('storePlain', {}, { body: 'x' }))).toBe('403 insufficient_scope');
      expect((await reader.read(file.fileId)).toString()).toBe('x');
    }
  });

  // Freezes the KV of this service for good, so it comes last.
  it('that is stale and remembers misses delays neither revocation, nor expiry, nor a new key', async () => {
    const { response, owner } = await newAccount();
    const file = await owner.store('encrypted', 'x');
    const revoked = await owner.withKey(['read']);
    const expiring = await owner.withKey(['read'], { expiresAt: soon(briefly) });
    await fetch(`${service.url}/test/freeze`);
    expect((await revoked.ask('listFiles')).status).toBe(200);
    expect((await expiring.ask('listFiles')).status).toBe(200);
    await owner.revokeKey({ id: revoked.id });
    expect(await problemOf(revoked.ask('listFiles'))).toBe('401 unauthorized');
    const fresh = await owner.withKey(['read']);
    const raw = { headers: { Accept: 'application/octet-stream' } };
    expect((await bytesOf(fresh(`/v1/storage/${file.fileId}`, raw))).toString()).toBe('x');
    expect((await fresh.listFiles()).files).toEqual([file]);
    await passes(response);
    expect(await problemOf(expiring.ask('listFiles'))).toBe('401 unauthorized');
  });
});
