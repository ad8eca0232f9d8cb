/** Blocks from a list of sources, each hashed before it is passed on: the next source on any fault, at the block that failed. */
import { isSealpinError, SealpinError } from '../errors.ts';
import { sha256, type Digest } from './builder.ts';
import { maxBlockBytes, type Cid } from './cid.ts';
import { feed, sameBytes, type Feed } from './feed.ts';
import type { BlockSource } from './file.ts';
import type { Take, Want } from './walk.ts';

export interface Supply {
  take: Take;
  /** Ends what is open. */
  close(reason?: unknown): void;
}

/** Faults that one source may have in one file; a lie is as bad as all of them. */
const maxFaults = 3;

/** What is remembered of the sources, for all reads of one file: how often one failed, and how it did last. */
export type Faults = Map<BlockSource, { count: number; error: SealpinError }>;

/** A block that is not the one of its CID. */
class Lie extends SealpinError {
  constructor(want: Want) {
    super('content_mismatch', `what it gave for ${want.cid.text} is something else`);
  }
}

type Failure = { id: string; error: SealpinError };

/** A feed, what ends its requests, and the signal that they get. */
type Open = { feed: Feed; stop: AbortController; signal: AbortSignal };

/**
 * Blocks of the file of `root` up to byte `end`.
 * Each source is asked once for a block; the one whose stream broke off after it had given good blocks once more, at last.
 */
export function supply(
  root: Cid,
  sources: readonly BlockSource[],
  o: { end?: number; signal: AbortSignal; idleMs: number; faults: Faults; digest: Digest | undefined },
): Supply {
  const digest = o.digest ?? sha256;
  const open = new Map<BlockSource, Open>();
  let current = sources[0];
  let proven = false;
  let interrupt: ((reason: Error) => void) | undefined;
  const aborted = () => interrupt?.(o.signal.reason as Error);
  o.signal.addEventListener('abort', aborted);

  async function take(want: Want): Promise<Uint8Array> {
    o.signal.throwIfAborted();
    const failures: Failure[] = [];
    const order = [current, ...sources.filter((source) => source !== current), proven ? current : undefined];
    for (const source of order) {
      if (!source) continue;
      const known = o.faults.get(source);
      if (known && known.count >= maxFaults) {
        failures.push({ id: source.id, error: known.error });
        continue;
      }
      try {
        const bytes = await ask(source, want);
        current = source;
        proven = true;
        return bytes;
      } catch (cause) {
        leave(source, cause);
        o.signal.throwIfAborted();
        const error = isSealpinError(cause)
          ? cause
          : new SealpinError('pinning_unavailable', 'it cannot be reached', { cause });
        failures.push({ id: source.id, error });
        o.faults.set(source, { count: cause instanceof Lie ? maxFaults : (known?.count ?? 0) + 1, error });
      }
    }
    throw summary(failures);
  }

  async function ask(source: BlockSource, want: Want): Promise<Uint8Array> {
    let asked = open.get(source);
    if (!asked) {
      const stop = new AbortController();
      open.set(
        source,
        (asked = { feed: feed(root, o.end, source), stop, signal: AbortSignal.any([o.signal, stop.signal]) }),
      );
    }
    const bytes = await timely(asked.feed.take(want, asked.signal));
    if (bytes.length > maxBlockBytes || !sameBytes(await digest(bytes), want.cid.digest)) throw new Lie(want);
    return bytes;
  }

  /** Also ends the wait for a source that does not heed its signal. */
  async function timely(block: Promise<Uint8Array>): Promise<Uint8Array> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const timer = setTimeout(
      () => reject(new SealpinError('pinning_timeout', `it gave nothing for ${o.idleMs} ms`)),
      o.idleMs,
    );
    interrupt = reject;
    block.then(resolve, reject);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      interrupt = undefined;
    }
  }

  function leave(source: BlockSource, reason: unknown): void {
    const left = open.get(source);
    open.delete(source);
    left?.stop.abort(reason);
    // What a stream that is not wanted any more says to its end is no news.
    left?.feed.close(reason).catch(() => undefined);
  }

  return {
    take,
    close(reason) {
      o.signal.removeEventListener('abort', aborted);
      for (const source of open.keys()) leave(source, reason);
    },
  };
}

/** One error for the failures of all sources: a lie is told first, else the last failure decides. */
function summary(failures: readonly Failure[]): SealpinError {
  const told = failures.find(({ error }) => error.code === 'content_mismatch') ?? failures.at(-1);
  if (!told) return new SealpinError('not_found', 'there is no source to ask');
  const { code, reason, hint, retryAfterSeconds } = told.error;
  // A source that was asked again and failed in the same way is named once.
  const detail = [...new Set(failures.map(({ id, error }) => `${id}: ${error.message}`))].join('; ');
  const cause = failures.length === 1 ? told.error : new AggregateError(failures.map(({ error }) => error));
  return new SealpinError(code, detail, {
    cause,
    ...(reason !== undefined && { reason }),
    ...(hint !== undefined && { hint }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
}
