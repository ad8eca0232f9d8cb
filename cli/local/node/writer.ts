/** Writing of a file, whose CID is computed meanwhile. */
import { indexer, type Written } from './indexer.ts';
import { createFile, type NewFile } from './new-file.ts';
import type { Staging } from './rows.ts';

/** A file that is being written. */
export type Writer = Awaited<ReturnType<typeof openWriter>>;

/** Begins a file in the folder `data`. Without a catalog only its CID is computed. */
export async function openWriter(data: string, catalog: Staging | undefined) {
  const file = await createFile(data, { keep: catalog !== undefined, suffix: '' });
  const index = indexer(catalog, file.name);
  return {
    name: file.name,

    /** Takes what a command writes into it (`NewFile.follow`), and gives it in pieces. */
    async *follow(...written: Parameters<NewFile['follow']>): AsyncGenerator<Uint8Array> {
      for await (const leaf of file.follow(...written)) {
        await index.write(leaf);
        yield leaf;
      }
    },

    async write(bytes: Uint8Array): Promise<void> {
      await file.append(bytes, (block) => index.write(block));
    },

    /** Takes the bytes out again that fill no leaf. */
    takeTail: (): Uint8Array => file.sink.take(),

    /** Ends the file and syncs it to the disk; `publish` makes it exist. */
    async finish(): Promise<Written> {
      await index.write(await file.sink.flush());
      const written = await index.finish();
      await file.finish();
      return written;
    },

    /** Removes what was written; not after `publish`. */
    async abort(): Promise<void> {
      await file.abort();
      index.abort();
    },
  };
}
