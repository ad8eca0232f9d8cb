/** Folders that a backup of a service leaves alone, and a service whose disk cannot be written. */
import { mkdir, readdir, readFile, realpath, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { entry } from '../../../testkit/programs/command-line.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { refuseLocal } from '../../backup/layout.ts';
import { prepareFolder, removePrepared, serviceFolder, writeManifest } from '../../backup/service/service-folder.ts';
import { temporaryPath } from '../../io/unfinished.ts';
import { loadSecrets, localPaths, makeLocal, readState, serviceIdOf } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { here } from './harness.ts';
import { inCi } from '../../../testkit/long-run.ts';

const password = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };

/** A data directory with the tokens of a service that has just begun, and a folder beside it. */
async function begun(): Promise<{ dataDir: string; directory: string }> {
  const directory = await realpath(await temporaryDirectory());
  const dataDir = join(directory, 'home');
  await mkdir(dataDir, { mode: 0o700 });
  await makeLocal(dataDir);
  await loadSecrets(dataDir);
  return { dataDir, directory };
}

test.each([[], ['--without-secrets']])('the backup of another service stays as it is (flags: %j)', async (...flags) => {
  const { dataDir, directory } = await begun();
  const folder = serviceFolder('backup', { cwd: directory });
  for (const path of [folder.parts, folder.blocks]) await mkdir(path, { recursive: true });
  const names = [join(folder.parts, 'a'.repeat(64)), join(folder.blocks, 'b'.repeat(32))];
  for (const name of names) await writeFile(name, 'theirs');
  const secrets = { part: 'a'.repeat(64), of: 'c'.repeat(64) };
  const [v, serviceId, takenAt] = [1 as const, 'd'.repeat(32), '2030-01-01T00:00:00.000Z'];
  const theirs = { v, sealpin: '0.1.0', takenAt, serviceId, files: [], blocks: [], secrets };
  await writeManifest(folder, theirs, { cwd: directory, stdout: process.stdout });
  const ran = await here(['service', 'backup', folder.root, `--data-dir=${dataDir}`, ...flags], password);
  expect(ran).toMatchObject({ code: 1 });
  expect(ran.stderr).toContain(`${folder.root} is the backup of another service than that of ${dataDir}`);
  for (const name of names) expect(await readFile(name, 'utf8')).toBe('theirs');
  expect(JSON.parse(await readFile(folder.manifest, 'utf8'))).toEqual(theirs);
  expect(await readdir(folder.parts)).toHaveLength(1);
});

test('a service without an ID, as 0.1.0 made it, is the same one for its backup, whatever comes next', async () => {
  const { dataDir, directory } = await begun();
  const { secrets } = localPaths(dataDir);
  const { serviceId, ...first } = await loadSecrets(dataDir);
  const without = async (): Promise<void> => await writeFile(secrets, JSON.stringify(first));
  const folder = serviceFolder('backup', { cwd: directory });
  for (const path of [folder.parts, folder.blocks]) await mkdir(path, { recursive: true });
  await without();
  const id = serviceIdOf(await readState(dataDir, 'secrets'));
  expect(id).toMatch(/^[0-9a-f]{32}$/);
  for (const [own, isSame] of [
    [id, true],
    ['', true],
    [serviceId, false],
  ] as const) {
    const manifest = { v: 1, sealpin: '0.1.0', takenAt: '2030-01-01T00:00:00.000Z' } as const;
    const environment = { cwd: directory, stdout: process.stdout };
    await writeManifest(folder, { ...manifest, files: [], blocks: [], serviceId: own }, environment);
    for (const state of [without, () => loadSecrets(dataDir), without]) {
      await state();
      const ran = await here(['service', 'backup', folder.root, `--data-dir=${dataDir}`, '--without-secrets']);
      expect(ran.stderr.includes('is the backup of another service'), own).toBe(!isSame);
    }
  }
});

test('what a run that fails has made is removed, and the outputs of other commands stay', async () => {
  const { directory, dataDir } = await begun();
  const folder = serviceFolder('backup', { cwd: directory });
  const theirs = temporaryPath(folder.root);
  await mkdir(folder.root);
  await prepareFolder(folder, dataDir);
  await writeFile(theirs, 'theirs');
  await removePrepared(folder);
  expect(await readdir(folder.root)).toEqual([basename(theirs)]);
});

test('no backup goes among the files of the local service, by any path', async () => {
  const { dataDir, directory } = await begun();
  await mkdir(join(dataDir, 'local/tmp'));
  await symlink(dataDir, join(directory, 'link'));
  await symlink(join(dataDir, 'local/tmp'), join(directory, 'into'));
  const before = await readdir(directory, { recursive: true });
  const inside = ['home/local', 'home/local/tmp/b', 'home/local/a/b', 'home/local.restoring/b', 'link/local/b'];
  for (const path of [...inside, 'into', 'into/b', 'home/other/../local/b'])
    for (const command of [['service', 'backup'], ['backup']]) {
      const ran = await here([...command, `${directory}/${path}`, `--data-dir=${dataDir}`], password);
      expect(ran, path).toMatchObject({ code: 1 });
      expect(ran.stderr).toContain('is in the folder of the local service, which removes it');
    }
  expect(await readdir(directory, { recursive: true })).toEqual(before);
  for (const path of ['home/backup', 'home/localhost', 'link/local-backup', 'local'])
    await refuseLocal({ shown: path, root: join(directory, path) }, dataDir);
});

inCi('on a disk that became read-only a service says so, and a copy of it is backed up', async (context) => {
  const directory = await temporaryDirectory();
  await mkdir(join(directory, 'disk'));
  const run = { v: 1, service: { pid: 1, start: '0' }, workerd: [], url: 'http://127.0.0.1:9' };
  const ran = await onSmallDisk(context, {
    disk: join(directory, 'disk'),
    mebibytes: 64,
    // First as after a clean stop, then as after a kill.
    script: `mkdir -m 700 disk/home; tar -xzf "$STATE" -C disk/home
      mount -o remount,ro "$DISK" || exit 77
      "$NODE" "$ENTRY" service backup backup; echo "exit $?"
      mount -o remount,rw "$DISK"; echo "$RUN" > disk/home/local/run.json; mount -o remount,ro "$DISK"
      "$NODE" "$ENTRY" service backup backup; echo "exit $?"
      "$NODE" "$ENTRY" doctor --service http://127.0.0.1:9
      cp -r disk/home copy; "$NODE" "$ENTRY" service backup backup --data-dir copy; echo "exit $?"`,
    cwd: directory,
    env: {
      ...password,
      HOME: directory,
      ENTRY: entry,
      STATE: join(import.meta.dirname, 'states/ab333d8.tar.gz'),
      RUN: JSON.stringify(run),
      SEALPIN_HOME: join(directory, 'disk/home'),
    },
  });
  const refused = [
    `sealpin: error: ${directory}/disk/home/local cannot be written: the disk is read-only`,
    'sealpin: hint: copy the data directory to another disk, and back up the copy: name it with --data-dir',
  ];
  expect(ran.stderr.split('\n').slice(0, 4)).toEqual([...refused, ...refused]);
  expect(ran.stdout).toMatch(
    /^exit 1\nexit 1\nwrong +data +\S+\/disk\/home cannot be written: the disk is read-only\n/,
  );
  expect(ran.stdout).toMatch(/\nexit 0\n$/);
});
