/** The pinning services that hold a file, for those who read it and those who ask where it is. */
import type { StoredPin } from '../../../shared/api.ts';
import type { BlockSource, OpenOptions } from '../../../shared/ipfs/index.ts';
import { isSealpinError } from '../../../shared/errors.ts';
import { isoTime } from '../../../shared/time.ts';
import type { Bindings, Ctx } from '../../http/app.ts';
import { orLog } from '../../log.ts';
import type { FileRecord } from '../../objects/account/files/file-rows.ts';
import { underreplicated } from '../../objects/pin/lacking-pins.ts';
import type { BackendPin } from '../../objects/pin/pin-survey.ts';
import { unwrap } from '../../objects/result.ts';
import { pinOf } from '../../objects/pin/shard.ts';
import { readableIds, servicesOf, sourceOf } from '../../backends/configured.ts';
import type { Readable } from '../../backends/contract.ts';
import { withNetwork } from '../../backends/network.ts';
import { onFailure } from '../../backends/on-failure.ts';

/** Names on the wire of the states of `Pin`. */
const statuses = {
  wanted: 'pinning',
  copying: 'pinning',
  live: 'pinned',
  lost: 'lost',
  failed: 'failed',
  unpinning: 'unpinning',
} as const satisfies Record<BackendPin['state'], StoredPin['status']>;

/** Reasons for which a copy waits for the operator, as the next one would be refused, too. */
const refusals: readonly (string | null)[] = ['disk_full', 'misconfigured', 'backend_changed'];

function pinStatusOf({ state, reason }: BackendPin): StoredPin['status'] {
  // It has fewer copies than it is to have.
  if (state === 'live' && reason === underreplicated) return 'pinning';
  if (statuses[state] === 'pinning' && refusals.includes(reason)) return 'failed';
  return statuses[state];
}

/** The pin of a backend in the shape of the API. */
export function storedPin(pin: BackendPin): StoredPin {
  const { service, checkedAt, verifiedAt } = pin;
  return { service, status: pinStatusOf(pin), checkedAt: isoTime(checkedAt), verifiedAt: isoTime(verifiedAt) };
}

type StoredAt = Pick<FileRecord, 'cid' | 'service'>;

/** The pins of a file, as `Pin` knows them. */
export async function askPins(env: Bindings, { cid, service }: StoredAt): Promise<StoredPin[]> {
  const { pins } = await unwrap((await pinOf(env, cid)).pins(cid));
  // The first backend comes first.
  return pins.toSorted((a, b) => Number(b.service === service) - Number(a.service === service)).map(storedPin);
}

/**
 * The pins of a file that has just been stored: without a request where there can be one only,
 * which the service has acknowledged.
 */
export async function newPins(env: Bindings, record: StoredAt): Promise<StoredPin[]> {
  return isOnlyBackend(env, record.service)
    ? [{ service: record.service, status: 'pinned' }]
    : await askPins(env, record);
}

/** The services that hold a file, in their order, and behind them the network. */
export async function sourcesOf(c: Ctx, { cid, service }: StoredAt): Promise<BlockSource[]> {
  const { env } = c;
  if (isOnlyBackend(env, service)) return configuredSources(c, cid, [service]);
  const { services } = await unwrap((await pinOf(env, cid)).services(cid));
  return configuredSources(c, cid, services.length > 0 ? services : [service]);
}

/**
 * The services with these ids that can be read, as `sourcesOf`. One that is not configured now is
 * skipped if there is another. One that says it lacks a block below `root` is checked after the
 * response.
 */
export function configuredSources(c: Ctx, root: string, ids: readonly string[]): BlockSource[] {
  const known = readableIds(c.env);
  const usable = ids.filter((id) => known.has(id));
  const backends = (usable.length > 0 ? usable : ids).map((id) => sourceOf(c.env, id, root, c.var.requestId));
  const reporting = backends.map((backend): Readable => {
    const failed = (error: unknown): void => {
      if (isSealpinError(error, 'pinning_lost')) markSuspect(c, root, backend.id);
    };
    return { ...backend, block: (cid, signal) => onFailure(backend.block(cid, signal), failed) };
  });
  return withNetwork(reporting);
}

/** Has a service checked, after the response, that gave a wrong block of a CID, or lacks one. */
function markSuspect(c: Ctx, cid: string, service: string): void {
  const line = { event: 'read.suspect', requestId: c.var.requestId, service };
  const report = async () => unwrap((await pinOf(c.env, cid)).markSuspect(cid, service));
  c.executionCtx.waitUntil(orLog(line, report));
}

/**
 * Time after which the next service is asked for a block as well, in ms: a slow one does not hold a
 * read up.
 */
const hedgeMs = 1_000;

/**
 * Returns the options for reading from the services that hold a file. One that gives a wrong block
 * is checked after the response.
 */
export function sourceOptions(c: Ctx, cid: string): Required<Pick<OpenOptions, 'hedgeMs' | 'onMismatch'>> {
  return { hedgeMs, onMismatch: ({ id }) => markSuspect(c, cid, id) };
}

function isOnlyBackend(env: Bindings, service: string): boolean {
  const [first, ...others] = servicesOf(env);
  return others.length === 0 && first?.id === service;
}
