/** Taking a backup of the local service: what changed since the last run is copied and checked. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import packageJson from '../../../package.json' with { type: 'json' };
import type { Recipient } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import type { Context } from '../../context.ts';
import { ifMissing, isDamage, writeFailure } from '../../errno.ts';
import { forEachOf } from '../../files/side-by-side.ts';
import { holdFolder } from '../../io/held-folder.ts';
import { hasTable, withDatabase } from '../../io/sqlite.ts';
import { removeLeftovers, syncDirectory, syncFile, temporaryPath } from '../../io/unfinished.ts';
import { protect, sealText } from '../../keys/key-files.ts';
import { embeddedId } from '../../local/backends/external-kubo.ts';
import { isDataFileName } from '../../local/node/data-file-name.ts';
import { isFull } from '../../local/node/reserve.ts';
import { indexCopy, snapshotGone, withSnapshot } from '../../local/snapshot/held-snapshot.ts';
import {
  databaseFiles,
  indexPath,
  isDatabase,
  logBytesOf,
  type Snapshot,
  writtenAt,
} from '../../local/snapshot/state-files.ts';
import { localPaths, readState, serviceIdOf } from '../../local/state.ts';
import { blockFilesIn, copyChecked, type CopyFault, faultIn } from './checked-copy.ts';
import {
  type Blocks,
  digestOfFile,
  type Manifest,
  type Part,
  prepareFolder,
  readManifest,
  removePrepared,
  isBackupOf,
  removeUnused,
  type ServiceFolder,
  sizeOf,
  writeManifest,
} from './service-folder.ts';

/**
 * Recipients, or a password. One that was not given is asked for only where the backup does not
 * have these secrets.
 */
export type SealedFor =
  | { readonly to: readonly Recipient[] }
  | { readonly password: () => Promise<string>; readonly isGiven: boolean };

/**
 * A stamp counts once its file is older than the coarsest clock of a file system: it could be
 * written again in the same tick.
 */
const settledMs = 2_000;

/**
 * Brings the backup of the service of a data directory up to date.
 * @param sealedFor for the secrets; undefined leaves them out
 * @param onBytes gets the length of each file that was copied
 * @throws not_found where there is no service, conflict when another run has the folder or it has
 * other files or another service, config_invalid, disk_full, file_unwritable
 */
export async function backUpService(
  folder: ServiceFolder,
  sealedFor: SealedFor | undefined,
  onBytes: (bytes: number) => void,
  context: Context,
) {
  const { dataDir } = context;
  const secrets = await ifMissing(readFile(localPaths(dataDir).secrets, 'utf8'), undefined);
  if (secrets === undefined)
    throw new SealpinError('not_found', `there is no local service in ${dataDir}`, {
      hint: 'name its data directory with --data-dir',
    });
  await prepareFolder(folder, dataDir);
  const held = await holdFolder(folder.root, dataDir);
  if (held === undefined)
    throw new SealpinError('conflict', `another backup into ${folder.shown} is running`, { hint: 'wait for its end' });
  try {
    for (const each of [folder.root, folder.parts, folder.blocks]) await removeLeftovers(each);
    const before = await readManifest(folder, context);
    const serviceId = serviceIdOf(await readState(dataDir, 'secrets'));
    if (before !== undefined && !isBackupOf(before, serviceId))
      throw new SealpinError('conflict', `${folder.shown} is the backup of another service than that of ${dataDir}`, {
        hint: 'name another folder, or the right data directory with --data-dir; nothing was changed',
      });
    // Before the snapshot: somebody may have to type a password.
    const sealed = await sealedPart(folder, before, secrets, sealedFor, context);
    const known = new Map<string, Part>();
    for (const file of before?.files ?? [])
      if ((await sizeOf(join(folder.parts, file.part))) === file.bytes) known.set(file.path, file);
    const stamps = Object.fromEntries([...known].flatMap(([path, { stamp }]) => (stamp ? [[path, stamp]] : [])));
    return await withSnapshot(context, stamps, async (snapshot) => {
      const run: Taking = { folder, snapshot, known, before, dataDir, onBytes, signal: context.signal };
      return await fill(run, { secrets: sealed, serviceId }, context);
    });
  } catch (error) {
    await removePrepared(folder);
    throw isFull(error) ? new SealpinError('disk_full', `${folder.shown} cannot be written: the disk is full`) : error;
  } finally {
    held.release();
  }
}

type Taking = {
  readonly folder: ServiceFolder;
  readonly snapshot: Snapshot;
  /** Parts of the state before that are there, by the path of their file. */
  readonly known: ReadonlyMap<string, Part>;
  readonly before: Manifest | undefined;
  readonly dataDir: string;
  readonly onBytes: (bytes: number) => void;
  readonly signal: AbortSignal;
};

/**
 * Fills the folder.
 * @returns counts: `databases` and `files` of what is in the backup now; `foreign`: files whose
 * bytes are at another backend, and not in it; `bad`: those with bytes that the service itself has
 * damaged or not at all
 */
async function fill(run: Taking, { secrets, serviceId }: Pick<Manifest, 'secrets' | 'serviceId'>, context: Context) {
  const { folder, snapshot } = run;
  const files: Part[] = [];
  let databases = 0;
  const index = { path: indexPath, stamp: '', copy: { name: indexCopy, logBytes: 0 } };
  for (const { path, stamp, copy } of [...snapshot.files, index]) {
    context.signal.throwIfAborted();
    const before = run.known.get(path);
    const isSettled = writtenAt(stamp) < Date.parse(snapshot.takenAt) - settledMs;
    const part = copy === undefined ? before : await partOf(run, path, copy);
    if (part === undefined) throw new SealpinError('internal', `the service did not copy ${path}`);
    if (part.part !== before?.part && isDatabase(path)) databases += 1;
    files.push({ ...part, stamp: isSettled && path !== indexPath ? stamp : undefined });
  }
  const blocks = await copyAllBlocks(run, files.find(({ path }) => path === indexPath)?.part ?? '');
  for (const each of [folder.parts, folder.blocks]) await syncDirectory(each);
  const { takenAt, pausedMs } = snapshot;
  const { version: sealpin } = packageJson;
  const manifest: Manifest = { v: 1, sealpin, takenAt, serviceId, files, blocks: blocks.files, secrets };
  await writeManifest(folder, manifest, context);
  const removed = await removeUnused(folder, manifest);
  for (const each of [folder.parts, folder.blocks]) await syncDirectory(each);
  return {
    takenAt,
    pausedMs,
    databases: files.filter(({ path }) => isDatabase(path)).length,
    files: blocks.files.length,
    written: { databases, files: blocks.written, bytes: blocks.bytes },
    removed,
    foreign: foreignIn(files, folder),
    bad: blocks.bad,
    secrets: secrets !== undefined,
  };
}

/** Encrypts the secrets, if the backup is to have them. */
async function sealedPart(
  folder: ServiceFolder,
  before: Manifest | undefined,
  secrets: string,
  sealedFor: SealedFor | undefined,
  context: Context,
): Promise<Manifest['secrets']> {
  if (sealedFor === undefined) return undefined;
  const of = createHash('sha256').update(secrets).digest('hex');
  const kept = before?.secrets;
  const hasThese = kept?.of === of && (await sizeOf(join(folder.parts, kept.part))) > 0;
  if (hasThese && 'password' in sealedFor && !sealedFor.isGiven) return kept;
  const sealed =
    'to' in sealedFor
      ? await sealText(secrets, 'age', sealedFor.to)
      : await protect(secrets, await sealedFor.password(), context);
  const temporary = temporaryPath(folder.parts);
  try {
    await writeFile(temporary, sealed, { mode: 0o600, flag: 'wx' });
    return { part: (await nameByContent(temporary)).part, of };
  } catch (error) {
    throw writeFailure(folder.shown, error);
  } finally {
    await rm(temporary, { force: true });
  }
}

/**
 * Writes a part from the copy of a file, which goes away. A database is written again as a whole:
 * nothing of a deleted row is left in it.
 */
async function partOf(
  { folder: { parts }, snapshot }: Taking,
  path: string,
  { name, logBytes }: { readonly name: string; readonly logBytes: number },
): Promise<Part> {
  const temporary = temporaryPath(parts);
  const copy = join(snapshot.dir, name);
  try {
    if (isDatabase(path)) {
      await writeFile(temporary, '', { mode: 0o600, flag: 'wx' });
      rewrite({ path, copy, logBytes, to: temporary });
    } else await writeFile(temporary, await readFile(copy), { mode: 0o600, flag: 'wx' });
    for (const file of databaseFiles(copy)) await rm(file, { force: true });
    return { path, ...(await nameByContent(temporary)) };
  } catch (error) {
    throw existsSync(snapshot.dir) ? error : snapshotGone(error);
  } finally {
    await rm(temporary, { force: true });
  }
}

function rewrite(o: { path: string; copy: string; logBytes: number; to: string }): void {
  // A service that ends removes the copies: one that is gone must not be taken for an empty one.
  const url = pathToFileURL(o.copy);
  url.searchParams.set('mode', 'rw');
  try {
    withDatabase(url, (database) => {
      database.prepare('VACUUM INTO ?').run(o.to);
      // Its log goes away when it is closed.
      if (logBytesOf(o.copy) !== o.logBytes) throw snapshotGone();
    });
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new SealpinError('config_invalid', `${o.path} of the service is damaged`, {
      hint: 'nothing was changed in the backup: it has the state before',
      cause: error,
    });
  }
}

/** Gives a file that is complete the name of its content. */
async function nameByContent(temporary: string): Promise<Pick<Part, 'part' | 'bytes'>> {
  const { digest: part, bytes } = (await digestOfFile(temporary)) ?? { digest: '', bytes: 0 };
  const path = join(dirname(temporary), part);
  if ((await sizeOf(path)) !== bytes) {
    await syncFile(temporary);
    await rename(temporary, path);
  }
  return { part, bytes };
}

/** Copies the files with bytes that are not there, eight at a time. @param part of the index */
async function copyAllBlocks({ folder, before, snapshot, dataDir, onBytes, signal }: Taking, part: string) {
  const data = join(localPaths(dataDir).ipfs, 'data');
  const index = new DatabaseSync(join(folder.parts, part), { readOnly: true });
  const known = new Map(before?.blocks.map((each) => [each.name, each]));
  const files: Blocks[] = [];
  const bad: { cid: string; why: CopyFault }[] = [];
  let [written, bytes] = [0, 0];
  try {
    await forEachOf(blockFilesIn(index), async (file) => {
      signal.throwIfAborted();
      const { name, cid } = file;
      if (!isDataFileName(name)) throw new SealpinError('config_invalid', `the index names a file ${name}`);
      const to = join(folder.blocks, name);
      const there = known.get(name);
      if (there !== undefined && (await sizeOf(to)) === there.bytes) {
        files.push(there);
        return;
      }
      let digest: Awaited<ReturnType<typeof digestOfFile>>;
      const why = await copyChecked(join(data, name), to, async (copy) => {
        digest = await digestOfFile(copy);
        return faultIn(copy, index, file);
      });
      if (why === 'missing' && !existsSync(snapshot.dir)) throw snapshotGone();
      if (why !== undefined || digest === undefined) {
        bad.push({ cid, why: why ?? 'missing' });
        return;
      }
      files.push({ name, cid, sha256: digest.digest, bytes: digest.bytes });
      written += 1;
      bytes += digest.bytes;
      onBytes(digest.bytes);
    });
    return { files, written, bytes, bad };
  } finally {
    index.close();
  }
}

/** Counts the files that are at another backend than the embedded node. */
function foreignIn(files: readonly Part[], { parts }: ServiceFolder): number {
  let count = 0;
  const countIn = (database: DatabaseSync): void => {
    if (!hasTable(database, 'file')) return;
    count += Number(database.prepare('SELECT count(*) AS n FROM file WHERE service <> ?').get(embeddedId)?.['n'] ?? 0);
  };
  for (const { path, part } of files)
    if (path.startsWith('state/do/sealpin-Account/')) withDatabase(join(parts, part), countIn, { readOnly: true });
  return count;
}
