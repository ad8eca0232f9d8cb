import { execFileSync, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { long } from '../../testkit/long-run.ts';

const isSupported = process.platform === 'linux' && process.arch === 'x64';

// 120 MB are written, which the short form leaves out.
test.runIf(isSupported && long)('the executable works where no Node is', async () => {
  const directory = await temporaryDirectory();
  const path = join(directory, 'sealpin');
  execFileSync(process.execPath, [join(import.meta.dirname, '../executable.ts'), path]);
  const sealpin = (...argv: string[]) =>
    spawnSync(path, argv, {
      cwd: directory,
      encoding: 'utf8',
      env: { PATH: directory, HOME: directory, SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' },
    });
  await writeFile(join(directory, 'in'), 'alone');
  expect(sealpin('--help')).toMatchObject({ status: 0, stderr: '' });
  expect(sealpin('encrypt', 'in', '--output', 'out')).toMatchObject({ status: 0 });
  expect(sealpin('decrypt', './out', '-')).toMatchObject({ status: 0, stdout: 'alone', stderr: '' });
  expect(sealpin('start')).toMatchObject({ status: 1, stdout: '' });
});
