/** The one place that knows Miniflare: workerd with the Worker and its bindings, listening on loopback. */
import type * as Module from 'miniflare';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { SealpinError } from '../../shared/errors.ts';
import { guardFlags, packageRoot } from './bundle.ts';
import { ownerVariable, workerdsOf } from './leftover.ts';
import { isRunning } from './process.ts';
import type { ProcessMark } from './process.ts';

// By `import`, Node reads all its 6 MB twice more to find out which kind of module it is.
const {
  Log,
  LogLevel,
  Miniflare,
  Response: MiniflareResponse,
  convertV4MiniflareOptions,
} = createRequire(import.meta.url)('miniflare') as typeof Module;

export type WorkerdOptions = {
  /** Folder of KV and the Durable Objects. */
  stateDir: string;
  /** Folder for what may be lost; exists. */
  tmpDir: string;
  /** On 127.0.0.1. */
  port: number;
  /** The Worker's and the guard's code. */
  code: { worker: string; guard: string };
  /** Variables and secrets of the Worker. */
  vars: Record<string, string>;
  /** Other origins whose pages may call. */
  origins?: readonly string[];
  /** Removes what an `Account` object deleted from its file; false when the file was busy. */
  erase?(objectId: string): boolean | Promise<boolean>;
  /** Gets what the Worker logs, a line each. */
  log(line: string): void;
  /** Runs each time a workerd that crashed was replaced. */
  onRestart?(): void | Promise<void>;
};

export type Workerd = {
  processes: ProcessMark[];
  /** Whether the workerd that took the port still runs, so that nobody else can have it. */
  isReady(): boolean;
  /** Resolves with the reason when workerd crashed and could not be replaced. */
  failed: Promise<Error>;
  /** Requests whose answer has not ended. */
  running(): Promise<number>;
  /** Goes on with other code; state and port stay. */
  replace(code: WorkerdOptions['code']): Promise<void>;
  close(): Promise<void>;
};

/** The date whose behaviour of workerd is asked for: the deployed one's. */
function compatibilityDate(): string {
  const toml = readFileSync(join(packageRoot(), 'wrangler.toml'), 'utf8');
  const date = /^compatibility_date = "([0-9-]+)"$/m.exec(toml)?.[1];
  if (date === undefined) throw new SealpinError('build_failed', 'wrangler.toml has no compatibility_date');
  return date;
}

/**
 * Makes Miniflare without two of its habits: ending the whole process on a signal, before we have stopped cleanly, and
 * leaving its files in the system's folder for temporary ones when it was killed.
 */
function tamed(make: () => Module.Miniflare, tmpDir: string): Module.Miniflare {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  const before = new Map(signals.map((signal) => [signal, process.listeners(signal)]));
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = tmpDir; // it looks once, when it is made
  try {
    return make();
  } finally {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
    for (const signal of signals) {
      for (const listener of process.listeners(signal))
        if (!before.get(signal)!.includes(listener)) process.off(signal, listener);
    }
  }
}

/** One Worker, in Miniflare's words; a module with its code is enough. */
export type WorkerDescription = Module.V4SharedOptions & Module.V4WorkerOptions;

/** The bindings of the service, by the names in wrangler.toml; all state goes to one directory. */
export function serviceState(directory: string) {
  return {
    resourcePersistencePath: directory,
    kvNamespaces: ['API_KEYS'],
    durableObjects: {
      ACCOUNT: { className: 'Account', useSQLite: true },
      PIN: { className: 'Pin', useSQLite: true },
    },
  };
}

/** Miniflare's options for one Worker named `sealpin` that listens on a port of 127.0.0.1. */
function optionsFor(port: number, worker: WorkerDescription): Module.MiniflareOptions {
  return convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: 0,
    cf: false, // else Miniflare asks a host of Cloudflare for a sample at every start
    logRequests: false,
    name: 'sealpin',
    modulesRoot: '/',
    compatibilityDate: compatibilityDate(),
    // Past Miniflare's own entry Worker, which recompresses responses and obeys MF-* headers.
    unsafeDirectSockets: [{ host: '127.0.0.1', port }],
    ...worker,
  });
}

/**
 * Starts workerd with one Worker named `sealpin` and the compatibility date of wrangler.toml; resolves when it accepts requests.
 *
 * @param port of the Worker itself on 127.0.0.1; 0: any free one, see `unsafeGetDirectURL`
 * @param tmpDir where Miniflare puts temporary files; when given, the process keeps its own signal handlers, too
 * @throws port_in_use
 */
export async function launch(port: number, worker: WorkerDescription, tmpDir?: string): Promise<Module.Miniflare> {
  const construct = () => new Miniflare(optionsFor(port, worker));
  const miniflare = tmpDir === undefined ? construct() : tamed(construct, tmpDir);
  try {
    await miniflare.ready;
    return miniflare;
  } catch (error) {
    await miniflare.dispose().catch(() => undefined); // the first error is the one to report
    if ((error as { code?: string }).code === 'ERR_ADDRESS_IN_USE')
      throw new SealpinError('port_in_use', `port ${port} is in use by another program`);
    throw error;
  }
}

/** Starts workerd with the Worker behind the guard; resolves when it answers. @throws port_in_use */
export async function startWorkerd(options: WorkerdOptions): Promise<Workerd> {
  // Only this process can ask the guard how busy it is.
  const control = randomBytes(32).toString('base64url');
  const { promise: failed, resolve: tellFailed } = Promise.withResolvers<Error>();
  let processes: ProcessMark[] = [];
  const note = (event: string, error: string): void => options.log(JSON.stringify({ event, error }));
  /** Miniflare tells of a crash, and of a restart that failed, in its log only. */
  class CrashLog extends Log {
    override warn(message: string): void {
      if (message.includes('crashed')) note('workerd.crashed', message);
    }
    override error(error: Error): void {
      note('workerd.error', error.message);
      if ((error as { code?: string }).code === 'ERR_RUNTIME_FAILURE') tellFailed(error);
    }
    override logWithLevel(): void {}
  }
  const workerWith = (code: WorkerdOptions['code']): WorkerDescription => ({
    ...serviceState(options.stateDir),
    log: new CrashLog(LogLevel.WARN),
    unsafeRuntimeEnv: { [ownerVariable]: options.stateDir },
    unsafeHandleRuntimeRestart: async () => {
      processes = workerdsOf(options.stateDir);
      note('workerd.restarted', 'the Workers runtime was replaced after a crash');
      await options.onRestart?.();
    },
    handleStructuredLogs: ({ message }: { message: string }) => options.log(message),
    modules: [
      { type: 'ESModule', path: '/guard.js', contents: code.guard },
      { type: 'ESModule', path: '/worker.js', contents: code.worker },
    ],
    compatibilityFlags: guardFlags,
    bindings: {
      ...options.vars,
      LOCAL_PORT: String(options.port),
      LOCAL_CONTROL: control,
      LOCAL_ORIGINS: (options.origins ?? []).join(','),
    },
    serviceBindings: {
      LOCAL_ERASURE: async (request: Module.Request) => {
        const id = new URL(request.url).pathname.slice(1);
        const erased = /^[0-9a-f]{64}$/.test(id) && ((await options.erase?.(id)) ?? true);
        return new MiniflareResponse(erased ? null : 'the file was busy', { status: erased ? 204 : 503 });
      },
    },
  });
  const miniflare = await launch(options.port, workerWith(options.code), options.tmpDir);
  processes = workerdsOf(options.stateDir);
  return {
    get processes() {
      return processes;
    },
    isReady: () => processes.length > 0 && processes.every(isRunning),
    failed,
    async running() {
      const answer = await miniflare.dispatchFetch('http://local/', { headers: { 'sealpin-control': control } });
      return ((await answer.json()) as { running: number }).running;
    },
    async replace(code) {
      await miniflare.setOptions(optionsFor(options.port, workerWith(code)));
      await miniflare.ready;
      processes = workerdsOf(options.stateDir);
    },
    close: () => miniflare.dispose(),
  };
}
