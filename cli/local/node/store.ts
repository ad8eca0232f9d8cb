/**
 * Bytes on disk: each added file once, flat, in `data/`; its interior nodes and the place of each block in the catalog. A raw
 * leaf is a slice of its file. The commit of the catalog is the moment at which a file exists; before it, file and folder are
 * on the disk (fsync), and what is not in the catalog is swept at the next start.
 */
import { hash, randomBytes } from 'node:crypto';
import { mkdir, open, readdir, unlink } from 'node:fs/promises';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { cidBuilder, leafBytes } from '../../../shared/ipfs/index.ts';
import { blockWriter } from '../../blocks.ts';
import { openCatalog, type BlockRow, type Catalog, type Place } from './catalog.ts';
import { openReserve } from './reserve.ts';

/** A file on its way in. */
export interface Writer {
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the bytes and brings them to the disk; `publish` makes the file exist. */
  finish(): Promise<Written>;
  /** Gives up and removes what is there; not after `publish`. */
  abort(): Promise<void>;
}

/** `dagBytes`: all blocks of the file together. */
export type Written = { cid: string; bytes: number; dagBytes: number; file: string; blocks: BlockRow[] };

export interface Store {
  readonly catalog: Catalog;
  /** `keep: false` computes the CID only. */
  writer(o: { keep: boolean }): Promise<Writer>;
  publish(files: readonly Written[], o: { pin: { name: string } | undefined }): Promise<void>;
  /** Opens the file that a block lies in; its bytes stay readable until the descriptor is closed, even when it is removed. */
  open(place: Place): number;
  /** Removes what nothing holds; also what was added within the last hour, if `all`. Returns the CIDs of the blocks. */
  collect(o?: { all: boolean }): Promise<string[]>;
  /** Removes pins and collects, also on a full disk. The first of the CIDs that has no pin is returned, and nothing was removed then. */
  unpin(cids: readonly string[]): Promise<string | undefined>;
  close(): Promise<void>;
}

/** How long an added file that nobody pinned is kept. */
export const unpinnedMs = 3_600_000;

/** Rows that are kept in memory before they go to the catalog: those of 4 GiB. */
const rowsAhead = 4096;

/** Opens the store in `dir`, and sweeps what an interrupted process left. */
export async function openStore(dir: string, now: () => number): Promise<Store> {
  const data = join(dir, 'data');
  await mkdir(data, { recursive: true, mode: 0o700 });
  const catalog = openCatalog(join(dir, 'node.db'));
  const known = catalog.files();
  await Promise.all((await readdir(data)).filter((name) => !known.has(name)).map((name) => unlink(join(data, name))));
  const folder = await open(data, 'r');
  await folder.sync();

  const reserve = openReserve(join(dir, 'reserve'));

  const remove = (files: readonly string[]) => Promise.all(files.map((file) => unlink(join(data, file))));

  async function collect({ all } = { all: false }): Promise<string[]> {
    const { cids, files } = reserve.freeing(() => catalog.collect(all ? Number.MAX_SAFE_INTEGER : now()));
    await remove(files);
    if (files.length > 0) reserve.fill();
    return cids;
  }

  async function writer({ keep }: { keep: boolean }): Promise<Writer> {
    const file = randomBytes(16).toString('hex');
    const handle = keep ? await open(join(data, file), 'wx', 0o600) : undefined;
    const blocks: BlockRow[] = [];
    let position = 0;
    let nodeBytes = 0;
    let staged = false;
    const builder = cidBuilder({
      digest: (block) => hash('sha256', block, 'buffer'),
      onLeaf(cid, bytes) {
        blocks.push({ cid, offset: position, bytes, node: null });
        position += bytes;
        if (!keep || blocks.length < rowsAhead) return;
        staged = true;
        catalog.stage(file, blocks.splice(0));
      },
      onNode(cid, node, bytes) {
        nodeBytes += node.length;
        blocks.push({ cid, offset: position - bytes, bytes, node });
      },
    });
    const sink = blockWriter(handle, leafBytes);
    return {
      async write(bytes) {
        for (let rest = bytes; rest.length > 0;) {
          const taken = sink.fill(rest);
          rest = rest.subarray(taken);
          if (sink.full()) await builder.write(await sink.flush());
        }
      },
      async finish() {
        const last = await sink.flush();
        await builder.write(last);
        const { cid, bytes } = await builder.finish();
        await sink.drain();
        await handle?.sync();
        await handle?.close();
        return { cid, bytes, dagBytes: bytes + nodeBytes, file, blocks };
      },
      async abort() {
        // Whoever gives up knows why: an error of a write is no news here.
        await sink.drain().catch(() => undefined);
        await handle?.close();
        if (staged) catalog.unstage(file);
        if (keep) await unlink(join(data, file));
      },
    };
  }

  return {
    catalog,
    writer,
    async publish(files, { pin }) {
      await folder.sync();
      const spare = catalog.publish(
        files.map(({ file, cid, blocks }) => ({ file, cid, blocks, pin, keepUntil: pin ? 0 : now() + unpinnedMs })),
      );
      // They exist now, so nothing may look as if they did not; what cannot be removed here is swept at the next start.
      await remove(spare).catch(() => undefined);
    },
    open: (place) => openSync(join(data, place.file), 'r'),
    collect,
    async unpin(cids) {
      const missing = reserve.freeing(() => catalog.unpin(cids));
      if (missing === undefined) await collect();
      return missing;
    },
    async close() {
      catalog.close();
      await folder.close();
    },
  };
}
