/** Upgrades of a local service: what is kept before, and the way back. */
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { withDatabase } from '../../io/sqlite.ts';
import { CleanupStack } from '../../local/cleanup-stack.ts';
import { prepareDirectory } from '../../local/data-directory.ts';
import { loadSecrets, localPaths, makeLocal, writeState } from '../../local/state.ts';
import { prepareState, refuseNewer, removeOldCopies, rollBack } from '../../local/upgrade/copies.ts';
import { isOlder } from '../../local/upgrade/version.ts';
import { temporaryDirectory } from '../environment.ts';
import { ask, everyFile, here, refusal, startHere, store, wrappedKey, type RunningHere } from './harness.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { first, present } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';

const day = 86_400_000;
const text = (words: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(words);

/** A data directory as commit ab333d8 left it (upgrade.test.ts). */
async function unpacked(): Promise<string> {
  const dataDir = await realpath(await temporaryDirectory());
  await promisify(execFile)('tar', ['-xzf', join(import.meta.dirname, 'states/ab333d8.tar.gz'), '-C', dataDir]);
  return dataDir;
}

async function started(dataDir: string, env: Record<string, string> = {}): Promise<RunningHere> {
  const service = await startHere({ dataDir, env });
  onTestFinished(async () => void (await service.end()));
  return service;
}

const copiesOf = (dataDir: string): Promise<string[]> => readdir(join(dataDir, 'local/copies')).catch(() => []);

/** The content of the files that an upgrade may change, by their path below a folder. */
async function stateOf(folder: string): Promise<Map<string, string>> {
  const state = new Map<string, string>();
  for (const path of (await readdir(folder, { recursive: true })).toSorted())
    if (/^(?:state\/(?:do|kv)\/.*|ipfs\/node\.db|secrets\.json)$/.test(path) && !/-(?:wal|shm)$/.test(path))
      await readFile(join(folder, path)).then(
        (bytes) => state.set(path, bytes.toString('base64')),
        () => undefined, // a folder
      );
  return state;
}

async function filesOf(dataDir: string): Promise<string[]> {
  const { stdout } = await here(['list', '--json', `--data-dir=${dataDir}`]);
  return (JSON.parse(stdout) as { files: { fileId: string }[] }).files.map(({ fileId }) => fileId).toSorted();
}

/** A stopped service of this version with one file, which a newer version has used since. */
async function upgraded(): Promise<{ dataDir: string; copy: string; before: string[] }> {
  const dataDir = await realpath(await temporaryDirectory());
  const service = await startHere({ dataDir });
  await store(service, 'encrypted', text('stored before'));
  const before = await filesOf(dataDir);
  await service.end();
  await prepareState(dataDir, { backupDays: undefined, note: () => undefined, own: '99.0.0' });
  return { dataDir, copy: first(await copiesOf(dataDir)), before };
}

test('before an older data directory changes, databases, tokens and index are kept, and no blocks', async () => {
  const dataDir = await unpacked();
  const local = join(dataDir, 'local');
  const before = await stateOf(local);
  const service = await started(dataDir);
  const [copy, ...more] = await copiesOf(dataDir);
  expect(more).toEqual([]);
  expect(service.stderr()).toContain(`sealpin start --rollback ${present(copy)}`);
  expect(await stateOf(join(local, 'copies', present(copy)))).toEqual(before);
  expect((await readdir(join(local, 'copies', present(copy)), { recursive: true })).join()).not.toContain('ipfs/data');
  expect(await filesOf(dataDir)).toHaveLength(6);
  // What is deleted now is still in the copy.
  const receipt = await ask(service, 'deleteFile', { fileId: '1634deaf-78b9-424d-9cba-bd0920d9d651' });
  expect(await receipt.json()).toMatchObject({ key: 'destroyed', backups: 'unknown' });
  await service.end();
  expect(await stateOf(local)).not.toEqual(before);

  const back = await here(['start', '--rollback', present(copy), '--port=0', `--data-dir=${dataDir}`]);
  expect(back).toMatchObject({ code: 0, stdout: '' });
  expect(back.stderr).toContain('start it with the version that it is of');
  expect(await stateOf(local)).toEqual(before);
  await started(dataDir);
  expect(await filesOf(dataDir)).toHaveLength(6);
});

inCi('an older version refuses what a newer one has used, names the copy, and goes back to it', async () => {
  const { dataDir, copy, before } = await upgraded();
  const local = join(dataDir, 'local');
  const state = await stateOf(local);
  const refused = await refusal({ dataDir });
  expect(refused).toContain(`${dataDir} belongs to sealpin 99.0.0, and this is ${packageJson.version}`);
  expect(refused).toContain(`--rollback ${copy}`);
  expect(await stateOf(local)).toEqual(state);
  expect(await here(['start', '--rollback=../secrets', `--data-dir=${dataDir}`])).toMatchObject({ code: 2 });

  const service = await startHere({ dataDir, args: ['--rollback', copy] });
  onTestFinished(async () => void (await service.end()));
  expect(await filesOf(dataDir)).toEqual(before);
  const { fileId } = await store(service, 'plain', text('stored after'));
  await service.end();
  // The state of the newer version is the copy now, and it can go forward again.
  const kept = await copiesOf(dataDir);
  expect(kept).toEqual([expect.stringMatching(/^99\.0\.0-/)]);
  await rollBack({ dataDir }, first(kept));
  expect(await refusal({ dataDir })).toContain('belongs to sealpin 99.0.0');
  expect((await everyFile(join(local, 'state'))).includes(fileId)).toBe(false);
});

inCi('a rollback that was interrupted is completed by the next start', async () => {
  const { dataDir, copy, before } = await upgraded();
  const local = join(dataDir, 'local');
  await writeFile(join(local, 'rollback.json'), JSON.stringify({ v: 1, copy }));
  await rm(join(local, 'state/do'), { recursive: true });
  await rm(join(local, 'secrets.json'));
  await rm(join(local, 'version.json'));
  await started(dataDir);
  expect(await filesOf(dataDir)).toEqual(before);
  expect(await readdir(local)).not.toContain('rollback.json');
});

inCi('only the last copy is kept, for 30 days or as long as backups are, and none where there are none', async () => {
  const { dataDir } = await upgraded();
  await prepareState(dataDir, { backupDays: undefined, note: () => undefined, own: '100.0.0' });
  expect(await copiesOf(dataDir)).toHaveLength(2);
  const now = Date.now();
  await removeOldCopies(dataDir, undefined, now);
  expect(await copiesOf(dataDir)).toEqual([expect.stringMatching(/^99\.0\.0-/)]);
  await removeOldCopies(dataDir, undefined, now + 29 * day);
  await removeOldCopies(dataDir, 3650, now + 29 * day);
  expect(await copiesOf(dataDir)).toHaveLength(1);
  const all = join(dataDir, 'local/copies');
  const aside = join(dataDir, 'aside');
  await cp(all, aside, { recursive: true });
  await removeOldCopies(dataDir, undefined, now + 30 * day);
  expect(await copiesOf(dataDir)).toEqual([]);
  await cp(aside, all, { recursive: true });
  await removeOldCopies(dataDir, 7, now + 7 * day);
  expect(await copiesOf(dataDir)).toEqual([]);
  await prepareState(dataDir, { backupDays: 0, note: () => undefined, own: '101.0.0' });
  expect(await copiesOf(dataDir)).toEqual([]);
});

test.each([-18_000, -1, -0.01, 0])(
  'with a clock %d days ahead, the copy that is announced stays, and a way back, too',
  async (days) => {
    const dataDir = await unpacked();
    await prepareState(dataDir, { backupDays: undefined, note: () => undefined, own: '98.0.0' });
    const [before = ''] = await copiesOf(dataDir);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + days * day });
    onTestFinished(() => void vi.useRealTimers());
    let announced = '';
    await prepareState(dataDir, { backupDays: undefined, note: (note) => (announced = note), own: '99.0.0' });
    const { kept } = await rollBack({ dataDir }, before);
    expect(announced).toContain('--rollback 98.0.0-');
    await removeOldCopies(dataDir, undefined, Date.now());
    expect(await copiesOf(dataDir)).toEqual([kept]);
    await rollBack({ dataDir }, kept);
    expect(await readFile(join(dataDir, 'local/version.json'), 'utf8')).toContain('99.0.0');
    await prepareState(dataDir, { backupDays: undefined, note: (note) => (announced = note), own: '100.0.0' });
    await removeOldCopies(dataDir, undefined, Date.now());
    expect(announced).toContain(first(await copiesOf(dataDir)));
  },
);

inCi('receipts say until when a backup or a copy can bring back what is deleted', async () => {
  const dataDir = await realpath(await temporaryDirectory());
  const deleted = async (service: RunningHere): Promise<{ deletedAt: string; recoverableUntil?: string }> => {
    const { fileId } = await store(service, 'encrypted', text('secret'));
    const answer = await ask(service, 'deleteFile', { fileId });
    return (await answer.json()) as { deletedAt: string; recoverableUntil?: string };
  };
  const before = await startHere({ dataDir, env: { BACKUP_DAYS: '7' } });
  // No backup was ever taken.
  expect(await deleted(before)).toMatchObject({ key: 'destroyed' });
  expect(Object.keys(await deleted(before))).not.toContain('recoverableUntil');
  await before.end();
  const stopped = join(dataDir, 'backup');
  expect(await here(['service', 'backup', stopped, '--without-secrets', `--data-dir=${dataDir}`])).toMatchObject({
    code: 0,
  });
  const unknown = await startHere({ dataDir });
  expect(await deleted(unknown)).toMatchObject({ backups: 'unknown' });
  await unknown.end();
  const known = await startHere({ dataDir, env: { BACKUP_DAYS: '7' } });
  const receipt = await deleted(known);
  expect(Date.parse(present(receipt.recoverableUntil)) - Date.parse(receipt.deletedAt)).toBe(7 * day);
  await known.end();
  const refused = await refusal({ dataDir, env: { BACKUP_DAYS: 'a week' } });
  expect(refused).toMatch(/^sealpin start ended with 1: (?!.*operator).*BACKUP_DAYS is not a whole number/);
});

inCi('an account that a copy has is marked there and here, also after a rollback or a restoration', async () => {
  const { dataDir, copy } = await upgraded();
  const local = join(dataDir, 'local');
  const marksIn = async (folder: string, sql = 'SELECT backed_up FROM account'): Promise<unknown[]> => {
    const objects = join(folder, 'state/do/sealpin-Account');
    const names = (await readdir(objects)).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
    return names.flatMap((name) => withDatabase(join(objects, name), (database) => database.prepare(sql).all()));
  };
  const unmark = 'UPDATE account SET backed_up = 0';
  const marked = [{ backed_up: 1 }];
  for (const folder of [local, join(local, 'copies', copy)]) expect(await marksIn(folder)).toEqual(marked);
  for (const folder of [local, join(local, 'copies', copy)]) await marksIn(folder, unmark);
  const { kept } = await rollBack({ dataDir }, copy);
  for (const folder of [local, join(local, 'copies', kept)]) expect(await marksIn(folder)).toEqual(marked);

  const backup = join(await temporaryDirectory(), 'backup');
  expect(await here(['service', 'backup', backup, '--without-secrets', `--data-dir=${dataDir}`])).toMatchObject({
    code: 0,
  });
  const back = join(await realpath(await temporaryDirectory()), 'back');
  const manifest = await readFile(join(backup, 'service.json'), 'utf8');
  const { files } = JSON.parse(manifest) as { files: { path: string; part: string }[] };
  const { part } = present(files.find(({ path }) => /Account\/[0-9a-f]{64}/.test(path)));
  const parts = join(backup, 'parts');
  await cp(join(parts, part), join(parts, 'unmarked'));
  withDatabase(join(parts, 'unmarked'), (database) => database.exec(unmark));
  const sha256 = createHash('sha256')
    .update(await readFile(join(parts, 'unmarked')))
    .digest('hex');
  await rename(join(parts, 'unmarked'), join(parts, sha256));
  await writeFile(join(backup, 'service.json'), manifest.replaceAll(part, sha256));
  const restored = await here(['service', 'restore', backup, '--without-secrets', `--data-dir=${back}`]);
  expect(restored, restored.stderr).toMatchObject({ code: 0 });
  expect(await marksIn(join(back, 'local'))).toEqual(marked);
});

inCi('objects of stores that no database knows wait for the operator after a rollback or restoration', async () => {
  const { dataDir, copy } = await upgraded();
  const sweeps = async (local: string, sql: string): Promise<unknown[]> => {
    const pins = join(local, 'state/do/sealpin-Pin');
    const names = (await readdir(pins)).filter((each) => /^[0-9a-f]{64}\.sqlite$/.test(each)).toSorted();
    const database = new DatabaseSync(join(pins, first(names)));
    const rows = database.prepare(sql).all();
    database.close();
    return rows;
  };
  const all = 'SELECT * FROM object_sweep';
  const local = join(dataDir, 'local');
  const table = `CREATE TABLE object_sweep AS SELECT 's3' AS service, 0 AS inherited, 'data/0' AS after`;
  await sweeps(join(local, 'copies', copy), table);
  await rollBack({ dataDir }, copy);
  const held = [{ service: 's3', inherited: 1, after: null }];
  expect(await sweeps(local, all)).toEqual(held);
  await sweeps(local, 'UPDATE object_sweep SET inherited = 0');
  const backup = join(await temporaryDirectory(), 'backup');
  const back = join(await realpath(await temporaryDirectory()), 'back');
  for (const [verb, at] of [
    ['backup', dataDir],
    ['restore', back],
  ] as const)
    expect(await here(['service', verb, backup, '--without-secrets', `--data-dir=${at}`])).toMatchObject({ code: 0 });
  expect(await sweeps(join(back, 'local'), all)).toEqual(held);
});

inCi('a destroyed header is in no copy that is made later', async () => {
  const dataDir = await realpath(await temporaryDirectory());
  const service = await startHere({ dataDir });
  const { fileId } = await store(service, 'encrypted', text('secret'));
  const key = await wrappedKey(service, fileId);
  expect((await ask(service, 'deleteFile', { fileId })).status).toBe(200);
  await service.end('SIGKILL');
  await prepareState(dataDir, { backupDays: undefined, note: () => undefined, own: '99.0.0' });
  expect((await everyFile(join(dataDir, 'local/copies'))).length).toBeGreaterThan(0);
  expect((await everyFile(dataDir)).includes(key)).toBe(false);
});

test('a start removes what killed runs have not written to its end, and nothing else', async () => {
  const dataDir = await realpath(await temporaryDirectory());
  await makeLocal(dataDir);
  await loadSecrets(dataDir);
  await writeState(dataDir, 'version', { v: 1, version: packageJson.version });
  const { local, copies, ...paths } = localPaths(dataDir);
  await mkdir(join(copies, 'unfinished/state'), { recursive: true });
  await writeFile(join(copies, 'unfinished/state/rows'), 'deleted since');
  const states = Object.values(paths).filter((path) => path.endsWith('.json'));
  expect(states.length).toBeGreaterThan(5);
  for (const path of states) await writeFile(`${path}.4711.tmp`, '{');
  const others = ['notes.json.4711.tmp', 'secrets.json.4711.tmp.txt', 'secrets.json.old.tmp', 'secrets.json.tmp'];
  for (const name of others) await writeFile(join(local, name), '');
  const cleanup = new CleanupStack();
  await prepareDirectory({ dataDir, log: () => undefined }, cleanup);
  await cleanup.run();
  expect((await readdir(local)).filter((name) => name.includes('tmp') && name !== 'tmp').toSorted()).toEqual(others);
  expect(await copiesOf(dataDir)).toEqual([]);
});

test('what is said of a stopped public service starts it at its address', async () => {
  const dataDir = await unpacked();
  const origin = 'https://files.example.com';
  await writeState(dataDir, 'origin', { v: 1, origin });
  const notes: string[] = [];
  const note = (said: string): void => void notes.push(said);
  await prepareState(dataDir, { backupDays: undefined, note, own: '99.0.0' });
  const newer = await refuseNewer(dataDir).catch((error: { hint?: string }) => error.hint);
  const elsewhere = join(dataDir, 'elsewhere');
  const copy = join(dataDir, 'copy');
  const ran = async (...words: string[]): Promise<string> => {
    const { stdout, stderr } = await here(words, {});
    return stdout + stderr;
  };
  await ran('service', 'backup', copy, '--without-secrets', '--data-dir', dataDir);
  const said = [
    ...notes,
    newer,
    await ran('service', 'restore', copy, '--without-secrets', '--data-dir', elsewhere),
    await ran('stop', '--data-dir', dataDir),
    await ran('doctor', '--data-dir', dataDir),
  ];
  for (const each of said)
    expect(each).toMatch(/sealpin start (?:--data-dir '\S*' )?--origin https:\/\/files\.example\.com\b/);
});

test('versions are compared by their numbers', () => {
  const sorted = ['0.1.0', '0.2.0-rc.1', '0.2.0-rc.2', '0.2.0-rc.10', '0.2.0', '0.10.0', '1.0.0'];
  for (const [i, a] of sorted.entries()) for (const [j, b] of sorted.entries()) expect(isOlder(a, b)).toBe(i < j);
});

test('a copy that cannot be made refuses the start, and one that was not completed is made again', async () => {
  const dataDir = await unpacked();
  const local = join(dataDir, 'local');
  const before = await stateOf(local);
  // A file instead of the folder stands for a disk that takes nothing.
  await writeFile(join(local, 'copies'), '');
  expect(await refusal({ dataDir })).not.toBe('it started');
  expect(await stateOf(local)).toEqual(before);
  await rm(join(local, 'copies'));
  await mkdir(join(local, 'copies/unfinished'), { recursive: true });
  await started(dataDir);
  expect(await copiesOf(dataDir)).toEqual([expect.stringMatching(/^earlier-/)]);
});

inCi('an upgrade and the way back are killed at any moment: the state before is whole, or the one after', async () => {
  const { dataDir, copy, before } = await upgraded();
  const aside = join(await temporaryDirectory(), 'aside');
  await cp(dataDir, aside, { recursive: true });
  const back = ['start', '--rollback', copy, '--port=0', `--data-dir=${dataDir}`];
  const run = async (argv: readonly string[], afterMs: number): Promise<number> => {
    const child = spawn(process.execPath, ['--no-warnings', entry, ...argv], { stdio: ['ignore', 'pipe', 'ignore'] });
    const begun = performance.now();
    const timer = setTimeout(() => child.kill('SIGKILL'), afterMs);
    // It serves by then.
    child.stdout.once('data', () => child.kill('SIGKILL'));
    await once(child, 'close');
    clearTimeout(timer);
    return performance.now() - begun;
  };
  const wholeMs = await run(back, 60_000);
  const kills = long ? 40 : 1;
  for (let kill = 1; kill <= kills; kill += 1) {
    await rm(dataDir, { recursive: true });
    await cp(aside, dataDir, { recursive: true });
    await run(back, (wholeMs * kill) / (kills + 1));
    // Before it began, the older version still refuses; after that, a start completes it.
    const service = await startHere({ dataDir }).catch((error: Error) => {
      expect(error.message, `${kill}`).toContain('belongs to sealpin 99.0.0');
      return startHere({ dataDir, args: ['--rollback', copy] });
    });
    expect(await filesOf(dataDir), `${kill}`).toEqual(before);
    await service.end();
  }
});

inCi('without room for the copy an upgrade changes nothing, and says why; with room it goes on', async (context) => {
  const dataDir = await unpacked();
  const disk = await temporaryDirectory();
  const start = `"$NODE" --no-warnings "$ENTRY" start --detach --port 0 --quiet --data-dir "$DISK/home"`;
  const ran = await onSmallDisk(context, {
    disk,
    mebibytes: 24,
    env: { ENTRY: entry, FROM: dataDir, NODE_COMPILE_CACHE: join(await temporaryDirectory(), 'cache') },
    script: `
      cp -r "$FROM" "$DISK/home" && rm -rf "$DISK/home/local/reserve" "$DISK/home/local/ipfs/reserve"
      sums() (
        cd "$DISK/home/local"
        find state ipfs/node.db secrets.json -type f ! -name '*-shm' ! -name '*-wal' | sort | xargs sha256sum
      )
      sums > "$FROM/before"
      head -c 20000000 /dev/zero > "$DISK/filler" 2> "$FROM/filled"; cat /dev/zero >> "$DISK/filler" 2> "$FROM/filled"
      ${start}; echo start $?
      sums > "$FROM/after"; cmp "$FROM/before" "$FROM/after" && echo same
      ls "$DISK/home/local/copies" 2> "$FROM/filled"
      rm "$DISK/filler"
      ${start} > "$FROM/url"; echo start $?
      ls "$DISK/home/local/copies" | cut -c 1-8
      "$NODE" --no-warnings "$ENTRY" list --data-dir "$DISK/home" | wc -l
      "$NODE" --no-warnings "$ENTRY" stop --quiet --data-dir "$DISK/home"`,
  });
  expect(ran.stdout, ran.stderr).toBe('start 7\nsame\nstart 0\nearlier-\n6\n');
  expect(ran.stderr).toMatch(/^sealpin: error: the disk of .* is full: the service needs some room to start$/m);
});
