/** The real local service, one for a test file: `sealpin start` as a child process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll } from 'vitest';

export const entry = fileURLToPath(new URL('../index.ts', import.meta.url));

export type Local = { /** The data directory of the service and of its user. */ dataDir: string; url: string };

/** Starts it before the tests of the file and ends it after them. The object is filled when the tests run. */
export function localService(): Local {
  const local: Local = { dataDir: '', url: '' };
  let stop = async (): Promise<void> => undefined;
  beforeAll(async () => {
    local.dataDir = await realpath(await mkdtemp(join(tmpdir(), 'sealpin-service-')));
    const child = spawn(process.execPath, [entry, 'start', '--port', '0', '--data-dir', local.dataDir], { stdio: ['ignore', 'pipe', 'pipe'] });
    stop = async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      await rm(local.dataDir, { recursive: true, force: true });
    };
    let words = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (words += text));
    local.url = await new Promise<string>((resolve, reject) => {
      child.stdout.setEncoding('utf8').once('data', (text: string) => resolve(text.trim()));
      child.once('exit', (code) => reject(new Error(`the service ended with ${code}: ${words}`)));
    });
  });
  afterAll(async () => stop());
  return local;
}
