/** The Worker, built from its source the same way for `sealpin start`, `sealpin rebuild` and `wrangler deploy`. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import type { BuildFailure, BuildOptions } from 'esbuild';
import { SealpinError } from '../../shared/errors.ts';

/** The folder that holds package.json, worker/ and shared/: of the checkout, or of the installed package. */
export function packageRoot(from = import.meta.dirname): string {
  for (let dir = from; ; dir = dirname(dir)) {
    const manifest = join(dir, 'package.json');
    if (existsSync(manifest) && (JSON.parse(readFileSync(manifest, 'utf8')) as { name?: string }).name === 'sealpin')
      return dir;
    if (dir === dirname(dir))
      throw new SealpinError('build_failed', 'the sources of sealpin cannot be found', {
        hint: 'install sealpin again',
      });
  }
}

/** How esbuild builds code for workerd; the conditions are those of wrangler. */
const workerOptions = {
  bundle: true,
  format: 'esm',
  target: 'es2024',
  platform: 'browser',
  conditions: ['workerd', 'worker', 'browser'],
  mainFields: ['browser', 'module', 'main'],
  external: ['cloudflare:*', 'node:*'],
  legalComments: 'none',
  logLevel: 'silent',
} as const satisfies BuildOptions;

/**
 * Bundles one entry to the text of one ES module.
 *
 * @param entry path from the package root, `worker/index.ts` for example
 * @param overrides what differs from the way in which the Worker is built
 * @throws build_failed with the first message of the compiler and where it is
 */
export async function bundle(entry: string, overrides: BuildOptions = {}): Promise<string> {
  const root = packageRoot();
  try {
    const result = await build({
      ...workerOptions,
      ...overrides,
      absWorkingDir: root,
      entryPoints: [entry],
      write: false,
    });
    return result.outputFiles[0]!.text;
  } catch (error) {
    const first = (error as Partial<BuildFailure>).errors?.[0];
    if (first === undefined) throw error;
    const place = first.location ? ` (${first.location.file}:${first.location.line})` : '';
    throw new SealpinError('build_failed', `${first.text}${place}`, {
      hint: 'mend it and run: sealpin rebuild; what was running goes on',
    });
  }
}

/** The Worker as `wrangler deploy` sends it. */
export function bundleWorker(): Promise<string> {
  return bundle('worker/index.ts');
}

/** What the guard needs of workerd: `request.signal` fires when the client leaves. */
export const guardFlags = ['enable_request_signal'];

/** The module in front of it on a developer's machine; it imports the Worker as a module beside it. */
export function bundleGuard(): Promise<string> {
  return bundle('cli/local/guard.ts', { external: [...workerOptions.external, './worker.js'] });
}
