/** The service for tests: the Worker as deployed, in workerd, in front of a real backend. */
import type { ServerResponse } from 'node:http';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleGuard, guardFlags } from '../cli/local/code/bundle.ts';
import { startLoopback } from '../cli/local/front/loopback-front.ts';
import { serviceState } from '../cli/local/miniflare.ts';
import { startNode, type RunningNode } from '../cli/local/node/server.ts';
import { freePort } from '../cli/local/port.ts';
import type { NewAccountResponse } from '../shared/api.ts';
import { bundledOnce, directoryOfRun } from './run-cache.ts';
import { keysOf } from './object-stores/s3-requests.ts';
import { startVersitygw, type Versitygw } from './object-stores/versitygw.ts';
import { bundledModule, startWorker, type RunningWorker } from './workerd.ts';

/** The operator’s token of every service that tests start. */
export const adminToken = 'operator-of-the-tests';
/** The token of its metrics. */
export const metricsToken = 'metrics-of-the-tests';
/** The token that a restoration needs besides. */
export const restoreToken = 'restoring-of-the-tests';
/** The token of its IPFS node. */
export const rpcToken = 'rpc-token-of-the-tests';

/** Options of the service under test. */
export type ServiceOptions = {
  /** The module to run, as a path from the root of the repository; `worker/index.ts` by default. */
  entry?: string;
  /** Variables and secrets, besides the usual ones or instead of them. */
  vars?: Record<string, string>;
  /** The directory of the state; by default a temporary one, removed by `close`. */
  dir?: string;
  /** An IPFS node that already runs; `close` leaves it running. */
  node?: Pick<RunningNode, 'url' | 'close'>;
  /** A service whose IPFS node, or bucket, this one has as well; R2 has none that two share. */
  beside?: Service;
  /**
   * Maps the URL of the IPFS node, or of the S3 API, to the one that the Worker uses: a proxy
   * between them, for example. For R2 it gives that of a gate (`worker/test/bucket-gate.ts`).
   */
  through?(url: string): Promise<string> | string;
  ratelimits?: Record<string, { namespace_id: string; simple: { limit: number; period: 10 | 60 } }>;
};

/** A running service. */
export type Service = {
  /** Of the Worker itself, past Miniflare's own entry Worker, which recompresses responses. */
  url: string;
  /** The URL of the IPFS node behind it. */
  node: string;
  rpcToken: string;
  dir: string;
  /** The lines that the Worker logged. */
  log: string[];
  /** The process of workerd. */
  pid: number;
  miniflare: RunningWorker['miniflare'];
  /** The bucket that takes the place of the IPFS node, past the Worker. */
  bucket?: { keys(): Promise<string[]>; read(key: string): Promise<Buffer>; lose(key: string): Promise<void> };
  /** The S3 API that it is behind. */
  gateway?: Versitygw;
  /** Creates an account as the operator. */
  account(): Promise<NewAccountResponse>;
  /** Kills workerd, as a power cut would. */
  kill(): Promise<void>;
  close(): Promise<void>;
};

/**
 * With `SEALPIN_TEST_GUARD=1` the Worker runs behind the guard of `sealpin start`, and must behave
 * the same, but for pages of origins that the guard does not know: it refuses those.
 */
export const guarded = process.env['SEALPIN_TEST_GUARD'] === '1';

/** With `SEALPIN_TEST_BACKEND=r2` or `s3`, files go to a bucket instead of the IPFS node. */
export const backendKind = process.env['SEALPIN_TEST_BACKEND'] ?? 'kubo';

/** The Worker as `wrangler deploy` sends it, and what runs in front of it. */
async function modulesOf(entry: string) {
  const contents = await bundledModule(entry);
  const worker = { type: 'ESModule', path: '/worker.js', contents } as const;
  if (!guarded) return [worker];
  const guard = await bundledOnce('guard', bundleGuard);
  return [{ type: 'ESModule', path: '/guard.js', contents: guard } as const, worker];
}

/** The entry of the backend: the node, or what takes its place. @param url of either */
function entryOf(url: string, gateway: Versitygw | undefined): object {
  if (gateway !== undefined) {
    const { bucket, region } = gateway;
    return { id: 'node', type: 's3', url, region, bucket, keySecret: 'S3_KEY', secretSecret: 'S3_SECRET' };
  }
  if (backendKind === 'r2') return { id: 'node', type: 'r2', binding: 'BUCKET' };
  return { id: 'node', type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' };
}

/** The settings of a service. @param backend URL of its backend */
function bindingsOf(
  vars: Readonly<Record<string, string>>,
  port: number,
  { backend, gateway }: { backend: string; gateway: Versitygw | undefined },
): Record<string, string> {
  return {
    ADMIN_TOKEN: adminToken,
    METRICS_TOKEN: metricsToken,
    RESTORE_TOKEN: restoreToken,
    KUBO_TOKEN: rpcToken,
    ...(gateway && { S3_KEY: gateway.keyId, S3_SECRET: gateway.secret }),
    ...(backendKind === 'r2' && backend !== '' && { BUCKET_GATE: backend }),
    ...(vars['BACKENDS'] === undefined && { PINNING_SERVICES: JSON.stringify([entryOf(backend, gateway)]) }),
    RECOVERY_DAYS: '0',
    ...vars,
    ...(guarded && {
      LOCAL_PORT: String(port),
      LOCAL_CONTROL: rpcToken,
      LOCAL_ORIGINS: vars['CORS_ORIGINS'] ?? '',
    }),
  };
}

const keptGateways = new Map<string, Promise<Versitygw>>();

/** The S3 API of a service; in a directory that is kept, it lasts as long as the process. */
async function gatewayOf({ beside, dir }: ServiceOptions): Promise<Versitygw | undefined> {
  if (backendKind !== 's3') return undefined;
  if (beside?.gateway !== undefined) return beside.gateway;
  if (dir === undefined) return await startVersitygw();
  const kept = keptGateways.get(dir) ?? startVersitygw({ dir });
  keptGateways.set(dir, kept);
  return await kept;
}

function bucketOf(gateway: Versitygw | undefined, miniflare: RunningWorker['miniflare']): Service['bucket'] {
  if (gateway !== undefined)
    return {
      keys: () => keysOf(gateway),
      read: (key) => readFile(join(gateway.folder, key)),
      lose: (key) => gateway.lose(key),
    };
  if (backendKind !== 'r2') return undefined;
  const bucket = () => miniflare.getR2Bucket('BUCKET');
  return {
    keys: async () => (await (await bucket()).list()).objects.map(({ key }) => key),
    async read(key) {
      const object = await (await bucket()).get(key);
      if (object === null) throw new Error(`there is no ${key}`);
      return Buffer.from(await object.arrayBuffer());
    },
    lose: async (key) => await (await bucket()).delete(key),
  };
}

/** Creates an account as the operator. */
async function newAccount(url: string): Promise<NewAccountResponse> {
  const response = await fetch(`${url}/v1/operator/accounts`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ label: 'test' }),
  });
  if (response.status !== 201) throw new Error(`no account was created: ${response.status} ${await response.text()}`);
  return (await response.json()) as NewAccountResponse;
}

/** Starts the service and its IPFS node on free ports of 127.0.0.1. */
export async function startService(o: ServiceOptions = {}): Promise<Service> {
  const dir = o.dir ?? (await mkdtemp(join(tmpdir(), 'sealpin-service-')));
  const shared = o.node ?? (o.beside && { url: o.beside.node, close: async () => undefined });
  const node: Pick<RunningNode, 'url' | 'close'> =
    shared ?? (await startNode({ dir: join(dir, 'ipfs'), token: rpcToken }));
  const gateway = await gatewayOf(o);
  const own = backendKind === 'r2' ? '' : (gateway ?? node).url;
  const backend = (await o.through?.(own)) ?? own;
  const log: string[] = [];
  const modules = await modulesOf(o.entry ?? 'worker/index.ts');
  const front = guarded && backendKind === 'kubo' && isAlone(o) ? await freePort(0) : undefined;
  const worker = await startWorker((port) => ({
    ...serviceState(join(dir, 'state')),
    r2Buckets: ['BUCKET'],
    handleStructuredLogs: ({ message }: { message: string }) => void log.push(message),
    modules,
    ...(guarded && { compatibilityFlags: guardFlags }),
    ...(o.ratelimits === undefined ? {} : { ratelimits: o.ratelimits }),
    bindings: bindingsOf(o.vars ?? {}, front ?? port, { backend, gateway }),
  }));
  const listener = front === undefined ? undefined : await frontOf(front, worker.url, node as RunningNode);
  const url = front === undefined ? worker.url : `http://127.0.0.1:${front}`;
  const { pid, miniflare } = worker;
  const bucket = bucketOf(gateway, miniflare);
  return {
    url,
    node: node.url,
    rpcToken,
    dir,
    log,
    pid,
    miniflare,
    ...(bucket && { bucket }),
    ...(gateway && { gateway }),
    account: () => newAccount(url),
    async kill() {
      process.kill(pid, 'SIGKILL');
      await miniflare.dispose();
    },
    async close() {
      await listener?.close();
      await miniflare.dispose();
      if (o.dir === undefined && o.beside === undefined) await gateway?.close();
      if (shared === undefined) await node.close();
      if (o.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Tells whether nothing but the service knows its node, which is the only backend. */
function isAlone({ node, beside, through, vars }: ServiceOptions): boolean {
  return [node, beside, through, vars?.['BACKENDS'], vars?.['PINNING_SERVICES']].every((each) => each === undefined);
}

/** The listener of `sealpin start`, in front of the guard. */
function frontOf(port: number, worker: string, node: RunningNode): ReturnType<typeof startLoopback> {
  const direct = {
    ...node,
    giving: new Set<ServerResponse>(),
    header: async () => ['sealpin-handover', rpcToken] as const,
  };
  return startLoopback({ port, path: Number(new URL(worker).port), direct, log: () => undefined });
}

/**
 * Headers by which one request to `worker/test/clock.ts`, and so to `sharedService`, meets other
 * settings. Objects keep theirs, so it is for those that routes alone read.
 */
export const withSettings = (vars: Record<string, unknown>): Record<string, string> => ({
  'Sealpin-Test-Settings': JSON.stringify(vars),
});

let shared: Promise<Service> | undefined;

/**
 * A service for the tests that look at nothing but their own accounts: all files of a process share
 * it, and it ends with the process. Its objects are those of `worker/test/clock.ts`, with a clock
 * for each account. Nobody closes it, and nobody may expect that he alone stores, pins or logs
 * something; such a file starts one of its own.
 */
export function sharedService(): Promise<Service> {
  // Vitest ends its processes by this signal, and workerd ends by the event 'exit', which Node
  // would not send for it.
  if (shared === undefined) process.once('SIGTERM', () => process.exit());
  shared ??= directoryOfRun().then((dir) => startService({ entry: 'worker/test/clock.ts', dir }));
  return shared;
}
