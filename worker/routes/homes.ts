/** The pinning services that hold a file, for those who read it and those who ask where it is. */
import type { StoredPin } from '../../shared/api.ts';
import type { BlockSource, OpenOptions } from '../../shared/ipfs/index.ts';
import type { Bindings, Ctx } from '../http/app.ts';
import { errorText, log } from '../log.ts';
import type { FileRecord } from '../objects/file-rows.ts';
import type { Home } from '../objects/pin-homes.ts';
import { unwrap } from '../objects/result.ts';
import { pinOf } from '../objects/shard.ts';
import { blockServiceOf, servicesOf } from '../pinning/configured.ts';
import { takesBlocks } from '../pinning/contract.ts';
import { withNetwork } from '../pinning/network.ts';

/** What the states of `Pin` are called on the wire. */
const statuses = {
  wanted: 'pinning',
  copying: 'pinning',
  live: 'pinned',
  lost: 'lost',
  failed: 'failed',
  unpinning: 'unpinning',
} as const satisfies Record<Home['state'], StoredPin['status']>;

/** A home in the shape of the API. */
export function storedPin({ service, state, checkedAt, verifiedAt }: Home): StoredPin {
  return {
    service,
    status: statuses[state],
    ...(checkedAt === null ? {} : { checkedAt: new Date(checkedAt).toISOString() }),
    ...(verifiedAt === null ? {} : { verifiedAt: new Date(verifiedAt).toISOString() }),
  };
}

type Stored = Pick<FileRecord, 'cid' | 'service'>;

/** The pins of a file, as `Pin` knows them. */
export async function askPins(env: Bindings, { cid, service }: Stored): Promise<StoredPin[]> {
  const { homes } = await unwrap((await pinOf(env, cid)).homes(cid));
  // The first home comes first.
  return homes.toSorted((a, b) => Number(b.service === service) - Number(a.service === service)).map(storedPin);
}

/** The same without a request where there can be one pin only. When it was checked is then left out. */
export async function knownPins(env: Bindings, record: Stored): Promise<StoredPin[]> {
  return isOnlyHome(env, record.service) ? [{ service: record.service, status: 'pinned' }] : await askPins(env, record);
}

/** The services that hold a file, in the order in which they are to be asked, and behind them the network. */
export async function homesOf(c: Ctx, { cid, service }: Stored): Promise<BlockSource[]> {
  const { env } = c;
  if (isOnlyHome(env, service)) return configuredHomes(c, [service]);
  const { services } = await unwrap((await pinOf(env, cid)).services(cid));
  return configuredHomes(c, services.length > 0 ? services : [service]);
}

/** The services with these ids that can be read, as `homesOf`. One that is not configured now is skipped if there is another. */
export function configuredHomes({ env, var: { requestId } }: Ctx, ids: readonly string[]): BlockSource[] {
  const known = new Set(
    servicesOf(env)
      .filter(takesBlocks)
      .map(({ id }) => id),
  );
  const usable = ids.filter((id) => known.has(id));
  return withNetwork((usable.length > 0 ? usable : ids).map((id) => blockServiceOf(env, id, requestId)));
}

/** After how long the next service is asked for a block as well, in ms: a slow one does not hold a read up. */
const hedgeMs = 1_000;

/** How the services that hold a file are read. One that gives a wrong block is checked after the response. */
export function homeOptions(c: Ctx, cid: string): Required<Pick<OpenOptions, 'hedgeMs' | 'onMismatch'>> {
  const report = async (service: string): Promise<void> => {
    try {
      await unwrap((await pinOf(c.env, cid)).suspect(cid, service));
    } catch (error) {
      log({ event: 'read.suspect', requestId: c.var.requestId, service, error: errorText(error) });
    }
  };
  return { hedgeMs, onMismatch: ({ id }) => c.executionCtx.waitUntil(report(id)) };
}

function isOnlyHome(env: Bindings, service: string): boolean {
  const [first, ...others] = servicesOf(env);
  return others.length === 0 && first?.id === service;
}
