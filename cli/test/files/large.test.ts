/** S54: large files in constant memory, by what is shipped (`npm run build` makes it). */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import { open, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../local/package-root.ts';
import { localService } from '../local.ts';
import { temporaryDirectory } from '../environment.ts';
import { ci, long } from '../../../testkit/long-run.ts';

const local = localService();
const gib = 1024 ** 3;
const limitMib = 200;

/** Runs the built command line and gives the peak of its memory, as Linux counts it. */
async function measured(
  argv: readonly string[],
  cwd: string,
): Promise<{ code: number | null; stdout: string; peakMib: number }> {
  const child = spawn(process.execPath, [join(packageRoot(), 'dist', 'sealpin.cjs'), ...argv], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: cwd, SEALPIN_HOME: local.dataDir },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  let peakMib = 0;
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const timer = setInterval(() => {
    const status = `/proc/${child.pid}/status`;
    if (existsSync(status))
      peakMib = Math.max(peakMib, Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(status, 'utf8'))?.[1] ?? 0) / 1024);
  }, 20);
  const [code] = (await once(child, 'close')) as [number | null];
  clearInterval(timer);
  return { code, stdout, peakMib };
}

/** Checks that a file of that size holds zeros only, as a sparse one does. */
async function isZero(path: string, bytes: number): Promise<boolean> {
  let seen = 0;
  const zeros = Buffer.alloc(1024 * 1024);
  for await (const chunk of createReadStream(path, { highWaterMark: zeros.length }) as AsyncIterable<Buffer>) {
    if (!chunk.equals(zeros.subarray(0, chunk.length))) return false;
    seen += chunk.length;
  }
  return seen === bytes;
}

test.runIf(ci && process.platform === 'linux')('S54: a large file goes there and back in constant memory', async () => {
  const bytes = long ? 4 * gib + 1 : gib / 8;
  const directory = await temporaryDirectory();
  await (await open(join(directory, 'in'), 'w')).close();
  await truncate(join(directory, 'in'), bytes);
  const pair = await measured(['keygen', '--output', 'pair', '--quiet'], directory);
  const stored = await measured(['ecc-encrypt', 'in', pair.stdout.trim(), '--quiet'], directory);
  expect(stored.code).toBe(0);
  expect(stored.peakMib).toBeLessThanOrEqual(limitMib);
  const back = await measured(['ecc-decrypt', stored.stdout.trim(), 'out', 'pair/private.key', '--quiet'], directory);
  expect(back.code).toBe(0);
  expect(back.peakMib).toBeLessThanOrEqual(limitMib);
  expect(await isZero(join(directory, 'out'), bytes)).toBe(true);
  await rm(join(directory, 'out'));
  expect((await measured(['delete', stored.stdout.trim(), '--quiet'], directory)).code).toBe(0);
});
