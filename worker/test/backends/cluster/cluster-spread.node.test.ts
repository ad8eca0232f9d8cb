/** Choice of the peers of a cluster that get new bytes, and of those that are read first. */
import { expect, onTestFinished, test } from 'vitest';
import { cidOf, sha256, type Cid } from '../../../../shared/ipfs/index.ts';
import { cluster } from '../../../backends/cluster/cluster.ts';
import type { PeerAddress } from '../../../backends/cluster/cluster-peers.ts';
import type { PinningService } from '../../../backends/contract.ts';
import { afterBody, fake } from '../runtimes.ts';
import { itemOf } from '../../../../testkit/present.ts';

const signal = new AbortController().signal;

type FakePeer = PeerAddress & {
  /** The requests that it got, without `GET id` and `POST api/v0/version`. */
  seen: string[];
  /** Faults that it answers with: a status and a body; `down`: nothing works. */
  faults: Map<string, [number, unknown]>;
  isDown: boolean;
};

/** Peers that hold whatever is asked of them; what is pinned is allocated to `holder`. */
async function fakePeers(count: number, holder = 0): Promise<FakePeer[]> {
  const ids = Array.from({ length: count }, (_, index) => `peer-${index}`);
  const pin = { name: 'sealpin:tested', replication_factor_min: 1, allocations: [ids[holder]] };
  return await Promise.all(
    ids.map(async (id) => {
      const peer: FakePeer = { url: '', ipfs: '', seen: [], faults: new Map(), isDown: false };
      const answers: Record<string, unknown> = {
        'GET id': { id, cluster_peers: ids, version: '1.1.6', ipfs: { error: '' } },
        'GET allocations': pin,
        'POST pins': pin,
        'POST version': { Version: '0.43.1' },
        'POST import': { Stats: { BlockCount: 1 } },
        'POST cat': 'bytes',
      };
      const { url, close } = await fake(
        afterBody((request, response) => {
          if (peer.isDown) {
            response.destroy();
            return;
          }
          const path = (request.url ?? '').split('?')[0]?.replace(/^\/api\/v0\//, '/') ?? '';
          const [, first = '', second = ''] = path.split('/');
          const command = `${request.method} ${second === 'import' || second === 'recover' ? second : first}`;
          if (command !== 'GET id' && command !== 'POST version') peer.seen.push(command);
          const [status, body] = peer.faults.get(command) ?? [200, answers[command] ?? {}];
          response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
        }),
      );
      onTestFinished(close);
      return Object.assign(peer, { url, ipfs: url });
    }),
  );
}

/** Each request of the Worker makes an adapter of its own, with the same list. */
function adapterOf(peers: readonly PeerAddress[]): PinningService {
  const replication = { min: 1, max: 1 };
  return cluster({ id: 'c', peers, headers: {}, ipfsHeaders: {}, replication, pinName: 'sealpin:tested', fetch });
}

const blockOf = async (n: number): Promise<[Cid, Uint8Array]> => {
  const bytes = new TextEncoder().encode(`block ${n}`);
  return [cidOf('raw', await sha256(bytes)), bytes];
};

async function store(peers: readonly PeerAddress[], n: number): Promise<void> {
  const blocks = adapterOf(peers).importBlocks(signal);
  await blocks.write(...(await blockOf(n)));
  await blocks.finish();
}

const imports = (peers: readonly FakePeer[]) =>
  peers.map(({ seen }) => seen.filter((command) => command === 'POST import').length);
const numbers = Array.from({ length: 48 }, (_, n) => n);
const full: [number, unknown] = [500, { Message: 'write: no space left on device', Code: 0, Type: 'error' }];

test('each peer takes its share of new bytes, and the same bytes go to the same peer', async () => {
  const peers = await fakePeers(3);
  for (const n of numbers) await store(peers, n);
  const shares = imports(peers);
  for (const share of shares) expect(share).toBeGreaterThan(5);
  for (const n of numbers) await store(peers, n);
  expect(imports(peers)).toEqual(shares.map((share) => 2 * share));
});

test('a peer whose disk is full refuses once, and then others take what it would have got', async () => {
  const peers = await fakePeers(3);
  peers[0]?.faults.set('POST import', full);
  const refusals: unknown[] = [];
  for (const n of numbers) await store(peers, n).catch((error: unknown) => refusals.push(error));
  expect(refusals).toEqual([expect.objectContaining({ code: 'pinning_unavailable', retryAfterSeconds: 1 })]);
  expect(imports(peers)[0]).toBe(1);
  for (const peer of peers) peer.faults.set('POST import', full);
  const codes: string[] = [];
  for (const n of [0, 1, 2, 3]) await store(peers, n).catch((error: { code: string }) => codes.push(error.code));
  expect(codes.at(-1)).toBe('disk_full');
});

test('a read begins at the peer that is to hold the file, and continues at others where it is away', async () => {
  const peers = await fakePeers(3, 2);
  const read = async (n: number) => {
    const [cid] = await blockOf(n);
    return await new Response(await adapterOf(peers).read(cid.text, 0, 5, signal)).text();
  };
  const reads = () => peers.map(({ seen }) => seen.filter((command) => command === 'POST cat').length);
  for (const n of numbers) expect(await read(n)).toBe('bytes');
  expect(reads()).toEqual([0, 0, numbers.length]);
  itemOf(peers, 2).isDown = true;
  for (const n of numbers) expect(await read(n)).toBe('bytes');
  for (const count of reads().slice(0, 2)) expect(count).toBeGreaterThan(5);
});

test('health counts the peers that answer, fails at too few, and has pins tried again when one is back', async () => {
  const peers = await fakePeers(3);
  const ping = () => adapterOf(peers).ping(signal);
  const recoveries = () => peers.flatMap(({ seen }) => seen).filter((command) => command === 'POST recover').length;
  expect(await ping()).toEqual({ version: '1.1.6', peers: { answering: 3, listed: 3 } });
  itemOf(peers, 0).isDown = true;
  expect(await ping()).toEqual({ version: '1.1.6', peers: { answering: 2, listed: 3 } });
  expect(recoveries()).toBe(0);
  itemOf(peers, 0).isDown = false;
  for (let round = 0; round < 2; round += 1) await ping();
  expect(recoveries()).toBe(1);
  for (const peer of peers) peer.isDown = true;
  await expect(ping()).rejects.toMatchObject({ code: 'pinning_unavailable' });
});

test('a peer that does not reach its Kubo is unavailable, to be asked again', async () => {
  const peers = await fakePeers(1);
  const message = 'Post "http://127.0.0.1:5001/api/v0/pin/ls": dial tcp 127.0.0.1:5001: connect: connection refused';
  peers[0]?.faults.set('GET allocations', [500, { code: 500, message }]);
  const [cid] = await blockOf(1);
  const error = { code: 'pinning_unavailable', retryAfterSeconds: 5 };
  await expect(adapterOf(peers).stat(cid.text, signal)).rejects.toMatchObject(error);
});
