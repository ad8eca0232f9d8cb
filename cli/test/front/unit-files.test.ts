/** Unit files of the documents: systemd accepts them, and their commands run, as another user. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { present } from '../../../testkit/present.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { withProgram } from '../../../testkit/programs/programs.ts';
import { temporaryDirectory } from '../environment.ts';
import { entry } from '../local/harness.ts';
import { changed } from './real-proxies.ts';

const root = join(import.meta.dirname, '../../..');
const program = '/usr/local/bin/sealpin';

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
  ])('systemd finds nothing wrong with the unit files of %s', async (document, manager, names) => {
    const folder = await temporaryDirectory();
    const units = await unitsOf(document);
    expect(units).toHaveLength(names.length);
    // It looks whether the program is there.
    for (const [index, name] of names.entries())
      await writeFile(join(folder, name), present(units[index]).replace(program, '/bin/true'));
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

/** The user who runs the commands, as systemd lets them. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

test('the commands of the unit files run, as a user without a home', async () => {
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
    const argv = ['--no-warnings', entry, ...words, ...more];
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
