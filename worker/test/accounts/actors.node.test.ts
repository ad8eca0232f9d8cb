/** SECURITY.md says who can do what: each cell is tried here, or named as one that has no test. */
import { createHmac, createPrivateKey, hkdfSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ApiKeyList, BackupPage, FileList } from '../../../shared/api.ts';
import { generateKeyPair, keyIdOf, newAccountId, parseApiKey } from '../../../shared/crypto/index.ts';
import { adminToken, metricsToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { present } from '../../../testkit/present.ts';
import { ci } from '../../../testkit/long-run.ts';
import { client, pathOf, signedPath, type Client } from '../../../testkit/api-client.ts';
import { columns, elsewhere, tried, untried, type Actor, type Column } from './actors.ts';
import { newOwner } from '../stored-state.ts';

const tus = { 'Tus-Resumable': '1.0.0' };
const root = join(import.meta.dirname, '../../..');
const document = readFileSync(join(root, 'SECURITY.md'), 'utf8');

let service: Service;
let operator: Client;
beforeAll(async () => {
  service = await sharedService();
  operator = client(service.url, adminToken);
});

/**
 * An account with a file in each mode, one that is deleted, three shares, an unfinished upload, a
 * second key, and a backup of before.
 */
type World = Awaited<ReturnType<typeof newWorld>>;

async function newWorld() {
  const { publicPem: recovery } = await generateKeyPair();
  const { account, apiKey } = await operator.createAccount({ label: 'of the test', recovery });
  const { id, publicKey, createdAt } = account;
  const call = client(service.url, apiKey);
  const key = await parseApiKey(call.apiKey);
  if (key === undefined) throw new Error('it is an API key');
  await operator.changeAccount({ id, label: 'label of the owner' });
  const plain = await call.store('plain', `plain bytes of ${id}`, { filename: 'name of the owner' });
  const sealed = await call.store('encrypted', `sealed bytes of ${id}`, { filename: 'name of the owner' });
  const gone = await call.store('plain', `deleted bytes of ${id}`);
  await call.deleteFile({ fileId: gone.fileId });
  const shared = { record: btoa('the sealed record'), files: [], password: false, opens: 1 };
  const shares = await Promise.all([1, 2, 3].map(async () => (await call.createShare(shared)).id));
  const upload = await call.ask('createUploadPlain', {}, { headers: { ...tus, 'Upload-Length': '9' } });
  const uploadId = present(present(upload.headers.get('Location')).split('/').at(-1));
  const second = await call.withKey(['keys']);
  const page = await operator.backUpAccount({ id, limit: 100 });
  const lost = [newAccountId(), newAccountId(), newAccountId()] as const;
  return { id, call, key, publicKey, createdAt, plain, sealed, gone, shares, uploadId, second, page, lost };
}

/** Returns what the owner has, as far as it does not change by itself. */
async function stateOf({ id, call, plain, sealed, lost }: World): Promise<unknown> {
  const text = async (asked: Promise<Response>): Promise<string> => {
    const response = await asked;
    return `${response.status} ${await response.text()}`;
  };
  const head = async ({ fileId }: { fileId: string }): Promise<number> =>
    (await call(pathOf('getFileContent', { fileId }), { method: 'HEAD' })).status;
  const listed = await call.ask('listFiles');
  const { files } = listed.ok ? await listed.json<FileList>() : { files: [] };
  const keys = await call.ask('listKeys');
  const found = await Promise.all([
    // Its bytes are those of its CID, or there are none.
    head(plain),
    head(sealed),
    text(call.ask('listShares')),
    text(call.ask('listUploads')),
    ...[id, ...lost].map(async (each) => (await operator.ask('getAccountSummary', { id: each })).status),
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

/**
 * A way to ask as an actor; `shares` are the IDs, or those of none, where the actor does not know
 * them.
 */
type Ask = {
  call: Client;
  shares: readonly string[];
  world: World;
  url: string;
};

const headers = { 'Content-Type': 'text/plain', 'Content-Disposition': 'attachment; filename=planted' };
const bytes = { method: 'POST', body: 'planted', headers };
const piece = {
  body: 'planted',
  headers: { ...tus, 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': '0' },
};
const restore = ({ call, world }: Ask, lost: string, change: Partial<BackupPage> = {}): Promise<Response> =>
  call.ask('restoreAccount', { id: lost, ...world.page, accountId: lost, shares: [], ...change });
async function last(asked: Promise<Response>[]): Promise<Response> {
  const all = await Promise.all(asked);
  return all.find(({ ok }) => ok) ?? all[0] ?? Response.error();
}

/** Views that may be seen: a path, and texts that its response then has. */
const views: Record<string, (ask: Ask) => [path: string, ...shows: string[]]> = {
  label: () => ['/v1/account', 'label of the owner'],
  age: ({ world }) => ['/v1/account', `"createdAt":"${world.createdAt}"`],
  recoveryKey: () => ['/v1/account', '"recovery":"'],
  maker: ({ world }) => ['/v1/account', `"createdBy":"${keyIdOf(world.key.hash)}"`],
  usage: () => ['/v1/account', 'label of the owner', '"usage"'],
  files: ({ world }) => ['/v1/storage', world.sealed.fileId],
  names: () => ['/v1/storage', 'name of the owner'],
  plain: ({ world }) => [`/v1/storage/${world.plain.fileId}/content`, 'plain bytes'],
  sealed: ({ world }) => [`/v1/storage/${world.sealed.fileId}/content`, 'sealed bytes'],
  privateKey: () => ['/v1/account', 'label of the owner', '"sealed"'],
  fileEvents: ({ world }) => ['/v1/events', world.plain.fileId],
  keyEvents: ({ world }) => ['/v1/events', world.second.id],
  shareEvents: ({ world }) => ['/v1/events', world.shares[0] ?? ''],
  keys: ({ world }) => ['/v1/keys', world.second.id],
  uploads: ({ world }) => ['/v1/uploads', world.uploadId],
  shares: ({ world }) => ['/v1/shares', world.shares[0] ?? ''],
  keyUsage: ({ world }) => ['/v1/usage', keyIdOf(world.key.hash)],
  receipt: ({ world }) => [`/v1/storage/${world.gone.fileId}/receipt`, world.gone.fileId],
  account: ({ world }) => [pathOf('getAccountSummary', { id: world.id }), 'label of the owner'],
  accountUsage: ({ world }) => [pathOf('listAccountUsage', { id: world.id }), keyIdOf(world.key.hash)],
  backup: ({ world }) => [pathOf('backUpAccount', { id: world.id }), world.key.hash],
  metrics: () => [pathOf('getMetrics'), 'sealpin_files'],
  share: ({ shares }) => [`/v1/shares/${shares[0]}`, '"opensLeft"'],
  url: ({ url }) => [url, 'plain bytes'],
};

/**
 * Attempts in each column, by the names in `actors.ts`. One succeeds if the owner finds something
 * else than before.
 */
const attempts: Record<Column, Record<string, (ask: Ask) => Promise<Response>>> = {
  withhold: {
    disable: ({ call, world }) => call.ask('changeAccount', { id: world.id, disabled: true }),
    deny: ({ call, world }) => call.ask('denyCid', { cid: world.plain.cid }),
    useUp: ({ call, shares }) => call.ask('openShare', { shareId: shares[0] }),
    shorten: ({ call, shares }) => {
      const expiresAt = new Date(Date.now() + 60_000).toISOString();
      return call.ask('changeShare', { shareId: shares[1], expiresAt });
    },
    revokeShare: ({ call, shares }) => call.ask('deleteShare', { shareId: shares[1] }),
    retag: ({ call, world }) => call.ask('changeFile', { fileId: world.plain.fileId, tags: ['other'] }),
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
    rename: ({ call, world }) => call.ask('changeFile', { fileId: world.plain.fileId, filename: 'swapped' }),
    sealName: ({ call, world }) =>
      call.ask('changeFile', { fileId: world.plain.fileId, details: btoa('sealpin/v1\n another name') }),
    append: ({ call, world: { uploadId } }) => call.ask('continueUpload', { uploadId }, piece),
    put: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, { ...bytes, method: 'PUT' }),
    post: ({ call, world }) => call(`/v1/storage/${world.plain.fileId}`, bytes),
  },
  plant: {
    plain: ({ call }) => call.ask('storePlain', {}, bytes),
    brief: ({ call }) => call.ask('storePlain', { expiresAt: new Date(Date.now() + 60_000).toISOString() }, bytes),
    encrypted: ({ call }) => call.ask('storeEncrypted', {}, bytes),
    share: ({ call }) => call.ask('createShare', { record: 'AAAA', files: [], password: false }),
    prolong: ({ call, shares }) => call.ask('changeShare', { shareId: shares[2], opens: 9 }),
    key: ({ call }) => call.ask('createKey', { label: 'planted', scopes: ['keys'] }),
    restoreKey: (ask) => {
      const keys = ask.world.page.keys.map((key) => ({ ...key, label: 'planted' }));
      return restore(ask, ask.world.lost[2], { keys });
    },
    url: ({ call, url }) => call(url, bytes),
    forged: ({ call, world }) =>
      last(forged(world, 'POST').map((token) => call.ask('storeSigned', { id: world.id, token }, bytes))),
    recover: ({ call, world }) => call.ask('recoverAccount', { id: world.id, privateKey: world.key.hash }),
  },
  delete: {
    file: ({ call, world }) => call.ask('deleteFile', { fileId: world.plain.fileId }),
    files: ({ call, world }) => call.ask('deleteFiles', { files: [world.sealed.fileId] }),
    expiry: ({ call, world }) => {
      const expiresAt = new Date(Date.now() + 60_000).toISOString();
      return call.ask('changeFile', { fileId: world.sealed.fileId, expiresAt });
    },
    share: ({ call, shares }) => call.ask('deleteShare', { shareId: shares[2] }),
    key: ({ call, world }) => call.ask('revokeKey', { id: world.second.id }),
    upload: ({ call, world: { uploadId } }) => call.ask('deleteUpload', { uploadId }, { headers: tus }),
    rotate: ({ call, world }) => call.ask('rotateAccount', { publicKey: world.publicKey }),
    account: ({ call, world }) => call.ask('deleteAccount', { id: world.id }),
  },
};

async function askAs({ as, knowsShare }: Actor, world: World): Promise<Ask> {
  const shares = knowsShare === true ? world.shares : world.shares.map(() => newAccountId());
  const nowhere = pathOf('getSigned', { id: world.id, token: 'none' });
  const asking = (token: string, headers: Record<string, string> = {}, url = nowhere): Ask => ({
    call: client(service.url, token, headers),
    shares,
    world,
    url,
  });
  if (as === 'nobody') return asking('');
  if (as === 'stranger') return asking((await newOwner(service)).call.apiKey);
  if ('scopes' in as) return asking((await world.call.withKey(as.scopes)).apiKey);
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
  // The short form leaves keys with two scopes out: each of these is tried alone.
  const some = Object.entries(tried).filter(([name]) => ci || !/^API key, .* and /.test(name));
  it.each(some)('%s: sees and does what is listed, and nothing else', async (_, actors) => {
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
        expect((await ask.call.ask('getSigned', { id: world.id, token })).status).toBeGreaterThan(400);

      let state = await stateOf(world);
      for (const column of columns)
        for (const [name, attempt] of Object.entries(attempts[column]))
          if (actor[column]?.includes(name) !== true) await attempt(ask);
      expect(await stateOf(world)).toEqual(state);
      for (const [mode, { fileId }] of [
        ['plain', world.plain],
        ['sealed', world.sealed],
      ] as const)
        expect(String(await world.call.read(fileId))).toBe(`${mode} bytes of ${world.id}`);
      for (const column of columns)
        for (const name of actor[column] ?? []) {
          const response = await attempts[column][name]?.(ask);
          const after = await stateOf(world);
          expect(response?.ok, `${column} ${name}`).toBe(true);
          expect(after, name).not.toEqual(state);
          state = after;
        }
    }
  });
});

/**
 * The rows of a table of the document whose first column is `actor`, by actor, without links and
 * emphasis.
 */
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
  });

  it.each(Object.entries(elsewhere))('name the tests that try %s', (_, tests) => {
    for (const [path, title] of tests) {
      const titles = readFileSync(join(root, path), 'utf8').matchAll(/\b(?:it|test)\(\s*(['`])(.*?)\1,/g);
      expect(Array.from(titles, ([, , each]) => each?.replace(/^.*\$\{\w+\}/, ''))).toContain(title);
    }
  });

  it('say no where nothing succeeds, and mark what has no test', () => {
    for (const [name, actors] of Object.entries(tried))
      for (const [index, column] of columns.entries()) {
        const isNo = actors.every((actor) => (actor[column] ?? []).length === 0);
        const cell = can.get(name)?.[index] ?? '';
        expect(/^no\b/.test(cell), `${name} ${column}`).toEqual(isNo);
      }
    for (const [name, cells] of can) {
      expect(cells, name).toHaveLength(columns.length);
      const isMarked = [...(sees.get(name) ?? []), ...cells].every((cell) => cell.endsWith('°'));
      expect(isMarked, name).toEqual(untried.includes(name));
    }
  });
});
