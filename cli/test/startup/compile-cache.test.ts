/** The bundled command line: the compiled code that Node keeps for it, and what it leaves out. */
import { spawnSync } from 'node:child_process';
import { chmod, chown, copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { generateKeyPair } from '../../../shared/crypto/index.ts';
import { ci } from '../../../testkit/long-run.ts';
import { madeOnce } from '../../../testkit/run-cache.ts';
import { bundleCommand } from '../../startup/command-bundle.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { temporaryDirectory } from '../environment.ts';

const bundle = await madeOnce('command', async (folder) => {
  await bundleCommand(folder);
  return folder;
});

const isRoot = process.geteuid?.() === 0;
/** For root, nothing is kept: there, the tests are run by a user without rights. */
const nobody = 65_534;

/** A home directory with a cache directory and the bundle, and a runner of the bundle. */
async function setUp({ caches = true } = {}) {
  const home = await temporaryDirectory();
  const folder = join(home, '.cache/sealpin/compiled');
  for (const name of ['sealpin.cjs', 'command.cjs']) await copyFile(join(bundle, name), join(home, name));
  if (caches) await mkdir(join(home, '.cache'), { mode: 0o700 });
  if (isRoot) for (const path of caches ? [home, join(home, '.cache')] : [home]) await chown(path, nobody, nobody);
  const run = (argv: readonly string[], { env = {}, asRoot = false } = {}) =>
    spawnSync(process.execPath, [join(home, 'sealpin.cjs'), ...argv], {
      cwd: home,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: home, ...env },
      ...(isRoot && !asRoot ? { uid: nobody, gid: nobody } : {}),
    });
  return { home, folder, run };
}

const completions = ['completions', 'bash'];
/** Makes Node say what it does with compiled code, which is nothing where that is off. */
const env = { NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };

test('a command keeps its compiled code, which its next run uses', async () => {
  const { folder, run } = await setUp();
  const first = run(completions);
  expect(first).toMatchObject({ status: 0, stderr: '' });
  expect(await readdir(folder)).toHaveLength(1);
  const { stdout, stderr } = run(completions, { env });
  expect(`${stdout}${stderr}`).toMatch(/command\.cjs was accepted/);
  expect(run(completions)).toMatchObject({ status: 0, stderr: '', stdout: first.stdout });
});

const openings: [string, (o: { home: string; folder: string }) => Promise<void>][] = [
  ['the folder itself is open to others', ({ folder }) => chmod(folder, 0o755)],
  ['a folder above it can be written by the group', ({ home }) => chmod(join(home, '.cache'), 0o775)],
  ['a folder above it can be written by all', ({ home }) => chmod(home, 0o777)],
];
test.each(openings.slice(0, ci ? 3 : 1))('compiled code is neither used nor kept where %s', async (_, open) => {
  const { home, folder, run } = await setUp();
  run(completions);
  await open({ home, folder });
  const { status, stdout, stderr } = run(completions, { env });
  expect(status).toBe(0);
  expect(`${stdout}${stderr}`).not.toContain('[compile cache]');
});

test.runIf(ci && isRoot)('root uses no compiled code, and keeps none', async () => {
  const { home, run } = await setUp();
  for (const owner of [nobody, 0]) {
    for (const path of [home, join(home, '.cache')]) await chown(path, owner, owner);
    const { status, stdout, stderr } = run(completions, { env, asRoot: true });
    expect(status).toBe(0);
    expect(`${stdout}${stderr}`).not.toContain('[compile cache]');
    expect(await readdir(join(home, '.cache'))).toEqual([]);
  }
});

test('nothing is kept without a cache directory', async () => {
  const { home, run } = await setUp({ caches: false });
  const before = await readdir(home);
  expect(run(completions).status).toBe(0);
  expect(await readdir(home)).toEqual(before);
});

test('a small file to and from keys needs nothing of noble', async () => {
  const { home, run } = await setUp();
  const pair = await generateKeyPair(nodeProvider);
  await writeFile(join(home, 'in'), 'small');
  await writeFile(join(home, 'public.key'), pair.publicPem);
  await writeFile(join(home, 'private.key'), pair.privatePem, { mode: 0o600 });
  if (isRoot) await chown(join(home, 'private.key'), nobody, nobody);
  const coverage = { env: { NODE_V8_COVERAGE: join(home, 'coverage') } };
  expect(run(['ecc-encrypt', 'in', 'public.key', '--output', 'out'], coverage)).toMatchObject({ status: 0 });
  expect(run(['ecc-decrypt', './out', '-', 'private.key'], coverage)).toMatchObject({ status: 0, stdout: 'small' });
  const modules = await evaluatedModules(coverage.env.NODE_V8_COVERAGE);
  expect(modules).toContain('cli/files/unseal.ts');
  expect(modules.filter((name) => name.startsWith('node_modules/@noble/'))).toEqual([]);
});

/**
 * The modules of the bundle that were evaluated, in any run: esbuild names the function of each
 * after its path.
 */
async function evaluatedModules(folder: string): Promise<string[]> {
  type Coverage = { result: { url: string; functions: { functionName: string; ranges: { count: number }[] }[] }[] };
  const files = (await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8'));
  const runs = (await Promise.all(files)).map((text) => JSON.parse(text) as Coverage);
  expect(runs).toHaveLength(2);
  return runs.flatMap(({ result }) =>
    result
      .filter(({ url }) => url.endsWith('command.cjs'))
      .flatMap(({ functions }) => functions)
      .filter(({ functionName, ranges }) => functionName.includes('/') && (ranges[0]?.count ?? 0) > 0)
      .map(({ functionName }) => functionName),
  );
}
