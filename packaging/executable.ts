/** Builds the command line for Linux x64 as one file, with Node and the local service in it. */
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { inject } from 'postject';
import { commandOptions, lateNoble } from '../cli/startup/command-bundle.ts';
import { embeddedAssets } from '../cli/local/code/embedded.ts';
import { embeddedFiles } from './embedded-local.ts';

/**
 * Builds it. The same source and Node give the same bytes.
 * @param output path of the executable
 * @param local the built `@sealpin/local`
 * @throws TypeError on other platforms
 */
export async function buildExecutable(output: string, local: string): Promise<void> {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new TypeError('the executable is built on Linux x64');
  await mkdir(dirname(output), { recursive: true });
  const folder = await mkdtemp(`${output}-`);
  const file = (name: string): string => join(folder, name);
  try {
    await build({
      ...commandOptions,
      entryPoints: ['packaging/executable-entry.ts'],
      outfile: file('sealpin.cjs'),
      target: 'node24',
      plugins: [lateNoble],
    });
    const { list, bytes } = await embeddedFiles(local);
    await writeFile(file(embeddedAssets.list), JSON.stringify(list));
    await writeFile(file(embeddedAssets.bytes), bytes);
    // Paths go into the blob, so they are relative.
    const settings = {
      main: 'sealpin.cjs',
      output: 'blob',
      disableExperimentalSEAWarning: true,
      assets: Object.fromEntries(Object.values(embeddedAssets).map((name) => [name, name])),
    };
    await writeFile(file('sea.json'), JSON.stringify(settings));
    await promisify(execFile)(process.execPath, ['--experimental-sea-config', 'sea.json'], { cwd: folder });
    await cp(process.execPath, output);
    await chmod(output, 0o755);
    // The names are from Node's documentation, "Single executable applications".
    await inject(output, 'NODE_SEA_BLOB', await readFile(file('blob')), {
      sentinelFuse: 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2',
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}
