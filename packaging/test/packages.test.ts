/**
 * Tests of the published contents, from the packed tarball of `sealpin`: without a registry, in an
 * empty folder.
 */
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { build } from 'esbuild';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { publint } from 'publint';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { bundleGuard, bundleWorker } from '../../cli/local/code/bundle.ts';
import { packageRoot } from '../../cli/local/package-root.ts';
import { keptFile, sourceKey } from '../../cli/local/code/worker-code.ts';
import { bareEnv } from '../../testkit/run-cache.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { withRelativeImports } from '../declarations.ts';
import { licensesOf } from '../licenses.ts';
import { packed } from './packed.ts';
import { first, itemOf, present } from '../../testkit/present.ts';
import { inCi, long } from '../../testkit/long-run.ts';

const room = await mkdtemp(join(tmpdir(), 'sealpin-packages-'));
afterAll(() => rm(room, { recursive: true, force: true }));
const execute = promisify(execFile);

const { built, tarballs } = await packed();
const [tarball = '', localTarball = ''] = tarballs;
const project = join(room, 'project');
const installed = join(project, 'node_modules', 'sealpin');
await installWithoutRegistry();

/**
 * Into an empty folder. Port 9 of loopback has nobody who answers, so that npm can reach no
 * registry.
 */
async function installWithoutRegistry(): Promise<void> {
  await mkdir(project);
  await writeFile(join(project, 'package.json'), '{ "name": "project", "type": "module", "private": true }');
  const flags = ['--registry=http://127.0.0.1:9/', `--cache=${join(room, 'cache')}`, '--no-audit', '--no-fund'];
  await execute('npm', ['install', ...flags, tarball], { cwd: project });
}

/** Runs a program of the project. */
async function runModule(source: string): Promise<string> {
  await writeFile(join(project, 'program.mjs'), source);
  return (await execute(process.execPath, ['program.mjs'], { cwd: project })).stdout;
}

const sealpin = (argv: readonly string[], cwd: string) =>
  spawnSync(join(project, 'node_modules', '.bin', 'sealpin'), argv, {
    cwd,
    encoding: 'utf8',
    env: { ...bareEnv(), HOME: cwd, SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' },
  });

describe('sealpin', () => {
  test('takes at most 5.2 MB, and brings no other package', async () => {
    expect(built[0]?.bytes).toBeLessThanOrEqual(5_200_000);
    expect((await readdir(join(project, 'node_modules'))).filter((name) => !name.startsWith('.'))).toEqual(['sealpin']);
  });

  // The short form looks for it among what `installed.test.ts` installs, where there is a registry.
  test.runIf(long)('installed for all users, brings its page to man', async () => {
    const prefix = join(room, 'prefix');
    const flags = ['--offline', `--cache=${join(room, 'cache')}`, '--no-audit', '--no-fund'];
    await execute('npm', ['install', '--global', `--prefix=${prefix}`, ...flags, tarball]);
    expect(gunzipSync(await readFile(join(prefix, 'share/man/man1/sealpin.1.gz'))).toString()).toMatch(
      /^\.TH SEALPIN 1/im,
    );
  });

  inCi('a page that uses one function does not take along all others', async () => {
    // In kB, minified; each has about a tenth of room.
    const budgets = {
      SealpinError: 9,
      fetchBlob: 98,
      cidOf: 64,
      generateKeys: 130,
      inspect: 137,
      signUrl: 143,
      open: 155,
    };
    const sizes: Record<string, number> = {};
    for (const name of Object.keys(budgets)) {
      const { outputFiles } = await build({
        stdin: { contents: `export { ${name} } from 'sealpin';`, resolveDir: project },
        bundle: true,
        minify: true,
        write: false,
        format: 'esm',
      });
      sizes[name] = first(outputFiles).contents.length / 1000;
    }
    for (const [name, most] of Object.entries(budgets)) expect(sizes[name], name).toBeLessThanOrEqual(most);
  });

  test.each([
    { entry: 'sealpin', kib: 100 },
    { entry: 'sealpin/crypto', kib: 60 },
    { entry: 'sealpin/ipfs', kib: 26 },
  ])('$entry takes at most $kib KiB in a page, compressed', async ({ entry, kib }) => {
    const { outputFiles } = await build({
      stdin: { contents: `export * from '${entry}';`, resolveDir: project },
      bundle: true,
      minify: true,
      format: 'esm',
      write: false,
    });
    expect(gzipSync(first(outputFiles).contents, { level: 9 }).length / 1024).toBeLessThanOrEqual(kib);
  });

  test('in Node, each entry works as imported', async () => {
    const stdout = await runModule(`
      import { generateKeys, open, seal, SealpinError } from 'sealpin';
      import { generateKeyPair, webProvider } from 'sealpin/crypto';
      import { parseCid } from 'sealpin/ipfs';
      const { publicKey, privateKey } = await generateKeys();
      const sealed = await seal('the plan', { to: { keys: publicKey } });
      const container = await sealed.blob();
      console.log(await (await open(container, { with: { keys: privateKey } })).text());
      console.log(parseCid(await sealed.cid) !== undefined, 'spki' in (await generateKeyPair(webProvider)));
      const plain = open(new Blob(['plain']), { with: { password: 'any' } });
      const failure = await plain.then((o) => o.text()).catch((e) => e);
      console.log(failure instanceof SealpinError);
    `);
    expect(stdout).toBe('the plan\ntrue true\ntrue\n');
  });

  inCi('its types stand alone, and take the examples of the manual in the strictest settings', async () => {
    const manual = await readFile(join(packageRoot(), 'docs/sdk.md'), 'utf8');
    const examples = Array.from(manual.matchAll(/^```ts\n([^]*?)^```/gm), ([, block]) => block).join('');
    const environment = 'declare const process: { env: Record<string, string | undefined> };\n';
    await writeFile(join(project, 'examples.ts'), environment + examples);
    await writeFile(
      join(project, 'program.ts'),
      `import { connect, seal, type Sealed, type StoredFile } from 'sealpin';
import { webProvider } from 'sealpin/crypto';
import { parseCid } from 'sealpin/ipfs';
export const sealed: Promise<Sealed> = seal('text', { to: { password: 'x' } });
// @ts-expect-error a number is no source
export const refused = seal(1, { to: { password: 'x' } });
export const nameOf = ({ filename }: StoredFile): string | null | undefined => filename;
console.log(connect, webProvider, parseCid);
`,
    );
    const flags = [
      '--strict',
      '--exactOptionalPropertyTypes',
      '--noUncheckedIndexedAccess',
      '--noEmit',
      '--module',
      'nodenext',
      '--target',
      'es2024',
      '--lib',
      'es2024,dom,dom.iterable,dom.asynciterable',
    ];
    const tsc = join(packageRoot(), 'node_modules/typescript/bin/tsc');
    expect(
      spawnSync(process.execPath, [tsc, ...flags, 'program.ts', 'examples.ts'], { cwd: project, encoding: 'utf8' }),
    ).toMatchObject({
      stdout: '',
      status: 0,
    });
  });

  test('the command encrypts and decrypts without a service', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'alone');
    expect(sealpin(['encrypt', 'in', '--output', 'out'], directory)).toMatchObject({ status: 0 });
    expect(sealpin(['decrypt', './out', '-'], directory)).toMatchObject({ status: 0, stdout: 'alone' });
  });

  test.each([{ argv: ['start'] }, { argv: ['start', '--detach'] }, { argv: ['rebuild'] }])(
    '$argv asks for @sealpin/local',
    async ({ argv }) => {
      const directory = await temporaryDirectory();
      const { version } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as { version: string };
      expect(sealpin(argv, directory)).toMatchObject({
        status: 1,
        stdout: '',
        stderr:
          'sealpin: error: a service on this machine needs the package @sealpin/local\n' +
          `sealpin: hint: install it: npm i -g @sealpin/local@${version}\n`,
      });
      expect(await readdir(directory)).toEqual([]);
    },
  );

  test('another version of @sealpin/local is refused', async () => {
    const directory = await temporaryDirectory();
    const local = join(project, 'node_modules', '@sealpin', 'local');
    await cp(itemOf(built, 1).path, local, { recursive: true });
    const manifest = await readFile(join(local, 'package.json'), 'utf8');
    await writeFile(join(local, 'package.json'), manifest.replace(/"version": "[^"]*"/, '"version": "0.0.1"'));
    const ran = sealpin(['start'], directory);
    await rm(join(project, 'node_modules', '@sealpin'), { recursive: true });
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toMatch(/^sealpin: error: @sealpin\/local is 0\.0\.1, and sealpin is \d/);
  });

  test('brings the licenses of all that is bundled', async () => {
    const text = await readFile(join(installed, 'THIRD-PARTY-LICENSES.txt'), 'utf8');
    for (const name of ['@noble/ciphers', 'citty', 'modern-tar', 'valibot']) expect(text).toContain(`\n${name} `);
    await expect(licensesOf(['worker/index.ts'])).resolves.toBe('');
  });

  test('has every document that its README names', async () => {
    const readme = await readFile(join(installed, 'README.md'), 'utf8');
    const names = Array.from(readme.matchAll(/\]\(([\w/-]+\.md|LICENSE)[)#]/g), ([, name]) => present(name));
    expect(names).toContain('cli/README.md');
    expect(names.filter((name) => !existsSync(join(installed, name)))).toEqual([]);
  });
});

describe.each([
  ['sealpin', tarball],
  ['@sealpin/local', localTarball],
])('%s', (_, path) => {
  test('publint finds nothing', async () => {
    const packed = await readFile(path);
    const { messages } = await publint({ pack: { tarball: new Uint8Array(packed).buffer }, strict: true });
    expect(messages).toEqual([]);
  });
});

test('@sealpin/local has every source of the Worker, of the guard and of the pages', async () => {
  const absWorkingDir = itemOf(built, 1).path;
  const external = ['cloudflare:*', 'node:*', './worker.js', 'sealpin:web'];
  for (const entry of ['worker/index.ts', 'cli/local/guard.ts', 'web/receive-page.ts', 'web/workers/engine.ts']) {
    const options = { absWorkingDir, external, bundle: true, write: false, packages: 'external' } as const;
    const { warnings } = await build({ ...options, format: 'esm', entryPoints: [`./${entry}`], logLevel: 'silent' });
    expect(warnings, entry).toEqual([]);
  }
});

inCi('@sealpin/local brings the code of the Worker, built from the very source that is beside it', async () => {
  const folder = itemOf(built, 1).path;
  const code = JSON.parse(await readFile(join(folder, keptFile), 'utf8')) as Record<string, string>;
  expect(code).toEqual({ key: sourceKey(folder), worker: await bundleWorker(), guard: await bundleGuard() });
});

inCi('arethetypeswrong finds nothing in any way that takes ES modules', async () => {
  const result = await checkPackage(createPackageFromTarballData(new Uint8Array(await readFile(tarball))));
  if (!result.types) throw new Error('there are no types');
  // CommonJS, and the resolution of Node 10, which knows no exports, are not supported.
  const known = ['node10', 'node16-cjs'];
  expect(result.problems.filter((each) => !('resolutionKind' in each && known.includes(each.resolutionKind)))).toEqual(
    [],
  );
});

test('types of a package that is not at hand are refused', () => {
  expect(withRelativeImports("import { a } from './b.ts';", 'client/a.d.ts')).toBe("import { a } from './b.js';");
  expect(withRelativeImports("import type * as v from 'valibot';", 'client/a.d.ts')).toBe(
    "import type * as v from '../npm/valibot.js';",
  );
  expect(() => withRelativeImports("import type { Hono } from 'hono';", 'client/a.d.ts')).toThrow('hono');
});
