/** The Worker, built alike for `sealpin start`, `sealpin rebuild` and `wrangler deploy`. */
import type * as Esbuild from 'esbuild';
import { SealpinError } from '../../../shared/errors.ts';
import { packageRoot, requireLocal } from '../package-root.ts';
import { webPlugin } from './web-bundle.ts';

/** Options of esbuild for code that runs in workerd; the conditions are those of wrangler. */
const workerOptions = {
  bundle: true,
  format: 'esm',
  target: 'es2024',
  platform: 'browser',
  conditions: ['workerd', 'worker', 'browser'],
  mainFields: ['browser', 'module', 'main'],
  external: ['cloudflare:*', 'node:*'],
  plugins: [webPlugin()],
  legalComments: 'none',
  logLevel: 'silent',
} as const satisfies Esbuild.BuildOptions;

/**
 * Bundles one entry to the text of one ES module.
 * @param entry path from the package root, `worker/index.ts` for example
 * @param overrides options that differ from those of the Worker
 * @throws build_failed with the first message of the compiler and its place, not_installed
 */
export async function bundle(entry: string, overrides: Esbuild.BuildOptions = {}): Promise<string> {
  const root = packageRoot();
  const { build } = requireLocal('esbuild') as typeof Esbuild;
  try {
    const result = await build({
      ...workerOptions,
      ...overrides,
      absWorkingDir: root,
      entryPoints: [entry],
      write: false,
    });
    const [output] = result.outputFiles;
    if (output === undefined) throw new SealpinError('build_failed', `${entry} has no output`);
    return output.text;
  } catch (error) {
    const first = (error as Partial<Esbuild.BuildFailure>).errors?.[0];
    if (first === undefined) throw error;
    const place = first.location ? ` (${first.location.file}:${first.location.line})` : '';
    throw new SealpinError('build_failed', `${first.text}${place}`, {
      hint: 'fix it and run: sealpin rebuild; the running Worker stays as it was',
    });
  }
}

/** The Worker as `wrangler deploy` sends it. */
export function bundleWorker(): Promise<string> {
  return bundle('worker/index.ts');
}

/**
 * The compatibility flags that the guard needs: `request.signal` fires when the client disconnects.
 */
export const guardFlags = ['enable_request_signal'];

/** The module in front of the Worker of a local service, which imports it as `./worker.js`. */
export function bundleGuard(): Promise<string> {
  return bundle('cli/local/guard.ts', { external: [...workerOptions.external, './worker.js'] });
}
