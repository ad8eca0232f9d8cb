/** The rows of a data file that the catalog does not know, from its bytes. */
import type { FileHandle } from 'node:fs/promises';
import { isSealpinError, SealpinError } from '../../../shared/errors.ts';
import { carReader, leafBytes } from '../../../shared/ipfs/index.ts';
import { bytesOf } from '../../io/byte-stream.ts';
import type { Catalog } from './catalog.ts';
import { indexer } from './indexer.ts';
import { openRows } from './rows.ts';
import { verify } from './verify.ts';

/** Indexes a file whose bytes are those of one UnixFS file. */
export async function indexFlat(catalog: Catalog, name: string, file: FileHandle) {
  const index = indexer(catalog, name);
  for (;;) {
    const leaf = await readUpTo(file, leafBytes);
    if (leaf.length > 0) await index.write(leaf);
    if (leaf.length < leafBytes) break;
  }
  const { cid, bytes, blocks } = await index.finish();
  return { cid, bytes, blocks, damaged: false };
}

/**
 * Indexes an import. Blocks that do not fit their CIDs are left out; what is cut off counts up to
 * there.
 * @returns `bytes` of the blocks that were found; `damaged` when others were left out
 * @throws content_mismatch when no block is left
 */
export async function indexCar(catalog: Catalog, name: string, file: FileHandle) {
  const rows = openRows(catalog, name);
  const car = carReader(bytesOf(file));
  let last: string | undefined;
  let bytes = 0;
  let damaged = false;
  try {
    for (let block = await car.next(); block; block = await car.next()) {
      const { cid, got } = verify(block);
      if (cid === undefined || got !== cid.text) {
        damaged = true;
        continue;
      }
      if (cid.codec === 'raw') rows.leaf(cid.text, block.offset, block.bytes.length);
      else rows.node(cid.text, block.bytes);
      bytes += block.bytes.length;
      last = cid.text;
    }
  } catch (cause) {
    if (last === undefined || !isSealpinError(cause, 'content_mismatch')) throw cause;
    damaged = true;
  }
  if (last === undefined) throw new SealpinError('content_mismatch', 'no block in it fits its CID');
  return { cid: last, bytes, blocks: rows.finish(), damaged };
}

/** The next `length` bytes of a file; fewer at its end. */
async function readUpTo(file: FileHandle, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  for (let read = -1; read !== 0 && filled < length; filled += read)
    read = (await file.read(buffer, filled, length - filled)).bytesRead;
  return buffer.subarray(0, filled);
}
