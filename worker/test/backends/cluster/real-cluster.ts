/** A real IPFS Cluster as what scenarios and services are pointed at. */
import { startCluster, type RealCluster } from '../../../../testkit/programs/cluster.ts';
import type { Honest } from '../suite.ts';
import { first } from '../../../../testkit/present.ts';

export type HonestCluster = Honest & { real: RealCluster; cluster: NonNullable<Honest['cluster']> };

/** Starts peers, on `copies` of which each file is to be. */
export async function startHonestCluster(peers: number, copies: number): Promise<HonestCluster> {
  const real = await startCluster(peers);
  return {
    real,
    url: first(real.peers).url,
    token: real.token,
    cluster: {
      peers: real.peers.map(({ url, kubo }) => ({ url, ipfs: kubo.url })),
      replication: { min: copies, max: copies },
    },
    close: real.close,
  };
}
