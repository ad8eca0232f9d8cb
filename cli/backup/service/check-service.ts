/** Checking the backup of a service where it lies: no service is asked, and nothing is changed. */
import { join } from 'node:path';
import type { Context } from '../../context.ts';
import { digestOfFile, forEachOf, type Manifest, requireManifest, type ServiceFolder } from './service-folder.ts';

/** A file of a backup that is damaged or missing: its path in the folder, and what it is of. */
export type BadFile = { readonly path: string; readonly of: string; readonly why: string };

/** Result of a check: what is intact, and each file that is not. */
export type CheckedService = {
  readonly takenAt: string;
  readonly files: number;
  readonly bad: readonly BadFile[];
};

/**
 * Reads everything in a backup, and compares it with its SHA-256.
 * @throws file_not_found when the folder is none, config_invalid, file_unreadable
 */
export async function checkService(folder: ServiceFolder, context: Context): Promise<CheckedService> {
  const manifest = await requireManifest(folder, context);
  const bad = await faultyParts(folder, manifest, context);
  await forEachOf(manifest.blocks, async ({ name, cid, sha256 }) => {
    context.signal.throwIfAborted();
    const why = await faultOf(join(folder.blocks, name), sha256);
    if (why !== undefined) bad.push({ path: `blocks/${name}`, of: cid, why });
  });
  return { takenAt: manifest.takenAt, files: manifest.blocks.length, bad };
}

/** The parts of a backup that are damaged or missing. */
export async function faultyParts(
  folder: ServiceFolder,
  { files, secrets }: Manifest,
  { signal }: Context,
): Promise<BadFile[]> {
  const parts = files.map(({ path, part }) => ({ of: path, part }));
  if (secrets !== undefined) parts.push({ of: 'secrets.json', part: secrets.part });
  const bad: BadFile[] = [];
  await forEachOf(parts, async ({ of, part }) => {
    signal.throwIfAborted();
    const why = await faultOf(join(folder.parts, part), part);
    if (why !== undefined) bad.push({ path: `parts/${part}`, of, why });
  });
  return bad;
}

/** Compares a file with its SHA-256. A symbolic link counts as missing. */
export async function faultOf(path: string, sha256: string): Promise<'missing' | 'damaged' | undefined> {
  const found = await digestOfFile(path);
  if (found?.digest === sha256) return undefined;
  return found === undefined ? 'missing' : 'damaged';
}
