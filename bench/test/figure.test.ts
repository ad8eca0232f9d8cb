import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished, expect, test } from 'vitest';
import { ownProcesses } from '../figure.ts';
import { cpuMsBelow, usedMs } from '../process-stats.ts';

/** A process in the background, as a service is: its child is busy, and no child of this one. */
async function busyInBackground(): Promise<number> {
  const busy = `require('child_process').spawn(process.execPath, ['-e', 'for (;;);'])`;
  const background = spawn(process.execPath, ['-e', `${busy}; process.stdout.write('.'); setInterval(() => 0, 1e6)`], {
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const pid = background.pid ?? 0;
  onTestFinished(() => void process.kill(-pid, 'SIGKILL'));
  await once(background.stdout, 'data');
  return pid;
}

test('what runs below a process counts as its own until it ends, and this process is ours', async () => {
  const pid = await busyInBackground();
  const before = cpuMsBelow([pid]);
  await expect.poll(() => usedMs(before, cpuMsBelow([pid])), { timeout: 30_000 }).toBeGreaterThan(100);
  expect([...ownProcesses]).toEqual([process.pid]);
  const busy = cpuMsBelow([...ownProcesses]);
  const child = [...cpuMsBelow([pid]).keys()].find((each) => each !== pid);
  expect([...busy.keys()]).toEqual(expect.arrayContaining([process.pid, pid, child]));
  process.kill(child ?? 0, 'SIGKILL');
  await expect.poll(() => [...cpuMsBelow([pid]).keys()], { timeout: 30_000 }).toEqual([pid]);
  // The seconds of the one that has ended are no time that others have given back.
  expect(usedMs(busy, cpuMsBelow([...ownProcesses]))).toBeGreaterThanOrEqual(0);
  expect(usedMs(cpuMsBelow([2 ** 30]), new Map())).toBe(0);
});
