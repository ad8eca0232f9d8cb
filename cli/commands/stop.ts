/** `sealpin stop`: ends the local service and waits for its end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError, isSealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { control, silenceHint } from '../local/control.ts';
import { endLeftoverOfStopped } from '../local/leftover.ts';
import { isRunning } from '../local/process.ts';
import { readState } from '../local/state.ts';

/** Rewriting large Durable Objects takes a while. */
const stopMs = 60_000;

export const command = defineCommand({
  about: 'Stored files stay. The rows of deleted files are wiped from the disk before the command returns.',
  args: {},
  examples: [{ command: 'sealpin stop', does: 'Stop the service of your data directory' }],
  async run({ context }) {
    const { signal } = context;
    const run = await readState(context.dataDir, 'run');
    try {
      await control(context, 'stop');
    } catch (error) {
      if (!isSealpinError(error, 'not_running') || (await endLeftoverOfStopped(context.dataDir)) === 0) throw error;
      context.output.note('ended the runtime that a killed service had left running');
      await context.output.result({ stopped: true }, []);
      return;
    }
    // A service in this very process (as tests run it) has stopped when it has removed its run
    // file.
    const hasStopped = async (): Promise<boolean> =>
      run === undefined ||
      !isRunning(run.service) ||
      (run.service.pid === process.pid && (await readState(context.dataDir, 'run')) === undefined);
    for (const end = performance.now() + stopMs; !(await hasStopped()); await sleep(20, undefined, { signal })) {
      if (performance.now() > end)
        throw new SealpinError('internal', `the service did not stop within ${stopMs / 1000} s`, {
          hint: await silenceHint(context.dataDir),
        });
    }
    if ((await readState(context.dataDir, 'run')) !== undefined)
      throw new SealpinError('internal', 'the service has stopped, and has not wiped all rows of deleted files', {
        hint: 'free some disk space and start it: the start wipes them',
      });
    context.output.note('stopped');
    await context.output.result({ stopped: true }, []);
  },
});
