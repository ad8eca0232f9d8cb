/** The digests of leaves on their way to where they are recorded. */
import { concat } from '../../shared/streams/concat.ts';

/** Announces leaves before they are sent, in order. */
export type LeafAnnouncer = ReturnType<typeof leafAnnouncer>;

/**
 * Makes an announcer. One call to record digests is under way at a time; what is added before the
 * next one begins goes into it.
 * @param record records the digests (SHA-256, 32 bytes each) of leaves that follow one another from
 * the number `first` on; where it fails, so does `add`, for these leaves and all after them
 */
export function leafAnnouncer(record: (first: number, digests: Uint8Array) => Promise<void>) {
  let running: Promise<void> = Promise.resolve();
  let waiting: { digests: Uint8Array[]; begun: PromiseWithResolvers<void>; recorded: Promise<void> } | undefined;

  function open(first: number): NonNullable<typeof waiting> {
    const digests: Uint8Array[] = [];
    const begun = Promise.withResolvers<void>();
    running = Promise.all([running, begun.promise]).then(() => {
      waiting = undefined;
      return record(first, concat(...digests));
    });
    return { digests, begun, recorded: running };
  }

  return {
    /** Takes the number and SHA-256 of a leaf. Resolves once recorded, which `flush` begins. */
    add(index: number, digest: Uint8Array): Promise<void> {
      waiting ??= open(index);
      waiting.digests.push(digest);
      return waiting.recorded;
    },
    /** Records everything that was added, in one call. */
    flush: () => waiting?.begun.resolve(),
    /** Has nothing more recorded: `add` fails with the reason, unless recording has begun. */
    abort: (reason: unknown) => waiting?.begun.reject(reason),
  };
}
