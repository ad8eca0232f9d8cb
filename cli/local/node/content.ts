/** The bytes of a file, whose leaves may lie in many data files; one piece is read ahead. */
import { closeSync, read } from 'node:fs';
import { promisify } from 'node:util';
import { decodeNode } from '../../../shared/ipfs/index.ts';
import type { BlockLocation } from './catalog.ts';
import { RpcError } from './rpc.ts';

/** A run of bytes in a data file. */
export type LeafRun = { location: BlockLocation; offset: number; bytes: number };

/** Bytes of one read from the disk. */
const runBytes = 1_048_576;

const readAt = promisify(read);

/** A tree over 2^53 bytes in leaves of 1 MiB has 4 levels; a deeper one is hostile. */
const maxTreeDepth = 8;

/** Bytes of the file below a block. @throws invalid_cid when it is a node that is not of a file */
export function fileBytes(cid: string, block: BlockLocation): number {
  if (block.node === null) return block.bytes;
  return decodeNode(block.node, cid).reduce((sum, link) => sum + link.fileBytes, 0);
}

/** A block of a file, and which byte of the file is its first one. */
type Placed = { readonly cid: string; readonly location: BlockLocation; readonly start: number };

/** Bytes of a file, from the first to the last one. `find` throws for a missing block. */
export type ByteRange = { readonly from: number; readonly to: number; find(cid: string): BlockLocation };

/**
 * Yields the blocks that bytes of a file lie in, each as often as the file has it, parents first.
 * @throws RpcError for a file that contradicts itself, and what `find` throws
 */
export function* fileBlocks(cid: string, { from, to, find }: ByteRange): Generator<Placed> {
  yield* below(cid, 0, undefined, 0);

  function* below(at: string, position: number, expected: number | undefined, depth: number): Generator<Placed> {
    const location = find(at);
    if (expected !== undefined && fileBytes(cid, location) !== expected) throw contradiction(cid);
    yield { cid: at, location, start: position };
    if (location.node === null) return;
    if (depth > maxTreeDepth) throw contradiction(cid);
    let start = position;
    for (const { cid: child, fileBytes: bytes } of decodeNode(location.node, cid)) {
      if (start <= to && start + bytes > from) yield* below(child.text, start, bytes, depth + 1);
      start += bytes;
    }
  }
}

/** Yields the runs of whole leaves. */
export function* leavesOf(blocks: Iterable<Placed>): Generator<LeafRun> {
  for (const { location } of blocks)
    if (location.node === null && location.bytes > 0)
      yield { location, offset: location.offset, bytes: location.bytes };
}

/** Yields where bytes of a file lie, a read each. Fails as `fileBlocks`. */
export function* runs(cid: string, range: ByteRange): Generator<LeafRun> {
  function* wanted(): Generator<LeafRun> {
    for (const { location, start } of fileBlocks(cid, range)) {
      const first = Math.max(range.from - start, 0);
      const end = Math.min(range.to + 1 - start, location.bytes);
      if (location.node === null && first < end)
        yield { location, offset: location.offset + first, bytes: end - first };
    }
  }
  for (const { location, offset, bytes } of joined(wanted(), runBytes))
    for (let done = 0; done < bytes; done += runBytes)
      yield { location, offset: offset + done, bytes: Math.min(runBytes, bytes - done) };
}

/** Joins runs that follow each other in a file, up to so many bytes. */
export function* joined(all: Iterable<LeafRun>, most = Infinity): Generator<LeafRun> {
  let open: LeafRun | undefined;
  for (const run of all) {
    const follows = open?.location.file === run.location.file && open.offset + open.bytes === run.offset;
    if (open !== undefined && follows && open.bytes + run.bytes <= most) {
      open.bytes += run.bytes;
      continue;
    }
    if (open !== undefined) yield open;
    open = { ...run };
  }
  if (open !== undefined) yield open;
}

/**
 * The bytes of runs, in order. A piece is valid until the next one is asked for: two buffers are
 * used for all of them, since V8 collects its whole heap, which is that of the local service, for
 * each few dozen MiB of new ones.
 * @param open opens the data file of a block
 */
export async function* content(places: Iterable<LeafRun>, open: (location: BlockLocation) => number) {
  let current: { file: string; fd: number } | undefined;
  let buffer = Buffer.alloc(0);
  let spare = Buffer.alloc(0);

  async function bytesOf(run: LeafRun): Promise<Uint8Array> {
    if (current?.file !== run.location.file) {
      if (current) closeSync(current.fd);
      current = undefined;
      current = { file: run.location.file, fd: open(run.location) };
    }
    [buffer, spare] = [spare, buffer];
    if (buffer.length < run.bytes) buffer = Buffer.allocUnsafeSlow(run.bytes);
    const bytes = buffer.subarray(0, run.bytes);
    for (let filled = 0; filled < bytes.length;) {
      const { bytesRead } = await readAt(current.fd, bytes, filled, bytes.length - filled, run.offset + filled);
      if (bytesRead === 0) throw new RpcError('the data file on disk is too short');
      filled += bytesRead;
    }
    return bytes;
  }

  let ahead: Promise<Uint8Array> | undefined;
  try {
    for (const run of places) {
      const ready = await ahead;
      ahead = bytesOf(run);
      ahead.catch(() => undefined);
      if (ready) yield ready;
    }
    const last = await ahead;
    if (last) yield last;
  } finally {
    await ahead?.catch(() => undefined);
    if (current) closeSync(current.fd);
  }
}

/** An error for a file whose genuine blocks have other lengths than their parents say. */
export function contradiction(cid: string): RpcError {
  return new RpcError(`${cid} names a file that contradicts itself`);
}
