/** Versions of sealpin, and the one that a data directory belongs to. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { damagedFile, ifMissing } from '../../errno.ts';
import { jsonIn } from '../../io/json-text.ts';

/** The numbers of a version, and what follows them in one that is not released yet. */
const versionPattern = /^(\d+)\.(\d+)\.(\d+)(?:-([\w.-]+))?$/;

/** Compares two versions (semver.org): with equal numbers, one that is not released is older. */
export function isOlder(version: string, other: string): boolean {
  const [a, b] = [versionPattern.exec(version), versionPattern.exec(other)];
  if (a === null || b === null) return false;
  for (const place of [1, 2, 3]) {
    const difference = Number(a[place]) - Number(b[place]);
    if (difference !== 0) return difference < 0;
  }
  const [early, late] = [a[4], b[4]];
  return early !== undefined && (late === undefined || early.localeCompare(late, 'en', { numeric: true }) < 0);
}

/**
 * The version in a `version.json`; undefined where there is none.
 * @param folder `local/`, or a copy of its state
 * @throws config_invalid when it is damaged
 */
export async function versionIn(folder: string): Promise<string | undefined> {
  const path = join(folder, 'version.json');
  const text = await ifMissing(readFile(path, 'utf8'), undefined);
  if (text === undefined) return undefined;
  const found = jsonIn(text) as { version?: unknown } | null | undefined;
  if (typeof found?.version === 'string' && versionPattern.test(found.version)) return found.version;
  throw damagedFile(path);
}
