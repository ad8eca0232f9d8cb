/**
 * The release workflow: that its commands exist, and that those work that need neither GitHub nor
 * npm.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readFile } from 'node:fs/promises';
import { join, matchesGlob } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { long } from '../../testkit/long-run.ts';
import { bareEnv } from '../../testkit/run-cache.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { originOf } from '../release-manifest.ts';

const root = packageRoot();
const workflow = await readFile(join(root, '.github/workflows/release.yml'), 'utf8');
const commands = Array.from(workflow.matchAll(/^\s*- run: (.+)$/gm), ([, command]) => command ?? '');
const { scripts, version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
  version: string;
};
const environment = {
  GITHUB_SERVER_URL: 'https://git.example.org',
  GITHUB_REPOSITORY: 'someone/sealpin',
  GITHUB_REF_NAME: `v${version}`,
};

describe('the workflow', () => {
  test('runs only scripts and files that exist', () => {
    expect(commands.length).toBeGreaterThan(6);
    const named = commands.flatMap((command) => /^npm run (?:--silent )?(\S+)/.exec(command)?.[1] ?? []);
    expect(named).toEqual(['release']);
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
    expect(commands).toContain('bash .ci/run');
  });

  test('publishes after the tests, with provenance, and nothing else may write', () => {
    const publishing = commands.filter((command) => command.startsWith('npm publish'));
    expect(publishing).toHaveLength(2);
    for (const command of publishing) expect(command).toContain('--provenance');
    expect(workflow).toContain('needs: test');
    expect(workflow.match(/: write/g)).toHaveLength(3);
  });

  test('publishes one file of a release each', () => {
    const release = [`sealpin-${version}.tgz`, `sealpin-local-${version}.tgz`, 'sealpin-linux-x64', 'SHA256SUMS'];
    const patterns = commands.flatMap(
      (command) => /^npm publish .* \.\/dist\/release\/(\S+)$/.exec(command)?.[1] ?? [],
    );
    expect(patterns.map((pattern) => release.filter((name) => matchesGlob(name, pattern)))).toEqual([
      [`sealpin-local-${version}.tgz`],
      [`sealpin-${version}.tgz`],
    ]);
  });
});

// 400 MB are written, which the short form leaves out.
test.runIf(long)(
  'a release is the same on another machine, and its sums, bill of materials and origin are right',
  async () => {
    const directory = await temporaryDirectory();
    const machine = join(directory, 'another machine');
    const copy = join(machine, 'checkout');
    const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
      cwd: root,
      encoding: 'utf8',
    }).split('\0');
    for (const path of tracked.filter((each) => each !== '' && existsSync(join(root, each))))
      await cp(join(root, path), join(copy, path));
    await cp(join(root, 'node_modules'), join(copy, 'node_modules'), { recursive: true, verbatimSymlinks: true });
    const released = (
      checkout: string,
      folder: string,
      other?: { uid?: number; env: Record<string, string> },
    ): string => {
      const release = join(folder, 'release');
      const own = other === undefined ? process.env : { ...bareEnv(), ...other.env };
      const env = { ...own, ...environment, SOURCE_DATE_EPOCH: '1790000000' };
      const umask = other === undefined ? 'umask 022' : 'umask 077';
      const argv = ['-c', `${umask}; exec "$@"`, 'sh', process.execPath, 'packaging/release.ts', release];
      const ids = other?.uid === undefined ? {} : { uid: other.uid, gid: other.uid };
      const ran = spawnSync('sh', argv, { cwd: checkout, encoding: 'utf8', env, ...ids });
      expect(ran.status, ran.stderr).toBe(0);
      return release;
    };
    const release = released(root, join(directory, 'first'));
    const sums = await readFile(join(release, 'SHA256SUMS'), 'utf8');
    // Another user, home, language, time zone and umask, and files that only this user reads.
    const home = join(machine, 'home');
    await mkdir(home);
    const uid = process.getuid?.() === 0 ? 65_534 : undefined;
    execFileSync('chmod', ['-R', 'go=', machine]);
    if (uid !== undefined) {
      execFileSync('chown', ['-R', `${uid}:${uid}`, machine]);
      await chmod(directory, 0o755);
    }
    const env = {
      HOME: home,
      TMPDIR: home,
      XDG_CACHE_HOME: join(home, 'cache'),
      LC_ALL: 'tr_TR.UTF-8',
      TZ: 'Asia/Kathmandu',
    };
    const second = released(copy, join(home, 'second'), { ...(uid !== undefined && { uid }), env });
    expect(await readFile(join(second, 'SHA256SUMS'), 'utf8')).toBe(sums);
    expect(execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: release, encoding: 'utf8' })).toBe(
      '',
    );
    expect(sums.match(/\S+$/gm)).toEqual(
      [
        'README.txt',
        'bip39-english.txt',
        'open.html',
        'pages.json',
        'rescue.py',
        'rescue_backup.py',
        'rescue_bucket.py',
        'sbom.spdx.json',
        `sealpin-${version}.tgz`,
        'sealpin-linux-x64',
        `sealpin-local-${version}.tgz`,
      ].toSorted(),
    );
    const sbom = JSON.parse(await readFile(join(release, 'sbom.spdx.json'), 'utf8')) as {
      packages: { name: string }[];
    };
    expect(sbom.packages.map(({ name }) => name)).toContain('hono');
    for (const name of ['local', 'sealpin']) {
      const manifest: unknown = JSON.parse(await readFile(join(directory, 'first/npm', name, 'package.json'), 'utf8'));
      expect(manifest).toMatchObject({ version, ...originOf(environment, version) });
    }
  },
);

describe('the origin of a release', () => {
  test('is the repository of the workflow', () => {
    expect(originOf(environment, version)).toEqual({
      repository: { type: 'git', url: 'git+https://git.example.org/someone/sealpin.git' },
      bugs: { url: 'https://git.example.org/someone/sealpin/issues' },
      homepage: 'https://git.example.org/someone/sealpin#readme',
    });
  });

  test.each([
    { changed: { GITHUB_SERVER_URL: undefined }, error: 'GITHUB_SERVER_URL' },
    { changed: { GITHUB_SERVER_URL: 'http://git.example.org' }, error: 'GITHUB_SERVER_URL' },
    { changed: { GITHUB_REPOSITORY: undefined }, error: 'GITHUB_REPOSITORY' },
    { changed: { GITHUB_REPOSITORY: 'a/b/c' }, error: 'GITHUB_REPOSITORY' },
    { changed: { GITHUB_REF_NAME: 'v99.0.0' }, error: 'the tag is v99.0.0' },
    { changed: { GITHUB_REF_NAME: 'main' }, error: 'the tag is main' },
  ])('is refused: $changed', ({ changed, error }) => {
    expect(() => originOf({ ...environment, ...changed }, version)).toThrow(error);
  });
});
