/** Another service of the data directory: one that answers runs, any other comes up or ends. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { type AskedService, silenceHint, statusAt } from './control.ts';
import type { lock } from '../io/lock.ts';
import { isRunning } from './process.ts';
import { readState, localPaths, type Run } from './state.ts';

/** Timeout of a service that neither answers nor ends, in ms: `stop` waits as long. */
const otherMs = 60_000;

const answerMs = 5_000;

async function answers(asking: AskedService): Promise<boolean> {
  return (await statusAt(asking, answerMs)) !== undefined;
}

/**
 * Asks again and again until there is an answer; undefined: not yet.
 * @throws service_unreachable, the reason of the signal
 */
async function settled<T>({ dataDir, signal }: AskedService, look: () => Promise<T | undefined>): Promise<T> {
  for (const end = performance.now() + otherMs; performance.now() < end; await sleep(50)) {
    signal?.throwIfAborted();
    const found = await look();
    if (found !== undefined) return found;
  }
  throw new SealpinError('service_unreachable', 'another local service is starting or ending, and does not answer', {
    hint: await silenceHint(dataDir),
  });
}

/**
 * The run file of the service that answers; null where none runs. Waits while one comes up or ends.
 * @throws service_unreachable
 */
export function runningService(asking: AskedService): Promise<Run | null> {
  return settled(asking, async () => {
    const run = await readState(asking.dataDir, 'run');
    if (run === undefined || !isRunning(run.service)) return null;
    return (await answers(asking)) ? run : undefined;
  });
}

/**
 * Locks a data directory, once a service that ends has released it.
 * @throws already_running when one answers, service_unreachable
 */
export async function lockWhenFree(asking: AskedService): Promise<ReturnType<typeof lock>> {
  // It loads SQLite, which the commands that look for a service do without.
  const own = await import('../io/lock.ts');
  return await settled(asking, async () => {
    try {
      return own.lock(localPaths(asking.dataDir).lock);
    } catch (error) {
      if (!isSealpinError(error, 'already_running') || (await answers(asking))) throw error;
      return undefined;
    }
  });
}
