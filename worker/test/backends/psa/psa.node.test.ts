/** The adapter for the Pinning Service API, before real services that fetch files from a Kubo. */
import { describe, test } from 'vitest';
import { clusterProgram, noCluster, startCluster } from '../cluster/real-cluster.ts';
import { kuboProgram, startKubo } from '../../../../testkit/programs/kubo.ts';
import { psa } from '../../../backends/psa/psa.ts';
import { isHeliaServerInstalled, noHeliaServer, startHeliaServer } from '../gateway/helia-server.ts';
import { hostedContract, type HonestService } from '../hosted-suite.ts';
import { present } from '../../../../testkit/present.ts';
import { long } from '../../../../testkit/long-run.ts';

/** Starts a node from which services fetch files, with what they must know of it. */
async function startOrigin() {
  const kubo = await startKubo({ online: true });
  const { Addresses } = JSON.parse(await kubo.ipfs('id')) as { Addresses: string[] };
  return {
    kubo,
    origins: Addresses.filter((each) => each.startsWith('/ip4/127.0.0.1/tcp/')),
    async offer(bytes: Buffer) {
      const form = new FormData();
      form.append('file', new Blob([new Uint8Array(bytes)]));
      const query = 'cid-version=1&raw-leaves=true&chunker=size-1048576';
      const headers = { Authorization: `Bearer ${kubo.token}` };
      const response = await fetch(`${kubo.url}/api/v0/add?${query}`, { method: 'POST', headers, body: form });
      const { Hash } = await response.json<{ Hash: string }>();
      return { cid: Hash, sources: [], onMismatch: () => undefined };
    },
  };
}

async function startClusterApi(): Promise<HonestService> {
  const [cluster, origin] = await Promise.all([startCluster(1), startOrigin()]);
  const authorization = `Basic ${Buffer.from(cluster.token).toString('base64')}`;
  const [peer] = cluster.peers;
  return {
    as: (pinName) =>
      psa({
        id: 'tested',
        url: present(peer).psa,
        headers: { authorization },
        origins: origin.origins,
        pinName,
        fetch,
      }),
    offer: origin.offer,
    async names(cid) {
      const answer = await fetch(`${present(peer).url}/allocations/${cid}`, { headers: { authorization } });
      return answer.status === 404 ? [] : [(await answer.json<{ name: string }>()).name];
    },
    async close() {
      await Promise.all([cluster.close(), origin.kubo.close()]);
    },
  };
}

async function startHeliaApi(): Promise<HonestService> {
  const [server, origin] = await Promise.all([startHeliaServer(), startOrigin()]);
  const headers = { authorization: `Bearer ${server.token}` };
  return {
    as: (pinName) => psa({ id: 'tested', url: server.url, headers, origins: origin.origins, pinName, fetch }),
    offer: origin.offer,
    async names(cid) {
      const { results } = await (
        await fetch(`${server.url}/pins?limit=1000`, { headers })
      ).json<{ results: { pin: { cid: string; name: string } }[] }>();
      return results.filter(({ pin }) => pin.cid === cid).map(({ pin }) => pin.name);
    },
    async close() {
      await Promise.all([server.close(), origin.kubo.close()]);
    },
  };
}

if (!isHeliaServerInstalled || kuboProgram() === undefined) test.skip(noHeliaServer);
else if (!long) test.skip('the server of Helia: in the long form');
else describe('the server of Helia', () => hostedContract(startHeliaApi, { second: 'pending', others: 101 }));

if (clusterProgram() === undefined) test.skip(noCluster);
else if (!long) test.skip('IPFS Cluster: in the long form');
else describe('IPFS Cluster', () => hostedContract(startClusterApi, { second: 'failed' }));
