/** `account rotate` against the real service, interrupted, and what other commands do meanwhile. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connect } from '../../../client/index.ts';
import { parseRecipients } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { sealedParcelType } from '../../../shared/link/index.ts';
import { client, pathOf } from '../../../testkit/api-client.ts';
import { faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { hostileFiles } from '../hostile-deliveries.ts';
import { sharedLocalService, oldInbox } from '../local.ts';

const local = sharedLocalService();
const password = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };

let directory: string;
beforeEach(async () => {
  directory = await temporaryDirectory();
});

const sealpin = (argv: readonly string[], o: Overrides = {}): Promise<Ran> =>
  run([...argv, '--data-dir', local.dataDir], directory, { env: password, ...o });

/** The API, with the key of the account at this moment. */
const api = () => client(local.url, local.apiKey);

/** Stores files that the service encrypts. @returns their IDs */
async function store(texts: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (let at = 0; at < texts.length; at += 10)
    ids.push(
      ...(await Promise.all(
        texts.slice(at, at + 10).map(async (text) => {
          const stored = await api().store('encrypted', text, { filename: 'letter', type: 'text/plain' });
          return stored.fileId;
        }),
      )),
    );
  return ids;
}

async function got(fileId: string): Promise<string> {
  const name = `got-${fileId}`;
  expect(await sealpin(['decrypt', fileId, name])).toMatchObject({ exit: 0 });
  return await readFile(join(directory, name), 'utf8');
}

test('a backup from before is restored after it, and the next one needs a new folder', async () => {
  const [fileId] = await store(['kept']);
  expect(await sealpin(['backup', 'before'])).toMatchObject({ exit: 0 });
  await sealpin(['account', 'rotate', '--quiet']);
  const same = await sealpin(['backup', 'before']);
  expect(same).toMatchObject({ exit: 1 });
  expect(same.stderr).toContain('is the backup of this account under an older key pair');
  expect(await sealpin(['backup', 'after'])).toMatchObject({ exit: 0 });
  expect(await sealpin(['delete', present(fileId), '--yes'])).toMatchObject({ exit: 0 });
  for (const folder of ['before', 'after']) {
    const restored = await sealpin(['restore', folder, '--json']);
    expect(restored, restored.stderr).toMatchObject({ exit: 0 });
  }
  const { files } = await connect({ service: local.url, apiKey: local.apiKey }).list({ mode: 'encrypted', limit: 2 });
  expect(await got(first(files).fileId)).toBe('kept');
});

test('a backup during which the key pair is replaced says so', async () => {
  await store(['one', 'two', 'three']);
  let containers = 0;
  const proxy = await faultyProxy(
    () => local.url,
    ({ headers }) => {
      if (headers.accept !== 'application/vnd.sealpin' || (containers += 1) !== 2) return undefined;
      return { kind: 'late', until: connect({ service: local.url, apiKey: local.apiKey }).rotateAccount() };
    },
  );
  const env = { ...password, SEALPIN_API_KEY: local.apiKey };
  const ran = await sealpin(['backup', 'copy', '--service', proxy.url], { env });
  expect(ran).toMatchObject({ exit: 1, stdout: '' });
  expect(ran.stderr).toContain('copy is the backup of this account under an older key pair');
  expect(ran.stderr).not.toContain('not backed up');
});

test('deliveries that only the key before opens are named first, and open with it once exported', async () => {
  await writeFile(join(directory, 'letter'), 'Dear Ann');
  const link = await oldInbox(local);
  const before = await api().getAccount();
  const early = await sealpin(['account', 'rotate']);
  expect(early).toMatchObject({ exit: 1, stdout: '' });
  expect(early.stderr).toContain('only stores: if old is an old inbox, what comes there opens no more');
  expect(await sealpin(['send', 'letter', '--inbox', link])).toMatchObject({ exit: 0 });
  expect(await sealpin(['inbox', 'revoke', link])).toMatchObject({ exit: 0 });
  const { deliveries } = await connect({ service: local.url, apiKey: local.apiKey }).inbox.list();
  const { id } = first(deliveries);
  const refused = await sealpin(['account', 'rotate']);
  expect(refused).toMatchObject({ exit: 1, stdout: '' });
  expect(refused.stderr).toContain('a delivery sealed to the key before will open no more');
  expect(refused.stderr).toContain('keep the key that opens them with sealpin key export, and end old inboxes');
  expect(await api().getAccount()).toMatchObject({ account: before.account });
  expect(await sealpin(['key', 'export', 'old.key'])).toMatchObject({ exit: 0 });
  expect(await sealpin(['account', 'rotate', '--yes'])).toMatchObject({ exit: 0 });
  const closed = await sealpin(['inbox', 'open', id, 'none']);
  expect(closed).toMatchObject({ exit: 4, stderr: expect.stringContaining('none of the keys opens it') as unknown });
  expect(await sealpin(['inbox', 'open', id, 'opened', '--key', 'old.key'])).toMatchObject({ exit: 0 });
  expect(await readFile(join(directory, 'opened', 'letter'), 'utf8')).toBe('Dear Ann');
  expect(await sealpin(['account', 'rotate'])).toMatchObject({ exit: 0 });
});

test('nothing that anyone stores as a delivery, and no backend that is away, keeps the owner from it', async () => {
  const { account } = await api().getAccount();
  const kinds = await hostileFiles(first(parseRecipients(account.publicKey)));
  const ids: Record<string, string> = {};
  for (const [kind, bytes] of Object.entries(kinds))
    ids[kind] = (await api().store('plain', Buffer.from(bytes), { type: sealedParcelType })).fileId;
  const warnings = ({ stderr }: Ran): string[] =>
    Object.keys(ids).filter((kind) => stderr.includes(`the delivery ${ids[kind]} may open no more`));
  const refused = await sealpin(['account', 'rotate']);
  expect(refused).toMatchObject({ exit: 1, stderr: expect.stringContaining('then add --yes') as unknown });
  expect(warnings(refused)).toEqual(['a later version of age', 'a name that leads out of the folder']);
  const code = 'pinning_unavailable';
  const body = JSON.stringify({ type: '', title: '', status: 503, code });
  const headers = { 'content-type': 'application/problem+json' };
  const proxy = await faultyProxy(
    () => local.url,
    ({ path }) => (path.endsWith('/content') ? { kind: 'answer', status: 503, headers, body } : undefined),
  );
  const env = { ...password, SEALPIN_API_KEY: local.apiKey };
  const away = await sealpin(['account', 'rotate', '--yes', '--service', proxy.url], { env });
  expect(away).toMatchObject({ exit: 0 });
  expect(warnings(away)).toEqual(Object.keys(kinds).filter((kind) => kind !== 'more than a parcel can have'));
  expect(await sealpin(['account', 'rotate', '--yes'])).toMatchObject({ exit: 0 });
  await api().deleteFiles({ files: Object.values(ids) });
});

// At the end: other tests would open, copy and restore its many files.
describe('a rotation that is interrupted', () => {
  /** One file more than a request seals. */
  const count = 201;
  let ids: string[];
  beforeAll(async () => {
    // Of a delivery the files go with it.
    await api().deleteFiles({ files: (await api().listFiles()).files.map(({ fileId }) => fileId) });
    ids = await store(Array.from({ length: count }, (_, index) => `letter ${index}`));
  }, 180_000);

  inCi('is resumed by the same command; files open meanwhile, and a backup waits', async () => {
    const stop = new AbortController();
    let asked = 0;
    const proxy = await faultyProxy(
      () => local.url,
      ({ path }) => {
        if (path === pathOf('rotateAccount')) asked += 1;
        if (asked === 2) stop.abort(new SealpinError('interrupted', 'interrupted by SIGINT'));
        return undefined;
      },
    );
    const env = { ...password, SEALPIN_API_KEY: local.apiKey };
    const ran = await sealpin(['account', 'rotate', '--service', proxy.url], { env, signal: stop.signal });
    expect(ran).toMatchObject({ exit: 130, stdout: '' });
    expect(ran.stderr).toContain('hint: what is done stays: the same command completes it\n');
    const connection = connect({ service: local.url, apiKey: local.apiKey });
    const again = await sealpin(['account', 'rotate', '--json']);
    expect(again).toMatchObject({ exit: 0 });
    for (const [index, fileId] of ids.entries())
      if (long || index % 20 === 0) expect(await (await connection.get(fileId)).text()).toBe(`letter ${index}`);
    expect(await got(first(ids))).toBe('letter 0');
  });

  inCi('leaves each command that opens files with both pairs, and key export and backup say so', async () => {
    const { account } = await api().getAccount();
    // The first request alone, as an interruption leaves it.
    expect(await api().rotateAccount({ publicKey: account.publicKey })).toMatchObject({ done: false, remaining: 1 });
    for (const fileId of [first(ids), itemOf(ids, -1)]) {
      expect(await got(fileId)).toMatch(/^letter /);
      expect(await sealpin(['share', fileId, '--quiet'])).toMatchObject({ exit: 0 });
      expect(await sealpin(['verify', fileId])).toMatchObject({ exit: 0 });
    }
    const exported = await sealpin(['key', 'export', 'new.key']);
    expect(exported.stderr).toContain('warning: the key pair of the account is being replaced');
    const backup = await sealpin(['backup', 'copy']);
    expect(backup).toMatchObject({ exit: 1 });
    expect(backup.stderr).toContain('complete that first: sealpin account rotate');
    const ran = await sealpin(['account', 'rotate']);
    expect(ran).toMatchObject({ exit: 0 });
    expect(ran.stderr).toContain('the key pair is being replaced already: 1 file left\n');
    expect((await api().getAccount()).rotation).toBeUndefined();
    for (const fileId of [first(ids), itemOf(ids, -1)]) {
      const opened = await sealpin(['ecc-decrypt', await container(fileId), '-', 'new.key']);
      expect(opened.stdout, opened.stderr).toMatch(/^letter /);
    }
  });
});

async function container(fileId: string): Promise<string> {
  const response = await api().ask('getFile', { fileId }, { headers: { Accept: 'application/vnd.sealpin' } });
  const name = join(directory, `${fileId}.sealpin`);
  await writeFile(name, Buffer.from(await response.arrayBuffer()));
  return name;
}
