/** Backups of the whole local service: what is in the folder, and what never is. */
import { randomBytes } from 'node:crypto';
import {
  cp,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { withSnapshot } from '../../local/snapshot/held-snapshot.ts';
import { temporaryDirectory } from '../environment.ts';
import { ask, everyFile, here, remove, startHere, store, wrappedKey, type Ran, type RunningHere } from './harness.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';

const password = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
const bytesOf = (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(randomBytes(length));

async function started(): Promise<RunningHere> {
  const service = await startHere();
  onTestFinished(() => remove(service));
  return service;
}

type Taken = { databases: number; files: number; written: { databases: number; files: number }; removed: number };

const backup = (dataDir: string, folder: string, ...flags: string[]): Promise<Ran> =>
  here(['service', 'backup', folder, `--data-dir=${dataDir}`, ...flags], password);
const restore = (dataDir: string, folder: string, ...flags: string[]): Promise<Ran> =>
  here(['service', 'restore', folder, `--data-dir=${dataDir}`, ...flags], password);

async function taken(dataDir: string, folder: string, ...flags: string[]): Promise<Taken> {
  const ran = await backup(dataDir, folder, '--json', ...flags);
  expect(ran, ran.stderr).toMatchObject({ code: 0 });
  return JSON.parse(ran.stdout) as Taken;
}

/** A data directory that does not exist, and one that a test restored, started. */
const elsewhere = async (): Promise<string> => join(await realpath(await temporaryDirectory()), 'other machine');
async function restored(folder: string, ...flags: string[]): Promise<RunningHere> {
  const dataDir = await elsewhere();
  const ran = await restore(dataDir, folder, ...flags);
  expect(ran, ran.stderr).toMatchObject({ code: 0 });
  const service = await startHere({ dataDir });
  onTestFinished(() => remove(service));
  return service;
}

/** All files in a folder, with their mode, and folders with theirs. */
async function modesIn(folder: string): Promise<{ files: Set<number>; folders: Set<number> }> {
  const modes = { files: new Set<number>(), folders: new Set<number>() };
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const { mode } = await stat(join(entry.parentPath, entry.name));
    (entry.isDirectory() ? modes.folders : modes.files).add(mode & 0o777);
  }
  return modes;
}

async function tokensOf({ dataDir }: RunningHere): Promise<string[]> {
  const secrets = JSON.parse(await readFile(join(dataDir, 'local/secrets.json'), 'utf8')) as Record<string, string>;
  return ['adminToken', 'metricsToken', 'rpcToken', 'apiKey'].map((name) => present(secrets[name]));
}

/** A stopped service with two files, and a backup of it: tests copy them. */
let folder: string;
let source: string;
let plain: { fileId: string; cid: string };
const content = bytesOf(3_000_000);
beforeAll(async () => {
  const service = await startHere();
  source = service.dataDir;
  plain = await store(service, 'plain', content);
  await store(service, 'encrypted', bytesOf(50_000));
  await service.end();
  folder = `${source}-backup`;
  await taken(source, folder);
  return async () => {
    for (const path of [source, folder]) await rm(path, { recursive: true, force: true });
  };
});

/** A copy of the folder that a test may damage. */
async function copyOfFolder(): Promise<string> {
  const copy = join(await temporaryDirectory(), 'copy');
  await cp(folder, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
}

test('a service is restored from a backup that was taken while it ran: files, keys and links work', async () => {
  const service = await started();
  const flag = `--data-dir=${service.dataDir}`;
  const out = await temporaryDirectory();
  await writeFile(join(out, 'letter'), 'Dear Ann');
  const link = (await here(['send', join(out, 'letter'), '--quiet', flag])).stdout.trim();
  const ended = (await here(['send', join(out, 'letter'), '--quiet', flag])).stdout.trim();
  const { shares } = JSON.parse((await here(['shares', '--json', flag])).stdout) as { shares: { id: string }[] };
  expect(await here(['unshare', first(shares).id, flag])).toMatchObject({ code: 0 });
  const reader = (await here(['key', 'create', 'reader', '--scopes', 'read', '--quiet', flag])).stdout.trim();
  const files = [await store(service, 'plain', content), await store(service, 'encrypted', content)];
  const pair = join(out, 'pair');
  await here(['keygen', '--output', pair, '--quiet', flag]);
  const to = ['--to', join(pair, 'public.key')];
  const target = join(out, 'backup');
  expect(await taken(service.dataDir, target, ...to)).toMatchObject({ files: 4, written: { files: 4 } });

  const other = await restored(target, '--key', join(pair, 'private.key'));
  expect(await tokensOf(other)).toEqual(await tokensOf(service));
  for (const { fileId } of files)
    for (const apiKey of [service.apiKey, reader]) {
      const answer = await ask({ ...other, apiKey }, 'getFileContent', { fileId });
      expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true);
    }
  const at = (url: string): string => url.replace(service.url, other.url);
  const received = join(out, 'received');
  expect(await here(['receive', at(link), received, `--data-dir=${other.dataDir}`])).toMatchObject({ code: 0 });
  expect(await readFile(join(received, 'letter'), 'utf8')).toBe('Dear Ann');
  expect(await here(['receive', at(ended), join(out, 'none'), `--data-dir=${other.dataDir}`])).toMatchObject({
    code: 3,
  });
  expect(await here(['verify', '--all', `--data-dir=${other.dataDir}`])).toMatchObject({ code: 0 });
});

inCi('the next run copies what is new, and removes header and bytes of what was deleted', async () => {
  const service = await started();
  const target = join(await temporaryDirectory(), 'backup');
  const [deleted, kept] = [await store(service, 'encrypted', content), await store(service, 'plain', bytesOf(99))];
  const key = await wrappedKey(service, deleted.fileId);
  expect(await taken(service.dataDir, target)).toMatchObject({ files: 2, written: { files: 2 } });
  expect((await everyFile(target)).includes(key)).toBe(true);
  expect(await taken(service.dataDir, target)).toMatchObject({ files: 2, written: { files: 0 } });
  const added = await store(service, 'plain', bytesOf(100));
  const receipt: unknown = await (await ask(service, 'deleteFile', { fileId: deleted.fileId })).json();
  expect(receipt).toMatchObject({ key: 'destroyed', backups: 'unknown' });
  expect(await taken(service.dataDir, target)).toMatchObject({ files: 2, written: { files: 1 } });
  const all = await everyFile(target);
  expect(all.includes(key)).toBe(false);
  expect(all.includes(Buffer.from(content.subarray(0, 64)))).toBe(false);
  expect(await readdir(join(target, 'blocks'))).toHaveLength(2);
  const { stdout } = await here(['list', '--json', `--data-dir=${(await restored(target)).dataDir}`]);
  const ids = (JSON.parse(stdout) as { files: { fileId: string }[] }).files.map(({ fileId }) => fileId);
  expect(ids.toSorted()).toEqual([added.fileId, kept.fileId].toSorted());
});

test('what a database keeps of deleted rows does not get into a backup', async () => {
  const marker = randomBytes(600).toString('hex');
  const copy = join(await temporaryDirectory(), 'home');
  await cp(source, copy, { recursive: true });
  const objects = join(copy, 'local/state/do/sealpin-Account');
  const name = present((await readdir(objects)).find((each) => /^[0-9a-f]{64}\.sqlite$/.test(each)));
  const database = new DatabaseSync(join(objects, name));
  database.exec('PRAGMA secure_delete = OFF');
  database.prepare('INSERT INTO event (time, action, subject) VALUES (1, ?, ?)').run('file.stored', marker);
  database.prepare('DELETE FROM event WHERE subject = ?').run(marker);
  database.close();
  expect((await everyFile(objects)).includes(marker.slice(0, 500))).toBe(true);
  const target = join(await temporaryDirectory(), 'backup');
  await taken(copy, target);
  expect((await everyFile(target)).includes(marker.slice(0, 500))).toBe(false);
});

test('a database that has not changed is not copied again', async () => {
  const copied = (stamps: Record<string, string>): Promise<string[]> =>
    withSnapshot({ dataDir: source }, stamps, async ({ files }) =>
      files.filter(({ copy }) => copy !== undefined).map(({ path }) => path),
    );
  const objects = join(source, 'local/state/do/sealpin-Account');
  const name = present((await readdir(objects)).find((each) => /^[0-9a-f]{64}\.sqlite$/.test(each)));
  const changed = `state/do/sealpin-Account/${name}`;
  for (const each of await copied({})) await utimes(join(source, 'local', each), 1e9, 1e9);
  const target = join(await temporaryDirectory(), 'backup');
  await taken(source, target);
  const { files } = JSON.parse(await readFile(join(target, 'service.json'), 'utf8')) as {
    files: { path: string; stamp?: string }[];
  };
  const stamps = Object.fromEntries(files.flatMap(({ path, stamp }) => (stamp === undefined ? [] : [[path, stamp]])));
  expect(Object.keys(stamps).length).toBe(files.length - 1);
  expect(await copied(stamps)).toEqual([]);
  await utimes(join(source, 'local', changed), 1e9, 1e9 + 1);
  expect(await copied(stamps)).toEqual([changed]);
  await writeFile(join(source, 'local', `${changed}-wal`), '');
  expect(await copied(stamps)).toEqual([changed]);
});

inCi('no token of the service is readable in a backup, and only its owner can read the rest', async () => {
  const service = await started();
  const target = join(await temporaryDirectory(), 'backup');
  const secretParts = async (): Promise<unknown> =>
    (JSON.parse(await readFile(join(target, 'service.json'), 'utf8')) as { secrets?: unknown }).secrets;
  await taken(service.dataDir, target);
  expect(await secretParts()).toBeDefined();
  const tokens = await tokensOf(service);
  const holdsOne = async (): Promise<boolean> => {
    const all = await everyFile(target);
    return tokens.some((token) => all.includes(token) || all.includes(token.slice(0, 24)));
  };
  expect(await holdsOne()).toBe(false);
  expect(await modesIn(target)).toEqual({ files: new Set([0o600]), folders: new Set([0o700]) });
  expect((await stat(target)).mode & 0o777).toBe(0o700);
  const parts = (await readdir(join(target, 'parts'))).length;
  await taken(service.dataDir, target, '--without-secrets');
  expect(await secretParts()).toBeUndefined();
  expect(await holdsOne()).toBe(false);
  expect((await everyFile(target)).includes('age-encryption.org')).toBe(false);
  expect((await readdir(join(target, 'parts'))).length).toBeLessThan(parts + 1);

  const dataDir = await elsewhere();
  expect((await restore(dataDir, target)).stderr).toContain('does not have the secrets of the service');
  expect(await restore(dataDir, target, '--without-secrets')).toMatchObject({ code: 0 });
  expect(await modesIn(dataDir)).toEqual({ files: new Set([0o600]), folders: new Set([0o700]) });
  const other = await startHere({ dataDir });
  onTestFinished(() => other.end().then(() => undefined));
  const fresh = await tokensOf(other);
  expect(fresh.filter((token) => tokens.includes(token))).toEqual([]);
  expect((await ask({ ...other, apiKey: service.apiKey }, 'listFiles')).status).toBe(200);
  // It is the same service, and continues its backup.
  await taken(dataDir, target, '--without-secrets');
});

test('secrets need their password, and are sealed again where they or their recipients change', async () => {
  const dataDir = await elsewhere();
  const wrong = await here(['service', 'restore', folder, `--data-dir=${dataDir}`], { SEALPIN_PASSWORD: 'another' });
  expect(wrong).toMatchObject({ code: 4 });
  expect(wrong.stderr).toContain('wrong password');
  await expect(readdir(dataDir)).rejects.toThrow('ENOENT');
  const copy = await copyOfFolder();
  const unattended = (): Promise<Ran> => here(['service', 'backup', copy, `--data-dir=${source}`]);
  expect(await unattended()).toMatchObject({ code: 0 });
  const path = join(source, 'local/secrets.json');
  const before = await readFile(path);
  onTestFinished(() => writeFile(path, before));
  await writeFile(path, `${before.toString()}\n`);
  expect((await unattended()).stderr).toContain('a password is required');
});

inCi('a damaged or missing file of a backup is named; without a database nothing is restored', async () => {
  const copy = await copyOfFolder();
  const blocks = await readdir(join(copy, 'blocks'));
  const [name = ''] = blocks.toSorted();
  const path = join(copy, 'blocks', name);
  const bytes = await readFile(path);
  bytes[40] = ~present(bytes[40]);
  const check = (): Promise<Ran> => here(['service', 'backup', copy, '--check']);
  expect(await check()).toMatchObject({ code: 0 });
  for (const damage of ['damaged', 'missing']) {
    await (damage === 'damaged' ? writeFile(path, bytes) : rm(path));
    const ran = await check();
    expect(ran).toMatchObject({ code: 5, stdout: '' });
    expect(ran.stderr).toMatch(new RegExp(`blocks/${name} \\(baf\\w+\\) is ${damage}`));
    const dataDir = await elsewhere();
    const half = await restore(dataDir, copy);
    expect(half).toMatchObject({ code: 5 });
    expect(half.stderr).toContain(`blocks/${name}`);
    const service = await startHere({ dataDir });
    const list = await here(['list', '--json', `--data-dir=${dataDir}`]);
    expect((JSON.parse(list.stdout) as { files: unknown[] }).files).toHaveLength(2);
    await remove(service);
  }
  // The next run copies it again.
  expect(await taken(source, copy)).toMatchObject({ written: { files: 1 } });
  expect(await check()).toMatchObject({ code: 0 });

  const { files } = JSON.parse(await readFile(join(copy, 'service.json'), 'utf8')) as {
    files: { path: string; part: string; bytes: number }[];
  };
  const { part, path: of } = present(
    files.find((each) => each.path.includes('sealpin-Account/') && each.bytes > 20_000),
  );
  const good = await readFile(join(copy, 'parts', part));
  for (const damage of ['damaged', 'missing']) {
    const bad = Buffer.from(good);
    bad[good.length - 9] = ~present(bad[good.length - 9]);
    await (damage === 'damaged' ? writeFile(join(copy, 'parts', part), bad) : rm(join(copy, 'parts', part)));
    expect((await check()).stderr).toContain(`parts/${part} (${of}) is ${damage}`);
    const dataDir = await elsewhere();
    const ran = await restore(dataDir, copy);
    expect(ran).toMatchObject({ code: 5 });
    expect(ran.stderr).toContain(`${copy} cannot be restored: parts/${part} (${of}) is ${damage}`);
    await expect(readdir(dataDir)).rejects.toThrow('ENOENT');
  }
});

test('a file that the service itself has damaged is named, and the backup has all others', async () => {
  const copy = join(await temporaryDirectory(), 'home');
  await cp(source, copy, { recursive: true });
  const data = join(copy, 'local/ipfs/data');
  const target = join(await temporaryDirectory(), 'backup');
  const names = await readdir(data);
  const sizes = await Promise.all(names.map(async (name) => ({ name, size: (await stat(join(data, name))).size })));
  const { name, size } = first(sizes.toSorted((a, b) => b.size - a.size));
  await truncate(join(data, name), size - 1_000_000);
  const ran = await backup(copy, target);
  expect(ran).toMatchObject({ code: 5 });
  expect(ran.stderr).toContain(`${plain.cid} (a file of the service) is damaged`);
  expect(await readdir(join(target, 'blocks'))).toHaveLength(names.length - 1);
});

test('files whose bytes are at another backend are counted, since the backup does not have them', async () => {
  const copy = join(await temporaryDirectory(), 'home');
  await cp(source, copy, { recursive: true });
  const objects = join(copy, 'local/state/do/sealpin-Account');
  const name = present((await readdir(objects)).find((each) => /^[0-9a-f]{64}\.sqlite$/.test(each)));
  const database = new DatabaseSync(join(objects, name));
  database.prepare('UPDATE file SET service = ? WHERE file_id = ?').run('kubo', plain.fileId);
  database.close();
  const ran = await backup(copy, join(await temporaryDirectory(), 'backup'));
  expect(ran).toMatchObject({ code: 0 });
  expect(ran.stderr).toContain('the bytes of 1 file are at another backend');
});

test('links that somebody planted in the folder, or beside the service, are not followed', async () => {
  const theirs = join(await temporaryDirectory(), 'theirs');
  await mkdir(theirs);
  await writeFile(join(theirs, 'letter'), 'theirs');
  const untouched = async (): Promise<void> => {
    expect(await readdir(theirs)).toEqual(['letter']);
    expect(await readFile(join(theirs, 'letter'), 'utf8')).toBe('theirs');
  };
  for (const name of ['parts', 'blocks', 'service.json', 'lock']) {
    const copy = await copyOfFolder();
    await rename(join(copy, name), join(copy, `${name}-aside`)).catch(() => undefined);
    await symlink(join(theirs, name === 'lock' || name === 'service.json' ? 'letter' : ''), join(copy, name));
    const ran = await backup(source, copy);
    expect(ran).toMatchObject({ code: 1 });
    expect(ran.stderr).toContain('is a symbolic link');
    await untouched();
  }
  // A file in it is replaced.
  const copy = await copyOfFolder();
  const [block = ''] = await readdir(join(copy, 'blocks'));
  const [part = ''] = await readdir(join(copy, 'parts'));
  for (const path of [join(copy, 'blocks', block), join(copy, 'parts', part)]) {
    await rm(path);
    await symlink(join(theirs, 'letter'), path);
  }
  await symlink(join(theirs, 'letter'), join(copy, 'blocks', 'f'.repeat(32)));
  expect(await backup(source, copy)).toMatchObject({ code: 0 });
  expect(await here(['service', 'backup', copy, '--check'])).toMatchObject({ code: 0 });
  expect(await readdir(join(copy, 'blocks'))).toHaveLength(2);
  await untouched();

  const dataDir = await elsewhere();
  await mkdir(dataDir, { mode: 0o700 });
  await symlink(theirs, join(dataDir, 'local'));
  expect((await restore(dataDir, folder)).stderr).toContain('has a local service, or other files in its place');
  await rm(join(dataDir, 'local'));
  await symlink(theirs, join(dataDir, 'local.restoring'));
  expect(await restore(dataDir, folder)).toMatchObject({ code: 0 });
  await untouched();
});

test('only one run at a time has a folder, and one with other files is refused', async () => {
  const copy = await copyOfFolder();
  const both = await Promise.all([backup(source, copy), backup(source, copy)]);
  expect(both.map(({ code }) => String(code)).toSorted()).toEqual(['0', '1']);
  expect(both.map(({ stderr }) => stderr).join('')).toContain('another backup into');
  const foreign = await temporaryDirectory();
  // The lock of a backup has a name of which theirs is longer.
  await writeFile(join(foreign, 'locksmith'), 'theirs');
  const refused = await here(['service', 'backup', foreign, `--data-dir=${source}`]);
  expect(refused.stderr).toContain('is not the backup of a service: it has other files');
  expect((await restore(await elsewhere(), foreign)).stderr).toContain('it has no service.json');
  expect(await readdir(foreign)).toEqual(['locksmith']);
  expect((await backup(await elsewhere(), copy)).stderr).toContain('there is no local service in');
});

test('nothing is restored over a service; what only the command line has there stays', async () => {
  const before = await readFile(join(source, 'local/secrets.json'));
  expect((await restore(source, folder)).stderr).toContain('has a local service, or other files in its place');
  expect(await readFile(join(source, 'local/secrets.json'))).toEqual(before);
  const dataDir = await elsewhere();
  await here(['keygen', `--data-dir=${dataDir}`]);
  const key = await readFile(join(dataDir, 'private.key'));
  await mkdir(join(dataDir, 'local/cache'), { recursive: true });
  const two = await Promise.all([restore(dataDir, folder), restore(dataDir, folder)]);
  expect(two.map(({ code }) => String(code)).toSorted()).toEqual(['0', '1']);
  expect(await readFile(join(dataDir, 'private.key'))).toEqual(key);
});

test('a backup of a newer version is refused', async () => {
  const copy = await copyOfFolder();
  const path = join(copy, 'service.json');
  const manifest = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>;
  await writeFile(path, JSON.stringify({ ...manifest, sealpin: '99.0.0' }));
  expect((await restore(await elsewhere(), copy)).stderr).toContain('the backup was written by sealpin 99.0.0');
  await writeFile(path, JSON.stringify({ ...manifest, files: [{ path: '../../x', part: 'a'.repeat(64), bytes: 1 }] }));
  expect((await restore(await elsewhere(), copy)).stderr).toContain('service.json is damaged');
});
