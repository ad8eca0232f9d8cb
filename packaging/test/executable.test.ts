import { spawnSync } from 'node:child_process';
import { chmod, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { buildExecutable } from '../executable.ts';
import { packed } from './packed.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

const isSupported = process.platform === 'linux' && process.arch === 'x64';

// 400 MB are written, which the short form leaves out.
test.runIf(isSupported && process.env['SEALPIN_LONG'] === '1')(
  'the executable runs everything where no Node is',
  async () => {
    const directory = await temporaryDirectory();
    const path = join(directory, 'sealpin');
    const { built } = await packed();
    await buildExecutable(path, built.find(({ name }) => name === '@sealpin/local')?.path ?? '');
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

    // The service is unpacked into the cache of the user, who alone can change it.
    const started = sealpin('start', '--detach', '--port', '0');
    onTestFinished(() => void sealpin('stop'));
    expect(started).toMatchObject({ status: 0, stdout: expect.stringMatching(/^http:/) });
    const [unpacked = ''] = await readdir(join(directory, '.cache/sealpin/local'));
    expect(unpacked).toMatch(/^[0-9a-f]{64}$/);
    const stored = sealpin('encrypt', 'in');
    expect(stored).toMatchObject({ status: 0 });
    expect(sealpin('decrypt', stored.stdout.trim(), '-')).toMatchObject({ status: 0, stdout: 'alone' });
    expect(sealpin('rebuild')).toMatchObject({ status: 0 });
    expect(sealpin('stop')).toMatchObject({ status: 0 });
    await chmod(join(directory, '.cache'), 0o777);
    const refused = sealpin('start', '--detach', '--port', '0');
    expect(refused).toMatchObject({ status: 1, stdout: '' });
    expect(refused.stderr).toContain('the cache directory can be changed by other users');
  },
);
