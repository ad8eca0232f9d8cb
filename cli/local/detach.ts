/** `start --detach`: the service as a process of its own, in the background. */
import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { control, type Homes, type Status } from './control.ts';
import { loadSecrets, localPaths, makeLocal } from './state.ts';

/** How long to wait for the service to take requests. */
const readyMs = 30_000;

/** A service that takes requests. */
type Ready = { readonly url: string; readonly account: string; readonly homes: Homes };

/**
 * Starts the service in the background and waits until it takes requests.
 *
 * @param flags of `start`, by their name without the hyphens; those that are undefined are left out
 * @throws already_running, internal with the reason that the process gave, the reason of the signal
 */
export async function startDetached(
  { dataDir, env, signal }: Pick<Context, 'dataDir' | 'env' | 'signal'>,
  flags: Readonly<Record<string, string | undefined>>,
): Promise<Ready> {
  await makeLocal(dataDir);
  const paths = localPaths(dataDir);
  if ((await status(paths.control)) !== undefined) throw new SealpinError('already_running');
  // For appending: another service may be about to write to it. The new one, once it holds the lock, rotates the log.
  const log = openSync(paths.log, 'a', 0o600);
  const { size: logBytes } = fstatSync(log);
  const [, program = ''] = process.argv;
  const words = Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]));
  const child = spawn(process.execPath, [...process.execArgv, program, 'start', ...words, `--data-dir=${dataDir}`], {
    detached: true,
    stdio: ['ignore', 'ignore', log],
    env: { ...env, SEALPIN_PASSWORD: undefined, SEALPIN_API_KEY: undefined }, // secrets that the service must not get
    cwd: '/',
  });
  closeSync(log);
  let hasEnded = false;
  child.once('exit', () => (hasEnded = true));
  for (const end = performance.now() + readyMs; performance.now() < end; await sleep(50)) {
    if (hasEnded) throw await failureIn(paths.log, logBytes);
    if (signal.aborted) {
      child.kill('SIGTERM');
      throw signal.reason;
    }
    const ready = await status(paths.control);
    if (ready === undefined || ready.pid !== child.pid) continue;
    child.unref();
    const { account = '' } = await loadSecrets(dataDir);
    return { url: ready.url, account, homes: ready };
  }
  child.kill('SIGTERM');
  throw new SealpinError('internal', `the service was not ready within ${readyMs / 1000} s`, {
    hint: `see ${paths.log}`,
  });
}

/** The status of the service that listens at `path`; undefined when there is none yet. */
async function status(path: string): Promise<Status | undefined> {
  try {
    return await control(path, 'status');
  } catch (error) {
    if (isSealpinError(error, 'not_running')) return undefined;
    throw error;
  }
}

/** The error that the process wrote to its stderr, which is the log: after `logBytes`, unless the log was rotated. */
async function failureIn(log: string, logBytes: number): Promise<SealpinError> {
  const all = await readFile(log);
  const text = all.subarray(all.length < logBytes ? 0 : logBytes).toString();
  const find = (kind: string): string | undefined => new RegExp(`^sealpin: ${kind}: (.*)$`, 'm').exec(text)?.[1];
  return new SealpinError('internal', find('error') ?? 'the service ended at once', {
    hint: find('hint') ?? `see ${log}`,
  });
}
