/**
 * Tests of how long `start --detach` waits for a service, and what it makes of one that starts or
 * ends.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { startDetached } from '../../local/detach.ts';
import { runningService } from '../../local/other-service.ts';
import { cpuMsOfGroup, isRunning, markProcess } from '../../local/process.ts';
import { readState, localPaths, makeLocal, writeState } from '../../local/state.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { temporaryDirectory } from '../../../testkit/temporary-directory.ts';

const [, own = ''] = process.argv;
afterEach(() => {
  process.argv[1] = own;
});

const notes: string[] = [];
const output = { note: (text: string) => void notes.push(text) } as unknown as Parameters<
  typeof startDetached
>[0]['output'];

/**
 * Starts a program instead of the service. It has `control`, the path of the socket, and `answer`,
 * which listens there.
 */
async function startInstead(program: string, home?: string): ReturnType<typeof startDetached> {
  const dataDir = home ?? (await temporaryDirectory());
  const path = join(dataDir, 'program.mjs');
  const head = `import { createServer } from 'node:http';
    import { writeFileSync } from 'node:fs';
    import { setTimeout as sleep } from 'node:timers/promises';
    writeFileSync(${JSON.stringify(join(dataDir, 'pid'))}, String(process.pid));
    const control = ${JSON.stringify(localPaths(dataDir).control)};
    const answer = (to) => createServer(to).listen(control);
    const status = { url: 'http://127.0.0.1:1', pid: process.pid, recovered: ['3 files were indexed again'] };`;
  await writeFile(path, `${head}\n${program}\nawait new Promise(() => setInterval(() => undefined, 60_000));`);
  process.argv[1] = path;
  const { signal } = new AbortController();
  const context = { dataDir, env: { ...process.env }, signal, output };
  try {
    return await startDetached(context, {}, { idleMs: 2_000, workMs: 50, answerMs: 200 });
  } finally {
    const pid = Number(await readFile(join(dataDir, 'pid'), 'utf8'));
    if (markProcess(pid) !== undefined) process.kill(pid, 'SIGKILL');
  }
}

inCi('a service that works is waited for, however long it takes, and says what it found', async () => {
  const ready = await startInstead(`
    for (let round = 0; round < 40; round += 1) {
      for (const end = performance.now() + 20; performance.now() < end;);
      await sleep(80);
    }
    answer((_, response) => response.end(JSON.stringify(status)));`);
  expect(ready).toMatchObject({ url: 'http://127.0.0.1:1', recovered: ['3 files were indexed again'] });
});

const hanging = [
  ['takes questions and never answers', 'answer(() => undefined);'],
  ['does nothing', ''],
];
test.each(hanging.slice(0, ci ? 2 : 1))('a service that %s is given up, and ended', async (_, program) => {
  const started = startInstead(`process.on('SIGTERM', () => process.exit());\n${program}`);
  await expect(started).rejects.toMatchObject({
    code: 'internal',
    message: 'the service does nothing for 2 s, and takes no requests',
  });
});

inCi('a service that fails gives its own reason, also where its log takes nothing', async () => {
  const dataDir = await temporaryDirectory();
  const full = { title: 'Disk full', status: 507, code: 'disk_full', detail: 'no room', hint: 'free some space' };
  const failing = (problem: object): string => `process.send(${JSON.stringify(problem)}, () => process.exit(7));`;
  await expect(startInstead(failing(full), dataDir)).rejects.toMatchObject({
    code: 'disk_full',
    message: 'no room',
    hint: 'free some space',
  });
  const answer = { title: 'Unexpected answer', status: 502, code: 'service_answer', detail: 'no account' };
  await expect(startInstead(failing(answer), dataDir)).rejects.toMatchObject({
    message: 'no account',
    hint: `see ${localPaths(dataDir).log}`,
  });
  await expect(startInstead('process.exit(1);', dataDir)).rejects.toMatchObject({
    code: 'internal',
    message: 'the service ended at once',
    hint: `see ${localPaths(dataDir).log}`,
  });
});

test('a service that ends is waited for, and one that answers is running', async () => {
  const dataDir = await temporaryDirectory();
  await makeLocal(dataDir);
  expect(await runningService({ dataDir })).toBe(null);
  const ending = spawn('sleep', ['60']);
  onTestFinished(() => void ending.kill());
  await once(ending, 'spawn');
  const service = markProcess(ending.pid ?? 0);
  if (service === undefined) throw new Error('sleep does not run');
  await writeState(dataDir, 'run', { v: 1, service, workerd: [], url: 'http://127.0.0.1:1', startedAt: '' });
  const found = runningService({ dataDir });
  setTimeout(() => ending.kill(), 300);
  expect(await found).toBe(null);
  expect(isRunning(service)).toBe(false);

  const self = markProcess(process.pid);
  if (self === undefined) throw new Error('this process runs');
  await writeState(dataDir, 'run', { v: 1, service: self, workerd: [], url: 'http://127.0.0.1:1', startedAt: '' });
  const late = runningService({ dataDir });
  const server = createServer((_, response) => response.end('{}'));
  setTimeout(() => server.listen(localPaths(dataDir).control), 300);
  onTestFinished(() => void server.close());
  expect(await late).toEqual(await readState(dataDir, 'run'));
});

test('the CPU time of a process group grows while one of its processes works', async () => {
  const busy = spawn(process.execPath, ['-e', 'for (;;);'], { detached: true });
  onTestFinished(() => void busy.kill('SIGKILL'));
  await once(busy, 'spawn');
  await expect.poll(() => cpuMsOfGroup(busy.pid ?? 0)).toBeGreaterThan(200);
  expect(cpuMsOfGroup(2 ** 30)).toBe(0);
});
