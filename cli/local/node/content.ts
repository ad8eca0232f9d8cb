/**
 * The bytes of a file, whose leaves may lie in many data files; the next piece is read while one is
 * on its way.
 */
import { closeSync, read } from 'node:fs';
import { promisify } from 'node:util';
import { decodeNode, type Link } from '../../../shared/ipfs/index.ts';
import type { BlockLocation } from './catalog.ts';
import { RpcError } from './rpc.ts';

/** A run of bytes in a data file. */
export type LeafRun = { location: BlockLocation; offset: number; bytes: number };

/** Bytes of one read from the disk. */
const runBytes = 1_048_576;

const readAt = promisify(read);

/** A tree over 2^53 bytes in leaves of 1 MiB has 4 levels; a deeper one is hostile. */
export const maxTreeDepth = 8;

/** Bytes of the file below a block. @throws invalid_cid when it is a node that is not of a file */
export function fileBytes(cid: string, block: BlockLocation): number {
  return block.node === null ? block.bytes : total(decodeNode(block.node, cid));
}

/**
 * Yields where bytes `start` to `end` (exclusive) lie, a read each.
 * @param find throws for a missing block
 */
export function* runs(
  cid: string,
  { start, end, find }: { start: number; end: number; find(cid: string): BlockLocation },
): Generator<LeafRun> {
  let open: LeafRun | undefined;
  for (const run of leaves(cid, 0, undefined, 0)) {
    // Leaves that follow each other in a file are read together.
    if (
      open &&
      open.location.file === run.location.file &&
      open.offset + open.bytes === run.offset &&
      open.bytes + run.bytes <= runBytes
    ) {
      open.bytes += run.bytes;
      continue;
    }
    if (open) yield* pieces(open);
    open = run;
  }
  if (open) yield* pieces(open);

  function* leaves(at: string, position: number, expected: number | undefined, depth: number): Generator<LeafRun> {
    const location = find(at);
    if (location.node === null) {
      if (expected !== undefined && location.bytes !== expected) throw contradiction(cid);
      const from = Math.max(start - position, 0);
      const to = Math.min(end - position, location.bytes);
      if (from < to) yield { location, offset: location.offset + from, bytes: to - from };
      return;
    }
    const links = decodeNode(location.node, cid);
    if (depth > maxTreeDepth || (expected !== undefined && total(links) !== expected)) throw contradiction(cid);
    let next = position;
    for (const link of links) {
      const first = next;
      next += link.fileBytes;
      if (next > start && first < end) yield* leaves(link.cid.text, first, link.fileBytes, depth + 1);
    }
  }
}

/**
 * The bytes of runs, in order. A piece is valid until the next one is asked for: two buffers are
 * used for all of them, since V8 collects its whole heap, which is that of the local service, for
 * each few dozen MiB of new ones.
 * @param open opens the data file of a block
 */
export async function* content(
  places: Iterable<LeafRun>,
  open: (location: BlockLocation) => number,
): AsyncGenerator<Uint8Array> {
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

function* pieces({ location, offset, bytes }: LeafRun): Generator<LeafRun> {
  for (let done = 0; done < bytes; done += runBytes)
    yield { location, offset: offset + done, bytes: Math.min(runBytes, bytes - done) };
}

function total(links: readonly Link[]): number {
  return links.reduce((sum, link) => sum + link.fileBytes, 0);
}

/** An error for a file whose genuine blocks have other lengths than their parents say. */
export function contradiction(cid: string): RpcError {
  return new RpcError(`${cid} names a file that contradicts itself`);
}
