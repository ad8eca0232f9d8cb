import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';

test('a program whose process ends without closing it ends, too', async () => {
  const source = `
    import { spawn } from 'node:child_process';
    import { endWithProcess } from './testkit/end-with-process.ts';
    const child = spawn('sleep', ['60'], { stdio: ['ignore', 'inherit', 'ignore'] });
    endWithProcess(child);
    process.exit();
  `;
  const cwd = new URL('../../', import.meta.url);
  const parent = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // Both hold its output open.
  parent.stdout.resume();
  const [code] = (await once(parent, 'close')) as [number];
  expect(code).toBe(0);
}, 10_000);
