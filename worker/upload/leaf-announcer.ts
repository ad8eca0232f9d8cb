/** The digests of leaves that are about to be sent, on their way to where they are recorded. */
import { concat } from '../../shared/streams/concat.ts';

/**
 * Makes the function that announces leaves, in order. One call to record them is under way at a time: a durable write takes longer
 * than a leaf, and so the leaves that are made meanwhile go into the next call together.
 * @param record records the digests (SHA-256, 32 bytes each) of leaves that follow one another from the number `first` on
 * @returns a function that resolves once the digest is recorded; it fails as `record` does, and so do those after it
 */
export function leafAnnouncer(
  record: (first: number, digests: Uint8Array) => Promise<void>,
): (index: number, digest: Uint8Array) => Promise<void> {
  let running: Promise<void> = Promise.resolve();
  let waiting: { first: number; digests: Uint8Array[]; recorded: Promise<void> } | undefined;

  return (index, digest) => {
    if (waiting === undefined) {
      const batch = { first: index, digests: [] as Uint8Array[] };
      running = running.then(() => {
        waiting = undefined;
        return record(batch.first, concat(...batch.digests));
      });
      waiting = { ...batch, recorded: running };
    }
    waiting.digests.push(digest);
    return waiting.recorded;
  };
}
