/** The local service in the executable (`packaging/executable.ts`), unpacked at its first use. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { getAsset, isSea } from 'node:sea';
import { zstdDecompressSync } from 'node:zlib';
import { SealpinError } from '../../../shared/errors.ts';
import { errnoOf } from '../../errno.ts';
import { ownCacheFolder } from '../../io/cache-folder.ts';

/** The names of the assets. */
export const embeddedAssets = { list: 'local.json', bytes: 'local.zst' } as const;

/** The list of files, in the order of their bytes. `id` is the SHA-256 of both. */
export type EmbeddedList = {
  readonly id: string;
  readonly files: readonly { readonly path: string; readonly bytes: number; readonly isProgram: boolean }[];
};

/** Folder of `@sealpin/local` below the root of the unpacked files. */
export const embeddedRoot = 'node_modules/@sealpin/local';

/**
 * The folder of `@sealpin/local` in the user's cache directory; undefined outside the executable.
 * @throws not_installed where others could change what is unpacked, or there is no room
 */
export function embeddedLocal(): string | undefined {
  if (!isSea()) return undefined;
  const { id, files } = JSON.parse(getAsset(embeddedAssets.list, 'utf8')) as EmbeddedList;
  const cache = ownCacheFolder(process, 'local', { always: true });
  if (cache === undefined)
    throw new SealpinError('not_installed', 'the cache directory can be changed by other users', {
      hint: 'set XDG_CACHE_HOME to a folder that only you can change',
    });
  const folder = join(cache, id);
  if (!existsSync(folder)) unpack(files, folder);
  return join(folder, embeddedRoot);
}

function unpack(files: EmbeddedList['files'], folder: string): void {
  const bytes = zstdDecompressSync(new Uint8Array(getAsset(embeddedAssets.bytes)));
  const temporary = mkdtempSync(`${folder}-`);
  try {
    let at = 0;
    for (const file of files) {
      const path = join(temporary, file.path);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, bytes.subarray(at, (at += file.bytes)));
      if (file.isProgram) chmodSync(path, 0o700);
    }
    renameSync(temporary, folder);
  } catch (cause) {
    // Another process may have been faster.
    if (existsSync(folder)) return;
    throw new SealpinError('not_installed', `the local service cannot be unpacked to ${folder} (${errnoOf(cause)})`, {
      hint: 'make room there, or set XDG_CACHE_HOME to another folder',
      cause,
    });
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}
