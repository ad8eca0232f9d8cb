/** Runs Workers in workerd: a test's own module, or what `service.ts` puts around the service. */
import { bundle } from '../cli/local/code/bundle.ts';
import { launch, type WorkerDescription } from '../cli/local/miniflare.ts';
import { onFreePort } from '../cli/local/port.ts';
import { childrenNamed } from '../cli/local/process.ts';
import { webModule, webModuleText, webPlugin } from '../cli/local/code/web-bundle.ts';
import { bundledOnce } from './run-cache.ts';

/** A Worker that runs in workerd. */
export type RunningWorker = {
  /** Of the Worker itself, past Miniflare's own entry Worker, which recompresses responses. */
  url: string;
  /** Of workerd. */
  pid: number;
  miniflare: Awaited<ReturnType<typeof launch>>;
  close(): Promise<void>;
};

/** Starts a Worker on a free port of 127.0.0.1. */
export async function startWorker(describe: (port: number) => WorkerDescription): Promise<RunningWorker> {
  const before = new Set(childrenNamed('workerd').map(({ pid }) => pid));
  const miniflare = await onFreePort(0, (port) => launch(port, describe(port)));
  const workerd = childrenNamed('workerd').find(({ pid }) => !before.has(pid));
  if (workerd === undefined) throw new Error('workerd is not among the child processes');
  const { origin } = await miniflare.unsafeGetDirectURL('sealpin');
  return { url: origin, pid: workerd.pid, miniflare, close: () => miniflare.dispose() };
}

/**
 * Bundles a module as the Worker is, once in a run.
 * @param entry from the root, such as `worker/test/clock.ts`
 */
export function bundledModule(entry: string): Promise<string> {
  const pages = webPlugin(() => bundledOnce(webModule, webModuleText));
  return bundledOnce(entry, () => bundle(entry, { plugins: [pages] }));
}

/**
 * Bundles a module as the Worker is, and runs it alone, without bindings.
 * @param entry from the root
 */
export async function startModule(entry: string): Promise<RunningWorker> {
  const contents = await bundledModule(entry);
  return startWorker(() => ({ modules: [{ type: 'ESModule', path: '/worker.js', contents }] }));
}
