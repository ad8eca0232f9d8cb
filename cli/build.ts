/**
 * Builds `dist/`: the command line, and `worker.js`, built alone by `npm run build -- worker`, as
 * by wrangler.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundleCommand } from './startup/command-bundle.ts';
import { bundleWorker } from './local/code/bundle.ts';
import { packageRoot } from './local/package-root.ts';

const dist = join(packageRoot(), 'dist');
const workerOnly = process.argv[2] === 'worker';
if (!workerOnly) await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });

const worker = await bundleWorker();
await writeFile(join(dist, 'worker.js'), worker);
const kib = (bytes: number): string => `${(bytes / 1024).toFixed(0)} KiB`;
console.log(`built dist/worker.js (${kib(Buffer.byteLength(worker))}, ${kib(gzipSync(worker).length)} compressed)`);

if (!workerOnly) {
  await bundleCommand(dist);
  console.log('built dist/sealpin.cjs');
}
