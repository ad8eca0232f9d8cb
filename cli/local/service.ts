/** The life of the local service: the IPFS node, workerd with the Worker, its control socket. */
import { getCompileCacheDir } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { Health, NewAccountResponse, parseResponse } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import { within } from '../../shared/streams/timing.ts';
import { jsonOf } from '../io/json-text.ts';
import { CleanupStack, once, serialize } from './cleanup-stack.ts';
import { type Controls, fitsSocket, listenForControl, refuseLongSocket } from './control.ts';
import { eraseDeleted, eraseLive, hasObject, prepareDirectory } from './data-directory.ts';
import {
  askOtherBackends,
  chooseKubo,
  otherBackendsOf,
  type KuboChoice,
  kuboId,
  type KuboWish,
  rememberKubo,
} from './backends/external-kubo.ts';
import { startFront } from './front/front.ts';
import type { Direct } from './front/handover.ts';
import { startLoopback } from './front/loopback-front.ts';
import type { Proxies } from './front/proxies.ts';
import type { Workerd } from './miniflare.ts';
import { isFull, noRoomToStart } from './node/reserve.ts';
import { startNode, type RunningNode } from './node/server.ts';
import { freePort, onFreePort, untilReleased } from './port.ts';
import { markProcess } from './process.ts';
import { takeSnapshot } from './snapshot/held-snapshot.ts';
import type { AskWorker } from './snapshot/marks.ts';
import { localPaths, saveOrigin, type Secrets, startCommand, writeState } from './state.ts';
import { workerVars, type Backends } from './backends/worker-vars.ts';
import { kvWriter, syncFolders } from './write-through.ts';
import { rebuildWorkerCode, workerCode, type WorkerCode } from './code/worker-code.ts';

/** Timeout of `rebuild` for running requests before it swaps the Worker under them. */
const drainMs = 10_000;

/** Timeout of a question for the address while a crashed workerd is replaced. */
const restartMs = 5_000;
/** Longest wait for the line of the log that says why the Worker refused a request, in ms. */
const lineMs = 2_000;

/** Longest wait for the number of requests that workerd runs, in ms. */
const runtimeMs = 5_000;

export type StartOptions = {
  /** Absolute; exists. */
  readonly dataDir: string;
  /** Of the listener, which is on 127.0.0.1 but for the proxies of `front`; 0: any free one. */
  readonly port: number;
  /** The Kubo that takes new bytes, before the embedded node. */
  readonly kubo: KuboWish;
  /** Address of a public service, and its proxies. */
  readonly front?: { readonly origin: string; readonly proxies: Proxies } | undefined;
  /** Backends of `--backends`, before the embedded node. */
  readonly backends?: Backends | undefined;
  /** Settings of the Worker, from the environment. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Other origins, such as `http://localhost:3000`, whose pages may call. */
  readonly origins?: readonly string[];
  /** `BACKUP_DAYS`: how long backups of the service are kept; undefined: unknown. */
  readonly backupDays?: number | undefined;
  /** Gets each line that the Worker logs; its own lines are JSON. */
  log(line: string): void;
};

/**
 * Starts the service of a data directory; resolves when it takes requests.
 * @returns `port`: of the listener; `account`: of a service on loopback, which is its user's;
 * `stopped` resolves when the service has stopped, and rejects when it stopped because of a failure
 * @throws already_running, port_in_use, config_invalid, build_failed, misconfigured, disk_full, the
 * codes of `chooseKubo`
 */
export async function startService(options: StartOptions) {
  const cleanup = new CleanupStack();
  try {
    return await start(options, cleanup);
  } catch (error) {
    await cleanup.run().catch(() => undefined); // the first error is the one to report
    if (!isFull(error)) throw error;
    throw noRoomToStart(options.dataDir, error);
  }
}

async function start(options: StartOptions, cleanup: CleanupStack) {
  const { dataDir } = options;
  const paths = localPaths(dataDir);
  const refused = Promise.withResolvers<string>();
  const ownLog = (line: string): void => {
    if (['"event":"error"', '"misconfigured"'].every((part) => line.includes(part))) refused.resolve(line);
    options.log(line);
  };
  const { secrets, stateDir, crashed, log } = await prepareDirectory({ ...options, log: ownLog }, cleanup);
  const whenReleased = crashed ? untilReleased : <T>(listen: () => Promise<T>) => listen();
  if (options.port !== 0) await whenReleased(() => freePort(options.port)); // reported before anything is done
  const choice = await chosenKubo(options);
  await rememberKubo(dataDir, choice);
  // NODE_COMPILE_CACHE moves what V8 compiled and what is built here
  const cacheDir = getCompileCacheDir() ?? paths.cache;
  // If it must be built, the compiler works in a process of its own while this one reads Miniflare.
  const [code] = await Promise.all([workerCode(cacheDir), import('./miniflare.ts')]);
  const { node, recovered } = await nodeOf(paths.ipfs, secrets.rpcToken, log);
  cleanup.add(() => node.close());

  const run = runFileOf(dataDir);
  // Where it stays, as after a crash, the next start wipes what this one has left.
  cleanup.add((before) => (before.length === 0 ? writeState(dataDir, 'run', undefined) : undefined));
  const vars = workerVars({ ...options, secrets, nodeUrl: node.url, kubo: choice.kubo });
  const isOnly = options.backends === undefined && choice.kubo === undefined;
  const direct: Listening['direct'] = isOnly ? { ...node, giving: new Set() } : undefined;
  const listener = await listening({ options, cleanup, stateDir, code, log, vars, run, direct });
  const { workerd, url, port } = listener;
  run.workerd = workerd;
  await run.write(url);

  const ask: AskWorker = (path) => workerd.ask(path, secrets.adminToken).catch(silent);
  await refuseMisconfigured(options, ask, refused.promise);
  const own = options.front === undefined ? await openAccount(url, dataDir, secrets) : undefined;
  await syncFolders(paths.local);
  const before = await saveOrigin(dataDir, options.front?.origin, secrets);
  if (before !== undefined) {
    recovered.push(`the address of this service is now ${url}: links to ${before} have ended`);
    log(JSON.stringify({ event: 'origin.changed', detail: recovered.at(-1) }));
  }
  const { stop, stopped } = stopOf(cleanup, listener, dataDir);
  const about = { ...listener, dataDir, stateDir, ask, direct, run, node, recovered, choice, cacheDir, stop };
  const socket = await listenForControl(paths.control, controlsOf(about));
  cleanup.add(() => socket.close());
  return {
    url,
    port,
    account: own?.account,
    apiKey: own?.apiKey,
    others: otherBackendsOf(choice),
    stopped,
    stop: async () => {
      await stop();
      await stopped;
    },
  };
}

/** Options of the listener. */
type Listening = {
  readonly options: StartOptions;
  readonly cleanup: CleanupStack;
  readonly stateDir: string;
  readonly code: WorkerCode;
  readonly log: (line: string) => void;
  readonly vars: Record<string, string>;
  readonly run: RunFile;
  /** The embedded node, where it is the only backend: it takes and gives bytes past the runtime. */
  readonly direct: (RunningNode & Pick<Direct, 'giving'>) | undefined;
};

type Listener = { workerd: Workerd; url: string; port: number; isDirect: boolean };

/** Starts workerd, and what listens in front of it. @throws port_in_use */
async function listening(o: Listening): Promise<Listener> {
  const { front, port: wanted, dataDir } = o.options;
  const { socketIn } = await import('./miniflare.ts');
  const folder = localPaths(dataDir).tmp;
  const path = socketIn(folder);
  const { direct, log } = o;
  if (front === undefined)
    return await onFreePort(wanted, async (port) => {
      const url = `http://127.0.0.1:${port}`;
      const isDirect = direct !== undefined && fitsSocket(path);
      if (!isDirect) return { workerd: await workerdAt(port, url, o), url, port, isDirect };
      const started = Promise.withResolvers<Workerd>();
      const header = async () => (await started.promise).handover;
      const { close } = await startLoopback({ port, path, log, direct: { ...direct, header } });
      o.cleanup.add(close);
      const workerd = await workerdAt(folder, url, o, port);
      started.resolve(workerd);
      return { workerd, url, port, isDirect };
    });
  const { origin: url, proxies } = front;
  refuseLongSocket(path);
  const workerd = await workerdAt(folder, url, o);
  const { headers, handover } = workerd;
  const given = direct && { ...direct, placesOf: undefined, header: async () => handover };
  return await onFreePort(wanted, async (port) => {
    const { close } = await startFront({ origin: url, proxies, port, path, headers, direct: given, log });
    o.cleanup.add(close);
    return { workerd, url, port, isDirect: direct !== undefined };
  });
}

async function workerdAt(listen: number | string, url: string, o: Listening, port?: number): Promise<Workerd> {
  const { options, stateDir, run, cleanup } = o;
  const { startWorkerd } = await import('./miniflare.ts');
  await run.write(url);
  const workerd = await startWorkerd({
    stateDir,
    tmpDir: localPaths(options.dataDir).tmp,
    listen,
    port,
    code: o.code,
    log: o.log,
    origin: options.front?.origin,
    exists: (className, objectId) => hasObject(stateDir, className, objectId),
    erase: (className, objectId) => eraseLive(stateDir, className, objectId),
    syncKv: kvWriter(stateDir),
    onRestart: () => (run.workerd === undefined ? undefined : run.write(url)),
    vars: o.vars,
  });
  cleanup.add(() => eraseDeleted(options.dataDir, stateDir));
  cleanup.add(() => workerd.close());
  return workerd;
}

/** Says that workerd does not answer, though this process does. */
function silent(cause?: unknown): never {
  throw new SealpinError('service_unreachable', 'the runtime of the service takes no requests', { cause });
}

/**
 * Asks the Worker whether it can use its settings: a deployed one would say it to each request.
 * @param refused resolves with the line of its log about that, which may come after the response
 * @throws config_invalid
 */
async function refuseMisconfigured({ front, backends }: StartOptions, ask: AskWorker, refused: Promise<string>) {
  if (front === undefined && backends === undefined) return;
  const { status } = await ask('/v1/health');
  if (status !== 500) return;
  const { error = '' } = JSON.parse(await within(refused, lineMs, () => '{}')) as { error?: string };
  const why = error.replace(/^SealpinError: /, '') || 'the service cannot use its settings';
  throw new SealpinError('config_invalid', why, { hint: 'see "Settings" and "Backends" in docs/operating.md' });
}

/** The account in the secrets, or a new one, which is saved there. @throws service_answer */
export async function openAccount(url: string, dataDir: string, secrets: Secrets) {
  const { account, apiKey } = secrets;
  if (account !== undefined && apiKey !== undefined) return { account, apiKey };
  const response = await fetch(`${url}/v1/operator/accounts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secrets.adminToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ label: 'local' }),
  });
  if (response.status !== 201)
    throw new SealpinError('service_answer', `the service created no account (status ${response.status})`);
  const { account: fresh, apiKey: key } = parseResponse(NewAccountResponse, await jsonOf(response));
  const created = { account: fresh.id, apiKey: key };
  await writeState(dataDir, 'secrets', { ...secrets, ...created });
  return created;
}

/** The Kubo of `--kubo-api`. A list of backends names its own, and may have that one in it. */
async function chosenKubo({ dataDir, kubo, backends }: StartOptions): Promise<KuboChoice> {
  if (backends === undefined) return await chooseKubo(dataDir, kubo);
  const choice = await chooseKubo(dataDir, { none: true });
  return backends.entries.some(({ id }) => id === kuboId) ? {} : choice;
}

type RunFile = ReturnType<typeof runFileOf>;

/** The file by which other commands find this process. */
function runFileOf(dataDir: string) {
  const service = markProcess(process.pid);
  if (service === undefined) throw new SealpinError('internal', 'this process cannot be found in the process table');
  const startedAt = new Date().toISOString();
  return {
    startedAt,
    /** Set once it takes requests. */
    workerd: undefined as Workerd | undefined,
    write(url: string): Promise<void> {
      return writeState(dataDir, 'run', { v: 1, service, workerd: this.workerd?.processes ?? [], url, startedAt });
    },
  };
}

async function nodeOf(dir: string, token: string, log: (line: string) => void) {
  const recovered: string[] = [];
  const note = (sentence: string): void => {
    recovered.push(`${sentence} (in ${dir})`);
    log(JSON.stringify({ event: 'node.recovered', detail: recovered.at(-1) }));
  };
  return { node: await startNode({ dir, token, note }), recovered };
}

/** Makes what stops the service once, for whatever reason; `stopped` rejects for a failure. */
function stopOf(cleanup: CleanupStack, { workerd, url }: Listener, dataDir: string) {
  const { promise: stopped, resolve: resolveStopped, reject: rejectStopped } = Promise.withResolvers<void>();
  const stop = once((why?: SealpinError) =>
    cleanup.run().then(() => (why === undefined ? resolveStopped() : rejectStopped(why)), rejectStopped),
  );
  void workerd.failed.then(async (cause) => {
    const detail = `the runtime crashed and could not be restarted at ${url}: the service has stopped`;
    const hint = `start it again: ${await startCommand(dataDir)}`;
    await stop(new SealpinError('service_unreachable', detail, { hint, cause }));
  });
  return { stop, stopped };
}

/** Collects the calls that other commands make to the running service. */
function controlsOf(
  o: Listener &
    Pick<Listening, 'direct' | 'run' | 'stateDir'> & {
      readonly dataDir: string;
      readonly ask: AskWorker;
      readonly node: RunningNode;
      readonly recovered: string[];
      readonly choice: KuboChoice;
      readonly cacheDir: string;
      readonly stop: () => Promise<void>;
    },
): Controls {
  const { url, workerd } = o;
  return {
    async address() {
      for (const end = performance.now() + restartMs; !workerd.isReady(); await sleep(20)) {
        if (performance.now() < end) continue;
        throw new SealpinError('service_unreachable', 'the local service is restarting its runtime', {
          hint: 'try again shortly',
        });
      }
      return { url, ...(o.isDirect && { isDirect: true }) };
    },
    status: async () => ({
      url,
      port: o.port,
      pid: process.pid,
      startedAt: o.run.startedAt,
      version: packageJson.version,
      ipfs: o.node.url,
      running: (await within(workerd.running(), runtimeMs, silent)) + (o.direct?.giving.size ?? 0),
      ...(o.recovered.length > 0 && { recovered: o.recovered }),
      ...(await askOtherBackends(o.choice)),
    }),
    // Two rebuilds at once could swap in the older code last.
    rebuild: serialize(async () => {
      const start = performance.now();
      const code = await rebuildWorkerCode(o.cacheDir);
      const end = performance.now() + drainMs;
      while (performance.now() < end && (await workerd.running()) > 0) await sleep(50);
      await workerd.replace(code);
      await o.run.write(url);
      return { bytes: Buffer.byteLength(code.worker), ms: Math.round(performance.now() - start) };
    }),
    verify: ({ position }) => o.node.verify(position),
    snapshot: ({ known }, closed) => takeSnapshot(o, known, closed),
    health: async () => parseResponse(Health, await jsonOf(await o.ask('/v1/health'))),
    // The response goes out first, because stopping closes its connection.
    async stop() {
      setImmediate(() => void o.stop());
      return {};
    },
  };
}
