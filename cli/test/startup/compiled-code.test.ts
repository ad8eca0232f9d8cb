/** The bundled command line: V8's compiled code that it keeps, and what it leaves out. */
import { spawnSync } from 'node:child_process';
import { chmod, chown, copyFile, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { generateKeyPair } from '../../../shared/crypto/index.ts';
import { isLongRun as long } from '../../../testkit/long-run.ts';
import { madeOnce } from '../../../testkit/run-cache.ts';
import { bundleCommand } from '../../startup/command-bundle.ts';
import { nodeBackend } from '../../keys/node-backend.ts';
import { temporaryDirectory } from '../environment.ts';

const bundle = await madeOnce('command', async (folder) => {
  await bundleCommand(folder);
  return folder;
});

/** A cache directory, and a runner of the bundle that uses it. */
async function setUp({ caches = true } = {}) {
  const home = await temporaryDirectory();
  if (caches) await mkdir(join(home, '.cache'));
  const folder = join(home, '.cache/sealpin/compiled');
  const run = (argv: readonly string[], { from = bundle, env = {} } = {}) =>
    spawnSync(process.execPath, [join(from, 'sealpin.cjs'), ...argv], {
      cwd: home,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: home, ...env },
    });
  const kept = async () => (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
  return { home, folder, run, kept };
}

const completions = ['completions', 'bash'];
const firstLine = '# sealpin for bash: ';
const otherLine = '# another program:  ';

let ofOtherText: Promise<Buffer> | undefined;

/** The bundle with another text in it, of the same length, and the checksum of the right bundle on the code that it keeps. */
async function foreignCode(isRelabelled: boolean): Promise<Buffer> {
  const bytes = Buffer.from(await (ofOtherText ??= codeOfOtherText()));
  const source = await readFile(join(bundle, 'command.cjs'));
  if (isRelabelled) bytes.writeUInt32LE(crc32(bytes.subarray(0, -4), crc32(source)), bytes.length - 4);
  return bytes;
}

/** Returns what the bundle with another text in it keeps. */
async function codeOfOtherText(): Promise<Buffer> {
  const { home, run, kept } = await setUp();
  for (const name of ['sealpin.cjs', 'command.cjs']) await copyFile(join(bundle, name), join(home, name));
  const path = join(home, 'command.cjs');
  const source = await readFile(path, 'utf8');
  await writeFile(path, source.replace(firstLine, otherLine));
  expect(run(completions, { from: home }).stdout).toContain(otherLine);
  const [file = ''] = await kept();
  return await readFile(file);
}

test('a command keeps its compiled code, which its next run uses and leaves as it is, and removes what is old', async () => {
  const { folder, run, kept } = await setUp();
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const other = join(folder, 'list-1');
  for (const [name, days] of [
    ['list-0', 91],
    ['list-1', 89],
  ] as const) {
    await writeFile(join(folder, name), '');
    await utimes(join(folder, name), 0, Date.now() / 1000 - days * 86_400);
  }
  const first = run(completions);
  expect(first).toMatchObject({ status: 0, stderr: '' });
  const [path = '', ...others] = await kept();
  expect(others).toEqual([other]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const { ino } = await stat(path);
  expect(run(completions)).toMatchObject({ status: 0, stderr: '', stdout: first.stdout });
  expect((await stat(path)).ino).toBe(ino);
  await writeFile(path, await foreignCode(true));
  expect(run(completions).stdout, 'what was kept is what runs').toContain(otherLine);
});

/** The cases that this form of the tests runs: each takes several processes. */
const inThisForm = <T extends readonly [string, ...unknown[]]>(cases: readonly T[], short: readonly string[]): T[] =>
  cases.filter(([name]) => long || short.includes(name));

const changes: [string, (bytes: Buffer) => Buffer | Promise<Buffer>][] = [
  [
    'damaged',
    (bytes: Buffer) => Buffer.concat([bytes.subarray(0, 400_000), Buffer.from('x'), bytes.subarray(400_001)]),
  ],
  ['cut off', (bytes: Buffer) => bytes.subarray(0, 1000)],
  ['empty', () => Buffer.alloc(0)],
  ['of another source', () => foreignCode(false)],
  ['refused by V8', (bytes: Buffer) => refused(bytes)],
];

test.each(inThisForm(changes, ['damaged', 'of another source', 'refused by V8']))(
  'compiled code that is %s is replaced, and does not run',
  async (_, change) => {
    const { run, kept } = await setUp();
    const { stdout } = run(completions);
    const [path = ''] = await kept();
    const right = await readFile(path);
    await writeFile(path, await change(right));
    expect(run(completions)).toMatchObject({ status: 0, stderr: '', stdout });
    expect((await readFile(path)).length).toBeGreaterThan(400_000);
    const { ino } = await stat(path);
    run(completions);
    expect((await stat(path)).ino, 'and what replaced it fits').toBe(ino);
  },
);

/** Code with a wrong magic number, and the right checksum. */
async function refused(bytes: Buffer): Promise<Buffer> {
  const source = await readFile(join(bundle, 'command.cjs'));
  const changed = Buffer.concat([Buffer.from('not V8'), bytes.subarray(6)]);
  changed.writeUInt32LE(crc32(changed.subarray(0, -4), crc32(source)), changed.length - 4);
  return changed;
}

const openings: [string, (o: { home: string; folder: string }) => Promise<void>][] = [
  ['the folder itself is open to others', ({ folder }) => chmod(folder, 0o755)],
  ['a folder above it can be written by the group', ({ home }) => chmod(join(home, '.cache'), 0o775)],
  ['a folder above it can be written by all', ({ home }) => chmod(home, 0o777)],
];

test.each(inThisForm(openings, ['the folder itself is open to others', 'a folder above it can be written by all']))(
  'compiled code is neither used nor kept where %s',
  async (_, open) => {
    const { home, folder, run, kept } = await setUp();
    run(completions);
    const [path = ''] = await kept();
    await writeFile(path, await foreignCode(true));
    await open({ home, folder });
    expect(run(completions).stdout).toContain(firstLine);
    run(['completions', 'zsh']);
    run(['keygen', '--output', 'pair']);
    expect(await kept()).toEqual([path]);
  },
);

test.runIf(process.geteuid?.() === 0)(
  'root uses no compiled code of a user, as with the home of that user',
  async () => {
    const { home, folder, run, kept } = await setUp();
    run(completions);
    const [path = ''] = await kept();
    await writeFile(path, await foreignCode(true));
    await chown(home, 65_534, 65_534); // the user owns the home alone, and can exchange .cache for another folder
    expect(run(completions).stdout).toContain(firstLine);
    await chown(home, 0, 0);
    await chown(folder, 65_534, 65_534);
    expect(run(completions).stdout).toContain(firstLine);
    const other = await setUp();
    await chown(other.home, 65_534, 65_534);
    expect(other.run(completions).status).toBe(0);
    expect(await readdir(join(other.home, '.cache')), 'nor makes any there').toEqual([]);
  },
);

test('nothing is kept without a cache directory, of a command that fails, or of none', async () => {
  const without = await setUp({ caches: false });
  expect(without.run(completions).status).toBe(0);
  expect(await readdir(without.home)).toEqual([]);
  const { run, kept } = await setUp();
  expect(run(['decrypt', './missing', '-']).status).toBe(1);
  expect(run(['--help']).status).toBe(0);
  expect(run(['../../x']).status).toBe(2);
  expect(await kept()).toEqual([]);
});

test('a small file to and from keys needs nothing of noble', async () => {
  const { home, run } = await setUp();
  const pair = await generateKeyPair(nodeBackend);
  await writeFile(join(home, 'in'), 'small');
  await writeFile(join(home, 'public.key'), pair.publicPem);
  await writeFile(join(home, 'private.key'), pair.privatePem, { mode: 0o600 });
  const env = { NODE_V8_COVERAGE: join(home, 'coverage') };
  expect(run(['ecc-encrypt', 'in', 'public.key', '--output', 'out'], { env })).toMatchObject({ status: 0 });
  expect(run(['ecc-decrypt', './out', '-', 'private.key'], { env })).toMatchObject({ status: 0, stdout: 'small' });
  const modules = await evaluatedModules(env.NODE_V8_COVERAGE);
  expect(modules).toContain('cli/files/unseal.ts');
  expect(modules.filter((name) => name.startsWith('node_modules/@noble/'))).toEqual([]);
});

/** The modules of the bundle that were evaluated, in any run: esbuild names the function of each after its path. */
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
