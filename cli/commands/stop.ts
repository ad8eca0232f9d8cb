/** `sealpin stop`: ends the local service and waits until it is gone. */
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError, isSealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { control } from '../local/control.ts';
import { endLeftoverOfStopped } from '../local/leftover.ts';
import { isRunning } from '../local/process.ts';
import { loadRun, localPaths } from '../local/state.ts';

/** Rewriting large Durable Objects takes a while. */
const stopMs = 60_000;

export const command = defineCommand({
  name: 'stop',
  summary: 'Stop the local service',
  about: 'What is stored stays. The rows of deleted files are wiped from the disk before it returns.',
  args: {},
  examples: [{ command: 'sealpin stop', does: 'stops the service of your data directory' }],
  async run({ context }) {
    const run = await loadRun(context.dataDir);
    try {
      await control(localPaths(context.dataDir).control, 'stop');
    } catch (error) {
      if (!isSealpinError(error, 'not_running') || (await endLeftoverOfStopped(context.dataDir)) === 0) throw error;
      context.output.note('ended what a service that was killed had left running');
      await context.output.result({ stopped: true }, []);
      return;
    }
    // A service in this very process (as tests run it) has stopped when it no longer tells of itself.
    const isGone = async (): Promise<boolean> =>
      run === undefined ||
      !isRunning(run.service) ||
      (run.service.pid === process.pid && (await loadRun(context.dataDir)) === undefined);
    for (const end = performance.now() + stopMs; !(await isGone()); await sleep(20)) {
      if (performance.now() > end)
        throw new SealpinError('internal', `the service did not stop within ${stopMs / 1000} s`);
    }
    context.output.note('stopped');
    await context.output.result({ stopped: true }, []);
  },
});
