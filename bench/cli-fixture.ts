/** The command line as it is built, with a service and a directory, for its benches. */
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { packageRoot } from '../cli/local/package-root.ts';
import { ownProcesses, secondsOf } from './figure.ts';
import { peakMiB } from './process-stats.ts';

/** The command line as shipped. */
export const command = join(packageRoot(), 'dist/sealpin.cjs');

/** Builds the command line, and makes a directory, which is removed when `use` ends. */
export async function* withCommand<T>(use: (dir: string) => AsyncIterable<T>): AsyncGenerator<T> {
  execFileSync(process.execPath, [join(packageRoot(), 'cli/build.ts')]);
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
  try {
    yield* use(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** A directory with keys and a running local service, for benches of the command line. */
export type CliFixture = {
  dir: string;
  /** The flag that names the data directory. */ data: string;
  publicKey: string;
  /** Address of the service. */
  url: string;
  apiKey: string;
};

/** Builds it, starts a service and makes a key pair; removes all of it when `use` ends. */
export async function* withCli<T>(use: (fixture: CliFixture) => AsyncIterable<T>): AsyncGenerator<T> {
  yield* withCommand<T>(async function* (dir) {
    const data = `--data-dir=${join(dir, 'data')}`;
    const started = sealpin('start', '--detach', '--port=0', '--json', '--quiet', data);
    try {
      const { url, keyFile } = JSON.parse(started) as { url: string; keyFile: string };
      const { pid } = JSON.parse(sealpin('status', '--json', data)) as { pid: number };
      ownProcesses.add(pid);
      const { apiKey } = JSON.parse(await readFile(keyFile, 'utf8')) as { apiKey: string };
      sealpin('keygen', '--quiet', data);
      yield* use({ dir, data, url, apiKey, publicKey: join(dir, 'data/public.key') });
    } finally {
      sealpin('stop', '--quiet', data);
    }
  });
}

/** Runs a command to its end; returns its trimmed stdout. @throws when it fails */
export function sealpin(...args: string[]): string {
  return execFileSync(process.execPath, [command, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();
}

/**
 * Runs a command to its end and samples its memory. `seconds`: from its start to its end.
 * @throws when it fails
 */
export async function watched(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ stdout: string; seconds: number; peakMiB: number }> {
  const begun = performance.now();
  const child = spawn(process.execPath, [command, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const { pid } = child;
  if (pid === undefined) throw new Error(`sealpin ${args[0]} did not start`);
  let peak = 0;
  const sampling = setInterval(() => (peak = peakMiB(pid) ?? peak), 10);
  const code = await new Promise((resolve) => {
    child.once('exit', () => clearInterval(sampling));
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`sealpin ${args[0]} ended with ${String(code)}`);
  return { stdout: stdout.trim(), seconds: (performance.now() - begun) / 1000, peakMiB: peak };
}

/** Makes a task that resolves with the seconds that `act` takes. */
export const timed = (act: () => unknown) => (): Promise<number> => secondsOf(act);

/** Makes an identity of age in `age.key`; returns its recipient. */
export function ageRecipient(dir: string): string {
  const file = join(dir, 'age.key');
  execFileSync('age-keygen', ['-o', file], { stdio: 'ignore' });
  const recipient = /age1[a-z0-9]+/.exec(readFileSync(file, 'utf8'))?.[0];
  if (recipient === undefined) throw new Error('age-keygen wrote no recipient');
  return recipient;
}

/** Fills a file with random bytes, which no layer can compress. */
export async function fillFile(path: string, bytes: number): Promise<void> {
  const block = randomBytes(2 ** 24);
  async function* blocks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes; at += block.length) {
      block.writeDoubleLE(at, 0);
      yield Buffer.from(block.subarray(0, Math.min(block.length, bytes - at)));
    }
  }
  await pipeline(blocks(), createWriteStream(path));
}
