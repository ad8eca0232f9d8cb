import { randomBytes } from 'node:crypto';
import { existsSync, watch } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { newAccountId, newApiKey } from '../../../shared/crypto/index.ts';
import { withDatabase } from '../../io/sqlite.ts';
import { readState, localPaths } from '../../local/state.ts';
import { putTemporariesInto, removeEmpty, vacuum, vacuumLive, vacuumLogged } from '../../local/vacuum.ts';
import { api, endedAfterEach, ask, everyFile, here, helper, remove, startHere, store, wrappedKey } from './harness.ts';
import type { RunningHere } from './harness.ts';
import { client } from '../../../testkit/api-client.ts';
import { present } from '../../../testkit/present.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';

const { started, startedHere } = endedAfterEach();
const bytes = new Uint8Array(1000).fill(7);
const leafBytes = 1_048_576;

/**
 * Stores encrypted files, several at a time, so that the pages of the database are split and filled
 * again.
 */
async function storeMany(service: RunningHere, count: number): Promise<string[]> {
  const files: string[] = [];
  for (let left = count; left > 0; left -= 6) {
    const some = await Promise.all(Array.from({ length: 6 }, () => store(service, 'encrypted', bytes)));
    files.push(...some.map(({ fileId }) => fileId));
  }
  return files;
}

async function destroy(service: RunningHere, fileId: string): Promise<void> {
  const answer = await ask(service, 'deleteFile', { fileId });
  expect(await answer.json()).toMatchObject({ fileId, key: 'destroyed' });
}

async function accountFiles(service: RunningHere): Promise<string[]> {
  return (await readdir(join(localPaths(service.dataDir).state, 'do/sealpin-Account'))).filter(
    (name) => name.endsWith('.sqlite') && name !== 'metadata.sqlite',
  );
}

let shared: RunningHere;
beforeAll(async () => {
  shared = await startHere();
});
afterAll(() => remove(shared));

describe('the local service', () => {
  inCi('holds a destroyed header in none of its files when the receipt comes, nor after a crash', async () => {
    const service = await started();
    const files = await storeMany(service, long ? 60 : 6);
    const gone: string[] = [];
    for (const fileId of files.filter((_, index) => index % 6 === 2)) {
      const wrapped = await wrappedKey(service, fileId);
      expect((await everyFile(service.dataDir)).includes(wrapped)).toBe(true);
      // Other uploads run at the same time.
      const [, more] = await Promise.all([destroy(service, fileId), storeMany(service, 6)]);
      gone.push(wrapped);
      expect((await everyFile(service.dataDir)).includes(wrapped)).toBe(false);
      expect(more).toHaveLength(6);
    }
    const { workerd } = present(await readState(service.dataDir, 'run'));
    await service.end('SIGKILL');
    for (const { pid } of workerd) process.kill(pid, 'SIGKILL');
    const left = await everyFile(service.dataDir);
    expect(gone.filter((wrapped) => left.includes(wrapped))).toEqual([]);
    const again = await startedHere({ dataDir: service.dataDir });
    const answer = await ask(again, 'getFileContent', { fileId: files[0] });
    expect(Buffer.compare(await answer.bytes(), bytes)).toBe(0);
  });

  test.each([
    ['plain', 1, 1_000],
    ['plain', 2, 1_000],
    ['encrypted', 1, 17 * leafBytes],
    ...(ci ? ([['plain', 2, 17 * leafBytes]] as const) : []),
  ] as const)('has no bytes on the disk once all is deleted: %s, stored %d times, %d bytes', async (...stored) => {
    const [mode, times, size] = stored;
    const { data } = localPaths(shared.dataDir);
    const before = await readdir(data);
    const content = randomBytes(size);
    const files: string[] = [];
    for (let time = 0; time < times; time += 1) files.push((await store(shared, mode, content)).fileId);
    expect((await readdir(data)).length).toBeGreaterThan(before.length);
    for (const fileId of files) {
      const answer = await ask(shared, 'deleteFile', { fileId });
      expect(await answer.json()).toMatchObject({ pins: [{ status: 'unpinned' }] });
    }
    expect(await readdir(data)).toEqual(before);
  });

  test('holds what was sealed to a revoked key in none of its files when the answer comes', async () => {
    const { apiKey, id } = await api(shared).withKey(['read']);
    const sealed = present((await api({ ...shared, apiKey }).getAccount()).key.sealed);
    const isThere = async (): Promise<boolean[]> => {
      const all = await everyFile(shared.dataDir);
      return [all.includes(Buffer.from(sealed, 'base64')), all.includes(sealed)];
    };
    expect(await isThere()).toEqual([true, false]);
    expect((await ask(shared, 'revokeKey', { id })).status).toBe(200);
    expect(await isThere()).toEqual([false, false]);
  });

  inCi('stores and deletes at the same time without a failure', async () => {
    const before = shared.stderr().length;
    const files = await storeMany(shared, long ? 24 : 12);
    const each = long ? 12 : 6;
    const [stored] = await Promise.all([
      Promise.all(Array.from({ length: 4 }, () => storeMany(shared, each))),
      ...files.map((fileId) => destroy(shared, fileId)),
    ]);
    expect(stored.flat()).toHaveLength(4 * each);
    expect(shared.stderr().slice(before)).not.toMatch(/erasure\.late|"error"/);
  });

  test('creates no files for accounts that do not exist, but those of one object that stands for all', async () => {
    const stored = await accountFiles(shared);
    await client(shared.url).ask('getRecoveryFile', { id: newAccountId() });
    const own = await accountFiles(shared);
    expect(own.length - stored.length).toBe(1);
    for (let each = 0; each < 5; each += 1) {
      const id = String(each).repeat(22);
      expect((await client(shared.url).ask('getRecoveryFile', { id })).status).toBe(404);
      expect((await client(shared.url).ask('recoverAccount', { id, privateKey: 'x' })).status).toBe(404);
      const stranger = client(shared.url, (await newApiKey(newAccountId())).text);
      expect((await stranger.ask('listFiles')).status).toBe(401);
      expect((await stranger.ask('storePlain', {}, { body: bytes })).status).toBe(401);
    }
    expect(await accountFiles(shared)).toEqual(own);
    await store(shared, 'plain', bytes);
    // Nor does the end of the service.
    await shared.end();
    expect(await accountFiles(shared)).toEqual(stored);
  });
});

inCi('what KV was killed in writing is in no backup, and gone after the next start', async () => {
  const { dataDir } = shared;
  await shared.end();
  const left = join(localPaths(dataDir).state, 'kv/API_KEYS/blobs', `.${'0'.repeat(64)}.1.1.tmp`);
  await writeFile(left, 'half a value');
  const target = join(dataDir, 'backup');
  for (const flags of [['--without-secrets'], ['--check'], ['--without-secrets']]) {
    const ran = await here(['service', 'backup', target, ...flags, `--data-dir=${dataDir}`]);
    expect(ran, ran.stderr).toMatchObject({ code: 0 });
  }
  expect((await everyFile(target)).includes('half a value')).toBe(false);
  const again = await startHere({ dataDir });
  onTestFinished(async () => void (await again.end()));
  expect(existsSync(left)).toBe(false);
  // SQLite's own temporary files are where the next start removes them, too.
  const folder = withDatabase(':memory:', (database) => database.prepare('PRAGMA temp_store_directory').get());
  expect(folder).toEqual({ temp_store_directory: localPaths(dataDir).tmp });
});

describe('the files of the Durable Objects', () => {
  const canary = 'canary-in-a-destroyed-header';

  async function folder(): Promise<string> {
    const dir = await mkdtemp(join(tmpdir(), 'sealpin-objects-'));
    onTestFinished(() => rm(dir, { recursive: true, force: true }));
    return dir;
  }
  const holds = async (dir: string) => (await everyFile(dir)).toString('latin1').split(canary).length - 1;

  test('hold nothing that was deleted after the vacuum', async () => {
    const dir = join(await folder(), 'deep');
    await mkdir(dir);
    const database = new DatabaseSync(join(dir, 'a.sqlite'));
    database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (x TEXT)');
    for (let row = 0; row < 100; row += 1) database.prepare('INSERT INTO t VALUES (?)').run(`${canary} ${row}`);
    database.exec('DELETE FROM t WHERE rowid > 1');
    expect(await holds(dir)).toBeGreaterThan(1);
    database.close();
    await vacuum(dir);
    expect(await holds(dir)).toBe(1);
  });

  test('are rewritten only where they were written since the last time', async () => {
    const dir = await folder();
    const written = async (name: string): Promise<bigint> =>
      (await stat(join(dir, `${name}.sqlite`), { bigint: true })).mtimeNs;
    const write = (name: string, sql: string): void =>
      withDatabase(join(dir, `${name}.sqlite`), (database) => database.exec(sql));
    for (const name of ['a', 'b']) write(name, 'PRAGMA journal_mode = WAL; CREATE TABLE t (x)');
    const stamps = await vacuum(dir);
    const before = [await written('a'), await written('b')];
    expect(await vacuum(dir, stamps)).toEqual(stamps);
    expect([await written('a'), await written('b')]).toEqual(before);
    write('a', `PRAGMA secure_delete = OFF; INSERT INTO t VALUES ('${canary}'); DELETE FROM t`);
    expect(await holds(dir)).toBe(1);
    await vacuum(dir, stamps);
    expect(await holds(dir)).toBe(0);
    expect(await written('b')).toBe(before[1]);
  });

  test('are wiped by the stop, and by the next start what the stop cannot wipe', async () => {
    // A process of its own: what a stop leaves names the process.
    const service = await started();
    const { dataDir } = service;
    await store(service, 'plain', bytes);
    const objects = join(localPaths(dataDir).state, 'do');
    const folders = ['sealpin-Account', 'sealpin-Pin'].map((name) => join(objects, name));
    const paths: string[] = [];
    for (const dir of folders) {
      const [name = ''] = (await readdir(dir)).filter((each) => /^[0-9a-f]{64}\.sqlite$/.test(each));
      paths.push(join(dir, name));
    }
    for (const path of paths)
      withDatabase(path, (database) => {
        database.exec('PRAGMA secure_delete = OFF; CREATE TABLE canary (x)');
        database.exec(`INSERT INTO canary VALUES ('${canary}'); DELETE FROM canary`);
      });
    const holder = new DatabaseSync(present(paths[0]));
    holder.exec('BEGIN IMMEDIATE');
    await service.end();
    expect(await holds(present(folders[0]))).toBeGreaterThan(0);
    expect(await holds(present(folders[1]))).toBe(0);
    holder.exec('ROLLBACK');
    holder.close();
    expect(await readState(dataDir, 'run')).toBeDefined();
    const again = await startedHere({ dataDir });
    expect(await holds(objects)).toBe(0);
    await again.end();
    expect(await readState(dataDir, 'run')).toBeUndefined();
  });

  test('are left as they are by a service that was asked for nothing', async () => {
    const { dataDir } = shared;
    await shared.end();
    const stampsOf = async (): Promise<Record<string, string>> => present(await readState(dataDir, 'rewritten')).stamps;
    const leftAsTheyAre = async (): Promise<string[]> => {
      const before = await stampsOf();
      await (await startHere({ dataDir })).end();
      const after = await stampsOf();
      return Object.keys(after).filter((path) => after[path] === before[path]);
    };
    // In the first of them an alarm may ring, which an account has seconds after its last change.
    await expect.poll(leftAsTheyAre).toContainEqual(expect.stringMatching(/sealpin-Account\/[0-9a-f]{64}/));
  });

  test('are rewritten through a file in the folder that is named, and not in memory', async () => {
    const dir = await folder();
    const tmp = join(dir, "the owner's");
    await mkdir(tmp, { mode: 0o700 });
    const database = new DatabaseSync(join(dir, 'a.sqlite'));
    database.exec('CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(16000000))');
    database.close();
    const names: (string | null)[] = [];
    const watcher = watch(tmp, (_, name) => names.push(name));
    onTestFinished(() => watcher.close());
    putTemporariesInto(tmp);
    onTestFinished(() => putTemporariesInto(''));
    await vacuum(dir);
    await expect.poll(() => names.length).toBeGreaterThan(0);
    // A crash leaves nothing of it.
    expect(await readdir(tmp)).toEqual([]);
  });

  test('hold nothing that was deleted before a crash, once their logs are vacuumed', async () => {
    const dir = await folder();
    const path = join(dir, 'a.sqlite');
    const child = await helper(
      `import { DatabaseSync } from 'node:sqlite';
       const database = new DatabaseSync(${JSON.stringify(path)});
       database.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (x TEXT)");
       database.exec("INSERT INTO t VALUES ('${canary}'); DELETE FROM t");
       console.log('up'); setInterval(() => {}, 1000)`,
    );
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    expect(await holds(dir)).toBeGreaterThan(0);
    await vacuumLogged(dir);
    expect(await holds(dir)).toBe(0);
  });

  test('are rewritten while another connection has them open, and not while it writes', async () => {
    const dir = await folder();
    const path = join(dir, 'a.sqlite');
    const database = new DatabaseSync(path);
    database.exec(
      `PRAGMA journal_mode = WAL; CREATE TABLE t (x TEXT); INSERT INTO t VALUES ('${canary}'), ('kept');
       BEGIN IMMEDIATE; DELETE FROM t WHERE rowid = 1`,
    );
    expect(await vacuumLive(path, 10)).toBe(false);
    database.exec('COMMIT');
    expect(await holds(dir)).toBeGreaterThan(0);
    expect(await vacuumLive(path, 10)).toBe(true);
    expect(await holds(dir)).toBe(0);
    expect(database.prepare('SELECT x FROM t').all()).toEqual([{ x: 'kept' }]);
    database.close();
  });

  test('are removed where the account does not exist, and only there', async () => {
    const dir = await folder();
    for (const [name, sql] of [
      ['empty', 'CREATE TABLE t (x)'],
      ['account', 'CREATE TABLE account (id)'],
      ['metadata', 'CREATE TABLE t (x)'],
    ] as const) {
      const database = new DatabaseSync(join(dir, `${name}.sqlite`));
      database.exec(sql);
      database.close();
    }
    await removeEmpty(dir, 'account');
    expect((await readdir(dir)).toSorted()).toEqual(['account.sqlite', 'metadata.sqlite']);
  });
});
