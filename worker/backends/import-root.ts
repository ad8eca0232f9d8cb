/** The end of an import: the nodes above the leaves of a whole file, and its pin. */
import { SealpinError } from '../../shared/errors.ts';
import { cidOf, digestBytes, treeOf } from '../../shared/ipfs/index.ts';
import { orLog } from '../log.ts';
import type { Intake } from './contract.ts';
import { longestPinMs } from './pin-limit.ts';
import { withinLimit } from './time-limit.ts';

/**
 * Imports what is above the parts of a file: its interior nodes, the root last. The leaves are
 * there already, but for the last one where it is given.
 * @param o.digests SHA-256 of each leaf of the file, 32 bytes each, in order
 * @param o.bytes of the file
 * @param o.lastLeaf is used up
 * @returns the CID of the file
 */
export async function importRoot(
  service: Intake,
  o: { digests: Uint8Array; bytes: number; lastLeaf?: Uint8Array | undefined; signal: AbortSignal },
): Promise<string> {
  const { digests, bytes, lastLeaf, signal } = o;
  const blocks = service.importBlocks(signal);
  try {
    if (lastLeaf !== undefined) await blocks.write(cidOf('raw', digests.slice(-digestBytes)), lastLeaf);
    const root = await treeOf(digests, bytes, { onNode: (cid, block) => blocks.write(cid, block) });
    await blocks.finish();
    return root.text;
  } catch (error) {
    blocks.abort(error);
    throw error;
  }
}

/**
 * Pins what was imported, within the time for which its row stays. Where our pin of it is there
 * already, what was sent again goes with that.
 * @throws what `PinningService.pin` throws
 */
export async function pinImported(
  service: Intake,
  cid: string,
  o: { bytes: number; plan: { beside: boolean; pinned: boolean }; signal: AbortSignal; requestId: string },
): Promise<void> {
  const { bytes, plan, signal, requestId } = o;
  if (!plan.pinned) {
    const limit = {
      ms: longestPinMs(bytes),
      late: () => new SealpinError('pinning_timeout', `${service.id} pins too slowly`),
    };
    return await withinLimit(signal, limit, (limited) =>
      service.pin(cid, { bytes, beside: plan.beside, signal: limited }),
    );
  }
  await service.abandon?.();
  await orLog({ event: 'pin.again', service: service.id, requestId }, async () => await service.joinPin?.(cid, signal));
}
