/** The folder of a backup in `shared/test/vectors/backups`, as it is and with parts replaced. */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

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
const decoded = (files: Readonly<Record<string, string>>): Files =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [name, Buffer.from(text, 'base64')]));

/**
 * `folder`: its files by path. `opens`: what its reader has in the end, by name; `sealed`: what is
 * a container then, and what opens it. `refused`: files that are replaced (null: removed), and the
 * names of what no longer opens.
 */
export const backupVector = { ...vector, folder: decoded(vector.folder), opens: decoded(vector.opens) };

/** The folder with some of its files replaced or, with null, removed. */
export function changedFolder(change: Readonly<Record<string, string | null>>): Files {
  const kept = Object.entries(backupVector.folder).filter(([path]) => change[path] !== null);
  const replaced = Object.entries(change).flatMap(([path, text]) => (text === null ? [] : [[path, text] as const]));
  return { ...Object.fromEntries(kept), ...decoded(Object.fromEntries(replaced)) };
}

/** Writes files below a folder. */
export async function writeFiles(folder: string, files: Readonly<Record<string, Uint8Array | string>>): Promise<void> {
  for (const [path, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), bytes);
  }
}
