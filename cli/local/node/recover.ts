/**
 * Recovery at the start, when the files in `data/` and the catalog disagree: after a crash, after
 * the catalog was lost, and after an older one was put back. A file that the catalog does not know
 * is indexed again, or moved to `data/lost/`. Only two kinds are removed, both marked by the node
 * itself: uploads that never became complete, and files that the catalog says it dropped.
 */
import { lstat, mkdir, open, readdir, rename, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { isDamage } from '../../errno.ts';
import { countText } from '../../terminal/size.ts';
import type { Catalog } from './catalog.ts';
import { carSuffix, isDataFileName, partSuffix } from './data-file-name.ts';
import { indexCar, indexFlat } from './reindex.ts';
import { isFull } from './reserve.ts';

/** The name of the pin of a file that was indexed again: every service accepts it as its own. */
const recoveredPin = 'sealpin';

export type RecoverOptions = {
  /** The folder, and its open handle. */
  data: string;
  folder: FileHandle;
  catalog: Catalog;
  /** Called with a sentence for each problem that was found. */
  note(text: string): void;
};

/** Makes the catalog and the files agree. */
export async function recover(options: RecoverOptions): Promise<void> {
  const { data, folder, catalog, note } = options;
  const known = catalog.files();
  const removed = catalog.removed();
  const names = await readdir(data);
  const present = new Set(names);
  const isUnknown = (name: string) => isDataFileName(name) && !known.has(name) && !removed.has(name);
  // What it does not know it may have lost by damage: then nothing that it says counts.
  if (known.size > 0 && names.some(isUnknown)) catalog.check();
  const indexed: { cid: string; bytes: number }[] = [];
  let aside = 0;

  for (const name of names) {
    if (known.has(name)) continue;
    const path = join(data, name);
    if (!(await lstat(path)).isFile()) continue;
    const base = name.endsWith(partSuffix) ? name.slice(0, -partSuffix.length) : undefined;
    if (base !== undefined && known.has(base)) {
      await rename(path, join(data, base));
      present.add(base);
    } else if (removed.has(name) || (base !== undefined && isDataFileName(base))) {
      await unlink(path);
    } else if (isDataFileName(name) && (await canRead(path))) {
      const file = await indexAgain(options, name);
      if (file !== undefined) indexed.push(file);
    } else {
      await mkdir(join(data, 'lost'), { recursive: true, mode: 0o700 });
      await rename(path, join(data, 'lost', name));
      aside += 1;
    }
  }
  await folder.sync();
  catalog.forget([...removed]);

  if (indexed.length > 0) {
    const bytes = indexed.reduce((sum, file) => sum + file.bytes, 0);
    note(
      `node.db did not know ${countText(indexed.length, 'file')} in data/ (${bytes} bytes): each was hashed, ` +
        'indexed again and pinned',
    );
  }
  if (aside > 0)
    note(`${countText(aside, 'file')} in data/ that this node did not write, or cannot read, went to data/lost/`);
  const missing = [...known].filter((name) => !present.has(name)).length;
  if (missing > 0)
    note(
      `node.db names ${countText(missing, 'file')} that data/ does not have: store the same bytes again, ` +
        'or put data/ back',
    );
}

async function indexAgain({ data, catalog, note }: RecoverOptions, name: string) {
  const file = await open(join(data, name), 'r');
  try {
    const found = name.endsWith(carSuffix) ? await indexCar(catalog, name, file) : await indexFlat(catalog, name, file);
    await file.sync();
    const { cid, bytes, blocks, damaged } = found;
    const replaced = catalog.publish([{ file: name, cid, blocks, pin: { name: recoveredPin }, keepUntil: 0 }]);
    for (const older of replaced) await unlink(join(data, older)).catch(() => undefined);
    if (damaged) note(`${name} in data/ is damaged: only the blocks that fit their CIDs were indexed`);
    return { cid, bytes };
  } catch (cause) {
    if (isDamage(cause)) throw cause;
    const why = isFull(cause) ? 'the disk is full' : cause instanceof Error ? cause.message : 'unknown';
    note(`${name} in data/ cannot be indexed (${why}): it stays there, and the next start tries again`);
    return undefined;
  } finally {
    await file.close();
  }
}

/** Checks that a file opens for reading. */
async function canRead(path: string): Promise<boolean> {
  try {
    await (await open(path, 'r')).close();
    return true;
  } catch {
    return false;
  }
}
