/** The folder of a backup in `shared/test/vectors/backups`, as it is and with parts replaced. */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as fc from 'fast-check';
import { itemOf, present } from './present.ts';

type Files = Readonly<Record<string, Buffer>>;

const vector = JSON.parse(
  readFileSync(join(import.meta.dirname, '../shared/test/vectors/backups/backup.json'), 'utf8'),
) as {
  password: string;
  folder: Record<string, string>;
  opens: Record<string, string>;
  sealed: Record<string, { privateKey?: string; password?: string; plaintext: string }>;
  refused: { name: string; change: Record<string, string | null>; lost: string[] }[];
};
const decodedFiles = (files: Readonly<Record<string, string>>): Files =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [name, Buffer.from(text, 'base64')]));

/**
 * `folder`: its files by path. `opens`: what its reader has in the end, by name; `sealed`: what is
 * a container then, and what opens it. `refused`: files that are replaced (null: removed), and the
 * names of what no longer opens.
 */
export const backupVector = { ...vector, folder: decodedFiles(vector.folder), opens: decodedFiles(vector.opens) };

/** The folder with some of its files replaced or, with null, removed. */
export function changedFolder(change: Readonly<Record<string, string | null>>): Files {
  const kept = Object.entries(backupVector.folder).filter(([path]) => change[path] !== null);
  const replaced = Object.entries(change).flatMap(([path, text]) => (text === null ? [] : [[path, text] as const]));
  return { ...Object.fromEntries(kept), ...decodedFiles(Object.fromEntries(replaced)) };
}

/** Writes files below a folder. */
export async function writeFiles(folder: string, files: Readonly<Record<string, Uint8Array | string>>): Promise<void> {
  for (const [path, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), bytes);
  }
}

/** One of some files, damaged: cut off, or some of its bytes changed, added or left out. */
export function damagedFiles(
  files: Readonly<Record<string, Buffer>>,
  seed: number,
  count: number,
): { name: string; change: Record<string, string> }[] {
  const names = Object.keys(files);
  const numbers = fc.sample(fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat()), { seed, numRuns: count });
  return numbers.map(([which, place, kind, value]) => {
    const name = itemOf(names, which % names.length);
    const bytes = damaged(present(files[name]), place, kind % 4, value % 256);
    return { name, change: { [name]: bytes.toString('base64') } };
  });
}

function damaged(bytes: Buffer, place: number, kind: number, value: number): Buffer {
  const at = place % Math.max(1, bytes.length);
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)];
  if (kind === 0) return head;
  if (kind === 1) return Buffer.concat([head, Buffer.of(value), tail]);
  if (kind === 2) return Buffer.concat([head, tail.subarray(1 + (value % 8))]);
  return Buffer.concat([head, Buffer.of((tail[0] ?? 0) ^ (value || 1)), tail.subarray(1)]);
}
