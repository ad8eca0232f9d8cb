/** `sealpin status`: how the local service is doing. */
import { defineCommand } from '../command.ts';
import { control } from '../local/control.ts';
import { localPaths } from '../local/state.ts';

export const command = defineCommand({
  name: 'status',
  summary: 'Tell how the local service is doing',
  about: 'Ends with 1 when none is running.',
  args: {},
  examples: [{ command: 'sealpin status --json', does: 'for scripts' }],
  async run({ context }) {
    const status = await control(localPaths(context.dataDir).control, 'status');
    await context.output.result(status, [
      `service   ${status.url}`,
      `ipfs      ${status.ipfs}`,
      `process   ${status.pid}, since ${status.startedAt}`,
      `version   ${status.version}`,
      `requests  ${status.running} running`,
    ]);
  },
});
