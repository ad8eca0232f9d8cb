/** Real Kubo nodes on loopback: SEALPIN_KUBO, or what `.ci/kubo` built. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { newestBuilt, startProgram } from './programs.ts';

const execute = promisify(execFile);

/** The path of the Kubo program; undefined where there is none. */
export function kuboProgram(): string | undefined {
  const { SEALPIN_KUBO } = process.env;
  if (SEALPIN_KUBO) return SEALPIN_KUBO;
  const folder = newestBuilt('kubo', 'ipfs');
  return folder && join(folder, 'ipfs');
}

/** The note of tests that are skipped without Kubo. */
export const noKubo = 'Kubo is not installed: build it with .ci/kubo, or set SEALPIN_KUBO';

/** A running Kubo in a repository of its own. */
export type RealKubo = {
  /** Its API and its gateway; empty where its configuration has none. */
  url: string;
  gateway: string;
  token: string;
  /** The directory of its repository. */
  dir: string;
  /** Runs one command of the `ipfs` program against it; resolves with its stdout. */
  ipfs(...args: string[]): Promise<string>;
  /** Stops it with SIGTERM and keeps its data. */
  stop(): Promise<void>;
  /** Kills it, as a power cut would. */
  kill(): Promise<void>;
  /** Starts it again, at another `url` and `gateway` where its configuration names no port. */
  start(): Promise<void>;
  /** Stops it and removes its data. */
  close(): Promise<void>;
};

/**
 * Starts a Kubo without peers.
 * @param o.online listens on loopback, so that other nodes can connect to it
 * @param o.isOpen asks for no token
 * @param o.syncs whether a block is on the disk when it is acknowledged, which Kubo does not wait
 * for by default
 * @param o.repository one that exists and names its token, instead of a new one; it is removed, too
 * @param o.setUp a script that configures the token instead, with `KUBO_TOKEN` and `setUpEnv` in
 * its environment
 * @param o.profile instead of `test`, which has no bootstrap nodes and uses free ports of 127.0.0.1
 */
export async function startKubo(
  o: {
    online?: boolean;
    token?: string;
    isOpen?: boolean;
    setUp?: string;
    setUpEnv?: Record<string, string>;
    profile?: string;
    repository?: string;
    syncs?: boolean;
  } = {},
): Promise<RealKubo> {
  const program = kuboProgram();
  if (program === undefined) throw new Error(noKubo);
  const dir = o.repository ?? (await mkdtemp(join(tmpdir(), 'sealpin-kubo-')));
  const { token = 'token-of-the-tests' } = o;
  const env = { PATH: process.env['PATH'] ?? '', HOME: dir, IPFS_PATH: dir, IPFS_TELEMETRY: 'off' };
  if (o.repository === undefined)
    await execute(program, ['init', `--profile=${o.profile ?? 'test'}`, '--empty-repo'], { env });
  const file = join(dir, 'config');
  const config = JSON.parse(await readFile(file, 'utf8')) as Record<string, Record<string, unknown>>;
  const authorizations = { sealpin: { AuthSecret: `bearer:${token}`, AllowedPaths: ['/api/v0'] } };
  if (!o.isOpen && o.setUp === undefined && o.repository === undefined)
    config['API'] = { ...config['API'], Authorizations: authorizations };
  const text = JSON.stringify(config);
  await writeFile(file, o.syncs === true ? text.replaceAll('"sync":false', '"sync":true') : text);
  if (o.setUp !== undefined) {
    const PATH = `${dirname(program)}:${env.PATH}`;
    await execute('sh', [o.setUp], { env: { ...env, PATH, KUBO_TOKEN: token, ...o.setUpEnv } });
  }
  const args = ['daemon', ...(o.online ? [] : ['--offline'])];
  const startDaemon = () => startProgram(program, args, { env, ready: (said) => said.includes('Daemon is ready') });
  let daemon = await startDaemon();
  const kubo: RealKubo = {
    url: await addressInFile(join(dir, 'api')),
    gateway: await addressInFile(join(dir, 'gateway')),
    token,
    dir,
    ipfs: async (...args) =>
      (await execute(program, ['--api-auth', `bearer:${token}`, ...args], { env, maxBuffer: 64 * 1_048_576 })).stdout,
    stop: () => daemon.stop(),
    kill: () => daemon.stop('SIGKILL'),
    async start() {
      daemon = await startDaemon();
      kubo.url = await addressInFile(join(dir, 'api'));
      kubo.gateway = await addressInFile(join(dir, 'gateway'));
    },
    async close() {
      await daemon.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
  return kubo;
}

async function addressInFile(path: string): Promise<string> {
  const text = existsSync(path) ? (await readFile(path, 'utf8')).trim() : '';
  const [, host, port] = /^\/ip4\/([\d.]+)\/tcp\/(\d+)/.exec(text) ?? [];
  return host === undefined ? text : `http://${host}:${port}`;
}
