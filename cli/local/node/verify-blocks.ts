/** Check that the contents of the node match their CIDs. */
import { closeSync, readSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { errnoOf } from '../../errno.ts';
import type { BlockLocation } from './catalog.ts';
import type { Store } from './store.ts';
import { isCidOf } from './verify.ts';

/**
 * Result of a check: how many blocks and bytes are intact, and the first of those that are not.
 * `next`: where the check continues; undefined when it has come to the end.
 */
export type VerifiedBlocks = {
  blocks: number;
  bytes: number;
  bad: number;
  first: { cid: string; file: string; why: 'missing' | 'damaged' }[];
  next?: string | undefined;
};

/** Number of rows read at once, and of bad blocks that are named. */
const pageRows = 500;
export const maxNamedBlocks = 100;
/** Time after which a check stops at the next page, in ms: who asks may not want the rest. */
const turnMs = 1_000;

/**
 * Reads the blocks behind a position, all of them at first, as far as one turn comes; the node
 * continues to serve.
 */
export async function verifyBlocks(store: Store, position = '0'): Promise<VerifiedBlocks> {
  const until = performance.now() + turnMs;
  const { catalog } = store;
  const found: VerifiedBlocks = { blocks: 0, bytes: 0, bad: 0, first: [] };
  let last: { file: string; descriptor: number } | undefined;

  function read(location: BlockLocation): Uint8Array | undefined {
    if (location.node !== null) return location.node;
    try {
      if (last?.file !== location.file) {
        if (last) closeSync(last.descriptor);
        last = undefined;
        last = { file: location.file, descriptor: store.open(location) };
      }
      const bytes = new Uint8Array(location.bytes);
      const length = readSync(last.descriptor, bytes, 0, bytes.length, location.offset);
      return bytes.subarray(0, length);
    } catch (cause) {
      if (errnoOf(cause) !== 'ENOENT' && errnoOf(cause) !== 'EIO') throw cause;
      return undefined;
    }
  }

  try {
    for (let after = Number.parseInt(position, 36), rows = catalog.blocksAfter(after, pageRows); rows.length > 0;) {
      if (performance.now() > until) return { ...found, next: after.toString(36) };
      for (const { cid, ...location } of rows) {
        await turn();
        after = location.row;
        const bytes = read(location);
        if (bytes !== undefined && isCidOf(cid, bytes)) {
          found.blocks += 1;
          found.bytes += bytes.length;
        } else if (catalog.find(cid) !== undefined) {
          // What was deleted meanwhile is not bad.
          found.bad += 1;
          const why = bytes === undefined ? 'missing' : 'damaged';
          if (found.first.length < maxNamedBlocks) found.first.push({ cid, file: location.file, why });
        }
      }
      rows = catalog.blocksAfter(after, pageRows);
    }
    return found;
  } finally {
    if (last) closeSync(last.descriptor);
  }
}
