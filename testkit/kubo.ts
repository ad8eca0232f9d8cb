/** Real Kubo nodes on loopback, where there is a Kubo: SEALPIN_KUBO, or what `.ci/kubo` built. */
import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The path of Kubo's program, or undefined. */
export function kuboProgram(): string | undefined {
  const { SEALPIN_KUBO, XDG_CACHE_HOME } = process.env;
  if (SEALPIN_KUBO) return SEALPIN_KUBO;
  const cache = join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'sealpin');
  const built = existsSync(cache)
    ? readdirSync(cache)
        .filter((name) => name.startsWith('kubo-'))
        .toSorted()
    : [];
  return built.map((name) => join(cache, name, 'ipfs')).findLast((path) => existsSync(path));
}

/** What a run without Kubo says, in one line. */
export const noKubo = 'real Kubo is not here: build it with .ci/kubo, or set SEALPIN_KUBO';

export type RealKubo = {
  /** Its API and its gateway. */
  url: string;
  gateway: string;
  token: string;
  /** Runs one command of its command line against it. */
  ipfs(...args: string[]): Promise<string>;
  /** Ends it as a stop of the machine's service would; `close` cleans up. */
  stop(): Promise<void>;
  close(): Promise<void>;
};

/** Starts a Kubo that knows nobody. `online`: it listens on loopback, so that others can be connected to it. */
export async function startKubo(o: { online?: boolean; token?: string } = {}): Promise<RealKubo> {
  const program = kuboProgram();
  if (program === undefined) throw new Error(noKubo);
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-kubo-'));
  const { token = 'token-of-the-tests' } = o;
  const env = { PATH: process.env['PATH'] ?? '', HOME: dir, IPFS_PATH: dir, IPFS_TELEMETRY: 'off' };
  // `test` has no bootstrap nodes, and ports of its own on 127.0.0.1.
  await run(program, ['init', '--profile=test', '--empty-repo'], { env });
  const file = join(dir, 'config');
  const config = JSON.parse(await readFile(file, 'utf8')) as Record<string, Record<string, unknown>>;
  config['API'] = {
    ...config['API'],
    Authorizations: { sealpin: { AuthSecret: `bearer:${token}`, AllowedPaths: ['/api/v0'] } },
  };
  await writeFile(file, JSON.stringify(config));
  const daemon = spawn(program, ['daemon', ...(o.online ? [] : ['--offline'])], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => {
    daemon.once('exit', () => resolve());
  });
  let told = '';
  await new Promise<void>((resolve, reject) => {
    const listen = (chunk: Buffer) => {
      told += chunk.toString();
      if (told.includes('Daemon is ready')) resolve();
    };
    daemon.stdout.on('data', listen);
    daemon.stderr.on('data', listen);
    daemon.once('exit', () => reject(new Error(`Kubo ended: ${told}`)));
  });
  const addressOf = async (name: string) => {
    const text = (await readFile(join(dir, name), 'utf8')).trim();
    const [, host, port] = /^\/ip4\/([\d.]+)\/tcp\/(\d+)/.exec(text) ?? [];
    return host === undefined ? text : `http://${host}:${port}`;
  };
  const url = await addressOf('api');
  const stop = async () => {
    daemon.kill('SIGTERM');
    await ended;
  };
  return {
    url,
    gateway: await addressOf('gateway'),
    token,
    ipfs: async (...args) =>
      (await run(program, ['--api-auth', `bearer:${token}`, ...args], { env, maxBuffer: 64 * 1_048_576 })).stdout,
    stop,
    async close() {
      await stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
