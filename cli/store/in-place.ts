/**
 * Storing where the node of the local service keeps it, instead of through a socket. The service
 * takes the request, makes the file and says its name; who stores writes into it, and sends a byte
 * for each few that are there. The node reads and hashes them as if they had been sent.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { leafBytes } from '../../shared/ipfs/index.ts';
import { writeFailure } from '../errno.ts';
import { BlockWriter } from '../io/block-writer.ts';
import { release } from '../io/byte-stream.ts';
import { partSuffix, writtenPerByte } from '../local/node/data-file-name.ts';
import type { Api, InPlaceOptions } from '../remote/client.ts';

type Body = Parameters<Api['store']>[0];

/** The file of the node cannot be written here: nothing is read of the body yet. */
class NotInPlace extends Error {}

/**
 * Stores a body by a file of the node or, where that cannot be written, by sending it.
 * @param folder where the node keeps its files; undefined: it is sent
 * @throws what `store` throws; disk_full, file_unwritable
 */
export async function storeInPlace<T>(
  folder: string | undefined,
  body: Body,
  store: (body: Body, options: InPlaceOptions) => Promise<T>,
): Promise<T> {
  const { bytes, stream } = body;
  if (folder === undefined || bytes === undefined) return await store(body, {});
  let path: string | undefined;
  const headers = {
    expect: '100-continue',
    'content-length': String(Math.ceil(bytes / writtenPerByte)),
    'sealpin-in-place': String(bytes),
  };
  const onInformation: InPlaceOptions['onInformation'] = (_, { link }) => {
    const name = /^<([0-9a-f]{32})>/.exec(String(link))?.[1];
    path = name === undefined ? undefined : join(folder, name + partSuffix);
  };
  try {
    // Its length is in a header: what is sent of it says nothing to people.
    const notes = { ...body, stream: written(stream, () => path), bytes: undefined };
    return await store(notes, { headers, onInformation });
  } catch (error) {
    if (error instanceof NotInPlace) return await store(body, {});
    throw error;
  }
}

/** Writes chunks into a file, and gives what is sent instead of them. */
async function* written(chunks: AsyncIterable<Uint8Array>, pathOf: () => string | undefined) {
  const path = pathOf();
  if (path === undefined) throw new NotInPlace('the service names no file');
  const handle = await openEmpty(path);
  const writer = new BlockWriter(handle, leafBytes);
  const failed = (error: unknown): never => {
    throw writeFailure(path, error);
  };
  let bytes = 0;
  let noted = 0;
  const noteOf = (end: number): Buffer => {
    const note = Buffer.alloc(end - noted);
    noted = end;
    return note;
  };
  try {
    for await (const chunk of chunks) {
      const before = bytes;
      bytes += chunk.length;
      // It waits for the writes before this one, so those bytes are there.
      await writer.writeThrough(chunk, () => release(chunk)).catch(failed);
      yield noteOf(Math.floor(before / writtenPerByte));
    }
    await writer.drain().catch(failed);
    yield noteOf(Math.ceil(bytes / writtenPerByte));
  } finally {
    // The caller has the error that matters.
    await writer.drain().catch(() => undefined);
    await handle.close();
  }
}

async function openEmpty(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0)).catch((cause: unknown) => {
    throw new NotInPlace('the file cannot be written', { cause });
  });
  const stats = await handle.stat();
  if (stats.isFile() && stats.size === 0) return handle;
  await handle.close();
  throw new NotInPlace('the file is another one');
}
