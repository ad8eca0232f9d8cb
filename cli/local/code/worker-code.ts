/**
 * The code that workerd runs for `start`: built once for each state of its source, and kept. A
 * published `@sealpin/local` brings it built. The key is made of every byte of the source, so that
 * kept code is never older than it.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import packageJson from '../../../package.json' with { type: 'json' };
import { errnoOf } from '../../errno.ts';
import { bundleGuard, bundleWorker } from './bundle.ts';
import { packageRoot } from '../package-root.ts';

/** The Worker and the guard in front of it, each the text of one ES module. */
export type WorkerCode = { readonly worker: string; readonly guard: string };

/** Kept code, in the cache and at the root of `@sealpin/local`. */
export const keptFile = 'worker-code.json';

/**
 * Below the root: what the code is built from. The lock file, which only a checkout has, stands for
 * the packages in it.
 */
const sources = ['shared', 'client', 'web', 'worker', 'cli/local', 'tsconfig.json', 'package-lock.json'];

/**
 * The code for a start: what is kept for the source as it is, or else a new build, which is then
 * kept.
 * @param cacheDir absolute; created where it is missing
 * @throws build_failed, not_installed, the errors of the file system where the source cannot be
 * read
 */
export async function workerCode(cacheDir: string): Promise<WorkerCode> {
  const root = packageRoot();
  const key = sourceKey(root);
  return (
    (await readKept(join(cacheDir, keptFile), keyWithBuilder(key))) ??
    (await readKept(join(root, keptFile), key)) ??
    (await rebuildWorkerCode(cacheDir))
  );
}

/**
 * Builds the code in any case, and keeps it for the next start. Where it cannot be kept, that start
 * takes longer, and nothing else.
 * @param cacheDir absolute; created where it is missing
 * @throws build_failed, not_installed, the errors of the file system where the source cannot be
 * read
 */
export async function rebuildWorkerCode(cacheDir: string): Promise<WorkerCode> {
  const root = packageRoot();
  const key = sourceKey(root);
  const code = await build();
  // A file that was saved meanwhile may be in the code or not.
  if (sourceKey(root) === key) await keep(cacheDir, keyWithBuilder(key), code).catch(() => undefined);
  return code;
}

/** Builds the code into `@sealpin/local`. @param folder the package, with its source in it */
export async function packWorkerCode(folder: string): Promise<void> {
  await writeFile(join(folder, keptFile), JSON.stringify({ key: sourceKey(folder), ...(await build()) }));
}

async function build(): Promise<WorkerCode> {
  const [worker, guard] = await Promise.all([bundleWorker(), bundleGuard()]);
  return { worker, guard };
}

/**
 * SHA-256, in hexadecimal digits, of every path and file of the source.
 * @param root of a checkout or of `@sealpin/local`
 */
export function sourceKey(root: string): string {
  const hash = createHash('sha256').update(packageJson.version);
  const add = (path: string): void => {
    const at = join(root, path);
    const bytes = ifOfKind(() => readFileSync(at));
    if (bytes !== undefined) hash.update(`\n${path} ${bytes.length}\n`).update(bytes);
    // In an order that is the same everywhere.
    else
      for (const name of ifOfKind(() => readdirSync(at).toSorted()) ?? []) if (name !== 'test') add(`${path}/${name}`);
  };
  for (const path of sources) add(path);
  return hash.digest('hex');
}

/** Content of a path; undefined: it is of the other kind, or not there. */
function ifOfKind<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (['EISDIR', 'ENOENT'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}

/**
 * The key of code that this program built. In `dist/` the program may be older than the source
 * beside it; there this file has all that builds the code.
 */
function keyWithBuilder(key: string): string {
  return createHash('sha256')
    .update(key)
    .update(readFileSync(import.meta.filename))
    .digest('hex');
}

async function readKept(path: string, key: string): Promise<WorkerCode | undefined> {
  try {
    const kept = JSON.parse(await readFile(path, 'utf8')) as { readonly key?: unknown } & WorkerCode;
    return kept.key === key ? { worker: kept.worker, guard: kept.guard } : undefined;
  } catch {
    return undefined; // missing or damaged: it is built again
  }
}

/** Replaces what is kept in one step: other starts may share the folder. */
async function keep(cacheDir: string, key: string, code: WorkerCode): Promise<void> {
  const path = join(cacheDir, keptFile);
  const own = `${path}.${process.pid}`;
  await mkdir(dirname(path), { recursive: true });
  try {
    await writeFile(own, JSON.stringify({ key, ...code }));
    await rename(own, path);
  } finally {
    await rm(own, { force: true });
  }
}
