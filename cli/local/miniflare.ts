/** The only file that uses Miniflare: workerd on loopback, with the Worker and its bindings. */
import type * as Module from 'miniflare';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { errnoOf } from '../errno.ts';
import { jsonOf } from '../io/json-text.ts';
import { guardFlags } from './code/bundle.ts';
import { erasingClasses, type ClassName } from './code/erasing-classes.ts';
import { ownerVariable, workerdsOf } from './leftover.ts';
import { ownAddress } from './origin.ts';
import { packageRoot, requireLocal } from './package-root.ts';
import { isRunning, type ProcessMark } from './process.ts';
import type { WorkerCode } from './code/worker-code.ts';

// With `import`, Node would read its 6 MB twice more to detect the kind of module.
const {
  Log,
  LogLevel,
  Miniflare,
  Response: MiniflareResponse,
  convertV4MiniflareOptions,
} = requireLocal('miniflare') as typeof Module;

/** Code that workerd runs, and the location of its state. */
export type WorkerdOptions = {
  /** Folder of KV and the Durable Objects. */
  stateDir: string;
  /** Folder for temporary files; exists. */
  tmpDir: string;
  /** Port on 127.0.0.1, or the folder of the socket, which only this user can enter. */
  listen: number | string;
  /** Port of the listener on loopback in front of a socket. */
  port?: number | undefined;
  /** The Worker's and the guard's code. */
  code: WorkerCode;
  /** Variables and secrets of the Worker. */
  vars: Record<string, string>;
  /** Origin of a public service. Requests then come from this process, which has examined them. */
  origin?: string | undefined;
  /** Writes through to the disk what KV holds. */
  syncKv?(): Promise<void>;
  /** Reports that an object has a file; without this, every object counts as existing. */
  exists?(className: ClassName, objectId: string): boolean;
  /** Removes deleted rows from the file of an object; false when the file was busy. */
  erase?(className: ClassName, objectId: string): boolean | Promise<boolean>;
  /** Gets each line that the Worker logs. */
  log(line: string): void;
  /** Runs after a crashed workerd was replaced. */
  onRestart?(): void | Promise<void>;
};

/** Miniflare writes an address as host and port; workerd says 0 for that of a socket. */
const socketPort = 0;

function portOf(listen: number | string): number {
  return typeof listen === 'number' ? listen : socketPort;
}

/** The path of the socket in a folder. */
export function socketIn(folder: string): string {
  return `${join(folder, 'worker')}:${socketPort}`;
}

/** A running workerd with the Worker and the guard in it. */
export type Workerd = Awaited<ReturnType<typeof startWorkerd>>;

/** The compatibility date of the deployed Worker. */
function compatibilityDate(): string {
  const toml = readFileSync(join(packageRoot(), 'wrangler.toml'), 'utf8');
  const date = /^compatibility_date = "([0-9-]+)"$/m.exec(toml)?.[1];
  if (date === undefined) throw new SealpinError('build_failed', 'wrangler.toml has no compatibility_date');
  return date;
}

/**
 * Constructs Miniflare without its signal handlers, which would end the process before the service
 * has stopped cleanly, and with its temporary files in our folder, where a killed service does not
 * leave them for ever.
 */
function withoutSignalHandlers(construct: () => Module.Miniflare, tmpDir: string): Module.Miniflare {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const before = new Map(signals.map((signal) => [signal, process.listeners(signal)]));
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = tmpDir; // read once, by the constructor
  try {
    return construct();
  } finally {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
    for (const signal of signals) {
      for (const listener of process.listeners(signal))
        if (before.get(signal)?.includes(listener) !== true) process.off(signal, listener);
    }
  }
}

/** One Worker, as Miniflare describes it; a module with its code is enough. */
export type WorkerDescription = Module.V4SharedOptions & Module.V4WorkerOptions;

/** The bindings of the service, by the names in wrangler.toml; all state goes to one directory. */
export function serviceState(directory: string) {
  return {
    resourcePersistencePath: directory,
    kvNamespaces: ['API_KEYS'],
    durableObjects: {
      ACCOUNT: { className: 'Account', useSQLite: true },
      PIN: { className: 'Pin', useSQLite: true },
      SHARE: { className: 'Share', useSQLite: true },
      METRICS: { className: 'Metrics', useSQLite: true },
    },
  };
}

/** Miniflare's options for one Worker named `sealpin` that listens where it is told. */
function optionsFor(listen: number | string, worker: WorkerDescription): Module.MiniflareOptions {
  const host = typeof listen === 'number' ? '127.0.0.1' : `unix:${join(listen, 'worker')}`;
  return convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: 0,
    cf: false, // otherwise Miniflare fetches sample data from Cloudflare at every start
    logRequests: false,
    name: 'sealpin',
    modulesRoot: '/',
    compatibilityDate: compatibilityDate(),
    // Bypasses Miniflare's own entry Worker, which recompresses responses and obeys MF-* headers.
    unsafeDirectSockets: [{ host, port: portOf(listen) }],
    ...worker,
  });
}

/**
 * Starts workerd with one Worker named `sealpin` and the compatibility date of wrangler.toml;
 * resolves when it accepts requests.
 * @param listen port of the Worker itself on 127.0.0.1, 0: any free one, see `unsafeGetDirectURL`;
 * or the folder of its socket
 * @param tmpDir where Miniflare puts temporary files; when given, the process keeps its own signal
 * handlers, too
 * @throws port_in_use; not_installed without CA certificates, or where workerd does not run
 */
export async function launch(listen: number | string, worker: WorkerDescription, tmpDir?: string) {
  const construct = () => new Miniflare(optionsFor(listen, worker));
  const miniflare = tmpDir === undefined ? construct() : withoutSignalHandlers(construct, tmpDir);
  try {
    await miniflare.ready;
    return miniflare;
  } catch (error) {
    await miniflare.dispose().catch(() => undefined); // the first error is the one to report
    if (errnoOf(error) === 'ERR_ADDRESS_IN_USE')
      throw new SealpinError('port_in_use', `port ${portOf(listen)} is in use by another program`);
    // workerd reads them at its start; the message is that of its TLS library.
    if (errnoOf(error) === 'ERR_RUNTIME_FAILURE' && String(error).includes('No CA certificates were loaded'))
      throw new SealpinError('not_installed', 'the Workers runtime found no CA certificates on this machine', {
        hint: 'install the package ca-certificates, or name a file of certificates in SSL_CERT_FILE',
        cause: error,
      });
    // It ended before it had read what it is to run.
    if (errnoOf(error) === 'EPIPE')
      throw new SealpinError('not_installed', 'the Workers runtime (workerd) does not run on this machine', {
        hint: 'the lines before, or service.log in local/ of the data directory, may say why',
        cause: error,
      });
    throw error;
  }
}

/**
 * Starts workerd with the Worker behind the guard.
 * @throws port_in_use; not_installed without CA certificates, or where workerd does not run
 */
export async function startWorkerd(options: WorkerdOptions) {
  const { listen, stateDir } = options;
  // A secret, so that only this process can ask the guard how busy it is.
  const control = randomBytes(32).toString('base64url');
  const { promise: failed, resolve: resolveFailed } = Promise.withResolvers<Error>();
  let processes: ProcessMark[] = [];
  const logEvent = (event: string, error: string): void => options.log(JSON.stringify({ event, error }));
  const removeSocket = (): void => {
    // workerd binds no path that is there already, also not the one of its predecessor.
    if (typeof listen === 'string') rmSync(socketIn(listen), { force: true });
  };
  const workerWith = (code: WorkerCode): WorkerDescription => ({
    ...describeService(code, options, control),
    log: new CrashLog({ onEvent: logEvent, onCrash: removeSocket, onFailure: resolveFailed }),
    unsafeHandleRuntimeRestart: async () => {
      processes = workerdsOf(stateDir);
      logEvent('workerd.restarted', 'the Workers runtime was replaced after a crash');
      await options.onRestart?.();
    },
  });
  const miniflare = await launch(listen, workerWith(options.code), options.tmpDir);
  processes = workerdsOf(stateDir);
  return {
    get processes() {
      return processes;
    },
    /** Tells whether workerd still runs, so that no other program can have the port. */
    isReady: () => processes.length > 0 && processes.every(isRunning),
    /** Resolves with the reason when workerd crashed and could not be replaced. */
    failed,
    /** Header by which the guard knows that this process has examined a request. */
    headers: ['sealpin-front', control] as const,
    /** Header by which the guard knows that this process takes the body of a request. */
    handover: ['sealpin-handover', control] as const,
    /** Asks the Worker as its operator, past its rate limits. */
    ask: (path: string, adminToken: string): Promise<{ status: number; text(): Promise<string> }> =>
      miniflare.dispatchFetch(`http://local${path}`, {
        headers: { authorization: `Bearer ${adminToken}`, 'sealpin-front': control, 'cf-connecting-ip': ownAddress },
      }),
    /** Counts the requests whose response has not ended. */
    async running() {
      const response = await miniflare.dispatchFetch('http://local/', { headers: { 'sealpin-control': control } });
      return ((await jsonOf(response)) as { running: number }).running;
    },
    /** Swaps the code; state and port stay. */
    async replace(code: WorkerCode) {
      removeSocket();
      await miniflare.setOptions(optionsFor(listen, workerWith(code)));
      await miniflare.ready;
      processes = workerdsOf(stateDir);
    },
    close: () => miniflare.dispose(),
  };
}

/** The Worker behind the guard, with its bindings. */
function describeService(code: WorkerCode, options: WorkerdOptions, control: string): WorkerDescription {
  return {
    ...serviceState(options.stateDir),
    unsafeRuntimeEnv: { [ownerVariable]: options.stateDir },
    handleStructuredLogs: ({ message }: { message: string }) => options.log(message),
    modules: [
      { type: 'ESModule', path: '/guard.js', contents: code.guard },
      { type: 'ESModule', path: '/worker.js', contents: code.worker },
    ],
    compatibilityFlags: guardFlags,
    bindings: {
      ...options.vars,
      LOCAL_PORT: String(options.port ?? portOf(options.listen)),
      LOCAL_CONTROL: control,
      LOCAL_ORIGINS: options.vars['CORS_ORIGINS'] ?? '',
      ...(options.origin !== undefined && { LOCAL_ORIGIN: options.origin }),
    },
    serviceBindings: {
      LOCAL_DATABASE: (request: Module.Request) => answerOnDatabase(request, options),
    },
  };
}

/** Answers whether an object has a database, erases one, and writes KV through. */
async function answerOnDatabase(request: Module.Request, { exists, erase, syncKv }: WorkerdOptions) {
  if (new URL(request.url).pathname === '/kv') {
    await syncKv?.();
    return new MiniflareResponse(null, { status: 204 });
  }
  const [, name, id = ''] = /^\/(\w+)\/([0-9a-f]{64})$/.exec(new URL(request.url).pathname) ?? [];
  const className = erasingClasses.find((each) => each === name);
  if (className === undefined) return new MiniflareResponse('there is no such object', { status: 400 });
  if (request.method === 'GET')
    return new MiniflareResponse(null, { status: (exists?.(className, id) ?? true) ? 204 : 404 });
  const erased = (await erase?.(className, id)) ?? true;
  return new MiniflareResponse(erased ? null : 'the file was busy', { status: erased ? 204 : 503 });
}

type CrashCalls = {
  onEvent(event: string, error: string): void;
  /** Runs before workerd is started again. */
  onCrash(): void;
  onFailure(error: Error): void;
};

/** Miniflare reports a crash, and a restart that failed, only in its log. */
class CrashLog extends Log {
  readonly #calls: CrashCalls;

  constructor(calls: CrashCalls) {
    super(LogLevel.WARN);
    this.#calls = calls;
  }

  override warn(message: string): void {
    if (!message.includes('crashed')) return;
    this.#calls.onCrash();
    this.#calls.onEvent('workerd.crashed', message);
  }

  override error(error: Error): void {
    this.#calls.onEvent('workerd.error', error.message);
    if (errnoOf(error) === 'ERR_RUNTIME_FAILURE') this.#calls.onFailure(error);
  }

  override logWithLevel(): void {}
}
