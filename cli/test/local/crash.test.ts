import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { get, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { workerdsOf } from '../../local/leftover.ts';
import { isRunning } from '../../local/process.ts';
import type { ProcessMark } from '../../local/process.ts';
import { localService } from '../../local/control.ts';
import { readState, localPaths } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { ask, endedAfterEach, here, store } from './harness.ts';
import type { Running, RunningHere } from './harness.ts';
import { present } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

const { started, startedHere } = endedAfterEach();

const rounds = long ? 40 : 1;

async function workerdOf({ dataDir }: RunningHere): Promise<ProcessMark> {
  const [mark] = present(await readState(dataDir, 'run')).workerd;
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
    expect((await localService(service))?.url).toBe(service.url);
    expect((await ask(service, 'getFile', { fileId })).status).toBe(200);
    expect(service.stderr()).toMatch(/"event":"workerd.crashed"[^]*"event":"workerd.restarted"/);
    expect(await service.end()).toBe(0);
    expect(isRunning(now)).toBe(false);
  });

  inCi('leaves the port to its service: what is asked meanwhile waits for the next one', async () => {
    const service = await startedHere();
    const mark = await workerdOf(service);
    process.kill(mark.pid, 'SIGKILL');
    await expect.poll(() => isRunning(mark)).toBe(false);
    const [response] = (await once(get(`${service.url}/v1/health`, { agent: false }), 'response')) as [IncomingMessage];
    expect(response.resume().statusCode).toBe(200);
  });

  inCi('whose port another program took ends the service, and no command sends the API key there', async () => {
    // The path of its socket would be too long, so that it listens on the port itself.
    const dataDir = join(await temporaryDirectory(), 'a'.repeat(100));
    await mkdir(dataDir, { mode: 0o700 });
    const service = await startedHere({ dataDir });
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
    expect(await service.ended).toBe(6);
    await new Promise((resolve) => thief.close(resolve));
    expect(service.stderr()).toContain('the runtime crashed and could not be restarted');
    expect(await readState(service.dataDir, 'run')).toBeUndefined();
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

  inCi('is told by status and doctor, and ended by stop', async () => {
    const { service, left } = await orphan(replaced);
    try {
      const flag = `--data-dir=${service.dataDir}`;
      const status = await here(['status', flag]);
      expect(status).toMatchObject({ code: 6, stdout: '' });
      expect(status.stderr).toContain(`the runtime of a killed one still is: process ${left.pid}`);
      const doctor = await here(['doctor', flag]);
      expect(doctor).toMatchObject({ code: 6 });
      expect(doctor.stdout).toContain(`the runtime of a killed one still is: process ${left.pid}`);
      expect(doctor.stdout).toMatch(/-> end it with: sealpin stop --data-dir /);
      expect(await here(['stop', flag])).toMatchObject({ code: 0 });
      expect(isRunning(left)).toBe(false);
      expect((await here(['stop', flag])).stderr).toContain('no local service is running');
    } finally {
      killed(left);
    }
  });

  inCi('is found although no file tells of it', async () => {
    const { service, left } = await orphan(long ? replaced : workerdOf);
    try {
      await rm(localPaths(service.dataDir).run);
      await startedHere({ dataDir: service.dataDir });
      expect(isRunning(left)).toBe(false);
    } finally {
      killed(left);
    }
  });

  inCi('lets the next start have its port at once, time after time', async () => {
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
    for (const fileId of stored.keys()) expect((await ask(last, 'getFile', { fileId })).status).toBe(200);
  });
});
