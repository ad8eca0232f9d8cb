/** `start --detach`: the service as a process of its own, in the background. */
import { spawn } from 'node:child_process';
import { isSea } from 'node:sea';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { problemError } from '../../client/service-problem.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { statusAt } from './control.ts';
import { cpuMsOfGroup } from './process.ts';
import { loadSecrets, localPaths, makeLocal } from './state.ts';

/**
 * Limits of the wait: a start with a large index to rebuild may take any time, as long as it works.
 */
const waitLimits = {
  /** Longest idle time of the service before it takes requests, in ms. */
  idleMs: 30_000,
  /** So much CPU time counts as work, in ms: what only waits uses less. */
  workMs: 200,
  /** The longest wait for its answer, in ms. */
  answerMs: 5_000,
};

/** After how long somebody who waits is told where to look, in ms. */
const patienceMs = 10_000;

/**
 * Starts the service in the background and waits until it takes requests.
 * @param flags of `start`, by their name without the hyphens; those that are undefined are left out
 * @throws what the process sent when it failed; internal, because it ended without a reason or does
 * nothing; the reason of the signal
 */
export async function startDetached(
  { dataDir, env, signal, output }: Pick<Context, 'dataDir' | 'env' | 'signal' | 'output'>,
  flags: Readonly<Record<string, string | undefined>>,
  { idleMs, workMs, answerMs } = waitLimits,
) {
  await makeLocal(dataDir);
  const paths = localPaths(dataDir);
  // For appending: another service may be about to write to it. The new one, once it holds the
  // lock, rotates the log.
  const log = openSync(paths.log, 'a', 0o600);
  const hint = `see ${paths.log}`;
  // The executable is the program itself.
  const program = isSea() ? [] : process.argv.slice(1, 2);
  const words = Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`]));
  const child = spawn(process.execPath, [...process.execArgv, ...program, 'start', ...words, `--data-dir=${dataDir}`], {
    detached: true,
    stdio: ['ignore', 'ignore', log, 'ipc'],
    env: { ...env, SEALPIN_PASSWORD: undefined, SEALPIN_API_KEY: undefined }, // secrets that the service must not get
    cwd: '/',
  });
  closeSync(log);
  let problem: Parameters<typeof problemError>[0] | undefined;
  child.once('message', (message) => (problem = message as typeof problem));
  const begunAt = performance.now();
  let isAnnounced = false;
  let worked = { at: begunAt, cpuMs: 0 };
  for (let lookAt = begunAt + idleMs / 2; performance.now() - worked.at < idleMs; await sleep(50)) {
    if (!child.connected) {
      if (problem !== undefined) throw problemError({ hint, ...problem }, { retryAfter: undefined });
      throw new SealpinError('internal', 'the service ended at once', { hint });
    }
    if (signal.aborted) {
      child.kill('SIGTERM');
      throw signal.reason;
    }
    const ready = await statusAt({ dataDir }, answerMs);
    if (ready !== undefined && ready.pid === child.pid) {
      child.disconnect();
      child.unref();
      const { account } = await loadSecrets(dataDir);
      const { url, port, recovered = [] } = ready;
      return { url, port, account, others: ready, recovered };
    }
    const now = performance.now();
    if (!isAnnounced && now - begunAt > patienceMs) {
      output.note(`the service is starting; its log is ${paths.log}`);
      isAnnounced = true;
    }
    if (now < lookAt) continue;
    lookAt = now + idleMs / 10;
    const cpuMs = cpuMsOfGroup(child.pid ?? 0);
    if (cpuMs - worked.cpuMs >= workMs) worked = { at: now, cpuMs };
  }
  child.kill('SIGTERM');
  throw new SealpinError('internal', `the service does nothing for ${idleMs / 1000} s, and takes no requests`, {
    hint,
  });
}
