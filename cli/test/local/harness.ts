/** The real local service as a process of its own, for tests that need one. */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The command line, run from its source. */
export const entry = join(import.meta.dirname, '../../index.ts');

export type Ran = { code: number | null; stdout: string; stderr: string };

/** Runs one command line to its end. */
export function sealpin(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [entry, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', ...env },
    });
    const ran: Ran = { code: null, stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (ran.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (ran.stderr += text));
    child.once('error', reject);
    child.once('close', (code) => resolve({ ...ran, code }));
  });
}

export type Running = {
  dataDir: string;
  url: string;
  apiKey: string;
  pid: number;
  stderr(): string;
  /** Ends it by this signal and waits; gives the exit code. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
};

/** Starts the service of a data directory (a fresh temporary one by default) on a free port and waits until it is ready. */
export async function startLocal(
  o: { dataDir?: string; args?: readonly string[]; env?: Record<string, string> } = {},
): Promise<Running> {
  const dataDir = o.dataDir ?? (await realpath(await mkdtemp(join(tmpdir(), 'sealpin-test-'))));
  const child = spawn(
    process.execPath,
    [entry, 'start', '--port=0', '--json', `--data-dir=${dataDir}`, ...(o.args ?? [])],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', ...o.env },
    },
  );
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  // A test that is given up before the service is ready never ends it.
  const last = (): void => void child.kill('SIGKILL');
  process.once('exit', last);
  child.once('close', () => process.off('exit', last));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const line = await new Promise<string>((resolve, reject) => {
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (stdout.includes('\n')) resolve(stdout);
    });
    child.once('close', (code) => reject(new Error(`sealpin start ended with ${code}: ${stderr}`)));
  });
  const { url, keyFile } = JSON.parse(line) as { url: string; keyFile: string };
  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  return {
    dataDir,
    url,
    apiKey,
    pid: child.pid!,
    stderr: () => stderr,
    end(signal = 'SIGTERM') {
      child.kill(signal);
      return ended;
    },
  };
}

/** Ends a service and removes its data directory. */
export async function remove(service: Running): Promise<void> {
  await service.end();
  await rm(service.dataDir, { recursive: true, force: true });
}

/** What a start says that is refused; one that is not refused is ended. */
export async function refusal(o: Parameters<typeof startLocal>[0]): Promise<string> {
  return await startLocal(o).then(
    async (local) => {
      await local.end();
      return 'it started';
    },
    (error: Error) => error.message,
  );
}
