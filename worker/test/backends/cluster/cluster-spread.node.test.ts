/** Choice of the peers of a cluster that get new bytes, and of those that are read first. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { cidOf, sha256, type Cid } from '../../../../shared/ipfs/index.ts';
import { SealpinError } from '../../../../shared/errors.ts';
import { cluster } from '../../../backends/cluster/cluster.ts';
import type { PeerAddress } from '../../../backends/cluster/cluster-peers.ts';
import type { PinningService } from '../../../backends/contract.ts';
import { Failover } from '../../../backends/failover.ts';
import { sleep } from '../../../../shared/streams/timing.ts';
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

/** Has time pass by `vi.advanceTimersByTimeAsync` only. */
function stopClock(): void {
  vi.useFakeTimers();
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(limitOf);
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

/**
 * Three peers of which the first is off: packets to it are lost. The clock stands still.
 * @param block that the others have
 * @param statuses of a pin, one each time that they are asked, before it is pinned
 */
function silentFirst(
  block: Uint8Array = new Uint8Array(),
  statuses: string[] = [],
): { adapter(): PinningService; asked(): string[] } {
  stopClock();
  const pin = { name: 'sealpin:tested', replication_factor_min: 1, allocations: [] };
  const answers: Record<string, unknown> = {
    id: { id: 'p', cluster_peers: ['p'], version: '1.1.6', ipfs: {} },
    allocations: pin,
    pins: { ...pin, peer_map: { p: { status: 'pinned', error: '' } } },
    version: { Version: '0.43.1' },
    'block/get': new TextDecoder().decode(block),
    cat: 'bytes',
    'dag/import': { Stats: { BlockCount: 1 } },
  };
  const asked = new Set<string>();
  const fetched: typeof fetch = async (url, init) => {
    const { hostname, pathname } = new URL(url instanceof Request ? url.url : url);
    asked.add(hostname);
    if (hostname === 'p0')
      return await new Promise((_, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error), { once: true });
      });
    if (init?.body instanceof ReadableStream) await new Response(init.body).arrayBuffer();
    const path = pathname.replace(/^\/(api\/v0\/)?/, '');
    const status = init?.method === 'GET' && path.startsWith('pins') ? statuses.shift() : undefined;
    const answer = status ? { peer_map: { p: { status } } } : (answers[path] ?? answers[path.split('/')[0] ?? '']);
    return new Response(typeof answer === 'string' ? answer : JSON.stringify(answer));
  };
  const peers = ['http://p0', 'http://p1', 'http://p2'].map((url) => ({ url, ipfs: url }));
  const common = { id: 'c', headers: {}, ipfsHeaders: {}, replication: undefined, pinName: 'sealpin:tested' };
  return {
    adapter: () => cluster({ ...common, peers, fetch: fetched }),
    asked() {
      const all = [...asked].toSorted();
      asked.clear();
      return all;
    },
  };
}

/** The limit of a caller, by the clock of the test. */
function limitOf(ms: number): AbortSignal {
  const limit = new AbortController();
  setTimeout(() => limit.abort(new SealpinError('pinning_timeout', 'the limit of the caller')), ms);
  return limit.signal;
}

/** What a call gives within some seconds by the clock of the test. */
async function inTime<T>(call: Promise<T>, ms = 8_000): Promise<T> {
  const settled = Promise.allSettled([call]);
  await vi.advanceTimersByTimeAsync(ms);
  await settled;
  return await call;
}

type Call = (adapter: PinningService, cid: Cid, bytes: Uint8Array, signal: AbortSignal) => Promise<unknown>;
const calls: Record<string, Call> = {
  stat: (adapter, { text }, _, limit) => adapter.stat(text, limit),
  recover: async (adapter, { text }, _, limit) => await adapter.recover?.(text, limit),
  pin: (adapter, { text }, _, limit) => adapter.pin(text, { bytes: 5, beside: false, signal: limit }),
  block: async (adapter, { text }, _, limit) => await adapter.block?.(text, limit),
  read: (adapter, { text }, _, limit) => adapter.read(text, 0, 5, limit),
  import: async (adapter, cid, bytes, limit) => {
    const blocks = adapter.importBlocks(limit);
    await blocks.write(cid, bytes);
    await blocks.finish();
  },
};

/** The first block whose bytes go to a peer, and are looked for there. */
async function blockFor(peer: number): Promise<[Cid, Uint8Array]> {
  for (let n = 0; ; n += 1) {
    const [cid, bytes] = await blockOf(n);
    const [high = 0, low = 0] = cid.digest;
    if ((high * 256 + low) % 3 === peer) return [cid, bytes];
  }
}

test.each(Object.keys(calls))('%s succeeds within 8 s while the first peer is silent', async (name) => {
  const block = await blockFor(name === 'import' ? 0 : 1);
  const { adapter, asked } = silentFirst(block[1]);
  const call = async () => await calls[name]?.(adapter(), ...block, limitOf(8_000));
  await inTime(call());
  expect(asked()).toContain('p0');
  await inTime(call());
  expect(asked().filter((each) => each === 'p0')).toEqual([]);
});

test.each([
  ['an empty file', 0, []],
  ['a pin that takes its time', 5, Array.from({ length: 12 }, () => 'pinning')],
])('%s is not held up by a Kubo that is silent', async (_, bytes, statuses) => {
  const [cid, block] = await blockFor(1);
  const { adapter } = silentFirst(block, statuses);
  await inTime(adapter().pin(cid.text, { bytes, beside: false, signal: limitOf(30_000) }), 20_000);
});

test('a limit that passes is counted against the peer that was asked, and against no other', async () => {
  const { adapter, asked } = silentFirst();
  const [cid] = await blockFor(0);
  const stat = async (ms: number) => await adapter().stat(cid.text, limitOf(ms));
  const late = expect(stat(2_000)).rejects.toMatchObject({ code: 'pinning_timeout' });
  await vi.advanceTimersByTimeAsync(2_000);
  await late;
  expect(asked()).toEqual(['p0']);
  expect(await inTime(stat(2_000))).toEqual({ pin: 'ours' });
  expect(asked()).toEqual(['p1']);
});

test('peers that are all slow are given the time of the caller', async () => {
  stopClock();
  const failover = new Failover([0, 1, 2]);
  const ask = async () =>
    await failover.first(limitOf(8_000), async (peer, signal) => {
      await sleep(4_000, signal);
      return peer;
    });
  const late = expect(ask()).rejects.toMatchObject({ code: 'pinning_timeout' });
  await vi.advanceTimersByTimeAsync(8_000);
  await late;
  const again = ask();
  await vi.advanceTimersByTimeAsync(4_000);
  expect(await again).toBe(0);
});
