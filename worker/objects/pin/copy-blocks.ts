/** Copies of pieces of a file, each block of which is verified before it is passed on. */
import { openFile, parseCid, readBlock, type BlockSource } from '../../../shared/ipfs/index.ts';
import type { PinningService } from '../../backends/contract.ts';
import { onFailure } from '../../backends/on-failure.ts';
import { sourceError } from '../../backends/source-error.ts';
import { blockMs } from './pin-steps.ts';

type CopyOptions = {
  /** First byte of the piece, which begins a leaf, and how many it has at most. */
  start: number;
  bytes: number;
  signal: AbortSignal;
  /** Called with the source that gave a wrong block. */
  onMismatch(source: string): void;
};

/**
 * Copies the blocks of a piece, with the nodes above them. Nothing is pinned.
 * @returns where the piece ends, once the target holds it, and the length of the file
 * @throws SourceError where it could not be read, and what the target throws
 */
export async function copyBlocks(
  cid: string,
  sources: readonly BlockSource[],
  target: PinningService,
  { start, bytes, signal, onMismatch }: CopyOptions,
): Promise<{ end: number; size: number }> {
  const blocks = target.importBlocks(signal);
  let refusal: unknown;
  /** Awaits what the target does, whose failure is told apart from those of sources. */
  const taken = (work: Promise<void>): Promise<void> => onFailure(work, (error) => (refusal = error));
  const options = { signal, limits: { idleMs: blockMs }, onMismatch: ({ id }: BlockSource) => onMismatch(id) };
  try {
    const file = await openFile(cid, sources, {
      ...options,
      // The import uses the bytes up, and the walk may need them again.
      onBlock: (block) => taken(blocks.write(block.cid, block.bytes.slice())),
    });
    const end = Math.min(file.size, start + bytes);
    // An empty file has no bytes to read, and one block.
    if (file.size === 0) {
      const block = await readBlock(cid, sources, options);
      await taken(blocks.write(parseCid(cid), block));
    }
    await drain(file.read(start, end));
    await taken(blocks.finish());
    return { end, size: file.size };
  } catch (error) {
    blocks.abort(error);
    signal.throwIfAborted();
    if (refusal !== undefined) throw error;
    throw sourceError(error);
  }
}

/** Reads a stream to its end, and keeps nothing of it. */
export async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  const reader = stream.getReader();
  while (!(await reader.read()).done);
}
