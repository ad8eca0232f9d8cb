/** The life of the local service: the embedded IPFS node, workerd with the Worker, and what tells others of them. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { SealpinError } from '../../shared/errors.ts';
import { openAccount } from './default-account.ts';
import { bundleGuard, bundleWorker } from './bundle.ts';
import { listenForControl } from './control.ts';
import type { Homes, Status } from './control.ts';
import { type Kubo, type KuboWish, askHomes, chooseKubo, homesOf, kuboId, rememberKubo } from './external-kubo.ts';
import { endLeftover, stateDirOf } from './leftover.ts';
import { lock } from './lock.ts';
import { keepLog } from './log-file.ts';
import { startNode } from './node/server.ts';
import { isFull, keepRoom } from './node/reserve.ts';
import { freePort, onFreePort, untilReleased } from './port.ts';
import { markProcess } from './process.ts';
import { loadSecrets, localPaths, makeLocal, saveRun } from './state.ts';
import { removeEmpty, vacuum, vacuumLive, vacuumLogged } from './vacuum.ts';

/** How long `rebuild` waits for running requests before it swaps the Worker under them. */
const drainMs = 10_000;

/** How long who asks for the address waits while a workerd that crashed is replaced. */
const restartMs = 5_000;

/** How long SQLite waits for another reader or writer of a file; this process does nothing else meanwhile. */
const busyMs = 1_000;

/** How often that is tried. */
const eraseAttempts = 5;

export type ServiceOptions = {
  /** Absolute; exists. */
  dataDir: string;
  /** On 127.0.0.1; 0: any that is free. */
  port: number;
  /** The Kubo that takes new bytes, before the embedded node. */
  kubo: KuboWish;
  /** Other origins, such as `http://localhost:3000`, whose pages may call. */
  origins?: readonly string[];
  /** Gets what the Worker logs, a line each; its own lines are JSON. */
  log(line: string): void;
};

export type Service = {
  url: string;
  account: string;
  apiKey: string;
  homes: Homes;
  /** Resolves when the service has stopped, whoever asked for it. */
  stopped: Promise<void>;
  stop(): Promise<void>;
};

/** Undoes what was done, in the opposite order, each step although another one failed. */
function cleaner() {
  const steps: (() => unknown)[] = [];
  return {
    add: (step: () => unknown) => void steps.push(step),
    async run(): Promise<void> {
      const failures: unknown[] = [];
      for (const step of steps.splice(0).toReversed()) {
        try {
          await step();
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length > 0)
        throw failures.length === 1 ? failures[0] : new AggregateError(failures, 'the service did not stop cleanly');
    },
  };
}

/**
 * Starts the service of a data directory; resolves when it takes requests.
 *
 * @throws already_running, port_in_use, config_invalid, build_failed, misconfigured, disk_full, the codes of `chooseKubo`
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const paths = localPaths(options.dataDir);
  const clean = cleaner();
  try {
    await makeLocal(options.dataDir);
    const held = lock(paths.lock);
    clean.add(() => held.release());
    const beforeLine = keepLog(paths.log);
    const log = (line: string): void => {
      beforeLine();
      options.log(line);
    };
    const secrets = await loadSecrets(options.dataDir);
    const stateDir = await stateDirOf(options.dataDir);
    const accounts = join(stateDir, 'do', 'sealpin-Account');
    const crashed = await endLeftover(options.dataDir);
    // After a crash, what was deleted may still be in the files.
    await removeEmpty(accounts);
    if (crashed) await vacuum(accounts);
    await vacuumLogged(stateDir);
    await rm(paths.tmp, { recursive: true, force: true });
    await mkdir(paths.tmp, { mode: 0o700 });
    clean.add(() => rm(paths.tmp, { recursive: true, force: true }));
    const room = keepRoom(paths.reserve, (detail) => log(JSON.stringify({ event: 'disk.full', detail })));
    clean.add(() => room.close());
    const whenReleased = crashed ? untilReleased : <T>(listen: () => Promise<T>) => listen();
    if (options.port !== 0) await whenReleased(() => freePort(options.port)); // told before anything is done
    const choice = await chooseKubo(options.dataDir, options.kubo);
    await rememberKubo(options.dataDir, choice);
    // The compiler works in a process of its own while this one reads Miniflare, which takes longer than all the rest.
    const code = Promise.all([bundleWorker(), bundleGuard()]);
    const [{ startWorkerd }, [worker, guard]] = await Promise.all([import('./miniflare.ts'), code]);
    const ipfs = await startEmbedded(paths.ipfs, secrets.rpcToken, clean, log);
    const startedAt = new Date().toISOString();
    const service = markProcess(process.pid)!;
    clean.add(() => saveRun(options.dataDir, undefined));
    let tellRun = (): Promise<void> => Promise.resolve();
    const { workerd, url } = await onFreePort(options.port, async (port) => {
      const url = `http://127.0.0.1:${port}`;
      await saveRun(options.dataDir, { v: 1, service, workerd: [], url, startedAt });
      const workerd = await startWorkerd({
        stateDir,
        tmpDir: paths.tmp,
        port,
        code: { worker, guard },
        log,
        origins: options.origins ?? [],
        erase: (id) => erase(join(accounts, `${id}.sqlite`)),
        onRestart: () => tellRun(),
        vars: {
          ADMIN_TOKEN: secrets.adminToken,
          PINNING_SERVICES: JSON.stringify(pinningServices(ipfs.url, choice.kubo)),
          IPFS_TOKEN: ipfs.token,
          KUBO_TOKEN: choice.kubo?.token ?? '',
          SERVICE_ID: secrets.serviceId,
          MAX_UPLOAD_BYTES: '',
          PUBLIC_GATEWAY: 'on',
          CORS_ORIGINS: (options.origins ?? []).join(','),
          // Nobody can turn this machine's objects back to an earlier point in time.
          RECOVERY_DAYS: '0',
        },
      });
      return { workerd, url };
    });
    // With secure_delete, so that a header which was destroyed is gone from the disk as well.
    clean.add(() => vacuum(stateDir));
    clean.add(() => removeEmpty(accounts));
    clean.add(() => workerd.close());
    tellRun = () => saveRun(options.dataDir, { v: 1, service, workerd: workerd.processes, url, startedAt });
    await tellRun();
    const { account, apiKey } = await openAccount(url, options.dataDir, secrets);
    const { promise: stopped, resolve: tellStopped, reject: tellFailed } = Promise.withResolvers<void>();
    const stop = once((why?: SealpinError) =>
      clean.run().then(() => (why === undefined ? tellStopped() : tellFailed(why)), tellFailed),
    );
    void workerd.failed.then((cause) => {
      const detail = `the runtime crashed and could not be started again at ${url}: the service has stopped`;
      return stop(new SealpinError('service_unreachable', detail, { hint: 'start it again: sealpin start', cause }));
    });
    const controls = await listenForControl(paths.control, {
      address: async () => {
        for (const end = performance.now() + restartMs; !workerd.isReady(); await sleep(20)) {
          if (performance.now() < end) continue;
          throw new SealpinError('service_unreachable', 'the local service is starting its runtime again', {
            hint: 'try again shortly',
          });
        }
        return { url };
      },
      status: async (): Promise<Status> => ({
        url,
        pid: process.pid,
        startedAt,
        version: packageJson.version,
        ipfs: ipfs.url,
        running: await workerd.running(),
        ...(await askHomes(choice)),
      }),
      rebuild: serially(async () => {
        const begun = performance.now();
        const code = { worker: await bundleWorker(), guard: await bundleGuard() };
        await drained(workerd.running);
        await workerd.replace(code);
        await tellRun();
        return { bytes: Buffer.byteLength(code.worker), ms: Math.round(performance.now() - begun) };
      }),
      // Answered first: the answer goes through what is closed.
      stop: async () => {
        setImmediate(() => void stop());
        return {};
      },
    });
    clean.add(() => controls.close());
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
  } catch (error) {
    await clean.run().catch(() => undefined); // the first error is the one to tell
    if (!isFull(error)) throw error;
    throw new SealpinError(
      'disk_full',
      `the disk of ${options.dataDir} is full: the service needs some room to start`,
      {
        cause: error,
      },
    );
  }
}

async function startEmbedded(
  dir: string,
  token: string,
  clean: ReturnType<typeof cleaner>,
  log: ServiceOptions['log'],
): Promise<{ url: string; token: string }> {
  const node = await startNode({
    dir,
    token,
    note: (detail) => log(JSON.stringify({ event: 'node.recovered', detail: `${detail} (in ${dir})` })),
  });
  clean.add(() => node.close());
  return { url: node.url, token };
}

/** The list for the Worker: the first takes new bytes, and what is at the other stays readable. */
function pinningServices(embedded: string, kubo: Kubo | undefined): Record<string, string>[] {
  const node = { id: 'local', type: 'kubo', url: embedded, tokenSecret: 'IPFS_TOKEN' };
  if (kubo === undefined) return [node];
  const token = kubo.token === undefined ? {} : { tokenSecret: 'KUBO_TOKEN' };
  return [{ id: kuboId, type: 'kubo', url: kubo.url, ...token }, node];
}

/** Removes what was deleted from the database file of an account; false when it stays busy. */
async function erase(path: string): Promise<boolean> {
  for (let attempt = 1; attempt <= eraseAttempts; attempt += 1) {
    if (await vacuumLive(path, busyMs)) return true;
    await sleep(100);
  }
  return false;
}

/** Waits until no request runs, at most `drainMs`. */
async function drained(running: () => Promise<number>): Promise<void> {
  const end = performance.now() + drainMs;
  while (performance.now() < end && (await running()) > 0) await sleep(50);
}

function once<A extends unknown[], T>(act: (...args: A) => T): (...args: A) => T {
  let done: { value: T } | undefined;
  return (...args) => (done ??= { value: act(...args) }).value;
}

/** Two at once would build and swap in the wrong order. */
function serially<T>(act: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    const next = last.then(act, act);
    last = next;
    return next;
  };
}
