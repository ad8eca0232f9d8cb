/** The command line as it is shipped. */
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { build, type BuildOptions, type Metafile, type Plugin } from 'esbuild';
import { packageRoot } from '../local/package-root.ts';

/** The files of the command line, and what each is made of. */
export const bundleParts = {
  sealpin: 'cli/shipped.ts',
  command: 'cli/startup/run-process.ts',
  strength: 'cli/keys/strength.ts', // with dictionaries of 1.6 MB, which Node would read for every command
};

/** Options of the bundles for Node: CommonJS, which Node loads with less work than modules. */
export const commandOptions = {
  absWorkingDir: packageRoot(),
  bundle: true,
  format: 'cjs',
  platform: 'node',
  target: 'node22',
  supported: { 'dynamic-import': false }, // each becomes a `require`, which loads none of Node's code for ES modules
  define: { 'import.meta.dirname': '__dirname', 'import.meta.filename': '__filename' },
  external: ['esbuild', 'miniflare'],
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'error',
} as const satisfies BuildOptions;

/** The files of the core that use noble. */
const providers = ['web.ts', 'curves.ts', 'ed25519.ts'].map((name) =>
  join(packageRoot(), 'shared/crypto/providers', name),
);

/**
 * Evaluates a module of noble when something of it is first used. Its curves and tables take longer
 * than all other modules of a small command together, and Node's own cryptography does nearly
 * everything.
 */
export const lateNoble: Plugin = {
  name: 'late-noble',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^@noble\// }, ({ path, importer, resolveDir }) =>
      providers.includes(importer) ? { path, namespace: 'late-noble', pluginData: resolveDir } : undefined,
    );
    onLoad({ filter: /./, namespace: 'late-noble' }, async ({ path, pluginData }) => {
      const names = Object.keys((await import(path)) as object);
      const getters = names.map((name) => `get ${name}() { return require('${path}').${name}; }`);
      return { contents: `module.exports = { ${getters.join(', ')} };`, resolveDir: String(pluginData) };
    });
  },
};

/** Leaves what an `import()` loads and another part has to that part. */
export const otherParts: Plugin = {
  name: 'other-parts',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ path, kind, resolveDir }) => {
      const source = join(resolveDir, path);
      const [part] = Object.entries(bundleParts).find(([, each]) => join(packageRoot(), each) === source) ?? [];
      return kind === 'dynamic-import' && part !== undefined ? { path: `./${part}.cjs`, external: true } : undefined;
    });
  },
};

/**
 * Bundles the command line: `sealpin.cjs`, which is executable, and what it loads.
 * @param outdir absolute; what is there stays
 */
export async function bundleCommand(outdir: string): Promise<Metafile> {
  const { metafile } = await build({
    ...commandOptions,
    entryPoints: bundleParts,
    outdir,
    outExtension: { '.js': '.cjs' },
    plugins: [lateNoble, otherParts],
    metafile: true,
  });
  await chmod(join(outdir, 'sealpin.cjs'), 0o755);
  return metafile;
}
