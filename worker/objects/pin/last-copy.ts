/** Safety of the removal of a copy, where somebody still needs the bytes. */
import { orLog } from '../../log.ts';
import { readableIds } from '../../backends/configured.ts';
import type { PinSources } from './pin-sources.ts';
import { nothingToRead, wholeFile, type PinRow } from './pin-rows.ts';
import type { WorkContext } from './pin-steps.ts';
import { unwrap } from '../result.ts';

type LastCopyContext = WorkContext & { sources: Pick<PinSources, 'stat'> };

/**
 * Tells whether a removal leaves a copy behind, or nobody needs one: the service whose copy stays
 * is asked for its pin, as it may have lost it since it was read.
 */
export async function isSpare(context: LastCopyContext, { cid, service }: PinRow): Promise<boolean> {
  const { env, rows, sources, now } = context;
  if (!rows.isReferenced(cid)) return true;
  const others = readableOf({ env }, rows.ofCid(cid)).filter((row) => row.service !== service);
  for (const other of others.filter((row) => isSure(row))) {
    if ((await sources.stat(other)) !== 'absent') return true;
    rows.change(other, { suspect: 1, ...wholeFile, due: now() });
  }
  return false;
}

/**
 * Those of some rows at backends that are configured and can be read: what lies elsewhere is no
 * copy that could replace another one.
 */
export function readableOf({ env }: Pick<WorkContext, 'env'>, rows: readonly PinRow[]): PinRow[] {
  const readable = readableIds(env);
  return rows.filter(({ service }) => readable.has(service));
}

/** Tells whether a row says that a service is to hold a CID, and does, without a doubt. */
export function isSure(row: PinRow): boolean {
  const { wanted, state, suspect, verified_at: verifiedAt, read_from: from, read_to: to } = row;
  const isInDoubt = suspect === 1 || (verifiedAt === null && from !== null && to !== nothingToRead.read_to);
  return wanted === 1 && state === 'live' && !isInDoubt;
}

/**
 * Tells whether an upload may be about to pin a CID: a pin that comes after its removal would stay,
 * without a row. The accounts say which uploads have ended; of those that do not answer none has.
 */
export async function isBeingPinned({ rows, uploadsOf }: WorkContext, row: PinRow): Promise<boolean> {
  const byAccount = Map.groupBy(rows.pinning(row), ({ account }) => account);
  for (const [account, references] of byAccount)
    await orLog({ event: 'pin.uploads', requestId: row.request_id ?? undefined }, async () => {
      const { fileIds } = await unwrap(uploadsOf(account).storing(references.map(({ fileId }) => fileId)));
      for (const each of references) if (!fileIds.includes(each.fileId)) rows.endPinning(row, each);
    });
  return rows.pinning(row).length > 0;
}
