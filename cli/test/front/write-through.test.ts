/** Syncs that workerd leaves to us, as the calls of the process show them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { endWithProcess } from '../../../testkit/end-with-process.ts';
import { pathOf } from '../../../testkit/programs/programs.ts';
import { localPaths } from '../../local/state.ts';
import { temporaryDirectory } from '../environment.ts';
import { call, remove, startLocal } from '../local/harness.ts';

/** Attaches strace to a process; undefined where the system does not let us. */
async function synced(pid: number, trace: string): Promise<(() => Promise<string>) | undefined> {
  const strace = spawn('strace', ['-f', '-y', '-e', 'trace=fsync', '-o', trace, '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  endWithProcess(strace);
  const exited = once(strace, 'exit');
  const [said] = (await once(strace.stderr, 'data')) as [Buffer];
  if (!said.toString().includes('attached')) return undefined;
  return async () => {
    strace.kill('SIGINT');
    await exited;
    return await readFile(trace, 'utf8');
  };
}

const hasStrace = pathOf('strace') !== undefined;

test.skipIf(!hasStrace)(
  hasStrace ? 'an API key is on the disk when it is acknowledged, also its copy in KV' : 'strace is not installed',
  async (context) => {
    const service = await startLocal();
    try {
      const { state } = localPaths(service.dataDir);
      const blobs = join(state, 'kv/API_KEYS/blobs');
      const before = await readdir(blobs);
      const trace = await synced(service.pid, join(await temporaryDirectory(), 'trace'));
      if (trace === undefined) {
        context.skip('strace may not attach to a process here');
        return;
      }
      const made = await call(service, '/v1/keys', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ label: 'second', scopes: ['read'] }),
      });
      expect(made.status).toBe(201);
      const calls = await trace();
      const added = (await readdir(blobs)).filter((name) => !before.includes(name) && !name.startsWith('.'));
      expect(added).not.toEqual([]);
      for (const name of added) expect(calls).toContain(`<${blobs}/${name}>`);
      expect(calls).toContain(`<${blobs}>`);
    } finally {
      await remove(service);
    }
  },
);
