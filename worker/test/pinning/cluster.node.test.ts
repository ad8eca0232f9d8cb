/** The adapter before a real IPFS Cluster. */
import { describe } from 'vitest';
import { clusterProgram, noCluster, startCluster, type RealCluster } from '../../../testkit/cluster.ts';
import { runtimes } from './runtimes.ts';
import { contractWith, type Honest, type Others } from './suite.ts';
import { test } from 'vitest';

type HonestCluster = Honest & { real: RealCluster };

async function start(peers: number, replication: number): Promise<HonestCluster> {
  const real = await startCluster(peers);
  return {
    real,
    url: real.peers[0]!.url,
    token: real.token,
    cluster: {
      peers: real.peers.map(({ url, kubo }) => ({ url, ipfs: kubo.url })),
      replication: { min: replication, max: replication },
    },
    close: real.close,
  };
}

/** Others, by the same cluster. */
const byRest: Others<HonestCluster> = {
  collect: ({ real }) => Promise.all(real.peers.map(({ kubo }) => kubo.ipfs('repo', 'gc'))),
  pin: async ({ real }, cid, name) => {
    await real.ask('POST', `/pins/${cid}?name=${encodeURIComponent(name)}`);
  },
  unpin: async ({ real }, cid) => {
    await real.ask('DELETE', `/pins/${cid}`);
  },
};

if (clusterProgram() === undefined) {
  test.skip(noCluster);
} else {
  describe.each(Object.entries(runtimes))('in %s', (_, open) => {
    describe.each([
      [1, 1],
      [3, 2],
    ])('%i peers', (count, copies) => {
      contractWith(open, () => start(count, copies), byRest);
    });
  });
}
