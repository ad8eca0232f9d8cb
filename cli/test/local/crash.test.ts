import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { workerdsOf } from '../../local/leftover.ts';
import { isRunning } from '../../local/process.ts';
import type { ProcessMark } from '../../local/process.ts';
import { loadRun, localPaths, localService } from '../../local/state.ts';
import { call, here, removeAll, startHere, startLocal, store } from './harness.ts';
import type { Running, RunningHere } from './harness.ts';
import { present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const services: RunningHere[] = [];
afterEach(async () => {
  await removeAll(services.splice(0));
});
async function started(o?: Parameters<typeof startLocal>[0]): Promise<Running> {
  const service = await startLocal(o);
  services.push(service);
  return service;
}

const rounds = long ? 40 : 1;

async function startedHere(o?: Parameters<typeof startHere>[0]): Promise<RunningHere> {
  const service = await startHere(o);
  services.push(service);
  return service;
}

async function workerdOf({ dataDir }: RunningHere): Promise<ProcessMark> {
  const [mark] = present(await loadRun(dataDir)).workerd;
  return present(mark);
}

/** Kills the workerd of a service and waits until another one has replaced it. */
async function replaced(service: RunningHere): Promise<ProcessMark> {
  const before = await workerdOf(service);
  process.kill(before.pid, 'SIGKILL');
  for (;;) {
    const now = await workerdOf(service);
    if (now.pid !== before.pid && isRunning(now)) return now;
    await sleep(20);
  }
}

/** Ends what a test left behind, although the test failed. */
function killed(mark: ProcessMark): void {
  if (isRunning(mark)) process.kill(mark.pid, 'SIGKILL');
}

describe('a workerd that crashed', () => {
  test('is replaced, and the one that runs is recorded', async () => {
    const service = await startedHere();
    const { fileId } = await store(service, 'encrypted', new Uint8Array(100));
    const now = await replaced(service);
    expect(workerdsOf(localPaths(service.dataDir).state)).toEqual([now]);
    expect((await localService(service.dataDir))?.url).toBe(service.url);
    expect((await call(service, `/v1/storage/${fileId}`)).status).toBe(200);
    expect(service.stderr()).toMatch(/"event":"workerd.crashed"[^]*"event":"workerd.restarted"/);
    expect(await service.end()).toBe(0);
    expect(isRunning(now)).toBe(false);
  });

  test('whose port another program took ends the service, and no command sends the API key there', async () => {
    const service = await startedHere();
    const { pid } = await workerdOf(service);
    const port = Number(new URL(service.url).port);
    let heard = '';
    const thief = createServer((socket) => {
      socket.on('data', (data) => (heard += data.toString('latin1')));
      socket.on('error', () => undefined);
      setTimeout(() => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{"files":[]}'), 50);
    });
    process.kill(pid, 'SIGKILL');
    for (let taken = false; !taken; await sleep(1)) {
      thief.listen(port, '127.0.0.1');
      taken = await once(thief, 'listening').then(
        () => true,
        () => false,
      );
    }
    const listed = await here(['list', `--data-dir=${service.dataDir}`]);
    expect(heard).not.toContain('Bearer');
    expect(listed.stdout).toBe('');
    expect(await service.ended).toBe(1);
    await new Promise((resolve) => thief.close(resolve));
    expect(service.stderr()).toContain('the runtime crashed and could not be restarted');
    expect(await loadRun(service.dataDir)).toBeUndefined();
  });
});

describe('the workerd that a killed service left', () => {
  /** @param find the workerd of the service: the one that it began with, or another */
  async function orphan(
    find: (service: Running) => Promise<ProcessMark>,
  ): Promise<{ service: Running; left: ProcessMark }> {
    const service = await started();
    const left = await find(service);
    await service.end('SIGKILL');
    expect(isRunning(left)).toBe(true);
    return { service, left };
  }

  test('is told by status and ended by stop', async () => {
    const { service, left } = await orphan(replaced);
    try {
      const flag = `--data-dir=${service.dataDir}`;
      const status = await here(['status', flag]);
      expect(status).toMatchObject({ code: 1, stdout: '' });
      expect(status.stderr).toContain(`the runtime of a killed one still is: process ${left.pid}`);
      expect(await here(['stop', flag])).toMatchObject({ code: 0 });
      expect(isRunning(left)).toBe(false);
      expect((await here(['stop', flag])).stderr).toContain('no local service is running');
    } finally {
      killed(left);
    }
  });

  test('is found although no file tells of it', async () => {
    const { service, left } = await orphan(long ? replaced : workerdOf);
    try {
      await rm(localPaths(service.dataDir).run);
      await startedHere({ dataDir: service.dataDir });
      expect(isRunning(left)).toBe(false);
    } finally {
      killed(left);
    }
  });

  test('lets the next start have its port at once, time after time', async () => {
    let service = await started();
    const port = new URL(service.url).port;
    const stored = new Map<string, string>();
    let last: RunningHere = service;
    for (let round = 0; round < rounds; round += 1) {
      const { fileId, cid } = await store(service, 'encrypted', new Uint8Array(100).fill(round));
      stored.set(fileId, cid);
      if (round % 2 === 1) await replaced(service);
      const left = await workerdOf(service);
      await service.end('SIGKILL');
      const options = { dataDir: service.dataDir, args: [`--port=${port}`] };
      // The last one is not killed, so it needs no process.
      if (round < rounds - 1) last = service = await started(options);
      else last = await startedHere(options);
      expect(isRunning(left)).toBe(false);
      expect(last.url).toBe(`http://127.0.0.1:${port}`);
    }
    for (const fileId of stored.keys()) expect((await call(last, `/v1/storage/${fileId}`)).status).toBe(200);
  });
});
