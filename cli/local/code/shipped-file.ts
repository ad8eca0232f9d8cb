/** Files that packages bring beside the program: lists, pages and readers for the time after it. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isSea } from 'node:sea';
import { packageRoot } from '../package-root.ts';

/** The English words of BIP 39. */
export const wordList = 'contrib/bip39-english.txt';

/** The readers in Python, each from the root of the package. */
export const rescueFiles = [
  ...['rescue.py', 'rescue_backup.py', 'rescue_bucket.py'].map((name) => `contrib/${name}`),
  wordList,
];

/**
 * Reads a file of the package of the command line, of the local service in the executable, or of
 * the checkout.
 * @param path from the root of the package
 * @returns undefined where it is missing, as what is built is in a checkout
 * @throws not_installed
 */
export async function shippedFile(path: string): Promise<Buffer | undefined> {
  const beside = join(import.meta.dirname, '..', path);
  const found = !isSea() && existsSync(beside) ? beside : join(packageRoot(), path);
  return existsSync(found) ? readFile(found) : undefined;
}
