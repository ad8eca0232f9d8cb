/** A real IPFS Cluster, each peer with a Kubo: SEALPIN_CLUSTER, or what `.ci/cluster` built. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { kuboProgram, startKubo, type RealKubo } from '../../../../testkit/programs/kubo.ts';
import { first } from '../../../../testkit/present.ts';
import { programPath, startProgram } from '../../../../testkit/programs/programs.ts';
import type { Honest } from '../suite.ts';

const execute = promisify(execFile);

/** The path of the program; undefined where it, or Kubo, is missing. */
export function clusterProgram(): string | undefined {
  if (kuboProgram() === undefined) return undefined;
  return process.env['SEALPIN_CLUSTER'] || programPath('ipfs-cluster-service');
}

/** The note of tests that are skipped without it. */
export const noCluster = 'IPFS Cluster or Kubo is not installed: build them with .ci/cluster and .ci/kubo';

/** Time for which a silent peer counts as alive, in seconds; Cluster's own default is 30. */
const silenceSeconds = 4;

export type RealPeer = {
  /** The REST API. */
  url: string;
  /** The Pinning Service API. */
  psa: string;
  /** The proxy before its Kubo, which Sealpin does not use. */
  proxy: string;
  kubo: RealKubo;
  /** Kills the peer and its Kubo, as a power cut would. */
  kill(): Promise<void>;
  /** Starts both again, at the same addresses. */
  start(): Promise<void>;
};

export type RealCluster = {
  peers: RealPeer[];
  /** `user:password`, for the REST and the Pinning Service APIs. */
  token: string;
  /** Sends a request to the first peer's REST API, and resolves with its JSON. */
  ask(method: string, path: string): Promise<unknown>;
  /** The recursive pins of each Kubo. */
  pins(): Promise<string[][]>;
  close(): Promise<void>;
};

type PeerFiles = { dir: string; id: string; service: ServiceFile; kubo: RealKubo };

/** Part of `service.json` that is changed here. */
type ServiceFile = {
  cluster: Record<string, unknown> & { listen_multiaddress: [string, ...string[]] };
  consensus: { crdt: Record<string, unknown> };
  api: {
    restapi: { http_listen_multiaddress: string; basic_auth_credentials: unknown };
    pinsvcapi: { http_listen_multiaddress: string; basic_auth_credentials: unknown };
    ipfsproxy: Record<string, unknown> & { listen_multiaddress: string };
  };
  ipfs_connector: { ipfshttp: Record<string, unknown> };
  monitor: { pubsubmon: Record<string, unknown> };
  informer: Record<string, Record<string, unknown>>;
  datastore: { pebble: { pebble_options: Record<string, unknown> } };
};

/**
 * Starts peers that trust each other and nobody else (CRDT), without a bootstrap outside.
 * @param count of peers
 */
export async function startCluster(count: number): Promise<RealCluster> {
  const program = clusterProgram();
  if (program === undefined) throw new Error(noCluster);
  const token = 'sealpin:password-of-the-tests';
  const kubos = await Promise.all(Array.from({ length: count }, startFixedKubo));
  const all = await initialize(program, kubos, token);
  const peers = await Promise.all(all.map((files) => startPeer(program, files)));
  const headers = { authorization: `Basic ${Buffer.from(token).toString('base64')}` };
  const ask = async (method: string, path: string): Promise<unknown> => {
    const response = await fetch(`${peers[0]?.url}${path}`, { method, headers });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  };
  await until(async () => ((await ask('GET', '/id')) as { cluster_peers: string[] }).cluster_peers.length === count);
  // Peers are chosen for a pin by what each tells the others.
  for (const metric of ['freespace', 'tag:group'])
    await until(async () => ((await ask('GET', `/monitor/metrics/${metric}`)) as unknown[]).length === count);
  await connect(kubos);
  return {
    peers,
    token,
    ask,
    pins: async () =>
      await Promise.all(
        kubos.map(async (kubo) =>
          (await kubo.ipfs('pin', 'ls', '--type=recursive', '--quiet')).split('\n').filter((line) => line !== ''),
        ),
      ),
    async close() {
      await Promise.all(peers.map((peer) => peer.kill()));
      await Promise.all([
        ...kubos.map((kubo) => kubo.close()),
        ...all.map(({ dir }) => rm(dir, { recursive: true, force: true })),
      ]);
    },
  };
}

/** A Kubo that Cluster can use, which sends no credentials, and whose addresses stay the same. */
async function startFixedKubo(): Promise<RealKubo> {
  const kubo = await startKubo({ online: true, isOpen: true });
  const { Addresses } = JSON.parse(await kubo.ipfs('id')) as { Addresses: string[] };
  const listening = Addresses.filter((each) => each.startsWith('/ip4/127.0.0.1/tcp/')).map((each) =>
    each.replace(/\/p2p\/.*/, ''),
  );
  await kubo.ipfs('config', '--json', 'Addresses.Swarm', JSON.stringify(listening));
  await kubo.ipfs('config', 'Addresses.API', multiaddress(kubo.url));
  return kubo;
}

/** Connects each with all before it; Cluster does the same only later. */
async function connect(kubos: readonly RealKubo[]): Promise<void> {
  for (const [index, kubo] of kubos.entries()) {
    const { Addresses } = JSON.parse(await kubo.ipfs('id')) as { Addresses: string[] };
    await Promise.all(kubos.slice(0, index).map((other) => other.ipfs('swarm', 'connect', Addresses[0] ?? '')));
  }
}

function multiaddress(url: string): string {
  return `/ip4/127.0.0.1/tcp/${new URL(url).port}`;
}

/** Writes the configuration of every peer. */
async function initialize(program: string, kubos: readonly RealKubo[], token: string): Promise<PeerFiles[]> {
  const secret = randomBytes(32).toString('hex');
  const all = await Promise.all(
    kubos.map(async (kubo): Promise<PeerFiles> => {
      const dir = await mkdtemp(join(tmpdir(), 'sealpin-cluster-'));
      const env = { ...environment(dir), CLUSTER_SECRET: secret };
      await execute(program, ['init', '--consensus', 'crdt', '--randomports'], { env });
      const { id } = JSON.parse(await readFile(join(dir, 'identity.json'), 'utf8')) as { id: string };
      return { dir, id, kubo, service: JSON.parse(await readFile(join(dir, 'service.json'), 'utf8')) as ServiceFile };
    }),
  );
  for (const { service } of all) {
    // The first is TCP.
    service.cluster.listen_multiaddress = [service.cluster.listen_multiaddress[0].replace('/0.0.0.0/', '/127.0.0.1/')];
  }
  const addresses = all.map(({ id, service }) => `${service.cluster.listen_multiaddress[0]}/p2p/${id}`);
  const [user = '', password] = token.split(':');
  await Promise.all(
    all.map(async ({ dir, service, kubo }, index) => {
      const { cluster, consensus, api, ipfs_connector: connector, monitor, informer, datastore } = service;
      Object.assign(cluster, {
        peer_addresses: addresses.filter((_, other) => other !== index),
        mdns_interval: '0s',
        monitor_ping_interval: '1s',
      });
      consensus.crdt['trusted_peers'] = all.map(({ id }) => id);
      for (const each of [api.restapi, api.pinsvcapi]) each.basic_auth_credentials = { [user]: password };
      const node = multiaddress(kubo.url);
      api.ipfsproxy['node_multiaddress'] = node;
      Object.assign(connector.ipfshttp, { node_multiaddress: node, connect_swarms_delay: '1s' });
      monitor.pubsubmon['check_interval'] = '1s';
      for (const each of Object.values(informer)) each['metric_ttl'] = `${silenceSeconds}s`;
      Object.assign(datastore.pebble.pebble_options, { cache_size_bytes: 8_388_608, mem_table_size: 4_194_304 });
      await writeFile(join(dir, 'service.json'), JSON.stringify(service));
    }),
  );
  return all;
}

function environment(dir: string): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: dir, IPFS_CLUSTER_PATH: dir };
}

async function startPeer(program: string, { dir, service, kubo }: PeerFiles): Promise<RealPeer> {
  const addressOf = ({ http_listen_multiaddress: address }: { http_listen_multiaddress: string }) =>
    `http://127.0.0.1:${address.split('/').at(-1)}`;
  const ready = (output: string) => output.includes('IPFS Cluster is READY');
  const start = () => startProgram(program, ['daemon'], { env: environment(dir), ready });
  let daemon = await start();
  return {
    url: addressOf(service.api.restapi),
    psa: addressOf(service.api.pinsvcapi),
    proxy: addressOf({ http_listen_multiaddress: service.api.ipfsproxy.listen_multiaddress }),
    kubo,
    async kill() {
      await Promise.all([daemon.stop('SIGKILL'), kubo.kill()]);
    },
    async start() {
      await kubo.start();
      daemon = await start();
    },
  };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 60_000; ;) {
    // A peer that starts refuses connections.
    if (await holds().catch((cause: unknown) => (cause instanceof TypeError ? false : Promise.reject(cause as Error))))
      return;
    if (Date.now() > deadline) throw new Error('the cluster is not ready after 60 s');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A cluster as what scenarios and services are pointed at. */
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
