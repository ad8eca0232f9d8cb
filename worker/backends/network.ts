/** The IPFS network as the last source of a file that lives here: a home that has lost a block asks the nodes that it is connected to. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { BlockSource } from '../../shared/ipfs/index.ts';
import type { PinningService } from './contract.ts';

/**
 * The homes of a file as its sources. The last one that can search does so for blocks that it says it does not have: by then the
 * others have been asked. Nothing else is searched for, so that the service does not become a proxy for what is not stored here.
 * @param homes in the order in which they are to be asked
 */
export function withNetwork(homes: readonly PinningService[]): BlockSource[] {
  const last = homes.findLast(({ search }) => search !== undefined);
  return homes.map((home) => blockAtBreaks(home, home === last ? home.search : undefined));
}

/**
 * A home as a source. A stream ends at a block that is missing, and does not say why: so that block is asked for by itself, and so is all
 * of a file that lacks one.
 * @param search gives what the home does not have
 */
export function blockAtBreaks(home: PinningService, search?: PinningService['search']): BlockSource {
  let isIncomplete = false;
  /** End of the last stream, as it was planned. */
  let end = 0;
  return {
    id: home.id,
    async block(cid, signal) {
      if (isIncomplete && search) return await search(cid, signal);
      try {
        return await home.block(cid, signal);
      } catch (error) {
        if (!isSealpinError(error, 'pinning_lost') || !search) throw error;
        isIncomplete = true;
        return await search(cid, signal);
      }
    },
    async read(cid, offset, length, signal) {
      const isBroken = offset < end;
      end = isBroken ? 0 : offset + length;
      if (isIncomplete || isBroken) throw new SealpinError('pinning_lost', 'it may lack a block of this file');
      return await home.read(cid, offset, length, signal);
    },
  };
}
