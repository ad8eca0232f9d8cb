/** Recovery: the opened recovery file of an account, and nothing less, brings it back. */
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, describe, expect, it } from 'vitest';
import * as v from 'valibot';
import {
  fullScopes,
  NewAccountResponse,
  Problem,
  type EventList,
  type NewApiKeyResponse,
} from '../../../shared/api.ts';
import {
  generateKeyPair,
  open,
  parseApiKey,
  parseIdentities,
  recipientFromSpki,
  unsealPrivateKey,
  type KeyPair,
} from '../../../shared/crypto/index.ts';
import { bytesOf, client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { adminToken, sharedService, startService, type Service } from '../../../testkit/service.ts';
import { itemOf, present } from '../../../testkit/present.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

type Recoverable = { pair: KeyPair; id: string; owner: Client };

async function newAccount(at: Service = service, pair?: KeyPair): Promise<Recoverable> {
  const own = pair ?? (await generateKeyPair());
  const body = { label: 'team', recovery: own.publicPem };
  const { account, apiKey } = await client(at.url, adminToken).createAccount(body);
  return { pair: own, id: account.id, owner: client(at.url, apiKey) };
}

/** The text of the account's current recovery file. */
async function openedFile({ id, pair }: Pick<Recoverable, 'id' | 'pair'>): Promise<string> {
  const file = await open(new Blob([await bytesOf(client(service.url).ask('getRecoveryFile', { id }))]).stream());
  if (file.kind !== 'age') throw new Error(file.kind);
  return await new Response(await file.decrypt(parseIdentities(pair.privatePem))).text();
}

function recover(id: string, privateKey: string, at: Service = service): Promise<Response> {
  return client(at.url).ask('recoverAccount', { id, privateKey });
}

/** The account's private key in PEM, as a key with `read` exports it. */
async function exported(reader: Client): Promise<string> {
  const { account, key } = await reader.getAccount();
  const spki = Buffer.from(itemOf(present(/-----BEGIN PUBLIC KEY-----([^-]+)/.exec(account.publicKey)), 1), 'base64');
  const pkcs8 = await unsealPrivateKey(present(await parseApiKey(reader.apiKey)), {
    id: key.id,
    sealed: Buffer.from(present(key.sealed), 'base64'),
    spki,
  });
  expect(recipientFromSpki(spki).kind).toBe('key');
  return `-----BEGIN PRIVATE KEY-----\n${Buffer.from(pkcs8).toString('base64')}\n-----END PRIVATE KEY-----\n`;
}

const secretOf = (text: string): string => itemOf(present(/^# recovery: ([0-9A-Za-z]{43})$/m.exec(text)), 1);

describe('an account with a recovery key', () => {
  it('is recovered by the text of its opened file: one key with all scopes, no other', async () => {
    const account = await newAccount();
    const file = await account.owner.store('encrypted', 'still here');
    const other = await jsonOf<NewApiKeyResponse>(
      account.owner.json('/v1/keys', { label: 'x', scopes: ['write'] }),
      201,
    );
    const text = await openedFile(account);
    const { apiKey, key } = v.parse(NewAccountResponse, await jsonOf(recover(account.id, text), 201));
    expect(key).toMatchObject({ scopes: [...fullScopes], label: 'recovered' });
    for (const gone of [account.owner, client(service.url, other.apiKey)])
      expect(await problemOf(gone('/v1/account'))).toBe('401 unauthorized');
    const recovered = client(service.url, apiKey);
    const raw = { headers: { Accept: 'application/octet-stream' } };
    expect((await bytesOf(recovered(`/v1/storage/${file.fileId}`, raw))).toString()).toBe('still here');
    expect((await jsonOf<{ keys: unknown[] }>(recovered('/v1/keys'))).keys.length).toBe(1);
    const { events } = await jsonOf<EventList>(recovered('/v1/events'));
    const since = events.slice(events.findIndex(({ action }) => action === 'account.recovered'));
    const { action, by, keyId } = itemOf(since, -1);
    expect(since.map((event) => event.action).toSorted()).toEqual([
      'account.recovered',
      'key.created',
      'key.revoked',
      'key.revoked',
    ]);
    expect({ action, by, keyId }).toEqual({ action: 'key.revoked', by: undefined, keyId: other.key.id });
  });

  it('has a new file after each recovery, and the old one is worth nothing', async () => {
    const account = await newAccount();
    const first = await openedFile(account);
    await jsonOf(recover(account.id, first), 201);
    expect(await problemOf(recover(account.id, first))).toBe('403 forbidden');
    const second = await openedFile(account);
    expect(secretOf(second)).not.toBe(secretOf(first));
    await jsonOf(recover(account.id, second.replaceAll('\n', '\r\n')), 201);
  });

  it('is recovered by one of several requests at once', async () => {
    const account = await newAccount();
    const text = await openedFile(account);
    const responses = await Promise.all(Array.from({ length: 6 }, () => recover(account.id, text)));
    expect(responses.filter((each) => each.status === 403).length).toBe(5);
    const { apiKey } = await present(responses.find((each) => each.status === 201)).json<NewAccountResponse>();
    expect((await client(service.url, apiKey).ask('getAccount')).status).toBe(200);
  });

  it('is not recovered by its private key, which every key with read can export, be it revoked or not', async () => {
    const account = await newAccount();
    const made = await jsonOf<NewApiKeyResponse>(account.owner.json('/v1/keys', { label: 'r', scopes: ['read'] }), 201);
    const reader = client(service.url, made.apiKey);
    const pem = await exported(reader);
    const refused = async (): Promise<void> => {
      const response = await recover(account.id, pem);
      const { detail } = v.parse(Problem, await response.clone().json());
      expect(detail).toContain('the private key alone does not recover an account');
      expect(await problemOf(response)).toBe('403 forbidden');
    };
    await refused();
    await jsonOf(account.owner(`/v1/keys/${made.key.id}`, { method: 'DELETE' }));
    expect(await problemOf(reader.ask('getAccount'))).toBe('401 unauthorized');
    await refused();
    expect((await account.owner('/v1/account')).status).toBe(200);
    // With the line, but without the recovery key.
    const guessed = `# recovery: ${'0'.repeat(43)}\n${pem}`;
    expect(await problemOf(recover(account.id, guessed))).toBe('403 forbidden');
    // The line belongs above: inside of another comment it is none.
    const secret = secretOf(await openedFile(account));
    expect(await problemOf(recover(account.id, `## recovery: ${secret}\n${pem}`))).toBe('403 forbidden');
  });

  it('is not recovered by the secret with another private key, nor by the file of another account', async () => {
    const account = await newAccount();
    const sibling = await newAccount(service, account.pair);
    const secret = secretOf(await openedFile(account));
    const { privatePem } = await generateKeyPair();
    for (const text of [`# recovery: ${secret}\n${privatePem}`, await openedFile(sibling), account.pair.privatePem])
      expect(await problemOf(recover(account.id, text))).toBe('403 forbidden');
    for (const text of ['x', `# recovery: ${secret}\n`, privatePem.slice(0, 60)])
      expect(await problemOf(recover(account.id, text))).toBe('400 key_invalid');
    expect((await account.owner('/v1/account')).status).toBe(200);
  });

  it('whose file is older than the secrets gets that as the error, and keeps its keys', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'sealpin-recovery-'));
    try {
      let own = await startService({ dir });
      const account = await newAccount(own);
      const { apiKey } = account.owner;
      const text = `# recovery: ${'0'.repeat(43)}\n${await exported(account.owner)}`;
      await own.close();
      const folder = join(dir, 'state', 'do', 'sealpin-Account');
      for (const name of readdirSync(folder).filter((each) => /^[0-9a-f]{64}\.sqlite$/.test(each))) {
        const database = new DatabaseSync(join(folder, name));
        database.exec('ALTER TABLE account DROP COLUMN recovery_hash');
        database.close();
      }
      own = await startService({ dir });
      const response = await recover(account.id, text, own);
      expect(v.parse(Problem, await response.clone().json()).detail).toContain('has no secret');
      expect(await problemOf(response)).toBe('403 forbidden');
      expect((await client(own.url, apiKey).ask('getAccount')).status).toBe(200);
      await own.close();
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});

it('an account that names no recovery key has no recovery, and no body is read for it', async () => {
  const { account } = await service.account();
  for (const id of [account.id, '0'.repeat(22), 'x']) {
    expect(await problemOf(client(service.url).ask('getRecoveryFile', { id }))).toBe('404 not_found');
    for (const body of [JSON.stringify({ privateKey: 'x' }), '{', `"${'x'.repeat(70_000)}`])
      expect(await problemOf(client(service.url).ask('recoverAccount', { id }, { body }))).toBe('404 not_found');
  }
  const hinted = await client(service.url, adminToken).ask('createAccount', { label: 'x', recovery: 'hello' });
  expect(await hinted.json()).toMatchObject({
    code: 'key_invalid',
    hint: 'send age1…, age1tag1… or the PEM block of a P-256 key',
  });
  for (const recovery of [
    '',
    'age1nonsense',
    `${(await generateKeyPair()).publicPem}${(await generateKeyPair()).publicPem}`,
    (await generateKeyPair()).privatePem,
  ]) {
    expect(await problemOf(client(service.url, adminToken).ask('createAccount', { label: 'x', recovery }))).toBe(
      '400 key_invalid',
    );
  }
});
