/**
 * Bytes on disk, in `data/`: an added file once, flat; an import as a CAR, `<name>.car`. The
 * location of each block and the interior nodes are in the catalog. A raw leaf is a slice of its
 * file. While a file is being written it is called `<name>.part`. It exists from the commit of the
 * catalog on; before the commit, file and folder are synced to the disk (fsync), and after it the
 * file loses its suffix.
 */
import { mkdir, open, unlink, type FileHandle } from 'node:fs/promises';
import { openSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf, ifMissing } from '../../errno.ts';
import { catalogError, openCatalog, type BlockLocation, type Catalog, type CatalogFile } from './catalog.ts';
import { openImporter, type Importer } from './importer.ts';
import { publishQueue } from './publish-queue.ts';
import { partSuffix } from './data-file-name.ts';
import { recover } from './recover.ts';
import { openReserve } from './reserve.ts';
import type { Complete } from './rows.ts';
import { openWriter, type Writer } from './writer.ts';

/** Retention of an added file that was never pinned. */
export const unpinnedMs = 3_600_000;

/**
 * Opens the store in `dir`, and repairs what an interrupted process or a lost catalog left behind.
 * @param note called with a sentence for each problem that was found
 * @throws config_invalid when the catalog is damaged or of a newer sealpin
 */
export async function openStore(dir: string, now: () => number, note: (text: string) => void = () => undefined) {
  const data = join(dir, 'data');
  await mkdir(data, { recursive: true, mode: 0o700 });
  const catalog = openCatalog(join(dir, 'node.db'));
  const folder = await open(data, 'r');
  try {
    await recover({ data, folder, catalog, note });
  } catch (cause) {
    catalog.close();
    await folder.close();
    throw catalogError(join(dir, 'node.db'), cause);
  }
  return new Store(dir, folder, catalog, now);
}

/** The files of the node and their catalog. */
export class Store {
  readonly catalog: Catalog;
  readonly #data: string;
  readonly #folder: FileHandle;
  readonly #now: () => number;
  readonly #reserve: ReturnType<typeof openReserve>;
  readonly #enqueue = publishQueue<CatalogFile>((files) => this.#publishNow(files));
  /** Dropped names whose file is unlinked; the removal may not be on the disk yet. */
  #unlinked: string[] = [];
  /** Users of copies of the catalog, and dropped names whose files they may still read. */
  #holders = 0;
  #heldBack: string[] = [];

  /** @param folder the open folder `data` in `dir` */
  constructor(dir: string, folder: FileHandle, catalog: Catalog, now: () => number) {
    this.catalog = catalog;
    this.#data = join(dir, 'data');
    this.#folder = folder;
    this.#now = now;
    this.#reserve = openReserve(join(dir, 'reserve'));
  }

  /** Begins a file. `keep: false` computes the CID only. */
  async writer({ keep }: { keep: boolean }): Promise<Writer> {
    return await openWriter(this.#data, keep ? this.catalog : undefined);
  }

  async importer(): Promise<Importer> {
    return await openImporter(this.#data, this.catalog);
  }

  async publish(files: readonly Complete[], pin?: { name: string }): Promise<void> {
    const keepUntil = pin ? 0 : this.#now() + unpinnedMs;
    await this.#enqueue(files.map(({ file, cid, blocks }) => ({ file, cid, blocks, pin, keepUntil })));
  }

  async #publishNow(files: readonly CatalogFile[]): Promise<void> {
    const removals = this.#unlinked;
    this.#unlinked = [];
    await this.#folder.sync(); // the new files, and the removals of `removals`
    const replaced = this.catalog.publish(files, removals);
    // The files exist now, so nothing may fail any more: the next start finishes what fails here.
    for (const { file } of files) {
      try {
        renameSync(join(this.#data, file + partSuffix), join(this.#data, file));
      } catch {
        // `open` finds it under either name.
      }
    }
    await this.#remove(replaced).catch(() => undefined);
  }

  /**
   * Opens the file that a block lies in; its bytes stay readable until the descriptor is closed,
   * even when it is removed.
   * @throws ENOENT when the file is missing on the disk
   */
  open(location: BlockLocation): number {
    const path = join(this.#data, location.file);
    try {
      return openSync(path, 'r');
    } catch (cause) {
      if (errnoOf(cause) !== 'ENOENT') throw cause;
      return openSync(path + partSuffix, 'r');
    }
  }

  /**
   * Removes unpinned files, with `all` also those that were added within the last hour. Returns the
   * CIDs of their blocks.
   */
  async collect({ all } = { all: false }): Promise<string[]> {
    return await this.#removeCollected(
      this.#reserve.freeing(() => this.catalog.collect(all ? undefined : this.#now())),
    );
  }

  /**
   * Removes pins and collects, also on a full disk. When a CID has no pin, nothing is removed and
   * that CID is returned.
   */
  async unpin(cids: readonly string[]): Promise<string | undefined> {
    const result = this.#reserve.freeing(() => this.catalog.unpin(cids, this.#now()));
    if (typeof result === 'string') return result;
    await this.#removeCollected(result);
    return undefined;
  }

  /**
   * Copies the catalog to a new file. The files that it names stay until the result is called; if
   * this process ends before, the next start removes what is dropped.
   */
  keep(path: string): () => Promise<void> {
    this.catalog.copyTo(path);
    this.#holders += 1;
    return async () => {
      this.#holders -= 1;
      if (this.#holders === 0) await this.#remove(this.#heldBack.splice(0));
    };
  }

  async close(): Promise<void> {
    this.catalog.close();
    await this.#folder.close();
  }

  async #removeCollected({ cids, files }: ReturnType<Catalog['collect']>): Promise<string[]> {
    await this.#remove(files);
    if (files.length > 0) this.#reserve.fill();
    return cids;
  }

  async #remove(names: readonly string[]): Promise<void> {
    if (this.#holders > 0) {
      this.#heldBack.push(...names);
      return;
    }
    await Promise.all(names.map((name) => ifMissing(unlink(join(this.#data, name)), undefined)));
    this.#unlinked.push(...names);
  }
}
