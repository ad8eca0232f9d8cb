/**
 * What the processes of one test run need not do twice. A global setup of Vitest makes a temporary directory for V8's compiled
 * code and for bundles, names it in the environment of every process below, and removes it after the last file. In watch mode
 * each rerun bundles again. Without that directory, as in benches, nothing is kept.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

const variable = 'SEALPIN_TEST_BUNDLES';
const builds = new Map<string, Promise<string>>();

/** Vitest calls it before the first test file; gives what it calls after the last. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-run-'));
  // Node writes it when a process ends by itself, and takes from it only what fits the text of the source.
  process.env['NODE_COMPILE_CACHE'] = join(directory, 'compiled');
  const begin = async (): Promise<void> => {
    process.env[variable] = await mkdtemp(join(directory, 'bundles-'));
  };
  await begin();
  project.onTestsRerun(begin);
  return () => rm(directory, { recursive: true, force: true, maxRetries: 3 });
}

/**
 * A bundle, built once per run.
 *
 * @param name what is bundled, and how where that is not the usual way
 * @param build makes it; its errors are not kept
 */
export function bundledOnce(name: string, build: () => Promise<string>): Promise<string> {
  const text = builds.get(name) ?? fromRun(name, build);
  builds.set(name, text);
  return text;
}

async function fromRun(name: string, build: () => Promise<string>): Promise<string> {
  const directory = process.env[variable];
  if (directory === undefined) return build();
  const path = join(directory, `${createHash('sha256').update(name).digest('hex')}.js`);
  const kept = await readFile(path, 'utf8').catch(() => undefined);
  if (kept !== undefined) return kept;
  const text = await build();
  // Two workers may build at once; neither reads half of what the other writes.
  const own = `${path}.${process.pid}`;
  await writeFile(own, text);
  await rename(own, path);
  return text;
}
