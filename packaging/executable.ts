/**
 * Builds the command line for Linux x64 as one file with Node in it, without a local service:
 * `npm run executable`.
 */
import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { inject } from 'postject';
import { commandOptions, lateNoble } from '../cli/startup/command-bundle.ts';
import { packageRoot } from '../cli/local/package-root.ts';

if (process.platform !== 'linux' || process.arch !== 'x64') throw new TypeError('the executable is built on Linux x64');
const [output = join(packageRoot(), 'dist/release/sealpin-linux-x64')] = process.argv.slice(2);
await mkdir(dirname(output), { recursive: true });
const folder = await mkdtemp(`${output}-`);
try {
  const main = join(folder, 'sealpin.cjs');
  await build({
    ...commandOptions,
    entryPoints: ['packaging/executable-entry.ts'],
    outfile: main,
    target: 'node24',
    plugins: [lateNoble],
  });
  const blob = join(folder, 'blob');
  const settings = join(folder, 'sea.json');
  await writeFile(
    settings,
    JSON.stringify({ main, output: blob, disableExperimentalSEAWarning: true, useCodeCache: true }),
  );
  await promisify(execFile)(process.execPath, ['--experimental-sea-config', settings]);
  await cp(process.execPath, output);
  await chmod(output, 0o755);
  // The names are from Node's documentation, "Single executable applications".
  await inject(output, 'NODE_SEA_BLOB', await readFile(blob), {
    sentinelFuse: 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2',
  });
} finally {
  await rm(folder, { recursive: true });
}
console.log(`built ${output} (${((await stat(output)).size / 1e6).toFixed(0)} MB)`);
