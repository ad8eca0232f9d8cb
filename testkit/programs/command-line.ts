/** `cli/test/entry.ts` in few files: from its source each process costs a third more. */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { madeOnce } from '../run-cache.ts';
import { bundleParts, commandOptions, lateNoble, otherParts } from '../../cli/startup/command-bundle.ts';

/** Leaves each module the place of its source, from where it finds the Worker. */
const places: Plugin = {
  name: 'places',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]cli[\\/]local[\\/].*\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      const contents = source
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.filename', JSON.stringify(path));
      return { contents, loader: 'ts' };
    });
  },
};

/** Its source, for tests that change a module, or whose user cannot read the bundle. */
export const entrySource = fileURLToPath(new URL('../../cli/test/entry.ts', import.meta.url).href);

/** The path of the command line with cheap passwords, for Node. */
export const entry = await madeOnce('command line', async (folder) => {
  await build({
    ...commandOptions,
    define: {},
    entryPoints: { entry: 'cli/test/entry.ts', strength: bundleParts.strength },
    outdir: folder,
    outExtension: { '.js': '.cjs' },
    plugins: [places, lateNoble, otherParts],
  });
  return join(folder, 'entry.cjs');
});
