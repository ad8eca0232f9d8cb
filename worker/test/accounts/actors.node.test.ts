/** SECURITY.md says who can do what: each cell is tried here, or named as one that has no test. */
import { createHmac, createPrivateKey, hkdfSync, sign } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiKeyList, BackupPage, FileList, NewApiKeyResponse, Share } from '../../../shared/api.ts';
import { keyIdOf, newAccountId, parseApiKey } from '../../../shared/crypto/index.ts';
import { adminToken, metricsToken, restoreToken, startService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, signedPath, type Client, type Init } from '../client.ts';
import { columns, elsewhere, tried, untried, type Actor, type Column } from './actors.ts';
import { newOwner } from '../stored-state.ts';

const root = join(import.meta.dirname, '../../..');
const document = readFileSync(join(root, 'SECURITY.md'), 'utf8');

let service: Service;
let operator: Client;
beforeAll(async () => {
  service = await startService({ entry: 'worker/test/clock.ts' });
  operator = client(service.url, adminToken);
});
afterAll(() => service.close());

/** An account with a file in each mode, one that is deleted, three shares, a second key, and a backup of before. */
type World = Awaited<ReturnType<typeof newWorld>>;

async function newWorld() {
  const { id, call } = await newOwner(service);
  const key = await parseApiKey(call.apiKey);
  if (key === undefined) throw new Error('it is an API key');
  await jsonOf(operator.json(`/v1/operator/accounts/${id}`, { label: 'label of the owner' }, 'PATCH'));
  const plain = await call.store('plain', `plain bytes of ${id}`, { filename: 'name of the owner' });
  const sealed = await call.store('encrypted', `sealed bytes of ${id}`, { filename: 'name of the owner' });
  const gone = await call.store('plain', `deleted bytes of ${id}`);
  await jsonOf(call(`/v1/storage/${gone.fileId}`, { method: 'DELETE' }));
  const shared = { record: btoa('the sealed record'), files: [], password: false, opens: 1 };
  const shares = await Promise.all(
    [1, 2, 3].map(async () => (await jsonOf<Share>(call.json('/v1/shares', shared), 201)).id),
  );
  const newKey = async (scopes: readonly string[]): Promise<NewApiKeyResponse> =>
    await jsonOf<NewApiKeyResponse>(call.json('/v1/keys', { label: 'second', scopes }), 201);
  const second = await newKey(['keys']);
  const page = await jsonOf<BackupPage>(operator(`/v1/operator/accounts/${id}/backup?limit=100`));
  const lost = [newAccountId(), newAccountId(), newAccountId()] as const;
  return { id, call, key, plain, sealed, gone, shares, second, newKey, page, lost };
}

/** Returns what the owner has, as far as it does not change by itself. */
async function stateOf({ id, call, plain, sealed, lost }: World): Promise<unknown> {
  const text = async (asked: Promise<Response>): Promise<string> => {
    const response = await asked;
    return `${response.status} ${await response.text()}`;
  };
  const listed = await call('/v1/storage');
  const { files } = listed.ok ? await listed.json<FileList>() : { files: [] };
  const keys = await call('/v1/keys');
  const found = await Promise.all([
    text(call(`/v1/storage/${plain.fileId}/content`)),
    text(call(`/v1/storage/${sealed.fileId}/content`)),
    text(call('/v1/shares')),
    ...[id, ...lost].map(async (each) => (await operator(`/v1/operator/accounts/${each}`)).status),
  ]);
  return [
    ...found,
    files.map((file) => ({ ...file, pins: [] })),
    keys.ok ? (await keys.json<ApiKeyList>()).keys : keys.status,
  ];
}

/** Tokens made of what is stored about the owner's key: its hash and its ID. */
function forged({ key, plain }: World, method: 'GET' | 'POST'): string[] {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const exp = Math.floor(Date.now() / 1000) + 60;
  const claims =
    method === 'GET' ? { method, file: plain.fileId, exp } : { method, mode: 'plain', exp, jti: crypto.randomUUID() };
  const hash = Buffer.from(key.hash, 'hex');
  const derive = (info: string): Buffer => Buffer.from(hkdfSync('sha256', hash, '', info, 32));
  const signed = (alg: string): string => `${encode({ alg, kid: keyIdOf(key.hash) })}.${encode(claims)}`;
  const mac = createHmac('sha256', derive('sealpin/v1 signed-url')).update(signed('HS256')).digest('base64url');
  const bySeed = (seed: Buffer): string => {
    const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
    const own = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    return `${signed('EdDSA')}.${sign(null, Buffer.from(signed('EdDSA')), own).toString('base64url')}`;
  };
  return [`${signed('HS256')}.${mac}`, bySeed(hash), bySeed(derive('sealpin/v1 signed-url ed25519'))];
}

/** A way to ask as an actor; `shares` are the IDs, or those of none, where the actor does not know them. */
type Ask = {
  call: (path: string, init?: Init) => Promise<Response>;
  shares: readonly string[];
  world: World;
  url: string;
};

const body = (value: unknown, method = 'POST'): Init => ({
  method,
  body: JSON.stringify(value),
  headers: { 'Content-Type': 'application/json' },
});
const headers = { 'Content-Type': 'text/plain', 'Content-Disposition': 'attachment; filename=planted' };
const bytes = { method: 'POST', body: 'planted', headers };
const restore = ({ call, world }: Ask, lost: string, change: Partial<BackupPage> = {}): Promise<Response> =>
  call(`/v1/operator/accounts/${lost}/backup`, body({ ...world.page, accountId: lost, shares: [], ...change }, 'PUT'));
async function last(asked: Promise<Response>[]): Promise<Response> {
  const all = await Promise.all(asked);
  return all.find(({ ok }) => ok) ?? all[0] ?? Response.error();
}

/** Views that may be seen: a path, and texts that its response then has. */
const views: Record<string, (ask: Ask) => [path: string, ...shows: string[]]> = {
  label: () => ['/v1/account', 'label of the owner'],
  usage: () => ['/v1/account', 'label of the owner', '"usage"'],
  files: ({ world }) => ['/v1/storage', world.sealed.fileId],
  names: () => ['/v1/storage', 'name of the owner'],
  plain: ({ world }) => [`/v1/storage/${world.plain.fileId}/content`, 'plain bytes'],
  sealed: ({ world }) => [`/v1/storage/${world.sealed.fileId}/content`, 'sealed bytes'],
  privateKey: () => ['/v1/account', 'label of the owner', '"sealed"'],
  fileEvents: ({ world }) => ['/v1/events', world.plain.fileId],
  keyEvents: ({ world }) => ['/v1/events', world.second.key.id],
  shareEvents: ({ world }) => ['/v1/events', world.shares[0] ?? ''],
  keys: ({ world }) => ['/v1/keys', world.second.key.id],
  shares: ({ world }) => ['/v1/shares', world.shares[0] ?? ''],
  keyUsage: ({ world }) => ['/v1/usage', keyIdOf(world.key.hash)],
  receipt: ({ world }) => [`/v1/storage/${world.gone.fileId}/receipt`, world.gone.fileId],
  account: ({ world }) => [`/v1/operator/accounts/${world.id}`, 'label of the owner'],
  accountUsage: ({ world }) => [`/v1/operator/accounts/${world.id}/usage`, keyIdOf(world.key.hash)],
  backup: ({ world }) => [`/v1/operator/accounts/${world.id}/backup`, world.key.hash],
  metrics: () => ['/v1/operator/metrics', 'sealpin_files'],
  share: ({ shares }) => [`/v1/shares/${shares[0]}`, '"opensLeft"'],
  url: ({ url }) => [url, 'plain bytes'],
};

/** Attempts in each column, by the names in `actors.ts`. One succeeds if the owner finds something else than before. */
const attempts: Record<Column, Record<string, (ask: Ask) => Promise<Response>>> = {
  withhold: {
    disable: ({ call, world }) => call(`/v1/operator/accounts/${world.id}`, body({ disabled: true }, 'PATCH')),
    deny: ({ call, world }) => call(`/v1/operator/denylist/${world.plain.cid}`, { method: 'PUT' }),
    useUp: ({ call, shares }) => call(`/v1/shares/${shares[0]}/open`, { method: 'POST' }),
    revokeShare: ({ call, shares }) => call(`/v1/shares/${shares[1]}`, { method: 'DELETE' }),
    retag: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, body({ tags: ['other'] }, 'PATCH')),
  },
  'roll back': {
    restore: (ask) => restore(ask, ask.world.lost[0]),
    replace: (ask) => restore(ask, ask.world.id),
  },
  swap: {
    restoreOther: (ask) => {
      const files = ask.world.page.files.map((file) => ({ ...file, cid: ask.world.sealed.cid }));
      return restore(ask, ask.world.lost[1], { files });
    },
    rename: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, body({ filename: 'swapped' }, 'PATCH')),
    put: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, { ...bytes, method: 'PUT' }),
    post: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, bytes),
  },
  plant: {
    plain: ({ call }) => call('/v1/storage/plain', bytes),
    encrypted: ({ call }) => call('/v1/storage/encrypted', bytes),
    share: ({ call }) => call('/v1/shares', body({ record: 'AAAA', files: [], password: false })),
    key: ({ call }) => call('/v1/keys', body({ label: 'planted', scopes: ['keys'] })),
    restoreKey: (ask) => {
      const keys = ask.world.page.keys.map((key) => ({ ...key, label: 'planted' }));
      return restore(ask, ask.world.lost[2], { keys });
    },
    url: ({ call, url }) => call(url, bytes),
    forged: ({ call, world }) =>
      last(forged(world, 'POST').map((token) => call(`/v1/accounts/${world.id}/signed/${token}`, bytes))),
    recover: ({ call, world }) => call(`/v1/accounts/${world.id}/recover`, body({ privateKey: world.key.hash })),
  },
  delete: {
    file: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, { method: 'DELETE' }),
    files: ({ call, world }) => call('/v1/storage/delete', body({ files: [world.sealed.fileId] })),
    expiry: ({ call, world }) => {
      const expiresAt = new Date(Date.now() + 60_000).toISOString();
      return call(`/v1/storage/${world.sealed.fileId}`, body({ expiresAt }, 'PATCH'));
    },
    share: ({ call, shares }) => call(`/v1/shares/${shares[2]}`, { method: 'DELETE' }),
    key: ({ call, world }) => call(`/v1/keys/${world.second.key.id}`, { method: 'DELETE' }),
    account: ({ call, world }) => call(`/v1/operator/accounts/${world.id}`, { method: 'DELETE' }),
  },
};

async function askAs({ as, knowsShare }: Actor, world: World): Promise<Ask> {
  const shares = knowsShare === true ? world.shares : world.shares.map(() => newAccountId());
  const nowhere = `/v1/accounts/${world.id}/signed/none`;
  const asking = (token: string, headers: Record<string, string> = {}, url = nowhere): Ask => ({
    call: (path, init = {}) => client(service.url, token)(path, { ...init, headers: { ...headers, ...init.headers } }),
    shares,
    world,
    url,
  });
  if (as === 'nobody') return asking('');
  if (as === 'stranger') return asking((await newOwner(service)).call.apiKey);
  if ('scopes' in as) return asking((await world.newKey(as.scopes)).apiKey);
  if ('signed' in as) {
    const claims =
      as.signed === 'GET'
        ? { method: 'GET', file: world.plain.fileId }
        : { method: 'POST', mode: 'plain', jti: crypto.randomUUID() };
    const url = await signedPath(world.call.apiKey, claims);
    return asking(url.slice(url.lastIndexOf('/') + 1), {}, url);
  }
  if (as.token === 'metrics') return asking(metricsToken, { 'Sealpin-Restore': metricsToken });
  // A guess beside the operator's token is worth nothing.
  return asking(adminToken, { 'Sealpin-Restore': as.token === 'admin' ? adminToken : restoreToken });
}

describe('the actors of SECURITY.md', () => {
  it.each(Object.entries(tried))('%s: sees and does what is listed, and nothing else', async (_, actors) => {
    for (const actor of actors) {
      const world = await newWorld();
      const ask = await askAs(actor, world);
      const seen = await Promise.all(
        Object.entries(views).map(async ([name, of]) => {
          const [path, ...shows] = of(ask);
          const response = await ask.call(path);
          const text = response.ok ? await response.text() : '';
          return response.ok && shows.every((each) => text.includes(each)) ? name : undefined;
        }),
      );
      expect(seen.filter((name) => name !== undefined).toSorted()).toEqual(actor.sees.toSorted());
      for (const token of forged(world, 'GET'))
        expect((await ask.call(`/v1/accounts/${world.id}/signed/${token}`)).status).toBeGreaterThan(400);

      let state = await stateOf(world);
      for (const column of columns)
        for (const [name, attempt] of Object.entries(attempts[column]))
          if (actor[column]?.includes(name) !== true) await attempt(ask);
      expect(await stateOf(world)).toEqual(state);
      for (const column of columns)
        for (const name of actor[column] ?? []) {
          const response = await attempts[column][name]?.(ask);
          const after = await stateOf(world);
          expect([column, name, response?.ok]).toEqual([column, name, true]);
          expect(after, name).not.toEqual(state);
          state = after;
        }
    }
  });
});

/** The rows of a table of the document whose first column is `actor`, by actor, without links and emphasis. */
function rowsOf(header: string): Map<string, string[]> {
  const [, table = ''] = document.split(`| actor | ${header} |\n`);
  const lines = table.split('\n\n')[0]?.split('\n').slice(1) ?? [];
  return new Map(
    lines.map((line) => {
      const [name = '', ...cells] = line.slice(2, -2).split(' | ');
      return [name.replaceAll('**', '').replace(/ \(.*\)$/, ''), cells];
    }),
  );
}

describe('the tables of SECURITY.md', () => {
  const sees = rowsOf('sees');
  const can = rowsOf(columns.join(' | '));

  it('have a row for each actor, and no other', () => {
    const names = [...Object.keys(tried), ...Object.keys(elsewhere), ...untried].toSorted();
    expect([...sees.keys()].toSorted()).toEqual(names);
    expect([...can.keys()].toSorted()).toEqual(names);
    for (const path of Object.values(elsewhere).flat()) expect(existsSync(join(root, path)), path).toBe(true);
  });

  it('say no where nothing succeeds, and mark what has no test', () => {
    for (const [name, actors] of Object.entries(tried))
      for (const [index, column] of columns.entries()) {
        const isNo = actors.every((actor) => (actor[column] ?? []).length === 0);
        const cell = can.get(name)?.[index] ?? '';
        expect([name, column, /^no\b/.test(cell)]).toEqual([name, column, isNo]);
      }
    for (const [name, cells] of can) {
      expect(cells, name).toHaveLength(columns.length);
      const isMarked = [...(sees.get(name) ?? []), ...cells].every((cell) => cell.endsWith('°'));
      expect([name, isMarked]).toEqual([name, untried.includes(name)]);
    }
  });
});
