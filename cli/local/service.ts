/**
 * The life of the local service: the embedded IPFS node, workerd with the Worker, and the socket
 * that controls them.
 */
import { getCompileCacheDir } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { SealpinError } from '../../shared/errors.ts';
import { CleanupStack, once, serialize } from './cleanup-stack.ts';
import { type Controls, type Homes, listenForControl } from './control.ts';
import { eraseDeleted, eraseLive, hasObject, prepareDirectory } from './data-directory.ts';
import { openAccount } from './default-account.ts';
import {
  askHomes,
  chooseKubo,
  embeddedId,
  homesOf,
  type Kubo,
  type KuboChoice,
  kuboId,
  type KuboWish,
  rememberKubo,
} from './external-kubo.ts';
import type { Workerd } from './miniflare.ts';
import { isFull } from './node/reserve.ts';
import { startNode, type RunningNode } from './node/server.ts';
import { freePort, onFreePort, untilReleased } from './port.ts';
import { markProcess, type ProcessMark } from './process.ts';
import { takeSnapshot } from './snapshot/held-snapshot.ts';
import { localPaths, saveRun, type Secrets } from './state.ts';
import { rebuildWorkerCode, workerCode } from './code/worker-code.ts';

/** Timeout of `rebuild` for running requests before it swaps the Worker under them. */
const drainMs = 10_000;

/** Timeout of a question for the address while a crashed workerd is replaced. */
const restartMs = 5_000;

export type StartOptions = {
  /** Absolute; exists. */
  readonly dataDir: string;
  /** On 127.0.0.1; 0: any free one. */
  readonly port: number;
  /** The Kubo that takes new bytes, before the embedded node. */
  readonly kubo: KuboWish;
  /** Other origins, such as `http://localhost:3000`, whose pages may call. */
  readonly origins?: readonly string[];
  /** `BACKUP_DAYS`: how long backups of the service are kept; undefined: unknown. */
  readonly backupDays?: number | undefined;
  /** Gets each line that the Worker logs; its own lines are JSON. */
  log(line: string): void;
};

/** A running local service. */
export type StartedService = {
  readonly url: string;
  readonly account: string;
  readonly apiKey: string;
  readonly homes: Homes;
  /** Resolves when the service has stopped; rejects when it stopped because of a failure. */
  readonly stopped: Promise<void>;
  stop(): Promise<void>;
};

/**
 * Starts the service of a data directory; resolves when it takes requests.
 * @throws already_running, port_in_use, config_invalid, build_failed, misconfigured, disk_full, the
 * codes of `chooseKubo`
 */
export async function startService(options: StartOptions): Promise<StartedService> {
  const cleanup = new CleanupStack();
  try {
    return await start(options, cleanup);
  } catch (error) {
    await cleanup.run().catch(() => undefined); // the first error is the one to report
    if (!isFull(error)) throw error;
    throw new SealpinError(
      'disk_full',
      `the disk of ${options.dataDir} is full: the service needs some room to start`,
      { cause: error },
    );
  }
}

async function start(options: StartOptions, cleanup: CleanupStack): Promise<StartedService> {
  const { dataDir } = options;
  const paths = localPaths(dataDir);
  const { secrets, stateDir, crashed, log } = await prepareDirectory(options, cleanup);
  const whenReleased = crashed ? untilReleased : <T>(listen: () => Promise<T>) => listen();
  if (options.port !== 0) await whenReleased(() => freePort(options.port)); // reported before anything is done
  const choice = await chooseKubo(dataDir, options.kubo);
  await rememberKubo(dataDir, choice);
  // NODE_COMPILE_CACHE moves what V8 compiled and what is built here
  const cacheDir = getCompileCacheDir() ?? paths.cache;
  // If it must be built, the compiler works in a process of its own while this one reads Miniflare.
  const [code, { startWorkerd }] = await Promise.all([workerCode(cacheDir), import('./miniflare.ts')]);
  const { node, recovered } = await nodeOf(paths.ipfs, secrets.rpcToken, log);
  cleanup.add(() => node.close());

  const run = new RunFile(dataDir);
  cleanup.add(() => saveRun(dataDir, undefined));
  const { workerd, url } = await onFreePort(options.port, async (port) => {
    const url = `http://127.0.0.1:${port}`;
    await run.write(url);
    const workerd = await startWorkerd({
      stateDir,
      tmpDir: paths.tmp,
      port,
      code,
      log,
      origins: options.origins ?? [],
      exists: (className, objectId) => hasObject(stateDir, className, objectId),
      erase: (className, objectId) => eraseLive(stateDir, className, objectId),
      onRestart: () => (run.workerd === undefined ? undefined : run.write(url)),
      vars: workerVars(secrets, node.url, choice, options),
    });
    return { workerd, url };
  });
  cleanup.add(() => eraseDeleted(stateDir));
  cleanup.add(() => workerd.close());
  run.workerd = workerd;
  await run.write(url);

  const { account, apiKey } = await openAccount(url, dataDir, secrets);
  const { stop, stopped } = stopOf(cleanup, workerd, url);
  const about = { url, startedAt: run.startedAt, nodeUrl: node.url, recovered, choice, workerd, cacheDir, stop };
  const snapshot: Controls['snapshot'] = ({ known }, closed) =>
    takeSnapshot({ dataDir, stateDir, url, node, ...secrets }, known, closed);
  const verify: Controls['verify'] = ({ position }) => node.verify(position);
  const acts = { verify, snapshot, writeRunFile: (url: string) => run.write(url) };
  const socket = await listenForControl(paths.control, controlsOf({ ...about, ...acts }));
  cleanup.add(() => socket.close());
  return {
    url,
    account,
    apiKey,
    homes: homesOf(choice),
    stopped,
    stop: async () => {
      await stop();
      await stopped;
    },
  };
}

/** What other commands find this process by. */
class RunFile {
  readonly startedAt = new Date().toISOString();
  /** Set once it takes requests. */
  workerd: Workerd | undefined;
  readonly #dataDir: string;
  readonly #service: ProcessMark;

  constructor(dataDir: string) {
    const service = markProcess(process.pid);
    if (service === undefined) throw new SealpinError('internal', 'this process cannot be found in the process table');
    this.#dataDir = dataDir;
    this.#service = service;
  }

  async write(url: string): Promise<void> {
    const workerd = this.workerd?.processes ?? [];
    await saveRun(this.#dataDir, { v: 1, service: this.#service, workerd, url, startedAt: this.startedAt });
  }
}

async function nodeOf(
  dir: string,
  token: string,
  log: (line: string) => void,
): Promise<{ node: RunningNode; recovered: string[] }> {
  const recovered: string[] = [];
  const note = (sentence: string): void => {
    recovered.push(`${sentence} (in ${dir})`);
    log(JSON.stringify({ event: 'node.recovered', detail: recovered.at(-1) }));
  };
  return { node: await startNode({ dir, token, note }), recovered };
}

/**
 * Makes what stops the service once, for whatever reason; `stopped` rejects where that is a
 * failure.
 */
function stopOf(
  cleanup: CleanupStack,
  workerd: Workerd,
  url: string,
): { stop: (why?: SealpinError) => Promise<void>; stopped: Promise<void> } {
  const { promise: stopped, resolve: resolveStopped, reject: rejectStopped } = Promise.withResolvers<void>();
  const stop = once((why?: SealpinError) =>
    cleanup.run().then(() => (why === undefined ? resolveStopped() : rejectStopped(why)), rejectStopped),
  );
  void workerd.failed.then((cause) => {
    const detail = `the runtime crashed and could not be restarted at ${url}: the service has stopped`;
    return stop(new SealpinError('service_unreachable', detail, { hint: 'start it again: sealpin start', cause }));
  });
  return { stop, stopped };
}

/**
 * Variables and secrets of the Worker, as `wrangler.toml` and its secrets give them to a deployed
 * one.
 */
function workerVars(
  secrets: Secrets,
  nodeUrl: string,
  { kubo }: KuboChoice,
  { origins = [], backupDays }: StartOptions,
): Record<string, string> {
  return {
    ADMIN_TOKEN: secrets.adminToken,
    METRICS_TOKEN: secrets.metricsToken,
    PINNING_SERVICES: JSON.stringify(pinningServices(nodeUrl, kubo)),
    IPFS_TOKEN: secrets.rpcToken,
    KUBO_TOKEN: kubo?.token ?? '',
    SERVICE_ID: secrets.serviceId,
    MAX_UPLOAD_BYTES: '',
    PUBLIC_GATEWAY: 'on',
    CORS_ORIGINS: origins.join(','),
    // The objects of this machine cannot be restored to an earlier point in time.
    RECOVERY_DAYS: '0',
    BACKUP_DAYS: String(backupDays ?? ''),
  };
}

/** The list for the Worker: the first takes new bytes, and files at the other one stay readable. */
function pinningServices(nodeUrl: string, kubo: Kubo | undefined): Record<string, string>[] {
  const node = { id: embeddedId, type: 'kubo', url: nodeUrl, tokenSecret: 'IPFS_TOKEN' };
  if (kubo === undefined) return [node];
  const token = kubo.token === undefined ? {} : { tokenSecret: 'KUBO_TOKEN' };
  return [{ id: kuboId, type: 'kubo', url: kubo.url, ...token }, node];
}

/**
 * Collects the calls that `stop`, `status`, `rebuild` and the other commands make to the running
 * service.
 */
function controlsOf(o: {
  readonly url: string;
  readonly startedAt: string;
  /** URL of the embedded node. */
  readonly nodeUrl: string;
  readonly recovered: string[];
  readonly verify: Controls['verify'];
  readonly snapshot: Controls['snapshot'];
  readonly choice: KuboChoice;
  readonly workerd: Workerd;
  readonly cacheDir: string;
  readonly writeRunFile: (url: string) => Promise<void>;
  readonly stop: () => Promise<void>;
}): Controls {
  const { url, workerd } = o;
  return {
    async address() {
      for (const end = performance.now() + restartMs; !workerd.isReady(); await sleep(20)) {
        if (performance.now() < end) continue;
        throw new SealpinError('service_unreachable', 'the local service is restarting its runtime', {
          hint: 'try again shortly',
        });
      }
      return { url };
    },
    status: async () => ({
      url,
      pid: process.pid,
      startedAt: o.startedAt,
      version: packageJson.version,
      ipfs: o.nodeUrl,
      running: await workerd.running(),
      ...(o.recovered.length > 0 && { recovered: o.recovered }),
      ...(await askHomes(o.choice)),
    }),
    // Two rebuilds at once could swap in the older code last.
    rebuild: serialize(async () => {
      const start = performance.now();
      const code = await rebuildWorkerCode(o.cacheDir);
      await waitIdle(workerd);
      await workerd.replace(code);
      await o.writeRunFile(url);
      return { bytes: Buffer.byteLength(code.worker), ms: Math.round(performance.now() - start) };
    }),
    verify: o.verify,
    snapshot: o.snapshot,
    // The response goes out first, because stopping closes its connection.
    async stop() {
      setImmediate(() => void o.stop());
      return {};
    },
  };
}

/** Waits until no request runs, at most `drainMs`. */
async function waitIdle(workerd: Workerd): Promise<void> {
  const end = performance.now() + drainMs;
  while (performance.now() < end && (await workerd.running()) > 0) await sleep(50);
}
