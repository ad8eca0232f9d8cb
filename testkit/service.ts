/** The service for tests: the Worker as it is deployed, in workerd, before a pinning service that really speaks Kubo's RPC. */
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundle, bundleGuard, guardFlags } from '../cli/local/bundle.ts';
import { startNode, type RunningNode } from '../cli/local/node/server.ts';
import { onFreePort } from '../cli/local/port.ts';
import { childrenNamed } from '../cli/local/process.ts';
import type { NewAccountResponse } from '../shared/api.ts';
import { SealpinError } from '../shared/errors.ts';

export const adminToken = 'operator-of-the-tests';
export const rpcToken = 'rpc-token-of-the-tests';

export type ServiceOptions = {
  /** The module to run, from the root of the repository. */
  entry?: string;
  /** Variables and secrets besides the usual ones. */
  vars?: Record<string, string>;
  /** Where state lives; a folder of its own, removed at the end, when left out. */
  dir?: string;
  /** A node that runs already; it goes on when the service ends. */
  node?: RunningNode;
  /** The pinning service's address, as seen by the Worker; gets the real one's. */
  through?(url: string): Promise<string> | string;
  ratelimits?: Record<string, { namespace_id: string; simple: { limit: number; period: 10 | 60 } }>;
};

export type Service = {
  /** Past Miniflare's own entry Worker, which recompresses answers. */
  url: string;
  /** The embedded IPFS node behind it. */
  node: string;
  rpcToken: string;
  dir: string;
  /** What the Worker logged, a line each. */
  log: string[];
  /** Of workerd. */
  pid: number;
  miniflare: Miniflare;
  /** Makes an account as the operator. */
  account(): Promise<NewAccountResponse>;
  /** Ends workerd as a power cut would. */
  kill(): Promise<void>;
  close(): Promise<void>;
};

const bundles = new Map<string, Promise<string>>();

/** The Worker as `wrangler deploy` sends it, built once a test file. */
function bundled(entry: string): Promise<string> {
  const text = bundles.get(entry) ?? bundle(entry);
  bundles.set(entry, text);
  return text;
}

/** With `SEALPIN_TEST_GUARD=1` the Worker runs behind the guard of `sealpin start`, and has to behave the same. */
const guarded = process.env['SEALPIN_TEST_GUARD'] === '1';
let guard: Promise<string> | undefined;

async function modulesOf(entry: string) {
  const worker = { type: 'ESModule', path: '/worker.js', contents: await bundled(entry) } as const;
  if (!guarded) return [worker];
  guard ??= bundleGuard();
  return [{ type: 'ESModule', path: '/guard.js', contents: await guard } as const, worker];
}

/** Starts the service with its IPFS node. */
export async function startService(o: ServiceOptions = {}): Promise<Service> {
  const dir = o.dir ?? (await mkdtemp(join(tmpdir(), 'sealpin-service-')));
  const node = o.node ?? (await startNode({ dir: join(dir, 'ipfs'), token: rpcToken }));
  const pinning = (await o.through?.(node.url)) ?? node.url;
  const log: string[] = [];
  const before = childrenNamed('workerd').map((each) => each.pid);
  const modules = await modulesOf(o.entry ?? 'worker/index.ts');
  const configure = (port: number) =>
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      logRequests: false,
      resourcePersistencePath: join(dir, 'state'),
      handleStructuredLogs: ({ message }: { message: string }) => void log.push(message),
      name: 'sealpin',
      modulesRoot: '/',
      modules,
      compatibilityDate: '2026-11-01',
      ...(guarded && { compatibilityFlags: guardFlags }),
      kvNamespaces: ['API_KEYS'],
      durableObjects: {
        ACCOUNT: { className: 'Account', useSQLite: true },
        PIN: { className: 'Pin', useSQLite: true },
      },
      ...(o.ratelimits === undefined ? {} : { ratelimits: o.ratelimits }),
      bindings: {
        ADMIN_TOKEN: adminToken,
        KUBO_TOKEN: rpcToken,
        PINNING_SERVICES: JSON.stringify([{ id: 'node', type: 'kubo', url: pinning, tokenSecret: 'KUBO_TOKEN' }]),
        RECOVERY_DAYS: '0',
        ...o.vars,
        ...(guarded && {
          LOCAL_PORT: String(port),
          LOCAL_CONTROL: rpcToken,
          LOCAL_ORIGINS: o.vars?.['CORS_ORIGINS'] ?? '',
        }),
      },
      unsafeDirectSockets: [{ host: '127.0.0.1', port }],
    });
  const miniflare = await onFreePort(0, async (port) => {
    const one = new Miniflare(configure(port));
    try {
      await one.ready;
      return one;
    } catch (error) {
      await one.dispose().catch(() => undefined); // the first error is the one to tell
      if ((error as { code?: string }).code === 'ERR_ADDRESS_IN_USE') throw new SealpinError('port_in_use');
      throw error;
    }
  });
  const mine = childrenNamed('workerd').filter((each) => !before.includes(each.pid));
  const url = (await miniflare.unsafeGetDirectURL('sealpin')).origin;
  return {
    url,
    node: node.url,
    rpcToken,
    dir,
    log,
    pid: mine[0]!.pid,
    miniflare,
    async account() {
      const answer = await fetch(`${url}/v1/accounts`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ label: 'test' }),
      });
      if (answer.status !== 201) throw new Error(`no account: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as NewAccountResponse;
    },
    async kill() {
      for (const { pid } of mine) process.kill(pid, 'SIGKILL');
      await miniflare.dispose();
    },
    async close() {
      await miniflare.dispose();
      if (o.node === undefined) await node.close();
      if (o.dir === undefined) await rm(dir, { recursive: true, force: true });
    },
  };
}
