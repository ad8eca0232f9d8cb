/** Unit files of the documents: systemd accepts them, and their commands run, as another user. */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { inCi } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { entry, entrySource } from '../../../testkit/programs/command-line.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../environment.ts';
import { remove, startHere } from '../local/harness.ts';
import { changed } from './real-proxies.ts';

const root = join(import.meta.dirname, '../../..');
/** As which the units name them. */
const programs = /(?<=^ExecStart=)\S+/m;

/** The unit files of a document. */
async function unitsOf(document: string): Promise<string[]> {
  const page = await readFile(join(root, document), 'utf8');
  return Array.from(page.matchAll(/^```ini\n([^]*?)^```/gm), ([, unit]) => present(unit));
}

const commandOf = (unit: string): string => present(/^ExecStart=(.*)$/m.exec(unit)?.[1]);

withProgram('systemd-analyze', { probe: ['--version'] }, () => {
  test.each([
    ['docs/self-hosting.md', '--system', ['sealpin.service', 'sealpin-backup.service', 'sealpin-backup.timer']],
    ['cli/README.md', '--user', ['sealpin.service']],
    ['cli/manual/schedule.md', '--user', ['backup-photos.service', 'backup-photos.timer']],
  ])('systemd finds nothing wrong with the unit files of %s', async (document, manager, names) => {
    const folder = await temporaryDirectory();
    const units = await unitsOf(document);
    expect(units).toHaveLength(names.length);
    // It looks whether the program is there.
    for (const [index, name] of names.entries())
      await writeFile(join(folder, name), present(units[index]).replace(programs, '/bin/true'));
    const verify = (name: string) =>
      spawnSync('systemd-analyze', ['verify', manager, join(folder, name)], {
        encoding: 'utf8',
        env: { ...process.env, XDG_RUNTIME_DIR: folder },
      });
    for (const name of names) expect(verify(name)).toMatchObject({ status: 0, stderr: '' });
    const [first = ''] = names;
    await writeFile(join(folder, first), `[Service]\nExecStart=/bin/true\nProtectSytem=strict\n`);
    expect(verify(first).stderr).toContain('ProtectSytem');
  });
});

inCi('what the timer runs every night stores the folder, checked, with a name and an end', async () => {
  const home = await realpath(await temporaryDirectory());
  const dataDir = join(home, '.local/share/sealpin');
  const service = await startHere({ dataDir });
  onTestFinished(() => remove(service));
  const page = await readFile(join(root, 'cli/manual/schedule.md'), 'utf8');
  const script = present(/^```sh\n(#!\/bin\/sh\n[^]*?)^```/m.exec(page)?.[1]);
  const unit = first(await unitsOf('cli/manual/schedule.md'));
  for (const folder of ['bin', 'photos', 'programs']) await mkdir(join(home, folder), { recursive: true });
  await writeFile(join(home, 'photos/a.jpg'), 'a');
  await writeFile(join(home, 'bin/backup-photos'), script, { mode: 0o755 });
  const started = `#!/bin/sh\nexec '${process.execPath}' --no-warnings '${entry}' "$@"\n`;
  await writeFile(join(home, 'programs/sealpin'), started, { mode: 0o755 });
  const env = { ...bareEnv(), HOME: home, PATH: `${join(home, 'programs')}:${process.env['PATH']}` };
  const sh = (command: string) => promisify(execFile)('sh', ['-c', command], { cwd: '/', env });
  await sh('sealpin keygen --quiet');
  // Cron mails what is on standard error.
  expect((await sh(commandOf(unit).replace('%h', home))).stderr).toBe('');
  const { files } = JSON.parse((await sh('sealpin list --json')).stdout) as {
    files: { fileId: string; name: string }[];
  };
  expect(files).toEqual([expect.objectContaining({ name: expect.stringMatching(/^photos \d{4}-\d\d-\d\d$/) })]);
  const headers = { authorization: `Bearer ${service.apiKey}` };
  const stored = await fetch(`${service.url}/v1/storage/${first(files).fileId}?data=false`, { headers });
  const { expiresAt } = (await stored.json()) as { expiresAt: string };
  expect(Math.round((Date.parse(expiresAt) - Date.now()) / 86_400_000)).toBe(90);
});

/** The user who runs the commands, as systemd lets them. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

inCi('the commands of the unit files run, as a user without a home', async () => {
  const dir = await realpath(await temporaryDirectory());
  const [service = '', backup = ''] = (await unitsOf('docs/self-hosting.md')).map((unit) =>
    unit.includes('ExecStart') ? commandOf(unit) : '',
  );
  for (const name of ['state', 'backup']) {
    await mkdir(join(dir, name), { mode: 0o700 });
    if (nobody.uid !== undefined) await chown(join(dir, name), nobody.uid, nobody.gid);
  }
  await chmod(dir, 0o755);
  const keys = spawnSync(process.execPath, [entry, 'keygen', '--quiet', '--output', join(dir, 'pair')], {
    env: bareEnv(),
  });
  expect(keys.status).toBe(0);
  await chmod(join(dir, 'pair'), 0o755);
  await chmod(join(dir, 'pair/public.key'), 0o644);
  const run = (command: string, ...more: string[]): ChildProcess => {
    const words = command.split(' ').slice(1);
    const argv = ['--no-warnings', entrySource, ...words, ...more];
    const env = { ...bareEnv(), HOME: '/nonexistent' };
    return spawn(process.execPath, argv, { cwd: '/', ...nobody, env, stdio: ['ignore', 'pipe', 'pipe'] });
  };
  const started = run(changed(service, [['/var/lib/sealpin', join(dir, 'state')]]), '--port', '0', '--json');
  const ended = once(started, 'close') as Promise<[number | null]>;
  onTestFinished(() => void started.kill('SIGKILL'));
  const [line] = (await Promise.race([once(present(started.stdout), 'data'), ended])) as [Buffer];
  expect(JSON.parse(line.toString())).toMatchObject({ url: 'https://files.example.com' });

  for (let day = 1; day <= 2; day += 1) {
    const taken = run(
      changed(backup, [
        ['/media/backup/sealpin', join(dir, 'backup')],
        ['/etc/sealpin-backup.pub', join(dir, 'pair/public.key')],
        ['/var/lib/sealpin', join(dir, 'state')],
      ]),
    );
    const [stderr, [code]] = await Promise.all([text(present(taken.stderr)), once(taken, 'close')]);
    expect(code, stderr).toBe(0);
  }
  // What systemctl stop sends.
  started.kill('SIGTERM');
  expect((await ended)[0]).toBe(0);

  // Another machine has another path, and another user: here root, or the same one.
  const home = join(dir, 'other machine');
  const key = join(dir, 'pair/private.key');
  const argv = ['--no-warnings', entry, 'service', 'restore', join(dir, 'backup'), '--key', key, '--data-dir', home];
  expect(spawnSync(process.execPath, argv, { encoding: 'utf8', env: bareEnv() })).toMatchObject({ status: 0 });
});
