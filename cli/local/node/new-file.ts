/** Files that are being written: nothing knows them before they are published. */
import { randomBytes } from 'node:crypto';
import { open, unlink, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { carHeader, carSection, leafBytes, type Cid } from '../../../shared/ipfs/index.ts';
import { BlockWriter } from '../../io/block-writer.ts';
import type { Catalog } from './catalog.ts';
import { indexer, type Indexer, type Written } from './indexer.ts';
import { carSuffix, partSuffix } from './recover.ts';
import { freeBytes, lastBytes } from './reserve.ts';
import { openRows, type Complete, type Rows } from './rows.ts';
import { RpcError } from './rpc.ts';

/**
 * After so many bytes of an import the disk is asked to sync. An import is a part of an upload, 16 to 64 MiB as a rule, and the client of an
 * upload in several requests waits for the last one of each.
 */
const importSyncBytes = 4 * leafBytes;

/** A file under a name of its own; without a handle nothing is on the disk. */
class NewFile {
  readonly name: string;
  readonly sink: BlockWriter;
  readonly #path: string;
  readonly #handle: FileHandle | undefined;

  private constructor(name: string, path: string, handle: FileHandle | undefined, syncBytes?: number) {
    this.name = name;
    this.#path = path;
    this.#handle = handle;
    this.sink = new BlockWriter(handle, leafBytes, syncBytes);
  }

  static async create(data: string, options: { keep: boolean; suffix: string; syncBytes?: number }): Promise<NewFile> {
    const { keep, suffix, syncBytes } = options;
    // The last space on the disk is for deletions.
    if (keep && freeBytes(data) < lastBytes) throw new RpcError('no space left on device');
    const name = randomBytes(16).toString('hex') + suffix;
    const path = join(data, name + partSuffix);
    return new NewFile(name, path, keep ? await open(path, 'wx', 0o600) : undefined, syncBytes);
  }

  /** Copies bytes into blocks. @param onBlock gets each that is full, before it is filled again */
  async append(bytes: Uint8Array, onBlock?: (block: Buffer) => Promise<void>): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      rest = rest.subarray(this.sink.fill(rest));
      if (!this.sink.full()) continue;
      const block = await this.sink.flush();
      await onBlock?.(block);
    }
  }

  /** Waits until its bytes are on the disk. */
  async finish(): Promise<void> {
    await this.sink.drain();
    await this.#handle?.sync();
    await this.#handle?.close();
  }

  /** Removes it. */
  async abort(): Promise<void> {
    // The caller has the error that matters.
    await this.sink.drain().catch(() => undefined);
    await this.#handle?.close();
    if (this.#handle !== undefined) await unlink(this.#path);
  }
}

/** A file that is being written. */
export class Writer {
  readonly #file: NewFile;
  readonly #index: Indexer;

  private constructor(file: NewFile, index: Indexer) {
    this.#file = file;
    this.#index = index;
  }

  /** Begins a file in the folder `data`. Without `keep` only its CID is computed. */
  static async open(data: string, catalog: Catalog, keep: boolean): Promise<Writer> {
    const file = await NewFile.create(data, { keep, suffix: '' });
    return new Writer(file, indexer(catalog, file.name, { stage: keep }));
  }

  async write(bytes: Uint8Array): Promise<void> {
    await this.#file.append(bytes, (block) => this.#index.write(block));
  }

  /** Ends the file and syncs it to the disk; `publish` makes it exist. */
  async finish(): Promise<Written> {
    await this.#index.write(await this.#file.sink.flush());
    const written = await this.#index.finish();
    await this.#file.finish();
    return written;
  }

  /** Removes what was written; not after `publish`. */
  async abort(): Promise<void> {
    await this.#file.abort();
    this.#index.abort();
  }
}

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
   * @param onWritten called when the memory of a leaf is no longer used; that of a node stays in use
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

  /** Ends the file and syncs it to the disk; `publish` makes it exist. Without blocks: undefined, and nothing is kept. */
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
