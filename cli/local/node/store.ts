/**
 * Bytes on disk, in `data/`: an added file once, flat; an import as a CAR, `<name>.car`. The location of each block and the interior
 * nodes are in the catalog. A raw leaf is a slice of its file. While a file is being written it is called `<name>.part`. It exists
 * from the commit of the catalog on; before the commit, file and folder are synced to the disk (fsync), and after it the file loses
 * its suffix.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, unlink } from 'node:fs/promises';
import { openSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { carHeader, carSection, leafBytes, type Cid } from '../../../shared/ipfs/index.ts';
import { blockWriter, type BlockWriter } from '../../io/block-writer.ts';
import { errnoOf } from '../../errno.ts';
import { catalogError, openCatalog, type BlockLocation, type Catalog } from './catalog.ts';
import { indexer, type Written } from './indexer.ts';
import { carSuffix, partSuffix, recover } from './recover.ts';
import { freeBytes, lastBytes, openReserve } from './reserve.ts';
import { openRows, type Complete } from './rows.ts';
import { RpcError } from './rpc.ts';

/** A file that is being written. */
export interface Writer {
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the file and syncs it to the disk; `publish` makes it exist. */
  finish(): Promise<Written>;
  /** Removes what was written; not after `publish`. */
  abort(): Promise<void>;
}

/** An import that is being written. */
export interface Importer {
  /**
   * Writes a block that the caller has verified.
   * @param onWritten called when the memory of a leaf is no longer used; that of a node stays in use
   * @throws invalid_cid when it is not a node that this node can hold
   */
  write(cid: Cid, block: Uint8Array, onWritten: () => void): Promise<void>;
  /** Ends the file and syncs it to the disk; `publish` makes it exist. Without blocks: undefined, and nothing is kept. */
  finish(): Promise<Complete | undefined>;
  /** Removes what was written; not after `publish`. */
  abort(): Promise<void>;
}

export interface Store {
  readonly catalog: Catalog;
  /** `keep: false` computes the CID only. */
  writer(o: { keep: boolean }): Promise<Writer>;
  importer(): Promise<Importer>;
  publish(files: readonly Complete[], o: { pin: { name: string } | undefined }): Promise<void>;
  /**
   * Opens the file that a block lies in; its bytes stay readable until the descriptor is closed, even when it is removed.
   * @throws ENOENT when the file is missing on the disk
   */
  open(location: BlockLocation): number;
  /**
   * Removes unpinned files, with `all` also those that were added within the last hour. Returns the CIDs of their
   * blocks.
   */
  collect(o?: { all: boolean }): Promise<string[]>;
  /**
   * Removes pins and collects, also on a full disk. When a CID has no pin, nothing is removed and that CID is
   * returned.
   */
  unpin(cids: readonly string[]): Promise<string | undefined>;
  close(): Promise<void>;
}

/** Files that are to become visible, all or none. */
type Publication = { files: Parameters<Catalog['publish']>[0]; published: PromiseWithResolvers<void> };

/** A file that nothing knows yet. `finish` waits until its bytes are on the disk; `abort` removes it. */
type NewFile = { name: string; sink: BlockWriter; finish(): Promise<void>; abort(): Promise<void> };

/**
 * After so many bytes of an import the disk is asked to sync. An import is a part of an upload, 16 to 64 MiB as a rule, and the client of an
 * upload in several requests waits for the last one of each.
 */
const importSyncBytes = 4 * leafBytes;

/** Retention of an added file that was never pinned. */
export const unpinnedMs = 3_600_000;

/**
 * Opens the store in `dir`, and repairs what an interrupted process or a lost catalog left behind.
 * @param note called with a sentence for each problem that was found
 * @throws config_invalid when the catalog is damaged or of a newer sealpin
 */
export async function openStore(
  dir: string,
  now: () => number,
  note: (text: string) => void = () => undefined,
): Promise<Store> {
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

  const reserve = openReserve(join(dir, 'reserve'));
  /** Dropped names whose file is unlinked; the removal may not be on the disk yet. */
  let unlinked: string[] = [];

  async function remove(names: readonly string[]): Promise<void> {
    await Promise.all(
      names.map((name) =>
        unlink(join(data, name)).catch((cause: unknown) => {
          if (errnoOf(cause) !== 'ENOENT') throw cause;
        }),
      ),
    );
    unlinked.push(...names);
  }

  async function collect({ all } = { all: false }): Promise<string[]> {
    return await removeCollected(reserve.freeing(() => catalog.collect(all ? undefined : now())));
  }

  async function removeCollected({ cids, files }: ReturnType<Catalog['collect']>): Promise<string[]> {
    await remove(files);
    if (files.length > 0) reserve.fill();
    return cids;
  }

  /** A file under a name of its own; without `keep` nothing is on the disk. */
  async function create(o: { keep: boolean; suffix: string; syncBytes?: number }): Promise<NewFile> {
    const { keep, suffix, syncBytes } = o;
    // The last space on the disk is for deletions.
    if (keep && freeBytes(data) < lastBytes) throw new RpcError('no space left on device');
    const name = randomBytes(16).toString('hex') + suffix;
    const part = join(data, name + partSuffix);
    const handle = keep ? await open(part, 'wx', 0o600) : undefined;
    const sink = blockWriter(handle, leafBytes, syncBytes);
    return {
      name,
      sink,
      async finish() {
        await sink.drain();
        await handle?.sync();
        await handle?.close();
      },
      async abort() {
        // The caller has the error that matters.
        await sink.drain().catch(() => undefined);
        await handle?.close();
        if (keep) await unlink(part);
      },
    };
  }

  async function writer({ keep }: { keep: boolean }): Promise<Writer> {
    const { name, sink, ...file } = await create({ keep, suffix: '' });
    const index = indexer(catalog, name, { stage: keep });
    return {
      async write(bytes) {
        for (let rest = bytes; rest.length > 0;) {
          const taken = sink.fill(rest);
          rest = rest.subarray(taken);
          if (sink.full()) await index.write(await sink.flush());
        }
      },
      async finish() {
        const last = await sink.flush();
        await index.write(last);
        const written = await index.finish();
        await file.finish();
        return written;
      },
      async abort() {
        await file.abort();
        index.abort();
      },
    };
  }

  async function importer(): Promise<Importer> {
    const { name, sink, ...file } = await create({ keep: true, suffix: carSuffix, syncBytes: importSyncBytes });
    const rows = openRows(catalog, name, { stage: true });
    let position = 0;
    let last: string | undefined;

    async function append(bytes: Uint8Array): Promise<void> {
      position += bytes.length;
      for (let rest = bytes; rest.length > 0;) {
        rest = rest.subarray(sink.fill(rest));
        if (sink.full()) await sink.flush();
      }
    }

    async function abort(): Promise<void> {
      await file.abort();
      rows.abort();
    }

    await append(carHeader());
    return {
      async write(cid, block, onWritten) {
        await append(carSection(cid, block.length));
        last = cid.text;
        if (cid.codec === 'dag-pb') {
          rows.node(cid.text, block);
          await append(block);
          return;
        }
        rows.leaf(cid.text, position, block.length);
        position += block.length;
        await sink.writeThrough(block, onWritten);
      },
      async finish() {
        if (last === undefined) {
          await abort();
          return undefined;
        }
        await sink.flush();
        await file.finish();
        return { file: name, cid: last, blocks: rows.finish() };
      },
      abort,
    };
  }

  /** Files become visible together that wait for the disk at the same time: it syncs its folder and the catalog once for all of them. */
  let queue: Publication[] = [];
  let isPublishing = false;

  async function publishQueue(): Promise<void> {
    isPublishing = true;
    while (queue.length > 0) {
      const batch = queue;
      queue = [];
      await settle(batch);
    }
    isPublishing = false;
  }

  async function settle(batch: readonly Publication[]): Promise<void> {
    try {
      await publishNow(batch.flatMap(({ files }) => files));
      for (const { published } of batch) published.resolve();
    } catch (cause) {
      // One bad file must not fail the batch.
      if (batch.length > 1) for (const each of batch) await settle([each]);
      else batch[0]?.published.reject(cause);
    }
  }

  async function publishNow(files: Publication['files']): Promise<void> {
    const removals = unlinked;
    unlinked = [];
    await folder.sync(); // the new files, and the removals of `removals`
    const replaced = catalog.publish(files, removals);
    // The files exist now, so nothing may fail any more: the next start finishes what fails here.
    for (const { file } of files) {
      try {
        renameSync(join(data, file + partSuffix), join(data, file));
      } catch {
        // `open` finds it under either name.
      }
    }
    await remove(replaced).catch(() => undefined);
  }

  return {
    catalog,
    writer,
    importer,
    async publish(files, { pin }) {
      const published = Promise.withResolvers<void>();
      const keepUntil = pin ? 0 : now() + unpinnedMs;
      queue.push({ files: files.map(({ file, cid, blocks }) => ({ file, cid, blocks, pin, keepUntil })), published });
      if (!isPublishing) void publishQueue();
      await published.promise;
    },
    open(location) {
      const path = join(data, location.file);
      try {
        return openSync(path, 'r');
      } catch (cause) {
        if (errnoOf(cause) !== 'ENOENT') throw cause;
        return openSync(path + partSuffix, 'r');
      }
    },
    collect,
    async unpin(cids) {
      const result = reserve.freeing(() => catalog.unpin(cids, now()));
      if (typeof result === 'string') return result;
      await removeCollected(result);
      return undefined;
    },
    async close() {
      catalog.close();
      await folder.close();
    },
  };
}
