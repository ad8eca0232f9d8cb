/** Writing of blocks that somebody else has made, as a CAR. */
import { carHeader, carSection, leafBytes, type Cid } from '../../../shared/ipfs/index.ts';
import type { Catalog } from './catalog.ts';
import { createFile } from './new-file.ts';
import { carSuffix } from './data-file-name.ts';
import { openRows, type Complete } from './rows.ts';

/**
 * After so many bytes of an import the disk is asked to sync. An import is a part of an upload, 16
 * to 64 MiB as a rule, and the client of an upload in several requests waits for the last one of
 * each.
 */
const importSyncBytes = 4 * leafBytes;

/** An import that is being written. */
export type Importer = Awaited<ReturnType<typeof openImporter>>;

/** Begins an import in the folder `data`. */
export async function openImporter(data: string, catalog: Catalog) {
  const file = await createFile(data, { keep: true, suffix: carSuffix, syncBytes: importSyncBytes });
  const rows = openRows(catalog, file.name);
  let position = 0;
  let last: string | undefined;

  async function append(bytes: Uint8Array): Promise<void> {
    position += bytes.length;
    await file.append(bytes);
  }

  /** Removes what was written; not after `publish`. */
  async function abort(): Promise<void> {
    await file.abort();
    rows.abort();
  }

  await append(carHeader());
  return {
    /**
     * Writes a block that the caller has verified.
     * @param onWritten called when the memory of a leaf is no longer used; that of a node stays in
     * use
     * @throws invalid_cid when it is not a node that this node can hold
     */
    async write(cid: Cid, block: Uint8Array, onWritten: () => void): Promise<void> {
      await append(carSection(cid, block.length));
      last = cid.text;
      if (cid.codec === 'dag-pb') {
        rows.node(cid.text, block);
        await append(block);
        return;
      }
      rows.leaf(cid.text, position, block.length);
      position += block.length;
      await file.sink.writeThrough(block, onWritten);
    },

    /**
     * Ends the file and syncs it to the disk; `publish` makes it exist. Without blocks: undefined,
     * and nothing is kept.
     */
    async finish(): Promise<Complete | undefined> {
      if (last === undefined) {
        await abort();
        return undefined;
      }
      await file.sink.flush();
      await file.finish();
      return { file: file.name, cid: last, blocks: rows.finish() };
    },

    abort,
  };
}
