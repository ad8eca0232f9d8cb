/**
 * The container images, as far as that can be tried without Docker: their instructions, and what
 * the workflow does with them.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

const root = packageRoot();
const folder = join(root, 'packaging/docker');
const files = readdirSync(folder).map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }));
const { version: node } = JSON.parse(readFileSync(join(root, '.ci/node/package.json'), 'utf8')) as { version: string };

/** The instructions with a name, continued lines joined. */
const instructions = (text: string, name: string): string[] =>
  Array.from(text.replaceAll('\\\n', '').matchAll(new RegExp(`^${name} (.*)$`, 'gm')), ([, value]) => value ?? '');

describe('the images', () => {
  test('are built on the Node of the checkout, and run as nobody special', () => {
    expect(files.map(({ name }) => name)).toEqual(['client.Dockerfile', 'local.Dockerfile']);
    for (const { text } of files) {
      expect(instructions(text, 'FROM')).toEqual([`node:${node}-trixie-slim`]);
      expect(instructions(text, 'USER')).toEqual(['node']);
      expect(instructions(text, 'ENTRYPOINT')).toEqual(['["sealpin"]']);
    }
  });

  test('take the packages that a release packs, and no other files', async () => {
    const directory = await temporaryDirectory();
    await mkdir(join(directory, 'tmp'));
    for (const name of ['sealpin-1.2.3.tgz', 'sealpin-local-1.2.3.tgz', 'SHA256SUMS', 'sealpin-linux-x64'])
      await writeFile(join(directory, name), '');
    const taken = (pattern: string): string[] =>
      execFileSync('sh', ['-c', `ls ${pattern}`], { cwd: directory, encoding: 'utf8' })
        .trim()
        .split('\n');
    const sources = files.map(({ text }) => instructions(text, 'COPY').map((copy) => copy.replace(/ \/tmp\/$/, '')));
    expect(sources.map((patterns) => patterns.flatMap((each) => taken(each)))).toEqual([
      ['sealpin-1.2.3.tgz'],
      ['sealpin-1.2.3.tgz', 'sealpin-local-1.2.3.tgz'],
    ]);
    for (const { text } of files) {
      const commands = instructions(text, 'RUN');
      expect(commands.find((command) => command.includes('npm install'))).toContain('--ignore-scripts');
      for (const command of commands) expect(() => execFileSync('sh', ['-n', '-c', command])).not.toThrow();
    }
  });

  test('have the CA certificates that workerd needs to start, where the service is', () => {
    const installed = files.map(({ text }) =>
      instructions(text, 'RUN').some((command) => /apt-get install .* ca-certificates/.test(command)),
    );
    expect(installed).toEqual([false, true]);
  });

  test('are built, tried and pushed by the release workflow, after the packages are published', () => {
    const workflow = readFileSync(join(root, '.github/workflows/release.yml'), 'utf8');
    const places = [
      /^.*npm publish.*$/m,
      /docker build --file packaging\/docker\/client/,
      /docker run/,
      /docker push/,
      /gh release/,
    ].map((step) => workflow.search(step));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places).not.toContain(-1);
    for (const { name } of files) expect(workflow).toContain(`--file packaging/docker/${name}`);
  });
});
