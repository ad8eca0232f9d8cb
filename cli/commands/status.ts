/** `sealpin status`: the state of the local service. */
import { SealpinError, isSealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { type Homes, control } from '../local/control.ts';
import { describeLeft, describePeers } from '../local/external-kubo.ts';
import { leftoverOfStopped } from '../local/leftover.ts';
import { localPaths } from '../local/state.ts';

export const command = defineCommand({
  about: 'Exits with 1 if none is running, or if its Kubo does not respond as it should.',
  args: {},
  examples: [{ command: 'sealpin status --json', does: 'For scripts' }],
  async run({ context }) {
    const status = await control(localPaths(context.dataDir).control, 'status').catch(async (error: unknown) => {
      if (!isSealpinError(error, 'not_running')) throw error;
      const [left] = await leftoverOfStopped(context.dataDir);
      if (left === undefined) throw error;
      throw new SealpinError(
        'not_running',
        `no local service is running, but the runtime of a killed one still is: process ${left.pid}`,
        { hint: 'end it with: sealpin stop' },
      );
    });
    await context.output.result(status, [
      `service   ${status.url}`,
      ...kuboLines(status),
      `ipfs      ${status.ipfs}, built in, not on the network`,
      `process   ${status.pid}, since ${status.startedAt}`,
      `version   ${status.version}`,
      `requests  ${status.running} running`,
    ]);
    return status.kubo?.status === 'failing' ? 1 : 0;
  },
});

function kuboLines({ kubo, left }: Homes): string[] {
  if (left !== undefined) return [`kubo      ${describeLeft(left)}`];
  if (kubo === undefined) return [];
  if (kubo.status === 'failing') return [`kubo      ${kubo.url}: failing: ${kubo.reason}`];
  return [`kubo      ${kubo.url}: ok (${kubo.version}, ${describePeers(kubo.peers)})`];
}
