/**
 * A snapshot of a service: all databases as they are in one moment, in which its runtime stands
 * still. So no object can be ahead of another by more than after a crash, which the service
 * survives anyway. What the index of the embedded node names in that moment stays on the disk until
 * the snapshot is released.
 */
import { constants, mkdirSync } from 'node:fs';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { errnoOf, writeFailure } from '../../errno.ts';
import { once } from '../cleanup-stack.ts';
import { type AskedService, control } from '../control.ts';
import { endLeftover, stateDirOf, workerdsOf } from '../leftover.ts';
import { isFull } from '../node/reserve.ts';
import type { RunningNode } from '../node/server.ts';
import { Agent } from '../../io/node-http.ts';
import { withDatabase } from '../../io/sqlite.ts';
import { lockWhenFree } from '../other-service.ts';
import { localPaths } from '../state.ts';
import { type AskWorker, markRunning, markStopped } from './marks.ts';
import { whilePaused } from './pause.ts';
import { copyState, type Snapshot, type Stamps } from './state-files.ts';

/** The name of the copy of the index of the embedded node. */
export const indexCopy = 'node.db';

/**
 * Takes a snapshot of a running service.
 * @param o.ask marks the accounts as backed up
 * @param known files that need not be copied
 * @param closed releases the snapshot, and removes it
 */
export async function takeSnapshot(
  o: {
    readonly dataDir: string;
    readonly stateDir: string;
    readonly ask: AskWorker;
    readonly node: Pick<RunningNode, 'keep'>;
  },
  known: Stamps,
  closed: AbortSignal,
): Promise<Snapshot> {
  const { local, tmp } = localPaths(o.dataDir);
  const marked = await markRunning(o.ask);
  const dir = await mkdtemp(join(tmp, 'snapshot-'));
  let free = async (): Promise<void> => undefined;
  const release = once(async () => {
    // While the folder is there, so is what the index names.
    await rm(dir, { recursive: true, force: true });
    await free();
  });
  try {
    const { takenAt, pausedMs, files } = await whilePaused(
      () => workerdsOf(o.stateDir),
      () => {
        const start = performance.now();
        free = o.node.keep(join(dir, indexCopy));
        const copied = copyState(local, dir, known);
        const pausedMs = Math.round(performance.now() - start);
        return { takenAt: new Date().toISOString(), pausedMs, files: copied };
      },
    );
    // What an account that is younger than the first marks deletes from now on is in the snapshot.
    await markRunning(o.ask, marked);
    closed.addEventListener('abort', () => void release().catch(() => undefined), { once: true });
    if (closed.aborted) await release();
    return { dir, takenAt, pausedMs, files };
  } catch (error) {
    await release();
    throw error;
  }
}

/**
 * Uses a snapshot of the service of a data directory, whether or not it runs; while it does not,
 * none can start.
 * @param known files that need not be copied
 * @throws what `use` throws; disk_full, service_unreachable
 */
export async function withSnapshot<T>(asking: AskedService, known: Stamps, use: (snapshot: Snapshot) => Promise<T>) {
  // The service releases the snapshot when this connection ends, also because this process was
  // killed.
  const agent = new Agent({ keepAlive: true });
  try {
    const running = await control(asking, 'snapshot', { body: { known }, agent }).catch((error: unknown) => {
      if (errnoOf(error) === 'ECONNRESET') throw snapshotGone(error);
      if (!isSealpinError(error, 'not_running')) throw notTaken(asking, error);
      return undefined;
    });
    return running === undefined ? await withStopped(asking, known, use) : await use(running);
  } finally {
    agent.destroy();
  }
}

/** The failure to read a snapshot of a service that has ended since. */
export function snapshotGone(cause?: unknown): SealpinError {
  return new SealpinError('not_running', 'the service ended during the backup', {
    hint: 'run the same command again: the backup is as it was before',
    cause,
  });
}

async function withStopped<T>(asking: AskedService, known: Stamps, use: (snapshot: Snapshot) => Promise<T>) {
  const { dataDir } = asking;
  const { local, tmp, ipfs } = localPaths(dataDir);
  let held: Awaited<ReturnType<typeof lockWhenFree>> | undefined;
  let dir: string | undefined;
  const take = async (): Promise<Snapshot> => {
    held = await lockWhenFree(asking);
    await endLeftover(dataDir);
    await markStopped(await stateDirOf(dataDir));
    mkdirSync(tmp, { recursive: true, mode: 0o700 });
    const into = (dir = await mkdtemp(join(tmp, 'snapshot-')));
    withDatabase(join(ipfs, 'node.db'), (index) => index.prepare('VACUUM INTO ?').run(join(into, indexCopy)));
    return { dir: into, takenAt: new Date().toISOString(), pausedMs: 0, files: copyState(local, into, known) };
  };
  try {
    const snapshot = await take().catch(async (error: unknown) => {
      throw await notWritable(asking, notTaken(asking, error));
    });
    return await use(snapshot);
  } finally {
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
    held?.release();
  }
}

/** Says that a data directory cannot be written, if it was that which failed. */
async function notWritable({ dataDir }: AskedService, error: unknown): Promise<unknown> {
  const { local } = localPaths(dataDir);
  const refused = await access(local, constants.W_OK).catch((thrown: unknown) => writeFailure(local, thrown));
  if (refused === undefined || isSealpinError(error)) return error;
  const hint = 'copy the data directory to another disk, and back up the copy: name it with --data-dir';
  return new SealpinError(refused.code, refused.message, { hint, cause: error });
}

/** Names the disk that has no room for a snapshot: not that of a backup. */
function notTaken({ dataDir }: AskedService, error: unknown): unknown {
  if (!isFull(error) && !isSealpinError(error, 'disk_full')) return error;
  const { local } = localPaths(dataDir);
  return new SealpinError('disk_full', `${local} cannot be written: the disk is full`, { cause: error });
}
