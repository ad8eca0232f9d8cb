/**
 * Backups by the operator of an account whose key pair is replaced before, during or after them.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { BackupPage, RestoredPage, StoredFile } from '../../../shared/api.ts';
import { generateKeyPair, open, parseIdentities } from '../../../shared/crypto/index.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { adminToken, restoreToken, startService, type Service } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { accountObject, type Owner } from '../stored-state.ts';
import { containerOf, opens, privateKeysOf, replacedBy, rotate } from './rotating.ts';

let before: Service;
let after: Service;
const vars = { SERVICE_ID: 'of-rotations' };
beforeAll(async () => {
  before = await startService({ vars, entry: 'worker/test/clock.ts' });
  const node = { url: before.node, close: async () => undefined };
  after = await startService({ vars, entry: 'worker/test/clock.ts', node });
});
afterAll(async () => {
  await after.close();
  await before.close();
});

type World = Owner & { files: StoredFile[]; reader: Client; recoveryKey: string };

/**
 * An account with a recovery key, three encrypted files with a tag, and another key with `read`.
 */
async function newWorld(): Promise<World> {
  const pair = await generateKeyPair();
  const made = await client(before.url, adminToken).createAccount({ label: 'x', recovery: pair.publicPem });
  const { id } = made.account;
  const call = client(before.url, made.apiKey);
  const files = [await call.store('encrypted', '0'), await call.store('encrypted', '1')];
  files.push(await call.store('encrypted', '2'));
  for (const { fileId } of files) await call.changeFile({ fileId, tags: ['tag'] });
  const reader = await call.withKey(['read']);
  return { id, call, object: accountObject(before, id), files, reader, recoveryKey: pair.privatePem };
}

const page = (id: string, cursor?: string): Promise<BackupPage> =>
  client(before.url, adminToken).backUpAccount({ id, limit: 2, cursor });

/** Pages of a backup. @param between runs after the first one */
async function backUp(id: string, between: () => Promise<unknown> = async () => undefined): Promise<BackupPage[]> {
  const pages = [await page(id)];
  await between();
  for (let next = first(pages).next; next !== null; next = itemOf(pages, -1).next) pages.push(await page(id, next));
  return pages;
}

const put = (id: string, body: BackupPage): Promise<Response> =>
  client(after.url, adminToken).ask(
    'restoreAccount',
    { id },
    { headers: { 'Sealpin-Restore': restoreToken }, body: JSON.stringify(body) },
  );

async function restore(id: string, pages: readonly BackupPage[]): Promise<void> {
  for (const body of pages) await jsonOf<RestoredPage>(put(id, body));
}

async function readsAll(call: Client, files: readonly StoredFile[]): Promise<void> {
  for (const [index, { fileId }] of files.entries()) expect(String(await call.read(fileId))).toBe(String(index));
  expect((await call.listFiles({ tag: 'tag' })).files).toHaveLength(files.length);
}

/** Begins a rotation whose first request ends before it has sealed anything. */
async function begin({ call, object }: World): Promise<void> {
  await object.fail('rewrap', 'before');
  const publicKey = await replacedBy(call);
  expect(await problemOf(call.ask('rotateAccount', { publicKey }))).toBe('500 internal');
}

async function recover({ id, recoveryKey }: World): Promise<Client> {
  const file = await open(new Blob([await bytesOf(client(after.url).ask('getRecoveryFile', { id }))]).stream());
  if (file.kind !== 'age') throw new Error(file.kind);
  const privateKey = await new Response(await file.decrypt(parseIdentities(recoveryKey))).text();
  return client(after.url, (await client(after.url).recoverAccount({ id, privateKey })).apiKey);
}

it('a backup of an account that was never rotated names no pair, as those of earlier versions', async () => {
  const { id } = await newWorld();
  const text = JSON.stringify(await backUp(id));
  for (const member of ['"pair"', '"replaced"', '"previous"', '"rewrapped"', '"isBehind"'])
    expect(text).not.toContain(member);
});

inCi('one from before is restored with the pair before, all of its keys, and its recovery file', async () => {
  const world = await newWorld();
  const { id, call, files, reader } = world;
  const pages = await backUp(id);
  await rotate(call);
  await restore(id, pages);
  for (const { apiKey } of [call, reader]) await readsAll(client(after.url, apiKey), files);
  // What ended with the rotation is back: it is to be repeated.
  const there = client(after.url, call.apiKey);
  await rotate(there);
  await readsAll(there, files);
  expect(await problemOf(client(after.url, reader.apiKey).ask('listFiles'))).toBe('401 unauthorized');
  await readsAll(await recover(world), files);
});

inCi('one from the middle is restored with both pairs, and the rotation continues there', async () => {
  const world = await newWorld();
  const { id, call, files, reader } = world;
  await begin(world);
  // One file is sealed to the new pair by then.
  const later = await call.store('encrypted', '3');
  await call.changeFile({ fileId: later.fileId, tags: ['tag'] });
  const all = [...files, later];
  const pages = await backUp(id);
  expect(new Set(pages.map(({ pair }) => pair)).size).toBe(1);
  expect(pages.flatMap((each) => each.files.map(({ isBehind }) => isBehind))).toEqual([true, true, true, undefined]);
  await rotate(call);
  await restore(id, pages);
  const there = client(after.url, call.apiKey);
  expect(await problemOf(client(after.url, reader.apiKey).ask('listFiles'))).toBe('401 unauthorized');
  expect((await there.getAccount()).rotation?.remaining).toBe(3);
  await readsAll(there, all);
  const old = itemOf(await privateKeysOf(there), 1);
  expect(await rotate(there)).toMatchObject([{ done: true }]);
  await readsAll(there, all);
  for (const { fileId } of all) expect(await opens(old, await containerOf(there, fileId), fileId)).toBe(false);
  expect(await accountObject(after, id).rows('rotation')).toEqual([]);
  await readsAll(await recover(world), all);
});

it('one whose files were rewrapped while it was taken is whole', async () => {
  const world = await newWorld();
  const { id, call, files } = world;
  await begin(world);
  const pages = await backUp(id, () => rotate(call));
  expect(pages.flatMap((each) => each.files.map(({ rewrapped }) => rewrapped))).toEqual([1, 1, 1]);
  await restore(id, pages);
  const there = client(after.url, call.apiKey);
  await readsAll(there, files);
  expect((await there.getAccount()).rotation?.remaining).toBe(0);
  expect(await rotate(there)).toMatchObject([{ done: true }]);
  await readsAll(there, files);
});

it('one that was taken while a rotation began is refused, before a key works', async () => {
  const world = await newWorld();
  const { id, call } = world;
  const pages = await backUp(id, () => begin(world));
  expect(pages[0]?.pair).toBeUndefined();
  const [body, next] = pages;
  await jsonOf(put(id, present(body)));
  const response = await put(id, present(next));
  expect(await response.clone().text()).toContain('the key pair of the account was replaced');
  expect(await problemOf(response)).toBe('409 conflict');
  const there = client(after.url, call.apiKey);
  expect(await problemOf(there.ask('listFiles'))).toBe('403 account_disabled');
  // Nor does a rotation begin in an account that is being restored.
  const { publicKey } = (await call.getAccount()).account;
  expect(await problemOf(there.ask('rotateAccount', { publicKey }))).toBe('403 account_disabled');
});

it('one from after has the new pair alone', async () => {
  const world = await newWorld();
  const { id, call, files } = world;
  await rotate(call);
  await restore(id, await backUp(id));
  const there = client(after.url, call.apiKey);
  expect((await there.getAccount()).rotation).toBeUndefined();
  await readsAll(there, files);
  await rotate(there);
  await readsAll(await recover(world), files);
});
