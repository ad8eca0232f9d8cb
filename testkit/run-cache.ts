/**
 * Cache of what the processes of one test run need not do twice. A global setup of Vitest makes a
 * temporary directory for V8's compiled code and for bundles, names it in the environment of every
 * process below, and removes it after the last file. In watch mode each rerun bundles again.
 * Without that directory, as in benches, nothing is kept.
 */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestProject } from 'vitest/node';

const variable = 'SEALPIN_TEST_BUNDLES';
/** Names the user's own certificates to tests that use a registry. */
export const ownCertificates = 'SEALPIN_TEST_CA_CERTS';
const longestMs = 120_000;
const builds = new Map<string, Promise<string>>();

/** Linux's file system in memory, and the room that all of a run needs there, in bytes. */
const memoryFolder = '/dev/shm';
const runBytes = 2 ** 32;

/**
 * Returns the folder for the temporary directories of a run: in memory where there is room, unless
 * `TMPDIR` says otherwise. Tests make and remove so many files that ext4, which does not use an
 * inode again for 5 s, takes a twentieth of the CPU to find free ones.
 */
async function temporaryRoot(): Promise<string> {
  if (process.env['TMPDIR'] !== undefined) return tmpdir();
  const disk = await statfs(memoryFolder).catch(() => undefined);
  return disk !== undefined && disk.bavail * disk.bsize >= runBytes ? memoryFolder : tmpdir();
}

/** Vitest calls it before the first test file; gives what it calls after the last. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  process.env['TMPDIR'] = await temporaryRoot();
  const directory = await mkdtemp(join(tmpdir(), 'sealpin-run-'));
  // Node writes it when a process ends by itself, and takes from it only what fits the text of the
  // source.
  process.env['NODE_COMPILE_CACHE'] = join(directory, 'compiled');
  // Large pages for what glibc allocates: with the small ones, faults and copies of page tables at
  // every start of a program take a fifteenth of the CPU.
  process.env['GLIBC_TUNABLES'] ??= 'glibc.malloc.hugetlb=1';
  // Miniflare gives them to every workerd, one after another, and moves the whole Worker for each:
  // a third of a start.
  const { NODE_EXTRA_CA_CERTS: certificates } = process.env;
  if (certificates !== undefined) process.env[ownCertificates] = certificates;
  delete process.env['NODE_EXTRA_CA_CERTS'];
  const begin = async (): Promise<void> => {
    process.env[variable] = await mkdtemp(join(directory, 'bundles-'));
  };
  await begin();
  project.onTestsRerun(begin);
  return () => rm(directory, { recursive: true, force: true, maxRetries: 3 });
}

/** The environment of a process that gets only the programs, and code compiled in this run. */
export function bareEnv(): Record<string, string> {
  const { PATH = '', NODE_COMPILE_CACHE } = process.env;
  return { PATH, ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) };
}

/** A new directory that lasts until the run ends. */
export function directoryOfRun(): Promise<string> {
  const directory = process.env[variable];
  if (directory === undefined) throw new Error('there is no run of Vitest');
  return mkdtemp(join(directory, 'lasting-'));
}

/** Builds a bundle once in a run, and outside of one, once in this process; errors are not kept. */
export function bundledOnce(name: string, build: () => Promise<string>): Promise<string> {
  const text = builds.get(name) ?? (process.env[variable] === undefined ? build() : madeOnce(name, build));
  builds.set(name, text);
  return text;
}

/**
 * Makes something in one process for all of a run, while the others wait.
 * @param name what is made
 * @param make gives what JSON can hold, and may fill the folder that it is given, which lasts until
 * the run ends
 * @throws what `make` throws, which is not kept; an error where another process has not made it
 * within two minutes
 */
export async function madeOnce<T>(name: string, make: (folder: string) => Promise<T>): Promise<T> {
  const directory = process.env[variable];
  if (directory === undefined) throw new Error(`${name} is made in a run of Vitest only`);
  const folder = join(directory, createHash('sha256').update(name).digest('hex'));
  const path = `${folder}.json`;
  for (const until = Date.now() + longestMs; Date.now() < until; await sleep(50)) {
    const made = await readFile(path, 'utf8').catch(() => undefined);
    if (made !== undefined) return JSON.parse(made) as T;
    // Who creates the folder makes what belongs into it.
    if ((await mkdir(folder, { recursive: true })) !== undefined) return makeIn(folder, path, make);
  }
  throw new Error(`${name} was not made by another process within ${longestMs / 1000} s`);
}

async function makeIn<T>(folder: string, path: string, make: (folder: string) => Promise<T>): Promise<T> {
  try {
    const made = await make(folder);
    // In one step, because others look for it meanwhile.
    const own = `${path}.${process.pid}`;
    await writeFile(own, JSON.stringify(made));
    await rename(own, path);
    return made;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}
