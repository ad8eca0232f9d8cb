/**
 * Layout of an account backup: a folder with one record per file, and its blob as a CAR. Nothing
 * that the account keeps sealed is readable: names are sealed to the account's key, which is in
 * `account.key`, encrypted with a password.
 */
import { readdir, realpath, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve, sep } from 'node:path';
import * as v from 'valibot';
import { Base64, namedRecord } from '../../shared/api.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Environment } from '../context.ts';
import { errnoOf, failRead, failWrite, ifMissing, readFailure } from '../errno.ts';
import { type Reading } from '../io/input.ts';
import { type Writing } from '../io/output-file.ts';
import { makeDirectories } from '../io/paths.ts';
import { isTemporaryName } from '../io/unfinished.ts';
import { readJson, writeJson } from '../io/kept-json.ts';
import { localPaths, restoringIn } from '../local/state.ts';

/** A backup, all paths absolute. `shown`: how the user named it. */
export type Layout = Readonly<ReturnType<typeof layoutOf>>;

/** The paths in a backup. */
export function layoutOf(folder: string, { cwd }: Pick<Environment, 'cwd'>) {
  const root = resolve(cwd, folder);
  return {
    shown: folder,
    root,
    about: join(root, 'backup.json'),
    key: join(root, 'account.key'),
    files: join(root, 'files'),
    blobs: join(root, 'blobs'),
    /** Record of what was restored from here, by account. */
    restored: join(root, 'restored'),
  };
}

export function carPath({ blobs }: Layout, cid: string): string {
  return join(blobs, `${cid}.car`);
}

const Text = v.string();
const FileId = v.pipe(Text, v.regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/));
const ByteCount = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

/**
 * `backup.json`. `publicKey` of the account, in PEM; `key`: the SHA-256 of `account.key`, in hex;
 * `files`: the IDs of those that the account had when the last run came to its end, which is when
 * `completedAt` says.
 */
export const About = v.object({
  v: v.literal(1),
  service: Text,
  account: Text,
  publicKey: Text,
  key: v.optional(Text),
  completedAt: v.optional(Text),
  files: v.optional(v.array(FileId)),
});
export type About = v.InferOutput<typeof About>;

/**
 * A file. `bytes`: of the blob. `header`: in encrypted mode, as the service keeps it, in base64; it
 * has name, type, metadata and tags, sealed. `sealed`: in plain mode the same as `Details`, in a
 * container to the account's key, in base64. `details`: its name, sealed to its owner.
 */
export const BackupEntry = v.object({
  v: v.literal(1),
  fileId: FileId,
  cid: v.pipe(Text, v.regex(/^b[a-z2-7]{58}$/)),
  mode: v.picklist(['encrypted', 'plain']),
  bytes: ByteCount,
  createdAt: Text,
  changedAt: v.optional(Text),
  expiresAt: v.optional(Text),
  header: v.optional(Base64),
  sealed: v.optional(Base64),
  details: v.optional(Base64),
});
export type BackupEntry = v.InferOutput<typeof BackupEntry>;

/**
 * Details of a plain file. `name`: its name in the local history, which the service never learns.
 */
export const Details = v.object({
  filename: v.nullable(Text),
  contentType: Text,
  metadata: v.optional(namedRecord(Text, Text)),
  tags: v.optional(v.array(Text)),
  name: v.optional(Text),
});
export type Details = v.InferOutput<typeof Details>;

/** Result of restoring one file into an account. */
export const Restored = v.object({ v: v.literal(1), fileId: FileId });

/** A header has 1 MiB at most (age), and details are smaller. */
const recordLimitBytes = 4 * 1024 * 1024;
const removeRecord =
  'remove this one file: the next sealpin backup makes it again, if the account still has what it is of';
/** `backup.json` has 39 bytes for each file. */
const aboutLimitBytes = 256 * 1024 * 1024;

/** Makes the folder of a backup, or one in it. @throws file_unwritable, disk_full */
export async function makeBackupFolder({ shown }: Layout, folder: string): Promise<void> {
  await makeDirectories(folder).catch(failWrite(shown));
}

/**
 * Refuses a folder among the files of the local service, which would go with them, also one that
 * does not exist yet.
 * @throws conflict
 */
export async function refuseLocal({ shown, root }: Pick<Layout, 'shown' | 'root'>, dataDir: string): Promise<void> {
  const target = await realPathOf(root);
  for (const own of [localPaths(dataDir).local, restoringIn(dataDir)])
    if (`${target}${sep}`.startsWith(`${await realPathOf(own)}${sep}`))
      throw new SealpinError('conflict', `${shown} is in the folder of the local service, which removes it`, {
        hint: 'name a folder elsewhere, best on another disk',
      });
}

/** A path without symbolic links; what is missing of it has none. */
async function realPathOf(path: string): Promise<string> {
  // The root, as of a drive of Windows that is not there.
  if (dirname(path) === path) return path;
  return (await ifMissing(realpath(path), undefined)) ?? join(await realPathOf(dirname(path)), basename(path));
}

/** Refuses a folder with something else in it. @throws conflict, file_unreadable */
export async function refuseForeign({ shown, root }: Layout): Promise<void> {
  const names = await readdir(root).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    if (errnoOf(error) === 'ENOTDIR') throw new SealpinError('file_unwritable', `${shown} is not a folder`);
    throw readFailure(shown, error);
  });
  // A run that was killed before it could write backup.json leaves such a file.
  if (names.every(isTemporaryName)) return;
  throw new SealpinError('conflict', `${shown} is not a backup: it has no backup.json, and other files`, {
    hint: 'name a new or an empty folder',
  });
}

/**
 * @returns `backup.json`; undefined where there is none
 * @throws config_invalid when it is damaged, file_unreadable
 */
export async function readAbout(layout: Layout, environment: Environment): Promise<About | undefined> {
  return readRecord(layout.about, About, environment, {
    limitBytes: aboutLimitBytes,
    hint: 'put a copy of backup.json there, or take a new backup into another folder',
  });
}

/** Writes `backup.json`. @throws as `writeJson` */
export async function writeAbout({ about: path }: Layout, about: About, environment: Writing): Promise<void> {
  await writeRecord(path, About, about, environment, aboutLimitBytes);
}

/**
 * The record of a file.
 * @returns undefined where there is none
 * @throws config_invalid also for that of another file
 */
export async function readEntry(layout: Layout, fileId: string, environment: Reading) {
  const entry = await readRecord(entryPath(layout, fileId), BackupEntry, environment);
  if (entry === undefined || entry.fileId === fileId) return entry;
  throw new SealpinError('config_invalid', `the record of ${fileId} is that of another file`, { hint: removeRecord });
}

/**
 * Reads a record.
 * @returns undefined where there is none
 * @throws config_invalid when it is damaged, file_unreadable
 */
export async function readRecord<S extends v.GenericSchema>(
  path: string,
  shape: S,
  environment: Reading,
  o = { limitBytes: recordLimitBytes, hint: removeRecord },
): Promise<v.InferOutput<S> | undefined> {
  return readJson(path, shape, { ...o, what: 'a part of a backup', environment });
}

/** Writes a record. @throws as `writeJson` */
export async function writeRecord<S extends v.GenericSchema>(
  path: string,
  shape: S,
  record: v.InferOutput<S>,
  environment: Writing,
  limitBytes = recordLimitBytes,
): Promise<void> {
  await writeJson(path, shape, record, { limitBytes, environment });
}

/** The path of the record of a file. */
export function entryPath({ files }: Layout, fileId: string): string {
  return join(files, `${fileId}.json`);
}

/**
 * The IDs of the files that have a record, in order; none where there is no folder.
 * @throws file_unreadable
 */
export async function recordedIn({ files }: Layout): Promise<string[]> {
  const all = await ifMissing(readdir(files), []).catch(failRead(files));
  const ids = all.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -'.json'.length));
  return ids.filter((id) => v.is(FileId, id)).toSorted();
}

/** Removes a part of a backup, if it is there. @throws file_unwritable */
export async function removePart(path: string): Promise<void> {
  await rm(path, { force: true }).catch(failWrite(path));
}
