/** `npm run quick [-- <commit>]`: the tests nearest to what changed since then, or HEAD. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { nearTests } from './near-tests.ts';

const repository = resolve(import.meta.dirname, '..');
/** With types, lint and build under a minute on 2 cores: a file takes 2 to 3 s of a core. */
const maxFiles = 12;

const git = (...args: string[]): string[] =>
  execFileSync('git', args, { cwd: repository, encoding: 'utf8' })
    .split('\n')
    .filter((path) => path !== '');

const untracked = git('ls-files', '--others', '--exclude-standard');
const changedFiles = [...git('diff', '--name-only', process.argv[2] ?? 'HEAD', '--'), ...untracked];
const paths = [...git('ls-files', '*.ts'), ...untracked.filter((path) => path.endsWith('.ts'))];
const sources = new Map(
  paths
    .filter((path) => existsSync(join(repository, path)))
    .map((path) => [path, readFileSync(join(repository, path), 'utf8')]),
);
const near = nearTests(changedFiles, sources);
// The rules of the house hold for every file, documents too, and cost little.
const rules = ['imports', 'language', 'links', 'map'].map((name) => `testkit/test/${name}.node.test.ts`);
if (changedFiles.length === 0) process.stdout.write('nothing changed\n');
else {
  const args = ['vitest', 'run', '--project=!guard', ...new Set([...near.slice(0, maxFiles), ...rules])];
  process.exitCode = spawnSync('npx', args, { cwd: repository, stdio: 'inherit' }).status ?? 1;
  const left = Math.max(0, near.length - maxFiles);
  process.stdout.write(`${left} more test files import what changed: npx vitest run --changed\n`);
}
