/** `sealpin status`: the state of the service that commands use, and of the local one. */
import type { Health } from '../../shared/api.ts';
import { type Code, exitOf, isCode, isSealpinError, otherwise } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { type OtherBackends, type Status, control } from '../local/control.ts';
import { describeLeft, describePeers } from '../local/backends/external-kubo.ts';
import { leftoverProblem } from '../local/leftover.ts';
import { api } from '../remote/client.ts';
import { findService } from '../remote/service-choice.ts';
import { factLines, shownTime } from '../terminal/fitted-row.ts';

export const command = defineCommand({
  about:
    'Shows the local service, and its Kubo. If commands use another service, that comes first, and whether it can ' +
    'store and read. Fails if no service is running, or if one does not respond as it should.',
  args: {},
  service: true,
  examples: [
    { command: 'sealpin status --json', does: 'For scripts' },
    { command: 'sealpin status --profile work', does: 'Whether that service works' },
  ],
  async run({ context }) {
    const remote = await remoteStatus(context);
    const status = await localStatus(context, remote === undefined);
    // One of an earlier version says nothing of its health.
    const health = status && (await otherwise(control(context, 'health'), 'not_found', undefined));
    const own = status === undefined ? [] : localLines(status, health, context);
    const fitted = (lines: readonly string[], of = ''): string[] =>
      lines.flatMap((line) => factLines(of + line.slice(0, 10), line.slice(10), context));
    await context.output.result({ ...status, health, remote }, [
      ...(remote === undefined ? [] : fitted(remoteLines(remote))),
      ...fitted(own, remote === undefined ? '' : 'local '),
    ]);
    const code = status?.kubo?.status === 'failing' ? 'pinning_unavailable' : troubleOf(health);
    return code === undefined ? 0 : exitOf({ code });
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

/** The code of what keeps the local service from storing or reading. */
function troubleOf({ storage, services = [] }: Partial<Health> = {}): Code | undefined {
  const refusals = services.flatMap(({ refuses }) => (isCode(refuses?.code) ? [refuses.code] : []));
  if (storage === 'failing' || services.some(({ status }) => status === 'failing')) return 'pinning_unavailable';
  return refusals[0];
}

function healthLines({ status, storage, services = [] }: Health): string[] {
  const troubles = services.flatMap(({ id, status, code, refuses, warning, hint }) => {
    const then = hint === undefined ? '' : `; ${hint}`;
    if (status === 'failing') return [`${id} is failing (${code})${then}`];
    if (refuses !== undefined) return [`${id} takes no new files since ${refuses.since} (${refuses.code})${then}`];
    return warning === undefined ? [] : [`${id}: ${warning}${then}`];
  });
  if (storage === 'failing') troubles.push('the databases do not respond');
  return (troubles.length === 0 ? [status] : troubles).map((text) => `health    ${text}`);
}

function localLines(status: Status, health: Health | undefined, context: Context): string[] {
  return [
    `service   ${status.url}`,
    ...(health === undefined ? [] : healthLines(health)),
    ...kuboLines(status),
    `ipfs      ${status.ipfs}, built in, not on the network`,
    `process   ${status.pid}, since ${shownTime(status.startedAt, context)}`,
    `version   ${status.version}`,
    `requests  ${status.running} running`,
  ];
}

function kuboLines({ kubo, left }: OtherBackends): string[] {
  if (left !== undefined) return [`kubo      ${describeLeft(left)}`];
  if (kubo === undefined) return [];
  if (kubo.status === 'failing') return [`kubo      ${kubo.url}: failing: ${kubo.reason}`];
  return [`kubo      ${kubo.url}: ok (${kubo.version}, ${describePeers(kubo.peers)})`];
}
