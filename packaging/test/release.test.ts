/**
 * The release workflow: that its commands exist, and that those work that need neither GitHub nor
 * npm.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
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
    expect(commands.length).toBeGreaterThan(8);
    const named = commands.flatMap((command) => /^npm run (?:--silent )?(\S+)/.exec(command)?.[1] ?? []);
    expect(named).toContain('packages');
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
    const files = commands.flatMap((command) => /^(?:node|bash) (\S+)/.exec(command)?.[1] ?? []);
    expect(files).toContain('packaging/release.ts');
    expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  test('publishes after the tests, with provenance, and nothing else may write', () => {
    const publishing = commands.filter((command) => command.startsWith('npm publish'));
    expect(publishing).toHaveLength(2);
    for (const command of publishing) expect(command).toContain('--provenance');
    expect(workflow).toContain('needs: test');
    expect(workflow.match(/: write/g)).toHaveLength(3);
  });

  // Built by `npm run packages` there; here two packages of the same names and versions stand for
  // them.
  test('packs, lists and sums what it publishes', async () => {
    const directory = await temporaryDirectory();
    for (const name of ['package.json', 'package-lock.json', 'packaging', 'cli', '.ci/node'])
      await cp(join(root, name), join(directory, name), { recursive: true });
    for (const [folder, name] of Object.entries({ sealpin: 'sealpin', local: '@sealpin/local' })) {
      await mkdir(join(directory, 'dist/npm', folder), { recursive: true });
      await writeFile(join(directory, 'dist/npm', folder, 'package.json'), JSON.stringify({ name, version }));
    }
    const first = commands.findIndex((command) => command.startsWith('node packaging/release.ts'));
    const last = commands.findIndex((command) => command.includes('SHA256SUMS'));
    for (const command of commands.slice(first, last + 1)) {
      const env = { ...process.env, ...environment };
      expect(spawnSync('sh', ['-ec', command], { cwd: directory, encoding: 'utf8', env }), command).toMatchObject({
        status: 0,
      });
    }
    const release = join(directory, 'dist/release');
    const tarballs = [`sealpin-${version}.tgz`, `sealpin-local-${version}.tgz`];
    expect((await readdir(release)).toSorted()).toEqual(['SHA256SUMS', 'sbom.spdx.json', ...tarballs].toSorted());
    expect(execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: release, encoding: 'utf8' })).toBe(
      '',
    );
    const sbom = JSON.parse(await readFile(join(release, 'sbom.spdx.json'), 'utf8')) as {
      packages: { name: string }[];
    };
    expect(sbom.packages.map(({ name }) => name)).toContain('hono');
    // What `npm publish` is given is one file each.
    for (const pattern of commands.flatMap((command) => /^npm publish .* (\S+)$/.exec(command)?.[1] ?? [])) {
      const found = execFileSync('sh', ['-c', `ls ${pattern}`], { cwd: directory, encoding: 'utf8' });
      expect(found.trim().split('\n')).toHaveLength(1);
    }
    const manifest: unknown = JSON.parse(await readFile(join(directory, 'dist/npm/local/package.json'), 'utf8'));
    expect(manifest).toMatchObject({ name: '@sealpin/local', version, ...originOf(environment, version) });
  });
});

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
