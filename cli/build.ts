/**
 * Builds what is shipped, into `dist/`: `worker.js`, which `wrangler deploy` sends, and the command line, split so that a
 * command loads only what it needs.
 */
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { bundleWorker, packageRoot } from './local/bundle.ts';

const dist = join(packageRoot(), 'dist');
await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });

const worker = await bundleWorker();
await writeFile(join(dist, 'worker.js'), worker);

await build({
  absWorkingDir: packageRoot(),
  entryPoints: { sealpin: 'cli/index.ts' },
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  external: ['esbuild', 'miniflare'],
  legalComments: 'none',
});
await chmod(join(dist, 'sealpin.js'), 0o755);

const kib = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KiB`;
console.log(`built dist/worker.js (${kib(Buffer.byteLength(worker))}, ${kib(gzipSync(worker).length)} compressed) and dist/sealpin.js`);
