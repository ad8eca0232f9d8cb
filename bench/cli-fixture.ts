/** What the benches of the command line share: the built command line, its service, and a folder that goes away. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { packageRoot } from '../cli/local/bundle.ts';
import type { Sample } from './figure.ts';
import { peakMiB } from './memory.ts';

/** The command line as it is shipped. */
export const command = join(packageRoot(), 'dist/sealpin.js');

export type Desk = { dir: string; /** The flag that names the data directory. */ data: string; publicKey: string };

/**
 * Builds the command line, starts a service and makes a key pair, for as long as the benches in `use` run.
 *
 * @param o.keep takes the command line that is built already, if there is one: others may be running it
 */
export async function* atDesk<T>(use: (desk: Desk) => AsyncIterable<T>, { keep = false } = {}): AsyncGenerator<T> {
  if (!keep || !existsSync(command)) execFileSync(process.execPath, [join(packageRoot(), 'cli/build.ts')]);
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-bench-'));
  const data = `--data-dir=${join(dir, 'data')}`;
  try {
    sealpin('start', '--detach', '--port=0', '--quiet', data);
    try {
      sealpin('keygen', '--quiet', data);
      yield* use({ dir, data, publicKey: join(dir, 'data/public.key') });
    } finally {
      sealpin('stop', '--quiet', data);
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Runs one command line; gives its stdout. */
export function sealpin(...args: string[]): string {
  return execFileSync(process.execPath, [command, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();
}

/** Runs one command line and watches its memory; `seconds` from its start to its end. */
export async function watched(args: readonly string[]): Promise<{ stdout: string; seconds: number; peakMiB: number }> {
  const begun = performance.now();
  const child = spawn(process.execPath, [command, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  let peak = 0;
  const look = setInterval(() => (peak = peakMiB(child.pid!) ?? peak), 10);
  const code = await new Promise((resolve) => {
    child.once('exit', () => clearInterval(look));
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`sealpin ${args[0]} ended with ${String(code)}`);
  return { stdout: stdout.trim(), seconds: (performance.now() - begun) / 1000, peakMiB: peak };
}

/** Seconds that something takes. */
export function timed(act: () => unknown): () => Promise<number> {
  return async () => {
    const begun = performance.now();
    await act();
    return (performance.now() - begun) / 1000;
  };
}

/** Whether a program is there, by a call of it that succeeds. */
export function has(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export function peer(name: string, sample: Sample): { name: string; value: number; spread: number } {
  return { name, value: sample.median, spread: sample.spread };
}

/** Fills a file with random bytes, which no layer can make smaller. */
export async function fill(path: string, bytes: number): Promise<void> {
  const block = randomBytes(2 ** 24);
  async function* blocks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes; at += block.length) {
      block.writeDoubleLE(at, 0);
      yield Buffer.from(block.subarray(0, Math.min(block.length, bytes - at)));
    }
  }
  await pipeline(blocks(), createWriteStream(path));
}
