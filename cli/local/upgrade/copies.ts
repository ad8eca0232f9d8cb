/**
 * Copies of the state of a service, by which an upgrade can be undone: before a newer version
 * changes rows, the databases, secrets and index are copied into `copies/`, and `version.json` says
 * which version the data directory belongs to. The bytes of files are not copied: nothing changes
 * them.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import packageJson from '../../../package.json' with { type: 'json' };
import { SealpinError } from '../../../shared/errors.ts';
import { dayMs, hourMs } from '../../../shared/time.ts';
import { countText } from '../../terminal/size.ts';
import { ifMissing } from '../../errno.ts';
import { removeTree } from '../../io/remove-tree.ts';
import { syncDirectory, syncFile, syncTree } from '../../io/unfinished.ts';
import type { AskedService } from '../control.ts';
import { endLeftover } from '../leftover.ts';
import { lockWhenFree } from '../other-service.ts';
import { holdStrays, markStopped } from '../snapshot/marks.ts';
import { copyDatabase, databaseFiles, indexPath, statePaths } from '../snapshot/state-files.ts';
import { localPaths, readState, startCommand, writeState } from '../state.ts';
import { isOlder, versionIn } from './version.ts';

/** The longest that a copy is kept, in days: what is deleted meanwhile is still in it. */
const mostDays = 30;

const singles = ['secrets.json', indexPath];

/** The name of a copy until it is complete. */
const unfinished = 'unfinished';

/** The name of a copy: the version of its state, and when it was made, behind all others. */
const copyName = /^(.+)-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/;

/** Refuses a data directory of a newer version, before anything changes. @throws config_invalid */
export async function refuseNewer(dataDir: string, own = packageJson.version): Promise<void> {
  await readState(dataDir, 'secrets');
  const { local } = localPaths(dataDir);
  const found = await versionIn(local);
  if (found === undefined || !isOlder(own, found)) return;
  const copies = await copiesIn(local);
  const start = await startCommand(dataDir);
  const mine = copies.findLast((name) => copyName.exec(name)?.[1] === own) ?? copies.at(-1);
  throw new SealpinError('config_invalid', `${dataDir} belongs to sealpin ${found}, and this is ${own}`, {
    hint:
      mine === undefined
        ? `install sealpin ${found} or a newer one; nothing was changed`
        : `install sealpin ${found}; or go back, without what was stored since: ${start} --rollback ${mine}`,
  });
}

/**
 * Prepares the state for this version, under the lock: completes a rollback that was interrupted,
 * and keeps a copy where an older version was here.
 * @param o.backupDays how long a copy may be kept; 0: there is none
 * @param note called with a sentence for what a person should know
 * @throws disk_full when there is no room for the copy
 */
export async function prepareState(
  dataDir: string,
  o: { readonly backupDays: number | undefined; readonly note: (text: string) => void; readonly own?: string },
): Promise<void> {
  const { local } = localPaths(dataDir);
  const own = o.own ?? packageJson.version;
  await completeRollback(dataDir);
  const found = await versionIn(local);
  if (found === own) return;
  if ((await readState(dataDir, 'secrets')) !== undefined && o.backupDays !== 0) {
    const name = await keepCopy(local, found);
    o.note(
      `the data directory was of ${found === undefined ? 'an earlier version' : `sealpin ${found}`}: its state is ` +
        `kept for ${countText(daysOf(o.backupDays), 'day')}, and its files are not copied; go back with that ` +
        `version, without what was stored since: ${await startCommand(dataDir)} --rollback ${name}`,
    );
  }
  await writeState(dataDir, 'version', { v: 1, version: own });
}

/**
 * Removes what a killed run left of a copy, and all copies but the last, and that too when its time
 * is over.
 */
export async function removeOldCopies(dataDir: string, backupDays: number | undefined, now: number): Promise<void> {
  const { local, copies } = localPaths(dataDir);
  await removeTree(join(copies, unfinished));
  const all = await copiesIn(local);
  const last = all.at(-1);
  // It is looked at once an hour.
  const oldest = now - daysOf(backupDays) * dayMs + hourMs;
  for (const name of all) {
    // A name whose time is to come orders the copies alone: the clock was set back.
    const made = madeAt(name) > now ? (await stat(join(copies, name))).mtimeMs : madeAt(name);
    if (name !== last || made < oldest) await removeTree(join(copies, name));
  }
}

/**
 * Puts a copy back. The state as it is now is kept as a copy, too.
 * @returns the version that the data directory belongs to now; undefined: an earlier one, which
 * writes none
 * @throws usage for a name that is none, already_running
 */
export async function rollBack(asking: AskedService, name: string) {
  const { dataDir } = asking;
  const { local, lock, copies } = localPaths(dataDir);
  const all = await copiesIn(local);
  if (!all.includes(name))
    throw new SealpinError('usage', `--rollback ${name} is no copy of this data directory`, {
      hint: all.length === 0 ? 'it has none' : `there is: ${all.join(', ')}`,
    });
  const held = await lockWhenFree(asking);
  try {
    await endLeftover(dataDir);
    await completeRollback(dataDir);
    const version = await versionIn(join(copies, name));
    const kept = await keepCopy(local, await versionIn(local));
    await writeState(dataDir, 'rollback', { v: 1, copy: name });
    await completeRollback(dataDir);
    return { version, kept };
  } finally {
    held.release();
    await syncDirectory(dirname(lock));
  }
}

function daysOf(backupDays: number | undefined): number {
  return Math.min(mostDays, backupDays ?? mostDays);
}

/** The names of the copies, the oldest first. */
async function copiesIn(local: string): Promise<string[]> {
  const names = await ifMissing(readdir(join(local, 'copies')), []);
  return names.filter((name) => !Number.isNaN(madeAt(name))).toSorted((a, b) => madeAt(a) - madeAt(b));
}

/** NaN where it is no name of a copy. */
function madeAt(name: string): number {
  const [, , year, month, day, hour, minute, second, ms] = copyName.exec(name) ?? [];
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
}

/**
 * Copies the state, and marks its accounts before: receipts then say so here, and where the copy is
 * put back. Nothing may use it meanwhile.
 * @returns the name of the copy
 */
async function keepCopy(local: string, version: string | undefined): Promise<string> {
  await markStopped(join(local, 'state'));
  const [last = ''] = (await copiesIn(local)).slice(-1);
  // A clock may have been set back since the last one, and only the last is kept.
  const at = new Date(Math.max(Date.now(), (madeAt(last) || 0) + 1));
  const name = `${version ?? 'earlier'}-${at.toISOString().replaceAll(/[-:.]/g, '')}`;
  const incomplete = join(local, 'copies', unfinished);
  await removeTree(incomplete);
  await mkdir(incomplete, { recursive: true, mode: 0o700 });
  try {
    const present = singles.filter((path) => existsSync(join(local, path)));
    await copyPaths([...statePaths(local), ...present], local, incomplete);
    await rename(incomplete, join(local, 'copies', name));
  } catch (error) {
    await removeTree(incomplete);
    throw error;
  }
  await syncDirectory(join(local, 'copies'));
  return name;
}

async function copyPaths(paths: readonly string[], from: string, to: string): Promise<void> {
  for (const path of paths) {
    const target = join(to, path);
    mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    copyDatabase(join(from, path), target);
    await syncFile(target);
  }
  await syncTree(to);
}

/** Replaces the state by the copy that a rollback chose, again if it was interrupted. */
async function completeRollback(dataDir: string): Promise<void> {
  const mark = await readState(dataDir, 'rollback');
  if (mark === undefined) return;
  const { local, copies } = localPaths(dataDir);
  const from = join(copies, mark.copy);
  for (const path of [...statePaths(local), ...singles])
    for (const file of databaseFiles(join(local, path))) await rm(file, { force: true });
  const entries = await readdir(from, { recursive: true, withFileTypes: true });
  const paths = entries.filter((each) => each.isFile()).map((each) => relative(from, join(each.parentPath, each.name)));
  await copyPaths(
    paths.filter((path) => !/-(?:wal|shm)$/.test(path)),
    from,
    local,
  );
  await holdStrays(join(local, 'state'));
  // The copy may have been made before there were marks, and the state that it replaces is kept.
  await markStopped(join(local, 'state'));
  await writeState(dataDir, 'rollback', undefined);
  await syncDirectory(local);
}
