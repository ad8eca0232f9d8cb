/**
 * Layout of the backup of a local service: a folder that holds one state. `service.json` names
 * everything in it: each file of the state under its SHA-256 in `parts/`, and the bytes of files in
 * `blocks/`, as the embedded node names them. It is replaced in one step, after what it names
 * is on the disk and before anything else is removed, so that a run that is killed leaves the state
 * before it or the new one.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, mkdir, open, readdir, rm, rmdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import * as v from 'valibot';
import { SealpinError } from '../../../shared/errors.ts';
import type { Environment } from '../../context.ts';
import { failRead, ifMissing, writeFailure } from '../../errno.ts';
import { lockName } from '../../io/held-folder.ts';
import type { Reading } from '../../io/input.ts';
import type { Writing } from '../../io/output-file.ts';
import { isTemporaryName } from '../../io/unfinished.ts';
import { readRecord, refuseLocal, writeRecord } from '../layout.ts';
import { isDataFileName } from '../../local/node/data-file-name.ts';

/** A backup of a service, all paths absolute. `shown`: how the user named it. */
export type ServiceFolder = Readonly<ReturnType<typeof serviceFolder>>;

/** The paths in the backup of a service. */
export function serviceFolder(folder: string, { cwd }: Pick<Environment, 'cwd'>) {
  const root = resolve(cwd, folder);
  return {
    shown: folder,
    root,
    manifest: join(root, 'service.json'),
    parts: join(root, 'parts'),
    blocks: join(root, 'blocks'),
  };
}

const Text = v.string();
const Digest = v.pipe(Text, v.regex(/^[0-9a-f]{64}$/));
/** Below `local/`; no name in it begins with a dot. */
const StatePath = v.pipe(Text, v.regex(/^(?:(?:[\w-][\w.-]*\/)*[\w-][\w.-]*)$/));

const Part = v.object({
  path: StatePath,
  part: Digest,
  bytes: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  stamp: v.optional(Text),
});

/** A file with bytes: its name, what it is of, and its SHA-256. */
const Blocks = v.object({
  name: v.pipe(Text, v.check(isDataFileName)),
  cid: Text,
  sha256: Digest,
  bytes: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
});

/**
 * `service.json`. `sealpin`: the version that wrote it; `stamp`: of a file that needs not be copied
 * again while it has this stamp. `secrets`: `secrets.json`, encrypted, as a part; `of` is the
 * SHA-256 of its plaintext, which has 256 random bits.
 */
export const Manifest = v.object({
  v: v.literal(1),
  sealpin: Text,
  takenAt: Text,
  serviceId: Text,
  files: v.array(Part),
  blocks: v.array(Blocks),
  secrets: v.optional(v.object({ part: Digest, of: Digest })),
});
export type Manifest = v.InferOutput<typeof Manifest>;

/** Checks whose backup it is. Earlier versions wrote no ID of a service of 0.1.0. */
export const isBackupOf = ({ serviceId }: Manifest, id: string): boolean => serviceId === '' || serviceId === id;

export type Part = v.InferOutput<typeof Part>;
export type Blocks = v.InferOutput<typeof Blocks>;

/** A database takes 250 bytes, a file 220: there is room for two million. */
const manifestLimitBytes = 512 * 1024 * 1024;

/**
 * @returns undefined where there is none
 * @throws config_invalid when it is damaged, file_unreadable
 */
export async function readManifest({ manifest }: ServiceFolder, environment: Reading): Promise<Manifest | undefined> {
  await refuseLink(manifest);
  return readRecord(manifest, Manifest, environment, {
    limitBytes: manifestLimitBytes,
    hint: 'put a copy of service.json there, or take a new backup into another folder',
  });
}

/** Replaces the manifest of a backup. @throws as `writeJson` */
export async function writeManifest(folder: ServiceFolder, manifest: Manifest, environment: Writing): Promise<void> {
  await writeRecord(folder.manifest, Manifest, manifest, environment, manifestLimitBytes);
}

/** Reads the manifest. @throws file_not_found when the folder is no backup, config_invalid */
export async function requireManifest(folder: ServiceFolder, environment: Reading): Promise<Manifest> {
  const manifest = await readManifest(folder, environment);
  if (manifest !== undefined) return manifest;
  throw new SealpinError('file_not_found', `${folder.shown} is not the backup of a service: it has no service.json`, {
    hint: 'name the folder of a backup of a service; for the backup of an account: sealpin restore <folder>',
  });
}

/**
 * Prepares a directory for a backup; one with something else in it is refused, and so are links
 * instead of what this program writes into.
 * @throws conflict, file_unwritable, disk_full
 */
export async function prepareFolder(folder: ServiceFolder, dataDir: string): Promise<void> {
  const { shown, root, manifest, parts, blocks } = folder;
  try {
    await refuseLocal(folder, dataDir);
    const names = await readdir(root);
    if (!names.includes('service.json') && !names.every((name) => isMade(name) || ['parts', 'blocks'].includes(name)))
      throw new SealpinError('conflict', `${shown} is not the backup of a service: it has other files`, {
        hint: 'name a new or an empty folder',
      });
    for (const path of [manifest, parts, blocks, join(root, lockName)]) await refuseLink(path);
    for (const path of [parts, blocks])
      await mkdir(path, { mode: 0o700 }).catch(async (error: unknown) => {
        if (!(await ifMissing(lstat(path), undefined))?.isDirectory()) throw error;
      });
    // SQLite, which locks it, would make it readable for all.
    await (await open(join(root, lockName), 'a', 0o600)).close();
  } catch (error) {
    throw writeFailure(shown, error);
  }
}

/** The lock of a run, with the file of SQLite. */
const lockNames = [lockName, `${lockName}-journal`];
/** Recognizes what a run makes besides: its lock, and outputs. */
const isMade = (name: string): boolean => lockNames.includes(name) || isTemporaryName(name);

/**
 * Removes what `prepareFolder` has made of a folder in which no run has copied anything yet. It
 * does not throw: why the run has failed is what counts.
 */
export async function removePrepared({ root, manifest, parts, blocks }: ServiceFolder): Promise<void> {
  if ((await sizeOf(manifest).catch(() => 0)) >= 0) return;
  for (const folder of [parts, blocks]) await rmdir(folder).catch(() => undefined);
  const names = await readdir(root).catch(() => []);
  // An output that is there may be that of another command, which still writes it.
  if (names.every(isMade)) for (const name of lockNames) await rm(join(root, name)).catch(() => undefined);
}

/** @throws conflict */
async function refuseLink(path: string): Promise<void> {
  // What is no folder has no entries; the caller finds that out.
  if ((await lstat(path).catch(() => undefined))?.isSymbolicLink() === true)
    throw new SealpinError('conflict', `${path} is a symbolic link, and the backup would be written elsewhere`, {
      hint: 'remove the link, or name another folder',
    });
}

/** The size of a regular file; -1 where there is none. */
export async function sizeOf(path: string): Promise<number> {
  const found = await ifMissing(lstat(path), undefined);
  return found?.isFile() === true ? found.size : -1;
}

/** @returns the SHA-256 of a file in hex, and its size; undefined where it is missing or no file */
export async function digestOfFile(path: string): Promise<{ digest: string; bytes: number } | undefined> {
  const bytes = await sizeOf(path);
  if (bytes < 0) return undefined;
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash).catch(failRead(path));
  return { digest: hash.digest('hex'), bytes };
}

const backupPathPattern = /^(?:parts\/[0-9a-f]{64}|blocks\/[0-9a-f]{32}(?:\.car)?)$/;

/** Removes what a backup does not name any more. @returns how many files */
export async function removeUnused({ root }: ServiceFolder, manifest: Manifest): Promise<number> {
  const used = new Set([...partEntries(manifest), ...blockEntries(manifest)].map(({ path }) => path));
  const paths = (await readdir(root, { recursive: true })).filter(
    (path) => backupPathPattern.test(path) && !used.has(path),
  );
  for (const path of paths) await rm(join(root, path), { force: true });
  return paths.length;
}

/** A file of a backup: its path in the folder, what it is of, and its SHA-256 in hex. */
export type BackupFolderFile = { readonly path: string; readonly of: string; readonly sha256: string };

/** The parts of a backup. */
export function partEntries({ files, secrets }: Manifest): BackupFolderFile[] {
  const parts = [...files, ...(secrets === undefined ? [] : [{ path: 'secrets.json', ...secrets }])];
  return parts.map(({ path, part }) => ({ path: `parts/${part}`, of: path, sha256: part }));
}

/** The files with bytes of a backup. */
export function blockEntries({ blocks }: Manifest): BackupFolderFile[] {
  return blocks.map(({ name, cid, sha256 }) => ({ path: `blocks/${name}`, of: cid, sha256 }));
}
