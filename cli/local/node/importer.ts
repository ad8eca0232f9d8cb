/** Writing of blocks that somebody else has made, as a CAR. */
import { carHeader, carSection, leafBytes, type Cid } from '../../../shared/ipfs/index.ts';
import type { Catalog } from './catalog.ts';
import { NewFile } from './new-file.ts';
import { carSuffix } from './data-file-name.ts';
import { openRows, type Complete, type Rows } from './rows.ts';

/**
 * After so many bytes of an import the disk is asked to sync. An import is a part of an upload, 16
 * to 64 MiB as a rule, and the client of an upload in several requests waits for the last one of
 * each.
 */
const importSyncBytes = 4 * leafBytes;

/** An import that is being written. */
export class Importer {
  readonly #file: NewFile;
  readonly #rows: Rows;
  #position = 0;
  #last: string | undefined;

  private constructor(file: NewFile, catalog: Catalog) {
    this.#file = file;
    this.#rows = openRows(catalog, file.name, { stage: true });
  }

  /** Begins an import in the folder `data`. */
  static async open(data: string, catalog: Catalog): Promise<Importer> {
    const file = await NewFile.create(data, { keep: true, suffix: carSuffix, syncBytes: importSyncBytes });
    const importer = new Importer(file, catalog);
    await importer.#append(carHeader());
    return importer;
  }

  async #append(bytes: Uint8Array): Promise<void> {
    this.#position += bytes.length;
    await this.#file.append(bytes);
  }

  /**
   * Writes a block that the caller has verified.
   * @param onWritten called when the memory of a leaf is no longer used; that of a node stays in
   * use
   * @throws invalid_cid when it is not a node that this node can hold
   */
  async write(cid: Cid, block: Uint8Array, onWritten: () => void): Promise<void> {
    await this.#append(carSection(cid, block.length));
    this.#last = cid.text;
    if (cid.codec === 'dag-pb') {
      this.#rows.node(cid.text, block);
      await this.#append(block);
      return;
    }
    this.#rows.leaf(cid.text, this.#position, block.length);
    this.#position += block.length;
    await this.#file.sink.writeThrough(block, onWritten);
  }

  /**
   * Ends the file and syncs it to the disk; `publish` makes it exist. Without blocks: undefined,
   * and nothing is kept.
   */
  async finish(): Promise<Complete | undefined> {
    if (this.#last === undefined) {
      await this.abort();
      return undefined;
    }
    await this.#file.sink.flush();
    await this.#file.finish();
    return { file: this.#file.name, cid: this.#last, blocks: this.#rows.finish() };
  }

  /** Removes what was written; not after `publish`. */
  async abort(): Promise<void> {
    await this.#file.abort();
    this.#rows.abort();
  }
}
