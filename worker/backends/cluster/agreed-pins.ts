/** Pins of an IPFS Cluster: what its peers have agreed on, and what they hold. */
import type { Held } from '../contract.ts';
import { summary, unpinnedAtPeers, type ClusterPinOptions } from './cluster-pin.ts';
import { isReplicated } from './cluster-rest.ts';

/** Makes the functions that look for a pin, repair it and remove it. */
export function agreedPins({ peers, pinName, replication, responseMs }: ClusterPinOptions) {
  const agreed = (cid: string, signal: AbortSignal) =>
    peers.first(signal, ({ rest }, limited) => rest.agreed(cid, limited));

  async function unpin(cid: string, signal: AbortSignal): Promise<'removed' | 'absent' | 'foreign'> {
    const pin = await agreed(cid, signal);
    if (pin !== undefined && pin.name !== pinName) return 'foreign';
    const isRemoved = pin !== undefined && (await peers.first(signal, ({ rest }, limited) => rest.unpin(cid, limited)));
    // Also where there was none: a peer that was down may not know of the removal yet.
    await unpinnedAtPeers(peers, { cid, name: pinName, unpinMs: responseMs, signal });
    return isRemoved ? 'removed' : 'absent';
  }

  /** A pin of ours that no peer holds counts as absent, so that it is made again. */
  async function stat(cid: string, signal: AbortSignal): Promise<Held> {
    const pin = await agreed(cid, signal);
    if (pin === undefined) return { pin: 'absent' };
    if (pin.name !== pinName) return { pin: 'foreign', name: pin.name };
    const statuses = await peers.first(signal, ({ rest }, limited) => rest.statuses(cid, false, limited));
    // One that had to go to other peers asks for more.
    if (isReplicated(statuses, replication?.min ?? pin.min)) return { pin: 'ours' };
    const isHeld = statuses.some(({ status }) => status === 'pinned');
    return isHeld ? { pin: 'ours', lacks: summary(statuses) } : { pin: 'absent' };
  }

  /**
   * A peer that is back is asked to try again what has failed there; one that stays away is
   * replaced by another pin only.
   */
  async function recover(cid: string, signal: AbortSignal): Promise<void> {
    const statuses = await peers.first(signal, ({ rest }, limited) => rest.statuses(cid, false, limited));
    const isRefused = statuses.some(({ status }) => status === 'pin_error');
    await peers.first(signal, async ({ rest }, limited) =>
      isRefused ? await rest.recover(cid, limited) : void (await rest.pin(cid, pinName, { replication }, limited)),
    );
  }

  return { agreed, stat, recover, unpin };
}
