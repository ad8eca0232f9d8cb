/**
 * `GET /v1/operator/metrics`: the service in numbers, for the operator's Prometheus. Labels name no
 * account, key or file.
 */
import { version } from '../../../package.json';
import { codes } from '../../../shared/errors.ts';
import { listed } from '../../objects/account/account-list.ts';
import type { Bindings, Ctx } from '../../http/app.ts';
import { exposition, expositionType, labelsOf, type Metric } from '../../http/exposition.ts';
import { handOverCounts } from '../../http/request-counts.ts';
import { orLog } from '../../log.ts';
import type { AccountGauges } from '../../objects/account/account-gauges.ts';
import { askInBatches } from '../../objects/batches.ts';
import type { Counter } from '../../objects/metrics/metrics.ts';
import { metricsOf } from '../../objects/metrics/metrics-binding.ts';
import type { PinGauges } from '../../objects/pin/pin-survey.ts';
import { unwrap } from '../../objects/result.ts';
import { askShards } from '../../objects/pin/shard.ts';
import { stateOf, type ServiceHealth } from './health.ts';
import { sumStrays } from './strays.ts';

/**
 * Number of accounts that one response adds up: with the objects `Pin`, within the 1,000 requests
 * that one request may make.
 */
const accountLimit = 500;

/** Descriptions of the counters, by the names in their rows, and their metrics. */
const counters: readonly Omit<Metric, 'samples'>[] = [
  { name: 'sealpin_http_requests_total', type: 'counter', help: 'Requests that were answered' },
  {
    name: 'sealpin_http_request_duration_seconds',
    type: 'summary',
    help: 'Time from the request to the headers of its response',
  },
  {
    name: 'sealpin_http_request_body_bytes_total',
    type: 'counter',
    help: 'Content-Length of requests; chunked bodies are not counted',
  },
  {
    name: 'sealpin_http_response_body_bytes_total',
    type: 'counter',
    help: 'Content-Length of responses with a file, whether or not the client took all of it',
  },
  { name: 'sealpin_errors_total', type: 'counter', help: 'Error responses by their code' },
];

/** Returns all metrics. Objects that do not respond are counted, and fail nothing. */
export async function readMetrics(c: Ctx): Promise<Response> {
  await handOverCounts(c.env);
  const [sums, accounts, pins, state] = await Promise.all([
    unwrap(metricsOf(c.env).read()),
    askAccounts(c.env),
    askPins(c.env),
    stateOf(c.env),
  ]);
  const strays = sumStrays(pins.read.flatMap((each) => each.strays));
  const byService = (valueOf: (service: ServiceHealth) => number): Metric['samples'] =>
    state.services.map((service) => ({ labels: labelsOf({ service: service.id }), value: valueOf(service) }));
  const metrics = [
    gauge('sealpin_build_info', 'The version that runs', [{ labels: labelsOf({ version }), value: 1 }]),
    ...counters.map((metric) => ({ ...metric, samples: samplesOf(metric, withEachCode(sums.counters)) })),
    ...accountMetrics(accounts),
    ...pinMetrics(pins),
    gauge('sealpin_alarm_late_seconds', 'How long the alarm of the latest object is overdue', [
      { labels: labelsOf({ object: 'account' }), value: greatestOf(accounts.read.map(({ lateMs }) => lateMs)) / 1000 },
      { labels: labelsOf({ object: 'pin' }), value: greatestOf(pins.read.map(({ lateMs }) => lateMs)) / 1000 },
    ]),
    gauge('sealpin_objects_failing', 'Objects that did not respond; the other gauges lack what they hold', [
      { labels: labelsOf({ object: 'account' }), value: accounts.failing },
      { labels: labelsOf({ object: 'pin' }), value: pins.failing },
    ]),
    gauge('sealpin_storage_up', 'Whether the objects respond', [{ value: state.storage === 'ok' ? 1 : 0 }]),
    gauge(
      'sealpin_pinning_service_up',
      'Whether a pinning service responds to its adapter',
      byService(({ status }) => (status === 'ok' ? 1 : 0)),
    ),
    gauge(
      'sealpin_stray_objects',
      'Objects in a store that belong to nothing, and wait for the operator',
      byService(({ id }) => strays.find(({ service }) => service === id)?.objects ?? 0),
    ),
    gauge(
      'sealpin_pinning_service_refuses',
      'Whether a pinning service was seen to take no new files',
      byService(({ refuses }) => (refuses === undefined ? 0 : 1)),
    ),
  ];
  return c.body(exposition(metrics), 200, { 'Content-Type': expositionType });
}

/** Answers of the objects of a kind, and the number of those that gave none. */
type AskedMetrics<T> = { read: T[]; failing: number };

async function askAccounts(env: Bindings): Promise<AskedMetrics<AccountGauges> & { isWhole: boolean }> {
  const { ids, cursor } = await listed(env.API_KEYS, { limit: accountLimit });
  const line = { event: 'metrics.object', object: 'account' };
  const asked = await askInBatches(ids, (id) =>
    orLog(line, () => unwrap(env.ACCOUNT.getByName(id).administration.gauges())),
  );
  return { ...tally(asked), isWhole: cursor === undefined };
}

async function askPins(env: Bindings): Promise<AskedMetrics<PinGauges>> {
  const line = { event: 'metrics.object', object: 'pin' };
  return tally(await askShards(env, (pin) => orLog(line, () => unwrap(pin.gauges()))));
}

function tally<T>(asked: readonly (T | undefined)[]): AskedMetrics<T> {
  const read = asked.filter((each) => each !== undefined);
  return { read, failing: asked.length - read.length };
}

function accountMetrics({ read, isWhole }: { read: readonly AccountGauges[]; isWhole: boolean }): Metric[] {
  const sum = (of: keyof AccountGauges): number => read.reduce((all, each) => all + each[of], 0);
  return [
    gauge('sealpin_accounts', 'Accounts that the other metrics of accounts add up', [{ value: read.length }]),
    gauge('sealpin_accounts_complete', `1 if these are all accounts, 0 if there are more than ${accountLimit}`, [
      { value: isWhole ? 1 : 0 },
    ]),
    gauge('sealpin_files', 'Files that are stored', [{ value: sum('files') }]),
    gauge('sealpin_stored_bytes', 'Bytes of these files on IPFS', [{ value: sum('bytes') }]),
    gauge('sealpin_shares_active', 'Shares that can be opened', [{ value: sum('shares') }]),
    gauge('sealpin_uploads_unfinished', 'Uploads in several requests that have not ended', [
      { labels: labelsOf({ state: 'open' }), value: sum('open') },
      { labels: labelsOf({ state: 'finishing' }), value: sum('finishing') },
    ]),
    gauge('sealpin_outbox_messages', 'Messages between objects that are due and not acknowledged', [
      { value: sum('undelivered') },
    ]),
    gauge('sealpin_outbox_oldest_seconds', 'How long the oldest of these messages waits', [
      { value: greatestOf(read.map(({ undeliveredMs }) => undeliveredMs)) / 1000 },
    ]),
  ];
}

function pinMetrics({ read }: AskedMetrics<PinGauges>): Metric[] {
  const counts = new Map<string, number>();
  for (const { service, state, count } of read.flatMap(({ pins }) => pins)) {
    const labels = labelsOf({ service, state });
    counts.set(labels, (counts.get(labels) ?? 0) + count);
  }
  const samples = [...counts].map(([labels, value]) => ({ labels, value }));
  return [gauge('sealpin_pins', 'CIDs of files and parts at each pinning service, by the state of the pin', samples)];
}

/** Adds the codes without a row: Prometheus sees no increase of what begins above 0. */
function withEachCode(rows: readonly Counter[]): Counter[] {
  const none = codes.map((code) => ({ name: 'sealpin_errors_total', labels: labelsOf({ code }), value: 0 }));
  return [
    ...rows,
    ...none.filter(({ name, labels }) => !rows.some((row) => row.name === name && row.labels === labels)),
  ];
}

function samplesOf({ name, type }: Omit<Metric, 'samples'>, rows: readonly Counter[]): Metric['samples'] {
  const suffixes = type === 'summary' ? (['_sum', '_count'] as const) : [undefined];
  return suffixes.flatMap((suffix) =>
    rows
      .filter((row) => row.name === `${name}${suffix ?? ''}`)
      .map(({ labels, value }) => ({ ...(suffix && { suffix }), labels, value })),
  );
}

function gauge(name: string, help: string, samples: Metric['samples']): Metric {
  return { name, help, type: 'gauge', samples };
}

function greatestOf(values: readonly number[]): number {
  return Math.max(0, ...values);
}
