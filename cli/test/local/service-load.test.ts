/** Backups of a local service that is busy, that are killed, and for which there is no room. */
import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readdir, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { inCi, long } from '../../../testkit/long-run.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { takeSnapshot } from '../../local/snapshot/held-snapshot.ts';
import { readState, localPaths } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { api, ask, everyFile, here, remove, startHere, startLocal, store, type RunningHere } from './harness.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { first, present } from '../../../testkit/present.ts';

const password = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const newBytes = (): Uint8Array<ArrayBuffer> => new Uint8Array(randomBytes(randomInt(1, 20_000)));

/** A file as its user knows it; the times in ms, `Infinity` while it has not happened. */
type Known = {
  digest: string;
  storedAt: number;
  deleteFrom: number;
  deletedAt: number;
  share?: { id: string; madeAt: number };
};
type Load = { files: Map<string, Known>; stop(): Promise<void> };

async function storeOne(service: RunningHere, files: Load['files']): Promise<string> {
  const bytes = newBytes();
  const { fileId } = await store(service, randomInt(2) === 0 ? 'plain' : 'encrypted', bytes);
  files.set(fileId, { digest: sha256(bytes), storedAt: Date.now(), deleteFrom: Infinity, deletedAt: Infinity });
  return fileId;
}

async function shareOne(service: RunningHere, fileId: string): Promise<string> {
  return (await api(service).createShare({ record: 'AAAA', files: [fileId], password: false, opens: 3 })).id;
}

/** Stores, shares and deletes until it is stopped. */
function loadOn(service: RunningHere, files: Load['files']): Load {
  const over = new AbortController();
  const idle = [...files].filter(([, { deleteFrom }]) => deleteFrom === Infinity).map(([id]) => id);
  const user = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const mine = await storeOne(service, files);
      if (randomInt(3) === 0) {
        const id = await shareOne(service, mine);
        present(files.get(mine)).share = { id, madeAt: Date.now() };
      }
      idle.push(mine);
      const [doomed] = idle.splice(randomInt(idle.length), 1);
      const known = present(files.get(present(doomed)));
      known.deleteFrom = Date.now();
      const answer = await ask(service, 'deleteFile', { fileId: doomed });
      expect(answer.status).toBe(200);
      known.deletedAt = Date.now();
    }
  };
  const users = Array.from({ length: long ? 6 : 3 }, user);
  return {
    files,
    async stop() {
      over.abort();
      await Promise.all(users);
    },
  };
}

const backup = (dataDir: string, folder: string) =>
  here(['service', 'backup', folder, '--json', `--data-dir=${dataDir}`], password);

/** Compares what a backup that began and ended at these times restores with what is known. */
async function expectState(folder: string, files: Load['files'], from: number, to: number): Promise<void> {
  const dataDir = join(await realpath(await temporaryDirectory()), 'home');
  const ran = await here(['service', 'restore', folder, `--data-dir=${dataDir}`], password);
  expect(ran, ran.stderr).toMatchObject({ code: 0 });
  const other = await startHere({ dataDir });
  try {
    const listed = new Set<string>();
    let cursor: string | undefined;
    do {
      const page = await api(other).listFiles({ limit: 100, cursor });
      for (const { fileId } of page.files) listed.add(fileId);
      ({ cursor } = page);
    } while (cursor !== undefined);
    const rest = files.entries();
    const reader = async (): Promise<void> => {
      for (const [fileId, { digest, storedAt, deleteFrom, deletedAt, share }] of rest) {
        if (storedAt < from && deleteFrom > to) expect(listed, fileId).toContain(fileId);
        if (deletedAt < from || storedAt > to + 60_000) expect(listed, fileId).not.toContain(fileId);
        if (!listed.has(fileId)) continue;
        const answer = await ask(other, 'getFileContent', { fileId });
        expect(answer.status, fileId).toBe(200);
        expect(sha256(new Uint8Array(await answer.arrayBuffer())), fileId).toBe(digest);
        if (share === undefined || share.madeAt > from) continue;
        expect(await api(other).getShare({ shareId: share.id }), fileId).toMatchObject({ state: 'active' });
      }
    };
    await Promise.all(Array.from({ length: 8 }, reader));
    expect(await here(['verify', '--all', `--data-dir=${dataDir}`])).toMatchObject({ code: 0 });
    // What the rows name is pinned, so that no later collection removes it.
    expect(await other.end()).toBe(0);
    const local = join(dataDir, 'local');
    const rows = (path: string, sql: string): Record<string, unknown>[] => {
      const database = new DatabaseSync(join(local, path), { readOnly: true });
      try {
        return database.prepare(sql).all();
      } finally {
        database.close();
      }
    };
    const pinned = new Set(rows('ipfs/node.db', 'SELECT cid FROM pin').map((row) => row['cid']));
    const objects = async (name: string): Promise<string[]> => {
      const names = await readdir(join(local, `state/do/sealpin-${name}`));
      const paths = names.filter((each) => each.endsWith('.sqlite')).map((each) => `state/do/sealpin-${name}/${each}`);
      const table = name === 'Pin' ? 'reference' : 'file';
      return paths.filter((path) => rows(path, `SELECT 1 FROM sqlite_master WHERE name = '${table}'`).length > 0);
    };
    const references = new Set<unknown>();
    for (const path of await objects('Pin'))
      for (const row of rows(path, 'SELECT file_id FROM reference')) references.add(row['file_id']);
    for (const path of await objects('Account'))
      for (const row of rows(path, `SELECT file_id, cid FROM file WHERE state = 'ready'`)) {
        expect(pinned.has(row['cid']), String(row['file_id'])).toBe(true);
        expect(references.has(row['file_id']), String(row['file_id'])).toBe(true);
      }
  } finally {
    await remove(other);
  }
}

inCi('each of several backups of a busy service restores everything that was acknowledged before it', async () => {
  const service = await startLocal();
  onTestFinished(() => remove(service));
  const files: Load['files'] = new Map();
  const count = long ? 10_000 : 40;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      while (files.size < count) await storeOne(service, files);
    }),
  );
  const folder = join(await temporaryDirectory(), 'backup');
  const rounds = long ? 3 : 2;
  for (let round = 1; round <= rounds; round += 1) {
    const load = loadOn(service, files);
    onTestFinished(() => load.stop());
    await sleep(200);
    const from = Date.now();
    const ran = await backup(service.dataDir, folder);
    const to = Date.now();
    expect(ran, ran.stderr).toMatchObject({ code: 0 });
    const { written, files: kept } = JSON.parse(ran.stdout) as { written: { files: number }; files: number };
    if (round > 1) expect(written.files).toBeLessThan(kept);
    await load.stop();
    // A later one has what an earlier one wrote.
    if (long || round === rounds) await expectState(folder, files, from, to);
  }
  expect(service.stderr()).not.toContain('erasure.late');
  const temporary = await readdir(join(service.dataDir, 'local/tmp'));
  expect(temporary.filter((name) => name.startsWith('snapshot-'))).toEqual([]);
  // What was held back for the backups is gone.
  const { length: names } = await readdir(join(service.dataDir, 'local/ipfs/data'));
  expect(names).toBe([...files.values()].filter(({ deletedAt }) => deletedAt === Infinity).length);
});

/** Runs the command line as a process, and kills it after a while. @returns its exit code */
async function killed(argv: readonly string[], afterMs: number): Promise<number | null> {
  const child = spawn(process.execPath, ['--no-warnings', entry, ...argv], {
    env: { ...process.env, ...password },
    stdio: 'ignore',
  });
  const ended = once(child, 'close') as Promise<[number | null]>;
  const timer = setTimeout(() => child.kill('SIGKILL'), afterMs);
  const [code] = await ended;
  clearTimeout(timer);
  return code;
}

inCi('a backup that is killed leaves the state before it or the new one, and a restoration nothing', async () => {
  const service = await startLocal();
  onTestFinished(() => remove(service));
  const files: Load['files'] = new Map();
  for (let i = 0; i < (long ? 20 : 8); i += 1) await storeOne(service, files);
  const folder = join(await temporaryDirectory(), 'backup');
  const flag = `--data-dir=${service.dataDir}`;
  const begun = performance.now();
  expect(await killed(['service', 'backup', folder, flag], 60_000)).toBe(0);
  const wholeMs = performance.now() - begun;
  const kills = long ? 40 : 2;
  for (let i = 1; i <= kills; i += 1) {
    await storeOne(service, files);
    await killed(['service', 'backup', folder, flag], (wholeMs * i) / (kills + 1));
    expect(await here(['service', 'backup', folder, '--check'])).toMatchObject({ code: 0 });
    await storeOne(service, files);
  }
  // Also of a first run that was killed.
  const other = join(await temporaryDirectory(), 'other');
  await killed(['service', 'backup', other, flag], wholeMs * 0.7);
  const from = Date.now();
  for (const each of [other, folder]) expect(await backup(service.dataDir, each)).toMatchObject({ code: 0 });
  for (const each of long ? [folder, other] : [folder]) await expectState(each, files, from, Date.now());
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.tmp'));
  expect(names).toEqual([]);
  expect((await readdir(join(service.dataDir, 'local/tmp'))).filter((name) => name.startsWith('snapshot'))).toEqual([]);

  const dataDir = join(await realpath(await temporaryDirectory()), 'home');
  const restoring = ['service', 'restore', folder, `--data-dir=${dataDir}`];
  for (let i = 1; i <= kills; i += 1) {
    const code = await killed(restoring, (wholeMs * i) / (kills + 1));
    const left = await readdir(dataDir).catch((): string[] => []);
    if (code === 0) await rm(dataDir, { recursive: true });
    else if (left.includes('local.restoring')) {
      expect(left).not.toContain('local');
      const refused = await here(['start', '--port=0', `--data-dir=${dataDir}`]);
      expect(refused.stderr).toContain('a restoration into this data directory was interrupted');
    }
  }
  await rm(join(dataDir, 'local'), { recursive: true, force: true });
  expect(await here(restoring, password)).toMatchObject({ code: 0 });
  expect(await readdir(dataDir)).toEqual(['local']);
});

inCi('a service whose runtime stood still when it was killed starts again', async () => {
  const service = await startLocal();
  const files: Load['files'] = new Map();
  const fileId = await storeOne(service, files);
  for (const { pid } of present(await readState(service.dataDir, 'run')).workerd) process.kill(pid, 'SIGSTOP');
  await service.end('SIGKILL');
  const again = await startLocal({ dataDir: service.dataDir });
  onTestFinished(() => remove(again));
  expect((await ask(again, 'getFile', { fileId })).status).toBe(200);
});

inCi('a backup of a service that is killed meanwhile fails, and leaves the state before it', async () => {
  const service = await startLocal();
  const files: Load['files'] = new Map();
  for (let i = 0; i < 8; i += 1) await storeOne(service, files);
  const folder = join(await temporaryDirectory(), 'backup');
  expect(await backup(service.dataDir, folder)).toMatchObject({ code: 0 });
  const before = (await everyFile(join(folder, 'blocks'))).length;
  for (let i = 0; i < 8; i += 1) await storeOne(service, files);
  const running = backup(service.dataDir, folder);
  await sleep(randomInt(400));
  await service.end('SIGKILL');
  const ran = await running;
  if (ran.code !== 0) expect(ran.stderr).not.toContain('this is a bug');
  expect(await here(['service', 'backup', folder, '--check'])).toMatchObject({ code: 0 });
  expect((await everyFile(join(folder, 'blocks'))).length).toBeGreaterThanOrEqual(before);
  // Nothing runs now: the backup is taken of what lies there.
  expect(await backup(service.dataDir, folder)).toMatchObject({ code: 0 });
  await expectState(folder, files, Date.now(), Date.now());
  await rm(service.dataDir, { recursive: true, force: true });
});

inCi('without room a backup keeps the state before it, and a restoration leaves nothing', async (context) => {
  const service = await startHere();
  onTestFinished(() => remove(service));
  await store(service, 'plain', new Uint8Array(randomBytes(1_000_000)));
  const folders = await temporaryDirectory();
  const [small, large] = [join(folders, 'small'), join(folders, 'large')];
  expect(await backup(service.dataDir, small)).toMatchObject({ code: 0 });
  await store(service, 'plain', new Uint8Array(randomBytes(12_000_000)));
  expect(await backup(service.dataDir, large)).toMatchObject({ code: 0 });
  const run = `"$NODE" --no-warnings "$ENTRY" service`;
  const ran = await onSmallDisk(context, {
    disk: await temporaryDirectory(),
    mebibytes: 8,
    env: { ...password, ENTRY: entry, HOME_DIR: service.dataDir, SMALL: small, LARGE: large },
    script: `
      cp -r "$SMALL" "$DISK/b" || exit 1
      ${run} backup "$DISK/b" --data-dir "$HOME_DIR" --quiet; echo backup $?
      find "$DISK/b" -name '*.tmp'
      ${run} restore "$LARGE" --data-dir "$DISK/home" --quiet; echo restore $?
      ls "$DISK/home" | grep -v restoring
      rm -r "$DISK/home"
      ${run} restore "$DISK/b" --data-dir "$DISK/home" --quiet; echo restored $?`,
  });
  expect(ran.stdout, ran.stderr).toBe('backup 7\nrestore 7\nrestored 0\n');
  expect(ran.stderr.match(/^sealpin: error: .*the disk is full$/gm)).toHaveLength(2);
});

test('a backup names the full disk, which is that of the data directory and not its own', async (context) => {
  const from = await temporaryDirectory();
  await promisify(execFile)('tar', ['-xzf', join(import.meta.dirname, 'states/ab333d8.tar.gz'), '-C', from]);
  const ran = await onSmallDisk(context, {
    disk: await temporaryDirectory(),
    mebibytes: 24,
    env: { ...password, ENTRY: entry, FROM: from, TO: join(from, 'new') },
    script: `
        cp -r "$FROM" "$DISK/home"; export SEALPIN_HOME="$DISK/home"
        cat /dev/zero > "$DISK/filler" 2> "$FROM/filled"; cat /dev/zero >> "$DISK/filler" 2> "$FROM/filled"
        "$NODE" --no-warnings "$ENTRY" service backup "$TO" --without-secrets; echo "backup $?" "$DISK/home/local"`,
  });
  const [, local = ''] = /^backup 7 (.*)$/m.exec(ran.stdout) ?? [];
  expect(ran.stderr).toBe(
    `sealpin: error: ${local} cannot be written: the disk is full\nsealpin: hint: free some space and try again\n`,
  );
});

/** The states of the threads of a process (proc(5)). */
function statesOf(pid: number): Set<string> {
  const stats = readdirSync(`/proc/${pid}/task`).map((id) => readFileSync(`/proc/${pid}/task/${id}/stat`, 'utf8'));
  return new Set(stats.map((stat) => stat.charAt(stat.lastIndexOf(')') + 2)));
}

test.runIf(process.platform === 'linux')('a snapshot is taken while no thread of the runtime runs', async () => {
  const service = await startHere();
  onTestFinished(() => remove(service));
  const { pid } = first(present(await readState(service.dataDir, 'run')).workerd);
  const { adminToken } = present(await readState(service.dataDir, 'secrets'));
  let during = new Set<string>();
  for (const message of [undefined, 'there is no room']) {
    const keep = (): (() => Promise<void>) => {
      during = statesOf(pid);
      if (message !== undefined) throw new Error(message);
      return async () => undefined;
    };
    const closed = new AbortController();
    const { dataDir, url } = service;
    const headers = { authorization: `Bearer ${adminToken}` };
    const ask = (path: string) => fetch(`${url}${path}`, { headers });
    const o = { dataDir, stateDir: localPaths(dataDir).state, ask, node: { keep } };
    const taken = takeSnapshot(o, {}, closed.signal);
    if (message === undefined) expect(existsSync((await taken).dir)).toBe(true);
    else await expect(taken).rejects.toThrow(message);
    expect(during).toEqual(new Set(['T']));
    expect(statesOf(pid)).not.toContain('T');
    closed.abort();
    await expect
      .poll(async () => (await readdir(join(dataDir, 'local/tmp'))).filter((name) => name.startsWith('snapshot')))
      .toEqual([]);
  }
});
