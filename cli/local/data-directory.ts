/**
 * Preparation of the data directory for a start: it takes the lock, and clears what a crash left.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SealpinError } from '../../shared/errors.ts';
import { hourMs } from '../../shared/time.ts';
import { ifMissing } from '../errno.ts';
import type { CleanupStack } from './cleanup-stack.ts';
import { erasingClasses, ownTables, type ClassName } from './code/erasing-classes.ts';
import { endLeftover, stateDirOf } from './leftover.ts';
import { keepLog } from './log-file.ts';
import { isFull, reserveDiskSpace } from './node/reserve.ts';
import { lockWhenFree } from './other-service.ts';
import { isUnfinished } from './snapshot/state-files.ts';
import { loadSecrets, localPaths, makeLocal, readState, removeTemporaries, writeState } from './state.ts';
import { prepareState, refuseNewer, removeOldCopies } from './upgrade/copies.ts';
import { putTemporariesInto, removeEmpty, vacuum, vacuumLive, vacuumLogged } from './vacuum.ts';

/**
 * Timeout of SQLite for another reader or writer of a file; this process does nothing else
 * meanwhile.
 */
const busyMs = 1_000;
const eraseAttempts = 5;

/**
 * `dataDir`: absolute; it exists. `backupDays`: how long copies of the state may be kept; `log`
 * writes a line.
 */
type DirectoryOptions = {
  readonly dataDir: string;
  readonly backupDays?: number | undefined;
  log(this: void, line: string): void;
};

/**
 * Locks and prepares a data directory.
 * @param cleanup gets what must be undone at the end, the lock included
 * @returns the tokens; `stateDir`: folder of KV and the Durable Objects; `crashed`: whether the
 * last service did not stop cleanly; `log` writes a line to the log, which is rotated first when it
 * is full
 * @throws already_running, service_unreachable, config_invalid, the errors of the file system
 */
export async function prepareDirectory(
  { dataDir, backupDays, log: writeLine }: DirectoryOptions,
  cleanup: CleanupStack,
) {
  const paths = localPaths(dataDir);
  await makeLocal(dataDir);
  const held = await lockWhenFree({ dataDir });
  cleanup.add(() => held.release());
  const beforeLine = keepLog(paths.log);
  const log = (line: string): void => {
    beforeLine();
    writeLine(line);
  };
  await refuseNewer(dataDir);
  const stateDir = await stateDirOf(dataDir);
  const crashed = await endLeftover(dataDir);
  await rm(paths.tmp, { recursive: true, force: true });
  await mkdir(paths.tmp, { mode: 0o700 });
  cleanup.add(() => rm(paths.tmp, { recursive: true, force: true }));
  await removeTemporaries(dataDir);
  putTemporariesInto(paths.tmp);
  // After a crash, deleted rows may still be in the files.
  await removeUnknown(stateDir);
  if (crashed) for (const className of erasingClasses) await vacuum(objectsIn(stateDir, className));
  await vacuumLogged(stateDir);
  await prepareState(dataDir, {
    backupDays,
    note: (detail) => log(JSON.stringify({ event: 'upgrade.kept', detail })),
  });
  const dropOld = (): Promise<void> => removeOldCopies(dataDir, backupDays, Date.now());
  await dropOld();
  const timer = setInterval(() => void dropOld().catch(() => undefined), hourMs);
  cleanup.add(() => clearInterval(timer));
  const secrets = await loadSecrets(dataDir);
  const room = reserveDiskSpace(paths.reserve, (detail) => log(JSON.stringify({ event: 'disk.full', detail })));
  cleanup.add(() => room.close());
  return { secrets, stateDir, crashed, log };
}

/** Checks that an object has a database file. @param objectId 64 hex digits */
export function hasObject(stateDir: string, className: ClassName, objectId: string): boolean {
  return existsSync(fileOf(stateDir, className, objectId));
}

/**
 * Erases deleted rows from all files that were written since the last time, once workerd has ended,
 * so that destroyed headers leave the disk, too.
 * @throws disk_full, config_invalid
 */
export async function eraseDeleted(dataDir: string, stateDir: string): Promise<void> {
  try {
    await removeUnknown(stateDir);
  } finally {
    // Without the record, which a full disk does not take, all files are rewritten.
    const known = await readState(dataDir, 'rewritten').catch(() => undefined);
    const stamps = await vacuum(stateDir, known?.stamps).catch((error: unknown) => {
      if (!isFull(error)) throw error;
      throw new SealpinError('disk_full', `the disk of ${dataDir} is full: rows of deleted files are not wiped yet`, {
        hint: 'free some disk space and start the service: the start wipes them',
        cause: error,
      });
    });
    await writeState(dataDir, 'rewritten', { v: 1, stamps }).catch(() => undefined);
  }
}

/**
 * Removes deleted rows from the file of one object while workerd has it open.
 * @param objectId of the Durable Object, 64 hexadecimal digits
 * @returns false when the file stays busy
 */
export async function eraseLive(stateDir: string, className: ClassName, objectId: string): Promise<boolean> {
  const path = fileOf(stateDir, className, objectId);
  for (let attempt = 1; attempt <= eraseAttempts; attempt += 1) {
    if (await vacuumLive(path, busyMs)) return true;
    await sleep(100);
  }
  return false;
}

/** Removes the files of objects that stand for nothing, and what KV was killed in writing. */
async function removeUnknown(stateDir: string): Promise<void> {
  const kv = join(stateDir, 'kv');
  const names = await ifMissing(readdir(kv, { recursive: true }), []);
  for (const name of names) if (isUnfinished(name)) await rm(join(kv, name), { force: true });
  for (const className of erasingClasses) await removeEmpty(objectsIn(stateDir, className), ownTables[className]);
}

function fileOf(stateDir: string, className: ClassName, objectId: string): string {
  return join(objectsIn(stateDir, className), `${objectId}.sqlite`);
}

/** Miniflare's folder for the objects of a class. */
function objectsIn(stateDir: string, className: ClassName): string {
  return join(stateDir, 'do', `sealpin-${className}`);
}
