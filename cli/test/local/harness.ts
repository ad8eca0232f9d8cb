/** The real local service as a process of its own, for tests that need one. */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, readdir, realpath, rm } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { client, type Client } from '../../../testkit/api-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { entry } from '../../../testkit/programs/command-line.ts';
import { madeOnce } from '../../../testkit/run-cache.ts';
import { keptFile, workerCode } from '../../local/code/worker-code.ts';
import { Collector, run, type Overrides } from '../environment.ts';

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

/** The same in this process, at a third of the cost: for tests whose subject is not the process. */
export async function here(
  args: readonly string[],
  vars: Record<string, string> = {},
  overrides: Overrides = {},
): Promise<Ran> {
  const { exit, stdout, stderr } = await run(args, '/', { env: vars, ...overrides });
  return { code: exit, stdout, stderr };
}

export type Running = {
  dataDir: string;
  url: string;
  /** Of the listener of a public service. */
  port: number;
  /** A public service has none. */
  apiKey: string;
  pid: number;
  stderr(): string;
  /** Of a start in this process. */
  warnings?: readonly string[] | undefined;
  /** Its exit code, once it has ended. */
  ended: Promise<number | null>;
  /** Ends it by this signal and waits; gives the exit code. */
  end(signal?: NodeJS.Signals): Promise<number | null>;
};

/** Output of `start --json`. */
type Ready = { url: string; port?: number; keyFile: string; warnings?: readonly string[] };

async function newDataDir(): Promise<string> {
  return await realpath(await mkdtemp(join(tmpdir(), 'sealpin-test-')));
}

/**
 * Builds the Worker once in a run. By itself the first process of each kind would, and those of the
 * tests are another kind than their children, with other flags of V8: it takes 3 s of CPU.
 */
async function codeIsBuilt(): Promise<void> {
  await madeOnce('code of the Worker', async () => {
    const argv = ['-p', 'require("node:module").getCompileCacheDir()'];
    const { stdout } = await promisify(execFile)(process.execPath, argv);
    const own = present(getCompileCacheDir());
    await workerCode(own);
    await copyFile(join(own, keptFile), join(stdout.trim(), keptFile));
    return true;
  });
}

/**
 * Starts the service of a data directory (a fresh temporary one by default) on a free port and
 * waits until it is ready.
 * @param o.program instead of the bundled command line; `log`: the file that gets its stderr
 */
export async function startLocal(
  o: { dataDir?: string; args?: readonly string[]; env?: Record<string, string>; program?: string; log?: string } = {},
): Promise<Running> {
  await codeIsBuilt();
  const dataDir = o.dataDir ?? (await newDataDir());
  const port = o.args?.some((arg) => arg.startsWith('--port')) === true ? [] : ['--port=0'];
  const log = o.log === undefined ? undefined : openSync(o.log, 'a');
  const child = spawn(
    process.execPath,
    [o.program ?? entry, 'start', ...port, '--json', `--data-dir=${dataDir}`, ...(o.args ?? [])],
    {
      stdio: ['ignore', 'pipe', log ?? 'pipe'],
      env: { ...process.env, NO_COLOR: '1', ...o.env },
    },
  );
  if (log !== undefined) closeSync(log);
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  // A test that is given up before the service is ready never ends it.
  const last = (): void => void child.kill('SIGKILL');
  process.once('exit', last);
  child.once('close', () => process.off('exit', last));
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const line = await new Promise<string>((resolve, reject) => {
    let stdout = '';
    present(child.stdout)
      .setEncoding('utf8')
      .on('data', (text: string) => {
        stdout += text;
        if (stdout.includes('\n')) resolve(stdout);
      });
    child.once('close', (code) => reject(new Error(`sealpin start ended with ${code}: ${stderr}`)));
  });
  const { url, port: listening = 0, keyFile } = JSON.parse(line) as Ready;
  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  return {
    dataDir,
    url,
    port: listening,
    apiKey,
    pid: present(child.pid),
    stderr: () => stderr,
    ended,
    end(signal = 'SIGTERM') {
      child.kill(signal);
      return ended;
    },
  };
}

/** A service in this process. */
export type RunningHere = Omit<Running, 'pid'>;

/**
 * As `startLocal`, but in this process, at half the cost: for tests whose subject is not the
 * process.
 */
export async function startHere(
  o: { dataDir?: string; args?: readonly string[]; env?: Record<string, string> } = {},
): Promise<RunningHere> {
  await codeIsBuilt();
  const dataDir = o.dataDir ?? (await newDataDir());
  const port = o.args?.some((arg) => arg.startsWith('--port')) === true ? [] : ['--port=0'];
  const stop = new AbortController();
  const { promise: ready, resolve } = Promise.withResolvers<string>();
  const stdout = new Collector();
  const stderr = new Collector();
  stdout.onWrite = () => resolve(stdout.text);
  const ended = run(['start', ...port, '--json', `--data-dir=${dataDir}`, ...(o.args ?? [])], dataDir, {
    env: o.env ?? {},
    signal: stop.signal,
    stdout,
    stderr,
  });
  const failed = ended.then(({ exit }): never => {
    throw new Error(`sealpin start ended with ${exit}: ${stderr.text}`);
  });
  const { url, port: listening = 0, keyFile, warnings } = JSON.parse(await Promise.race([ready, failed])) as Ready;
  failed.catch(() => undefined);
  const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
  return {
    dataDir,
    url,
    port: listening,
    apiKey,
    stderr: () => stderr.text,
    warnings,
    ended: ended.then(({ exit }) => exit),
    async end() {
      stop.abort();
      return (await ended).exit;
    },
  };
}

/** Ends a service and removes its data directory. */
export async function remove(service: RunningHere): Promise<void> {
  await service.end();
  await rm(service.dataDir, { recursive: true, force: true });
}

/** Returns the error of a start that is refused; one that is not refused is ended. */
export async function refusal(o: NonNullable<Parameters<typeof startHere>[0]>): Promise<string> {
  const dataDir = o.dataDir ?? (await newDataDir());
  const error = await startHere({ ...o, dataDir }).then(
    async (local) => {
      await local.end();
      return 'it started';
    },
    (refused: Error) => refused.message,
  );
  if (o.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  return error;
}

/** Starts services in the tests of a file, which end after each test with what they kept. */
export function endedAfterEach(): { started: typeof startLocal; startedHere: typeof startHere } {
  // Several may share a data directory.
  const services: RunningHere[] = [];
  afterEach(async () => {
    const running = services.splice(0);
    await Promise.all(running.map((service) => service.end()));
    for (const { dataDir } of running) await rm(dataDir, { recursive: true, force: true });
  });
  const kept = <T extends RunningHere>(service: T): T => {
    services.push(service);
    return service;
  };
  return { started: async (o) => kept(await startLocal(o)), startedHere: async (o) => kept(await startHere(o)) };
}

type At = Pick<RunningHere, 'url' | 'apiKey'>;

/** The API of a service, with the API key of its account. */
export const api = ({ url, apiKey }: At): Client => client(url, apiKey);

/** The response of an operation, which may be a problem. */
export const ask = (service: At, ...args: Parameters<Client['ask']>): Promise<Response> => api(service).ask(...args);

/** Stores bytes as `a file.bin`. */
export const store = (service: At, mode: 'plain' | 'encrypted', bytes: Uint8Array): Promise<StoredFile> =>
  api(service).store(mode, bytes, { filename: 'a file.bin', type: 'application/octet-stream' });

/** The wrapped file key of an encrypted file, as its header spells it. */
export async function wrappedKey(service: RunningHere, fileId: string): Promise<string> {
  const container = await ask(service, 'getFile', { fileId }, { headers: { accept: 'application/vnd.sealpin' } });
  const text = Buffer.from(await container.arrayBuffer()).toString('latin1');
  return itemOf(present(/-> p256 (\S{40})/.exec(text)), 1);
}

/** All that is below a directory. A file that goes away meanwhile holds nothing. */
export async function everyFile(dir: string): Promise<Buffer> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Buffer.concat(await Promise.all(files.map((file) => readFile(file).catch(() => Buffer.alloc(0)))));
}

/** A Node process that runs `code` and prints a line when it is ready. */
export async function helper(code: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child;
}
