import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'vitest';
import { endWithProcess } from '../end-with-process.ts';

/** Runs a program to its end; throws its standard error when it fails. */
export function run(program: string, args: readonly string[], input?: Uint8Array): Uint8Array {
  const { status, stdout, stderr, error } = spawnSync(programPath(program) ?? program, args, {
    input,
    maxBuffer: 2 ** 28,
  });
  if (error !== undefined || status !== 0)
    throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr.toString()}`);
  return new Uint8Array(stdout);
}

const probed = new Map<string, boolean>();

/** Checks that a program is installed: a call of it succeeds. It is called once by a process. */
export function isInstalled(program: string, args: readonly string[]): boolean {
  const call = [program, ...args].join(' ');
  const succeeds = probed.get(call) ?? spawnSync(programPath(program) ?? program, args).status === 0;
  probed.set(call, succeeds);
  return succeeds;
}

/** Pause between two looks whether a program is ready, in ms. */
const lookMs = 10;

/** A program that runs. `ready`: what told that it is ready; `ended` resolves when it ends. */
type RunningProgram<T> = {
  pid: number;
  ready: NonNullable<T>;
  ended: Promise<void>;
  stop(signal?: NodeJS.Signals): Promise<void>;
};

/**
 * Starts a program, and waits until it is ready. It ends with this process, if nothing ends it
 * before.
 * @param o.ready what tells by its output, or in another way
 */
export async function startProgram<T>(
  program: string,
  args: readonly string[],
  o: { ready(output: string): T | Promise<T>; env?: NodeJS.ProcessEnv },
): Promise<RunningProgram<T>> {
  const child = spawn(program, args, { env: o.env ?? process.env, stdio: ['ignore', 'pipe', 'pipe'] });
  endWithProcess(child);
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  for (;;) {
    const ready = await o.ready(output);
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${program} ended: ${output}`);
    if (ready) return { pid: child.pid ?? 0, ready, ended, stop };
    await sleep(lookMs);
  }
}

/** The directory in which the scripts in `.ci/` build and install programs. */
function programCache(): string {
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sealpin');
}

/** The newest folder there with this name before its version, and with this file. */
export function newestBuilt(name: string, file: string): string | undefined {
  const cache = programCache();
  const folders = existsSync(cache) ? readdirSync(cache).filter((each) => each.startsWith(`${name}-`)) : [];
  const paths = folders.toSorted().map((each) => join(cache, each));
  return paths.findLast((path) => existsSync(join(path, file)));
}

/** Programs that the scripts in `.ci/` build or install, by their names in tests. */
const builtPrograms: Record<string, string> = {
  'age-current': 'age-v1.3.1/age',
  'age-current-keygen': 'age-v1.3.1/age-keygen',
  caddy: 'caddy-v2.10.2/caddy',
  'ipfs-cluster-service': 'cluster-v1.1.6/ipfs-cluster-service',
  'cryptography-python': 'cryptography-48.0.0/bin/python',
  rage: 'rage-0.12.1/bin/rage',
  'rage-keygen': 'rage-0.12.1/bin/rage-keygen',
  'openapi-generator-cli': 'openapi-tools/python/bin/openapi-generator-cli',
  'openapi-python-client': 'openapi-tools/python/bin/openapi-python-client',
  'openapi-typescript': 'openapi-tools/node_modules/.bin/openapi-typescript',
  rclone: 'rclone-v1.71.2/rclone',
  redocly: 'openapi-tools/node_modules/.bin/redocly',
  restic: 'restic-v0.18.1/restic',
  schemathesis: 'openapi-tools/python/bin/schemathesis',
  spectral: 'openapi-tools/node_modules/.bin/spectral',
  promtool: 'prometheus/promtool',
  tusd: 'tusd-v2.9.2/tusd',
  'tuspy-python': 'tuspy-1.1.0/bin/python',
  versitygw: 'versitygw-v1.8.0/versitygw',
};

/** Finds a program on the PATH or among those that were built for the tests. */
export function programPath(program: string): string | undefined {
  const { PATH } = process.env;
  // Servers are not on the PATH of everybody.
  const candidates = [...(PATH ?? '').split(delimiter), '/usr/sbin'].map((directory) => join(directory, program));
  if (builtPrograms[program] !== undefined) candidates.push(join(programCache(), builtPrograms[program]));
  return candidates.find((path) => existsSync(path));
}

/** The path of a program that a test cannot do without. @throws where it is missing */
export function installed(program: string): string {
  const path = programPath(program);
  if (path === undefined) throw new Error(`${program} is not installed`);
  return path;
}

/**
 * Declares tests that need a program. Where it is missing they are skipped with one line, or fail
 * under `SEALPIN_REQUIRE_ALL=1` unless it is optional.
 * @param o.probe arguments of a call that succeeds where the program is installed
 * @param o.isOptional whether Debian has no package of it
 */
export function withProgram(
  program: string,
  o: { probe: readonly string[]; isOptional?: boolean },
  tests: () => void,
): void {
  if (isInstalled(program, o.probe)) tests();
  else if (process.env['SEALPIN_REQUIRE_ALL'] === '1' && o.isOptional !== true) {
    test(`${program} is installed`, () => {
      throw new Error(`${program} is missing, and SEALPIN_REQUIRE_ALL is set`);
    });
  } else test.skip(`${program} is not installed: its tests do not run`);
}

/** Calls `body` with a temporary directory. */
export async function inDirectory(body: (path: (name: string) => string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-crypto-'));
  try {
    await body((name) => join(directory, name));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
