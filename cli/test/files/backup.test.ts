/**
 * Backup of an account and its restoration at another service, with real services on both sides.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateKeys, seal } from '../../../client/index.ts';
import type { StoredFile } from '../../../shared/api.ts';
import { client } from '../../../testkit/api-client.ts';
import { type Service, startService } from '../../../testkit/service.ts';
import { type Account, accountAt, accountIn, jsonOf, password, sealpin } from '../backup-accounts.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { everyFile } from '../local/harness.ts';
import { sharedLocalService } from '../local.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { flip, present } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';

const local = sharedLocalService();
/** More than one block, and more than one request to the other service. */
const noise = Buffer.from(Uint8Array.from({ length: 1_300_000 }, (_, index) => index * 31 + (index >> 8) * 7));

/** An account of its own at the other service: what a restoration goes into. */
let other: Service;
beforeAll(async () => {
  // Small, so that a file of some MiB takes several requests.
  other = await startService({ vars: { MAX_UPLOAD_BYTES: String(1024 * 1024) } });
});
afterAll(async () => other.close());

const newAccount = (): Promise<Account> => accountAt(other.url, () => other.account());
const localAccount = (): Promise<Account> => accountIn(local);

const api = ({ url, apiKey }: Account) => client(url.replace(/\/$/, ''), apiKey);

const listed = async ({ files }: Account): Promise<StoredFile[]> => (await files.list({ limit: 100 })).files;
/** Facts that identify a file, wherever it is. */
const facts = ({ filename, mode, size, contentType, metadata, tags, expiresAt }: StoredFile) => ({
  filename,
  mode,
  size,
  contentType,
  metadata,
  tags,
  expiresAt,
});

describe('an account', () => {
  test('opens whole at a new service, and is neither fetched nor stored twice', async () => {
    const directory = await temporaryDirectory();
    const source = await localAccount();
    const expiresAt = new Date(Date.now() + 86_400_000);
    const secret = await source.files.put(noise, { name: 'very secret ☃.mkv', type: 'video/x-matroska', expiresAt });
    await api(source).changeFile({ fileId: secret.fileId, metadata: { project: 'hush-hush' }, tags: ['covert'] });
    await source.files.put('', { name: 'empty', type: 'application/octet-stream' });
    const keys = await generateKeys();
    const container = await (await seal(noise, { to: { keys: keys.recipient } })).bytes();
    const plain = await source.files.put(container, { mode: 'plain', name: 'sealed by me.age' });
    await api(source).changeFile({ fileId: plain.fileId, tags: ['mine'], contentType: 'application/age' });
    await writeFile(join(directory, 'diary.txt'), 'Dear diary');
    const encrypted = await jsonOf(sealpin(source, ['encrypt', 'diary.txt', '--json'], directory));

    const first = await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    expect(first).toMatchObject({ files: 4, written: 4, gone: [] });
    expect(first['fetchedBytes']).toBeGreaterThan(2 * noise.length);
    const again = await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    expect(again).toMatchObject({ files: 4, written: 0, fetchedBytes: 0 });
    // Nothing that the account keeps sealed can be read in it, and neither can what the history
    // calls a file.
    const kept = ['files', 'blobs'].map((name) => everyFile(join(directory, 'copy', name)));
    const own = ['account.key', 'backup.json'].map((name) => readFile(join(directory, 'copy', name)));
    const all = Buffer.concat(await Promise.all([...kept, ...own]));
    for (const word of ['very secret', 'hush-hush', 'covert', 'diary', 'PRIVATE KEY', 'matroska'])
      expect(all.includes(word)).toBe(false);

    const target = await newAccount();
    const restored = await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory));
    expect(restored).toMatchObject({ restored: 4, present: 0, expired: 0 });
    const [was, now] = [await listed(source), await listed(target)];
    expect(now.map(facts)).toEqual(was.map(facts));
    expect(now.filter(({ mode }) => mode === 'plain').map(({ cid }) => cid)).toEqual(
      was.filter(({ mode }) => mode === 'plain').map(({ cid }) => cid),
    );
    const film = present(now.find(({ filename }) => filename === 'very secret ☃.mkv'));
    expect(await sealpin(target, ['decrypt', film.fileId, 'film'], directory)).toMatchObject({ exit: 0 });
    expect((await readFile(join(directory, 'film'))).equals(noise)).toBe(true);
    await jsonOf(sealpin(target, ['decrypt', encrypted['blobId'] as string, 'diary', '--json'], directory));
    expect(await readFile(join(directory, 'diary'), 'utf8')).toBe('Dear diary');
    expect((await sealpin(target, ['list'], directory)).stdout).toContain('diary.txt');
    // Its readers are told that this one has a password of its own, in each of the two languages.
    const readme = await readFile(join(directory, 'copy/README.txt'), 'utf8');
    const told = readme.split('\n\n').filter((paragraph) => /"sealpin encrypt"[^]*private\.key/.test(paragraph));
    expect(told).toHaveLength(2);
    await writeFile(join(directory, 'key'), keys.privateKey, { mode: 0o600 });
    expect(await sealpin(target, ['verify', plain.cid, '--key', 'key'], directory)).toMatchObject({ exit: 0 });

    expect(await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory))).toMatchObject({
      restored: 0,
      present: 4,
    });
    expect(await listed(target)).toHaveLength(4);
    // What is still in the account that it is from is not stored again, either.
    expect(await jsonOf(sealpin(source, ['restore', 'copy', '--json'], directory))).toMatchObject({ present: 4 });
  });

  test('is brought up to date: what is new, what changed, and what was deleted', async () => {
    const directory = await temporaryDirectory();
    const source = await localAccount();
    const kept = await source.files.put('one', { name: 'one' });
    const deleted = await source.files.put('two', { mode: 'plain' });
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    await source.files.delete(deleted.fileId);
    await api(source).changeFile({ fileId: kept.fileId, filename: 'renamed' });
    await source.files.put('three', { name: 'three' });
    const second = await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    expect(second).toMatchObject({ files: 2, written: 2, gone: [deleted.fileId], pruned: false });
    expect(second['fetchedBytes']).toBeLessThan(500);
    expect(await readdir(join(directory, 'copy/blobs'))).toContain(`${deleted.cid}.car`);
    // What was deleted is not brought back.
    const target = await newAccount();
    await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory));
    expect((await listed(target)).map(({ filename }) => filename)).toEqual(['three', 'renamed']);
    expect(await jsonOf(sealpin(source, ['backup', 'copy', '--prune', '--json'], directory))).toMatchObject({
      gone: [deleted.fileId],
      pruned: true,
    });
    expect(await readdir(join(directory, 'copy/files'))).toHaveLength(2);
    expect(await readdir(join(directory, 'copy/blobs'))).not.toContain(`${deleted.cid}.car`);
    expect(await sealpin(await localAccount(), ['backup', 'copy'], directory)).toMatchObject({
      exit: 1,
      stderr: /another account/,
    });
  });

  inCi('is found damaged by a check, and repaired by the next backup', async () => {
    const directory = await temporaryDirectory();
    const source = await localAccount();
    const { cid, fileId } = await source.files.put(noise, { name: 'noise' });
    await source.files.put('sound', { name: 'sound' });
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    const check = (): Promise<Ran> => run(['backup', 'copy', '--check', '--json'], directory);
    expect(JSON.parse((await check()).stdout)).toMatchObject({ files: 2 });
    const path = join(directory, 'copy/blobs', `${cid}.car`);
    const bytes = await readFile(path);
    flip(bytes, 1_250_000);
    await writeFile(path, bytes);
    expect(await check()).toMatchObject({ exit: 5, stdout: '', stderr: /1 of 2 files/ });
    // The other one is restored all the same.
    const target = await newAccount();
    expect(await sealpin(target, ['restore', 'copy'], directory)).toMatchObject({ exit: 5, stderr: RegExp(fileId) });
    expect(await listed(target)).toHaveLength(1);
    await writeFile(path, bytes.subarray(0, 1_200_000));
    expect(await check()).toMatchObject({ exit: 5, stderr: /1 of 2 files/ });
    await rm(path);
    expect(await check()).toMatchObject({ exit: 5, stderr: /1 of 2 files/ });
    expect(await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory))).toMatchObject({ written: 1 });
    expect(await check()).toMatchObject({ exit: 0 });
    expect(await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory))).toMatchObject({ restored: 1 });
    await writeFile(join(directory, 'copy/files', `${fileId}.json`), '{');
    expect(await check()).toMatchObject({ exit: 5, stderr: /1 of 2 files/ });
  });

  test('gets again what was emptied or cut off in the folder', async () => {
    const directory = await temporaryDirectory();
    const source = await localAccount();
    const { cid } = await source.files.put(noise, { name: 'noise' });
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    const blob = join(directory, 'copy/blobs', `${cid}.car`);
    const reader = join(directory, 'copy/rescue.py');
    const [whole, program] = [await readFile(blob), await readFile(reader)];
    for (const bytes of [0, 1, noise.length]) {
      await truncate(blob, bytes);
      await truncate(reader, 0);
      const done = await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
      expect(done).toMatchObject({ files: 1, written: 1 });
      expect((await readFile(blob)).equals(whole)).toBe(true);
      expect((await readFile(reader)).equals(program)).toBe(true);
    }
  });

  test('does not open with another password, and nothing is stored then', async () => {
    const directory = await temporaryDirectory();
    const source = await localAccount();
    await source.files.put('one', { name: 'one' });
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    const target = await newAccount();
    await writeFile(join(directory, 'wrong'), 'wrong', { mode: 0o600 });
    const ran = await sealpin(target, ['restore', 'copy', '--password-file', 'wrong'], directory);
    expect(ran).toMatchObject({ exit: 4, stderr: /account\.key/ });
    expect(await listed(target)).toEqual([]);
  });
});

/** Runs a command as a process, and kills it when a condition holds. */
async function killed(
  { url, apiKey, home }: Account,
  argv: readonly string[],
  cwd: string,
  when: () => Promise<boolean>,
  pollMs = 1,
): Promise<void> {
  const env = { ...process.env, SEALPIN_SERVICE: url, SEALPIN_API_KEY: apiKey, SEALPIN_PASSWORD: password };
  const child = spawn(process.execPath, [entry, ...argv, '--data-dir', home], { cwd, env, stdio: 'ignore' });
  const closed = once(child, 'close');
  while (child.exitCode === null && !(await when())) await sleep(pollMs);
  child.kill('SIGKILL');
  await closed;
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => []);

inCi('kill -9 at any moment of a backup and of a restoration leaves what the next run continues', async () => {
  const directory = await temporaryDirectory();
  const source = await localAccount();
  const count = long ? 12 : 4;
  const moments = long ? Array.from({ length: count }, (_, index) => index) : [1];
  for (let index = 0; index < count; index += 1)
    await source.files.put(noise.subarray(index * 1000), {
      name: `file ${index}`,
      mode: index % 2 ? 'plain' : 'encrypted',
    });
  const [files, blobs] = [join(directory, 'copy/files'), join(directory, 'copy/blobs')];
  for (const at of moments)
    await killed(source, ['backup', 'copy'], directory, async () => (await namesIn(blobs)).length > at);
  const before = (await namesIn(files)).length;
  expect(before).toBeGreaterThan(0);
  const last = await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  expect(last).toMatchObject({ files: count });
  if (!long) expect(last['written']).toBeLessThan(count);
  expect((await run(['backup', 'copy', '--check'], directory)).exit).toBe(0);
  expect((await readdir(blobs)).filter((name) => !name.endsWith('.car'))).toEqual([]);

  const target = await newAccount();
  // To look takes a request of the service that also restores.
  for (const at of moments)
    await killed(target, ['restore', 'copy'], directory, async () => (await listed(target)).length > at, 20);
  await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory));
  const names = (await listed(target)).map(({ filename }) => filename);
  expect(new Set(names)).toEqual(new Set((await listed(source)).map(({ filename }) => filename)));
  expect(names).toHaveLength(count);
});

inCi('on a read-only disk restores nothing, and says why, also after a restoration from there', async (context) => {
  const directory = await temporaryDirectory();
  const [source, target] = [await localAccount(), await newAccount()];
  const { fileId } = await source.files.put('one', { name: 'one' });
  await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  for (const folder of ['disk', 'home']) await mkdir(join(directory, folder), { mode: 0o700 });
  const restore = async () =>
    onSmallDisk(context, {
      disk: join(directory, 'disk'),
      mebibytes: 16,
      script:
        'cp -R copy/. disk && mount -o remount,ro "$DISK" || exit 77; "$NODE" "$ENTRY" restore disk --data-dir home',
      cwd: directory,
      env: {
        ENTRY: entry,
        HOME: directory,
        SEALPIN_SERVICE: target.url,
        SEALPIN_API_KEY: target.apiKey,
        SEALPIN_PASSWORD: password,
      },
    });
  const refused = {
    status: 1,
    stderr: expect.stringMatching(
      /disk\/restored cannot be written: the disk is read-only\n.*hint: .*copy it to a disk that can be written\n$/,
    ) as string,
  };
  expect(await restore()).toMatchObject(refused);
  expect(await listed(target)).toEqual([]);
  const { account } = await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory));
  await rm(join(directory, 'copy/restored', String(account), `${fileId}.json`));
  expect(await restore()).toMatchObject(refused);
  expect(await listed(target)).toHaveLength(1);
});
