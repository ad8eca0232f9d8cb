/** `sealpin status`: the state of the service that commands use, and of the local one. */
import { exitOf, isSealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { type Homes, type Status, control } from '../local/control.ts';
import { describeLeft, describePeers } from '../local/backends/external-kubo.ts';
import { leftoverProblem } from '../local/leftover.ts';
import { api } from '../remote/client.ts';
import { findService } from '../remote/service-choice.ts';

export const command = defineCommand({
  about:
    'Shows the local service, and its Kubo. If commands use another service, that comes first, and ' +
    'whether it can store and read. Fails if no service is running, or if one does not respond as it ' +
    'should.',
  args: {},
  service: true,
  examples: [
    { command: 'sealpin status --json', does: 'For scripts' },
    { command: 'sealpin status --profile work', does: 'Whether that service works' },
  ],
  async run({ context }) {
    const remote = await remoteStatus(context);
    const status = await localStatus(context, remote === undefined);
    const own = status === undefined ? [] : localLines(status);
    await context.output.result({ ...status, remote }, [
      ...(remote === undefined ? [] : remoteLines(remote)),
      ...(remote === undefined ? own : own.map((line) => `local ${line}`)),
    ]);
    return status?.kubo?.status === 'failing' ? exitOf({ code: 'pinning_unavailable' }) : 0;
  },
});

type Remote = NonNullable<Awaited<ReturnType<typeof remoteStatus>>>;

/**
 * The service that commands use, if it is not the local one.
 * @throws the codes of `health` when it does not work
 */
async function remoteStatus(context: Context) {
  const { url, local, profile } = await findService(context);
  if (url === undefined || local === true) return undefined;
  const { version, status } = await api({ url, apiKey: undefined }, context).health();
  return { profile, service: url.href, version, status };
}

function remoteLines({ profile, service, version, status }: Remote): string[] {
  return [
    ...(profile === undefined ? [] : [`profile   ${profile}`]),
    `service   ${service}: ${status === 'ok' ? 'ok' : 'stores and reads, and a backend of it takes no new files'}`,
    `version   ${version}`,
  ];
}

/**
 * The state of the local service. What a killed one left is told in any case.
 * @param isNeeded whether commands use it
 * @throws not_running if it is needed
 */
async function localStatus(context: Context, isNeeded: boolean): Promise<Status | undefined> {
  try {
    return await control(context, 'status');
  } catch (error) {
    if (!isSealpinError(error, 'not_running')) throw error;
    const problem = await leftoverProblem(context.dataDir);
    if (isNeeded) throw problem ?? error;
    if (problem !== undefined) context.output.warn(`${problem.message}; ${problem.hint}`);
    return undefined;
  }
}

function localLines(status: Status): string[] {
  return [
    `service   ${status.url}`,
    ...kuboLines(status),
    `ipfs      ${status.ipfs}, built in, not on the network`,
    `process   ${status.pid}, since ${status.startedAt}`,
    `version   ${status.version}`,
    `requests  ${status.running} running`,
  ];
}

function kuboLines({ kubo, left }: Homes): string[] {
  if (left !== undefined) return [`kubo      ${describeLeft(left)}`];
  if (kubo === undefined) return [];
  if (kubo.status === 'failing') return [`kubo      ${kubo.url}: failing: ${kubo.reason}`];
  return [`kubo      ${kubo.url}: ok (${kubo.version}, ${describePeers(kubo.peers)})`];
}
