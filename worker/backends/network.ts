/**
 * The IPFS network as the last source of a file that lives here: a backend that has lost a block
 * asks the nodes that it is connected to.
 */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import type { BlockSource } from '../../shared/ipfs/index.ts';
import type { Readable } from './contract.ts';

/**
 * The backends of a file as its sources. The last one that can search does so for blocks that it
 * says it does not have: by then the others have been asked. Nothing else is searched for, so that
 * the service does not become a proxy for what is not stored here.
 * @param backends in the order in which they are to be asked
 */
export function withNetwork(backends: readonly Readable[]): BlockSource[] {
  const last = backends.findLast(({ search }) => search !== undefined);
  return backends.map((backend) => blockAtBreaks(backend, backend === last ? backend.search : undefined));
}

/**
 * A backend as a source. A stream ends at a block that is missing, and does not say why: so that
 * block is asked for by itself, and so is all of a file that lacks one.
 * @param search gives what the backend does not have
 */
export function blockAtBreaks(backend: Readable, search?: Readable['search']): BlockSource {
  let isIncomplete = false;
  /** End of the last stream, as it was planned. */
  let end = 0;
  return {
    id: backend.id,
    async block(cid, signal) {
      if (isIncomplete && search) return await search(cid, signal);
      try {
        return await backend.block(cid, signal);
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
      return await backend.read(cid, offset, length, signal);
    },
  };
}
