/**
 * The ways to install that the README names, typed as they stand there, in a copy of the checkout.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { long } from '../../testkit/long-run.ts';
import { present } from '../../testkit/present.ts';
import { bareEnv, ownCertificates } from '../../testkit/run-cache.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

const root = packageRoot();
const install = present(/^## Install\n([^]*?)^## /m.exec(readFileSync(join(root, 'README.md'), 'utf8'))?.[1]);
const block = present(/^```sh\n([^]*?)^```/m.exec(install)?.[1]);
const lines = block.split('\n').flatMap((line) => line.split('#')[0]?.trim() || []);
const without = present(/^`(npm install -g \S+)` leaves the local service out/m.exec(install)?.[1]);

// 2 GB are written, which the short form leaves out; there `installed.test.ts` types a line.
test.runIf(long)('each line works, and what it installs needs no checkout', async () => {
  // Not in memory, where tests have their other folders.
  const directory = await mkdtemp('/var/tmp/sealpin-readme-');
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const copy = join(directory, 'checkout');
  // A clone, with what is not committed yet.
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', root, copy]);
  const listed = ['ls-files', '-z', '--modified', '--others', '--exclude-standard'];
  const changed = execFileSync('git', listed, { cwd: root, encoding: 'utf8' }).split('\0');
  for (const path of changed.filter((each) => each !== '' && existsSync(join(root, each)))) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await cp(join(root, path), join(copy, path));
  }
  const env = {
    ...bareEnv(),
    PATH: [join(directory, 'prefix/bin'), process.env['PATH']].join(':'),
    HOME: directory,
    NODE_EXTRA_CA_CERTS: process.env[ownCertificates],
    npm_config_prefix: join(directory, 'prefix'),
    npm_config_cache: execFileSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8', cwd: directory }).trim(),
  };
  const typed = (line: string, cwd = copy): string => {
    const ran = spawnSync('sh', ['-c', line], { cwd, env, encoding: 'utf8', maxBuffer: 2 ** 28 });
    expect(ran.status, `${line}: ${ran.stdout.slice(-2000)}${ran.stderr.slice(-2000)}`).toBe(0);
    return ran.stdout;
  };
  expect(lines).toHaveLength(4);
  const [demo = '', version = '', packages = '', release = ''] = lines;
  typed(demo);
  const found = typed(version).trim();
  expect(found).toMatch(/^\d+\.\d+\.\d+$/);
  // A release makes its packages again, without the archives that the other line installs.
  typed(release);
  typed(packages);
  const elsewhere = await temporaryDirectory();
  await rename(copy, join(directory, 'away'));
  expect(typed('sealpin --version', elsewhere).trim()).toBe(found);
  expect(typed('sealpin start --detach --port 0', elsewhere)).toMatch(/^http:/);
  typed('sealpin stop', elsewhere);
  typed('npm uninstall -g sealpin @sealpin/local', elsewhere);
  typed(without, join(directory, 'away'));
  expect(typed('sealpin --version', elsewhere).trim()).toBe(found);
  // npm leaves the folder of the scope, which is empty.
  const installed = await readdir(join(directory, 'prefix/lib/node_modules'), { recursive: true });
  expect(installed.filter((path) => /^(?:[^@/]+|@[^/]+\/[^/]+)$/.test(path))).toEqual(['sealpin']);
  expect(typed('./away/dist/release/sealpin-linux-x64 --version', directory).trim()).toBe(found);
});
