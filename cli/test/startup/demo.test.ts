import { entry } from '../../../testkit/programs/command-line.ts';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { inCi, long } from '../../../testkit/long-run.ts';
import { isRunning } from '../../local/process.ts';
import type { Run } from '../../local/state.ts';
import { present } from '../../../testkit/present.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sealpin-test-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/**
 * Runs the demo, in the short form with cheap passwords, in a process group of its own, as a shell
 * does; `when` sees its output grow.
 */
function demo(when: (stdout: string, group: number) => void): Promise<{ code: number | null; stdout: string }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../demo.ts'), ...(long ? [] : [entry])], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
    // In the long form as at a user's, where Node keeps compiled code elsewhere, or none.
    env: { ...process.env, ...(long && { NODE_COMPILE_CACHE: undefined }), TMPDIR: folder },
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    when(stdout, present(child.pid));
  });
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout })));
}

inCi('the demo does the main job and leaves nothing behind', async () => {
  const { code, stdout } = await demo(() => undefined);
  expect(stdout).toMatch(/\nEverything is stopped and removed\. .*: \.\/sealpin start\n$/);
  expect(code).toBe(0);
  expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
  const steps = stdout
    .split('\n')
    .filter((line) => line.startsWith('✓'))
    .map((line) => line.split(/\s+/)[1]);
  expect(steps).toEqual([
    'start',
    'keygen',
    'keygen',
    'encrypt',
    'chacha-encrypt',
    'ecc-encrypt',
    'decrypt',
    'decrypt',
    'ecc-decrypt',
    'ecc-decrypt',
    'send',
    'receive',
    'receive',
    'POST',
    'POST',
    'GET',
    'GET',
    'DELETE',
    'GET',
  ]);
  expect(await readdir(folder)).toEqual([]);
});

test.runIf(long).each(['keygen', 'encrypt', 'send'])(
  'after Ctrl-C after %s the demo has cleaned up as well',
  async (step) => {
    let run: Promise<Run> | undefined;
    const { code, stdout } = await demo((text, group) => {
      if (run !== undefined || !text.includes(`✓ ${step}`)) return;
      run = (async () => {
        const name = present((await readdir(folder)).find((each) => each.startsWith('sealpin-demo-')));
        const found = JSON.parse(await readFile(join(folder, name, 'local/run.json'), 'utf8')) as Run;
        process.kill(-group, 'SIGINT');
        return found;
      })();
    });
    expect(stdout).toContain('Interrupted; cleaning up.');
    expect(code).toBe(130);
    const { service, workerd } = present(await run);
    await expect.poll(() => [service, ...workerd].filter(isRunning)).toEqual([]);
    expect(await readdir(folder)).toEqual([]);
  },
);
