/** The adapter before a real IPFS Cluster. */
import { describe, test } from 'vitest';
import { clusterProgram, type HonestCluster, noCluster, startHonestCluster } from './real-cluster.ts';
import { runtimes } from '../runtimes.ts';
import { contractWith, type Others } from '../suite.ts';
import { present } from '../../../../testkit/present.ts';
import { long } from '../../../../testkit/long-run.ts';

/** Others, at the same cluster. */
const others: Others<HonestCluster> = {
  collect: ({ real }) => Promise.all(real.peers.map(({ kubo }) => kubo.ipfs('repo', 'gc'))),
  pin: ({ real }, cid, name) => real.ask('POST', `/pins/${cid}?name=${encodeURIComponent(name)}`),
  unpin: ({ real }, cid) => real.ask('DELETE', `/pins/${cid}`),
};

if (clusterProgram() === undefined) {
  test.skip(noCluster);
} else {
  describe.runIf(long)('one peer, in workerd', () =>
    contractWith(present(runtimes['workerd']), () => startHonestCluster(1, 1), others),
  );

  describe.runIf(long).each(Object.entries(runtimes))('in %s', (_, open) => {
    describe('three peers, two copies', () => contractWith(open, () => startHonestCluster(3, 2), others));
  });
}
