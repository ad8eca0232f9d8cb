/**
 * The product and what stands in for its platform, bundled once, and evaluated again for each run:
 * nothing in the memory of a module outlives it.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { Script } from 'node:vm';
import type { Plugin } from 'esbuild';
import { bundle } from '../../cli/local/code/bundle.ts';
import { packageRoot } from '../../cli/local/package-root.ts';
import { webModule } from '../../cli/local/code/web-bundle.ts';
import type { Globals } from './globals.ts';

/** A change of the product's source, which must be there once. */
export type Replacement = { file: string; from: string; to: string };

/** A bundle that can be evaluated. */
export type Code = { evaluate(globals: Globals): unknown };

const globalNames = [
  'globalThis',
  'self',
  'Date',
  'Math',
  'crypto',
  'performance',
  'AbortSignal',
  'FixedLengthStream',
  'fetch',
  'console',
  'setTimeout',
  'setInterval',
  'clearTimeout',
  'clearInterval',
  'scheduler',
] as const;

/** Bundles the world. @param replacements faults to plant */
export async function loadCode(replacements: readonly Replacement[] = []): Promise<Code> {
  const open = new Set(replacements);
  const text = await bundle('simulation/world/index.ts', {
    format: 'cjs',
    external: ['node:*'],
    sourcemap: false,
    plugins: [standIns, planting(replacements, open)],
  });
  const [missing] = open;
  if (missing !== undefined) throw new Error(`${missing.file} was not bundled`);
  const parameters = ['require', 'module', ...globalNames].join(', ');
  const script = new Script(`(function (${parameters}) {${text}\n})`, { filename: 'simulation-world.js' });
  const require = createRequire(import.meta.url);
  return {
    evaluate(globals) {
      const made = script.runInThisContext() as (...args: unknown[]) => void;
      const module = { exports: {} as unknown };
      made(require, module, ...globalNames.map((name) => globals[name]));
      return module.exports;
    },
  };
}

const standIns: Plugin = {
  name: 'stand-ins',
  setup(build) {
    const workers = join(packageRoot(), 'simulation/platform/workers.ts');
    build.onResolve({ filter: /^cloudflare:workers$/ }, () => ({ path: workers }));
    build.onResolve({ filter: new RegExp(`^${webModule}$`) }, () => ({ path: webModule, namespace: 'pages' }));
    // The pages are files that a browser gets: nothing here asks for them.
    const contents = "export const web = { hash: '', documents: [], files: [] };";
    build.onLoad({ filter: /.*/, namespace: 'pages' }, () => ({ contents }));
  },
};

function planting(replacements: readonly Replacement[], open: Set<Replacement>): Plugin {
  return {
    name: 'planting',
    setup(build) {
      const root = packageRoot();
      if (replacements.length === 0) return;
      build.onLoad({ filter: /\/worker\/.*\.ts$/ }, async ({ path }) => {
        const own = replacements.filter(({ file }) => file === relative(root, path));
        if (own.length === 0) return undefined;
        let contents = await readFile(path, 'utf8');
        for (const each of own) {
          if (contents.split(each.from).length !== 2) throw new Error(`${each.file} does not have once: ${each.from}`);
          contents = contents.replace(each.from, () => each.to);
          open.delete(each);
        }
        return { contents, loader: 'ts' };
      });
    },
  };
}
