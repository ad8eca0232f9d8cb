/** Writing of a file, whose CID is computed meanwhile. */
import { indexer, type Indexer, type Written } from './indexer.ts';
import { NewFile } from './new-file.ts';
import type { Staging } from './rows.ts';

/** A file that is being written. */
export class Writer {
  readonly #file: NewFile;
  readonly #index: Indexer;

  private constructor(file: NewFile, index: Indexer) {
    this.#file = file;
    this.#index = index;
  }

  /** Begins a file in the folder `data`. Without `keep` only its CID is computed. */
  static async open(data: string, catalog: Staging, keep: boolean): Promise<Writer> {
    const file = await NewFile.create(data, { keep, suffix: '' });
    return new Writer(file, indexer(catalog, file.name, { stage: keep }));
  }

  /** Name of the file. */
  get name(): string {
    return this.#file.name;
  }

  /** Takes what a command writes into it (`NewFile.follow`), and gives it in pieces. */
  async *follow(...written: Parameters<NewFile['follow']>): AsyncGenerator<Uint8Array> {
    for await (const leaf of this.#file.follow(...written)) {
      await this.#index.write(leaf);
      yield leaf;
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    await this.#file.append(bytes, (block) => this.#index.write(block));
  }

  /** Takes the bytes out again that fill no leaf. */
  takeTail(): Uint8Array {
    return this.#file.sink.take();
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
