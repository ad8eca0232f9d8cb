/**
 * The container images, built with Buildah and run, by the lines of the README. No registry of
 * images is asked: the base is made of files of this machine.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, copyFile, cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { inCi, long } from '../../testkit/long-run.ts';
import { installed, withProgram } from '../../testkit/programs/programs.ts';
import { present } from '../../testkit/present.ts';
import { packed } from './packed.ts';

const root = packageRoot();
const readme = readFileSync(join(root, 'packaging/README.md'), 'utf8');
const execute = promisify(execFile);

/** Programs that the instructions of the images call. */
const programs = ['sh', 'rm', 'install', 'env', 'ls', 'cat', 'mkdir'];

/** Puts a small Debian together, with the Node of this run. `apt-get` brings the certificates. */
async function makeRoot(to: string): Promise<void> {
  for (const folder of [
    'tmp',
    'dev',
    'proc',
    'sys',
    'root',
    'home/node',
    'usr/bin',
    'usr/local/bin',
    'var/lib/apt/lists',
  ])
    await mkdir(join(to, folder), { recursive: true });
  await chmod(join(to, 'tmp'), 0o1777);
  const paths = await Promise.all(programs.map((name) => realpath(installed(name))));
  for (const [index, path] of paths.entries()) await copyFile(path, join(to, 'usr/bin', present(programs[index])));
  await symlink('usr/bin', join(to, 'bin'));
  await copyFile(process.execPath, join(to, 'usr/local/bin/node'));
  const workerd = join(root, 'node_modules/@cloudflare/workerd-linux-64/bin/workerd');
  for (const path of [process.execPath, workerd, ...paths])
    for (const library of execFileSync('ldd', [path], { encoding: 'utf8' }).match(/\/\S+/g) ?? []) {
      await mkdir(join(to, dirname(library)), { recursive: true });
      await copyFile(library, join(to, library));
    }
  const npm = dirname(dirname(await realpath(installed('npm'))));
  await cp(npm, join(to, 'usr/local/lib/node_modules/npm'), { recursive: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(to, 'usr/local/bin/npm'));
  await mkdir(join(to, 'etc'), { recursive: true });
  await writeFile(join(to, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n');
  await writeFile(join(to, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
  await copyFile('/etc/ssl/certs/ca-certificates.crt', join(to, 'certificates'));
  const get = '#!/bin/sh\nmkdir -p /etc/ssl/certs\ncat /certificates > /etc/ssl/certs/ca-certificates.crt\n';
  await writeFile(join(to, 'usr/bin/apt-get'), get, { mode: 0o755 });
}

withProgram('buildah', { probe: ['--version'] }, () => {
  let dir: string;
  const where = (): string[] => [
    '--storage-driver',
    'vfs',
    '--root',
    join(dir, 'store'),
    '--runroot',
    join(dir, 'run'),
  ];
  const buildah = async (...args: string[]): Promise<string> =>
    (await execute('buildah', [...where(), ...args], { cwd: root, maxBuffer: 2 ** 26 })).stdout.trim();

  beforeAll(async () => {
    // Not in memory, where tests have their other folders.
    dir = await mkdtemp('/var/tmp/sealpin-images-');
    await makeRoot(join(dir, 'machine'));
    const [base] =
      /^FROM (.*)$/m.exec(readFileSync(join(root, 'packaging/docker/client.Dockerfile'), 'utf8'))?.slice(1) ?? [];
    const container = await buildah('from', 'scratch');
    await buildah('copy', '--quiet', container, join(dir, 'machine'), '/');
    const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8', cwd: tmpdir() }).trim();
    const variables = [
      'PATH=/usr/local/bin:/usr/bin',
      `npm_config_registry=${registry}`,
      'NODE_EXTRA_CA_CERTS=/certificates',
    ];
    await buildah('config', ...variables.flatMap((each) => ['--env', each]), container);
    await buildah('commit', '--quiet', container, `docker.io/library/${present(base)}`);
    await mkdir(join(dir, 'images'));
    for (const tarball of (await packed()).tarballs) await copyFile(tarball, join(dir, 'images', basename(tarball)));
  }, 120_000);
  afterAll(() => rm(dir, { recursive: true, force: true }));

  /** Builds an image by its line of the README. @returns a container of it */
  async function built(file: string): Promise<string> {
    const line = present(
      new RegExp(`^docker (build --file packaging/docker/${file}\\.Dockerfile .*)$`, 'm').exec(readme)?.[1],
    );
    const words = line.replace('dist/images', join(dir, 'images')).split(' ').slice(1);
    await buildah('build', '--isolation', 'chroot', '--pull-never', ...words);
    return await buildah('from', '--pull-never', `localhost/${present(words[words.indexOf('--tag') + 1])}`);
  }

  const runIn = (container: string, ...command: string[]): Promise<string> =>
    buildah('run', '--isolation', 'chroot', container, '--', ...command);

  inCi(
    'the image of the command line encrypts and decrypts, as nobody special',
    async () => {
      const container = await built('client');
      expect(await runIn(container, 'sealpin', '--version')).toMatch(/^\d+\.\d+\.\d+$/);
      const words = `
      sealpin keygen --quiet > /dev/null && cd /data && echo letter > in &&
      sealpin ecc-encrypt in public.key --output out --quiet && sealpin decrypt ./out - --quiet && ls -ln private.key`;
      expect(await runIn(container, 'sh', '-c', words)).toMatch(/^letter\n-rw------- 1 1000 1000 /);
    },
    120_000,
  );

  test.runIf(long)('the image of the service runs it', async () => {
    const container = await built('local');
    const command = ['sealpin', 'start', '--port', '0'];
    const args = [...where(), 'run', '--isolation', 'chroot', container, '--', ...command];
    const service = spawn('buildah', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(service, 'close');
    const [line] = (await Promise.race([once(service.stdout, 'data'), ended])) as [Buffer | number];
    expect(String(line)).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n$/);
    const words =
      'cd /data && echo letter > in && id=$(sealpin encrypt in --generate --quiet 2> /dev/null) && sealpin verify $id';
    await runIn(container, 'sh', '-c', words);
    await runIn(container, 'sealpin', 'stop');
    await ended;
  });
});
