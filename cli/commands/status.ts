/** `sealpin status`: how the local service is doing. */
import { SealpinError, isSealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { control } from '../local/control.ts';
import { leftoverOfStopped } from '../local/leftover.ts';
import { localPaths } from '../local/state.ts';

export const command = defineCommand({
  name: 'status',
  summary: 'Tell how the local service is doing',
  about: 'Ends with 1 when none is running.',
  args: {},
  examples: [{ command: 'sealpin status --json', does: 'for scripts' }],
  async run({ context }) {
    const status = await control(localPaths(context.dataDir).control, 'status').catch(async (error: unknown) => {
      if (!isSealpinError(error, 'not_running')) throw error;
      const [left] = await leftoverOfStopped(context.dataDir);
      if (left === undefined) throw error;
      throw new SealpinError(
        'not_running',
        `No local service is running, but a killed one left its runtime, process ${left.pid}`,
        { hint: 'end it with: sealpin stop' },
      );
    });
    await context.output.result(status, [
      `service   ${status.url}`,
      `ipfs      ${status.ipfs}`,
      `process   ${status.pid}, since ${status.startedAt}`,
      `version   ${status.version}`,
      `requests  ${status.running} running`,
    ]);
  },
});
