/**
 * The next block from the next source: each is hashed, and after a failure another source continues
 * with it.
 */
import { equalBytes } from '../streams/equal-bytes.ts';
import { isSealpinError, SealpinError } from '../errors.ts';
import { within } from '../streams/timing.ts';
import type { BlockOptions, BlockRequest, BlockSource, FetchBlock } from './block-source.ts';
import { CarError } from './car-reader.ts';
import type { Cid } from './cid.ts';
import { maxBlockBytes } from './profile.ts';
import { sourceReader, type SourceReader } from './source-reader.ts';
import { sha256 } from './tree.ts';

type FailoverOptions = BlockOptions & {
  /** The byte of the file (exclusive) up to which blocks are needed; undefined: all of it. */
  end?: number;
  signal: AbortSignal;
  /** The longest wait for one whole block, however much of it comes. */
  idleMs: number;
  /** Record of the failures of the sources; all reads of one file share it. */
  strikes: Strikes;
};

/** Number of failures of each source in one file, and the last one. */
export type Strikes = Map<BlockSource, { count: number; error: SealpinError }>;

/**
 * A source that has so many strikes is not asked again, unless it was a block that it lacked or had
 * damaged: then it is asked for others after all other sources. Wrong bytes are as bad as all of
 * them.
 */
const maxStrikes = 3;

/** A source that sends so many bytes in the time for a block is waited for as long again. */
const slowBytes = 60 * 1024;

/** Codes of a source that answers, and does not have a block. */
const lacking = ['pinning_lost', 'not_found'] as const;
/** Codes of a source that does not answer. */
const silent = ['pinning_unavailable', 'pinning_timeout', 'service_unreachable'] as const;

/** A block that does not have the hash in its CID. */
class IntegrityError extends SealpinError {
  constructor({ cid }: BlockRequest) {
    super('content_mismatch', `what it gave for ${cid.text} is something else`);
  }
}

type SourceFailure = { source: BlockSource; error: SealpinError };

/** Result of a request to a source; without bytes it failed. */
type Attempt = { source: BlockSource; bytes: Uint8Array | undefined };

/**
 * The open requests to one source, and how many bytes have come in its streams. `stop` ends them,
 * and `signal` is what they listen to.
 */
type SourceConnection = { requests: SourceReader; bytes: number; stop: AbortController; signal: AbortSignal };

/** State of the search for one block. */
type Search = {
  readonly request: BlockRequest;
  /** Sources that may still be asked. */
  readonly candidates: (BlockSource | undefined)[];
  /** Those of them that are asked when no other one is left. */
  readonly doubted: Set<BlockSource>;
  readonly running: Map<BlockSource, Promise<Attempt>>;
  readonly failures: SourceFailure[];
  brokenOff?: BlockSource;
};

/**
 * Reads blocks of the file below `root`, in order, from the first source that gives them. For each
 * block every source is asked once, and the one that gave the block before it a second time: its
 * stream may have broken.
 */
export class FailoverReader {
  readonly #root: Cid;
  readonly #sources: readonly BlockSource[];
  readonly #options: FailoverOptions;
  readonly #connections = new Map<BlockSource, SourceConnection>();
  #current: BlockSource | undefined;
  #hasDelivered = false;

  constructor(root: Cid, sources: readonly BlockSource[], options: FailoverOptions) {
    this.#root = root;
    this.#sources = sources;
    this.#options = options;
    [this.#current] = sources;
  }

  /**
   * Fetches a block.
   * @throws when every source failed: content_mismatch if one gave wrong bytes, and none that
   * answered may have the right ones; else the code of the last failure
   */
  readonly fetchBlock: FetchBlock = async (request) => {
    this.#options.signal.throwIfAborted();
    const others = this.#sources.filter((source) => source !== this.#current);
    const candidates = [this.#current, ...others, this.#hasDelivered ? this.#current : undefined];
    const search: Search = { request, candidates, doubted: new Set(), running: new Map(), failures: [] };
    const { running, failures } = search;
    try {
      for (;;) {
        if (running.size === 0 && !this.#startNext(search)) throw (await this.#lossOf(search)) ?? summaryOf(failures);
        const canHedge = candidates.some((source) => source && !running.has(source));
        const first = Promise.race(running.values());
        const { hedgeMs } = this.#options;
        const outcome = await (canHedge && hedgeMs !== undefined ? within(first, hedgeMs, () => undefined) : first);
        if (outcome === undefined) {
          this.#startNext(search);
          continue;
        }
        running.delete(outcome.source);
        if (outcome.bytes === undefined) continue;
        this.#current = outcome.source;
        this.#hasDelivered = true;
        return outcome.bytes;
      }
    } finally {
      const slower = [...running.keys()];
      running.clear();
      for (const source of slower) this.#disconnect(source, new Error('another source was faster'));
    }
  };

  /** Ends all open requests. */
  close(reason?: unknown): void {
    for (const source of this.#connections.keys()) this.#disconnect(source, reason);
  }

  /** Asks the next source that may be asked. @returns whether there was one */
  #startNext(search: Search): boolean {
    const { candidates, doubted, running, failures } = search;
    for (let source = candidates.shift(); source || candidates.length > 0; source = candidates.shift()) {
      if (!source || running.has(source)) continue;
      const strikes = this.#options.strikes.get(source);
      if (strikes === undefined || strikes.count < maxStrikes) return this.#start(search, source);
      const mayHaveOthers = isSealpinError(strikes.error, 'content_mismatch', ...lacking);
      if (mayHaveOthers && !failures.some((failure) => failure.source === source)) doubted.add(source);
      else failures.push({ source, error: strikes.error });
    }
    const [last] = running.size === 0 ? doubted : [];
    return last !== undefined && doubted.delete(last) && this.#start(search, last);
  }

  #start(search: Search, source: BlockSource): true {
    const attempt = this.#attempt(search, source);
    attempt.catch(() => undefined); // another one may have ended the block
    search.running.set(source, attempt);
    return true;
  }

  async #attempt(search: Search, source: BlockSource): Promise<Attempt> {
    try {
      return { source, bytes: await this.#fetchFrom(source, search.request) };
    } catch (cause) {
      if (!search.running.has(source)) return { source, bytes: undefined };
      this.#disconnect(source, cause);
      this.#options.signal.throwIfAborted();
      this.#fail(search, source, cause);
      return { source, bytes: undefined };
    }
  }

  #fail(search: Search, source: BlockSource, cause: unknown): void {
    const { strikes, onMismatch } = this.#options;
    const error = isSealpinError(cause)
      ? asBroken(cause)
      : new SealpinError('pinning_unavailable', 'it cannot be reached', { cause });
    search.failures.push({ source, error });
    if (source.car && error.reason === 'broken_off') search.brokenOff = source;
    if (cause instanceof IntegrityError) onMismatch?.(source, search.request.cid.text);
    const before = strikes.get(source);
    // Who is asked in spite of its strikes may have other blocks, though it is not reached now.
    if (before !== undefined && before.count >= maxStrikes) return;
    const count = cause instanceof IntegrityError ? maxStrikes : (before?.count ?? 0) + 1;
    strikes.set(source, { count, error });
  }

  /**
   * The stream of a source that has lost a block, or whose copies are all damaged, breaks off
   * there. Asked for that block alone, it says so.
   */
  async #lossOf({ brokenOff: source, request }: Search): Promise<SealpinError | undefined> {
    if (source === undefined) return undefined;
    try {
      await this.#within(source.block(request.cid.text, this.#connect(source).signal));
      return undefined;
    } catch (error) {
      this.#options.signal.throwIfAborted();
      return isSealpinError(error, 'pinning_lost', 'content_mismatch') ? error : undefined;
    } finally {
      this.#disconnect(source, new Error('it was asked for the reason only'));
    }
  }

  async #fetchFrom(source: BlockSource, request: BlockRequest): Promise<Uint8Array> {
    const connection = this.#connections.get(source) ?? this.#connect(source);
    const { requests, signal } = connection;
    const bytes = await this.#within(requests.fetchBlock(request, signal), connection);
    if (await this.#isWanted(bytes, request)) return bytes;
    // Who makes a CAR, or a stream of leaves, may leave it to us to hash them. A single block it
    // does hash: so it learns of the damage, and may have another copy.
    const isStream = source.car !== undefined || source.read !== undefined;
    const single =
      isStream && (await this.#within(source.block(request.cid.text, signal)).catch(() => signal.throwIfAborted()));
    if (single && (await this.#isWanted(single, request))) return single;
    throw new IntegrityError(request);
  }

  async #isWanted(bytes: Uint8Array, { cid, fileBytes }: BlockRequest): Promise<boolean> {
    const { passLeaves, digest = sha256 } = this.#options;
    if (bytes.length > maxBlockBytes) return false;
    if (passLeaves === true && cid.codec === 'raw') return fileBytes === undefined || bytes.length === fileBytes;
    return equalBytes(await digest(bytes), cid.digest);
  }

  #connect(source: BlockSource): SourceConnection {
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#options.signal, stop.signal]);
    const onBytes = (bytes: number): void => void (connection.bytes += bytes);
    const requests = sourceReader(this.#root, source, { ...this.#options, onBytes });
    const connection: SourceConnection = { requests, bytes: 0, stop, signal };
    this.#connections.set(source, connection);
    return connection;
  }

  /** Ends the wait also for a source that ignores its signal. */
  async #within(block: Promise<Uint8Array>, progress = { bytes: 0 }): Promise<Uint8Array> {
    const { idleMs, signal } = this.#options;
    let { bytes } = progress;
    const late = (): undefined => {
      const isSlow = progress.bytes - bytes >= slowBytes;
      ({ bytes } = progress);
      if (isSlow) return undefined;
      throw new SealpinError('pinning_timeout', `it sent no whole block within ${idleMs / 1000} s`);
    };
    for (;;) {
      const whole = await within(block, idleMs, late, signal);
      if (whole !== undefined) return whole;
    }
  }

  #disconnect(source: BlockSource, reason: unknown): void {
    const connection = this.#connections.get(source);
    this.#connections.delete(source);
    connection?.stop.abort(reason);
    // The stream is not needed any more, and so an error of its cancel is not, either.
    connection?.requests.close(reason).catch(() => undefined);
  }
}

/**
 * A CAR has no length: where its connection breaks, what is on the way may end it as if it were
 * complete. That is no damage.
 */
function asBroken(error: SealpinError): SealpinError {
  if (!(error instanceof CarError && error.isCutOff)) return error;
  return new SealpinError('service_unreachable', error.message, { reason: 'broken_off', cause: error });
}

/**
 * One error for the failures of all sources: wrong bytes come first, unless another source that
 * answered may have the right ones, else the last failure decides. A CAR that cannot be read is not
 * known to be wrong.
 */
function summaryOf(all: readonly SourceFailure[]): SealpinError {
  const own = all.filter(({ source, error }) => !source.isShortWay || error.code === 'content_mismatch');
  const failures = own.length > 0 ? own : all;
  const isWrong = ({ error }: SourceFailure) => error.code === 'content_mismatch' && !(error instanceof CarError);
  const wrong = failures.find(isWrong);
  const refuses = ({ source, error }: SourceFailure) =>
    source !== wrong?.source && !isSealpinError(error, 'content_mismatch', ...lacking, ...silent);
  const decisive = (wrong && failures.findLast(refuses)) ?? wrong ?? failures.at(-1);
  if (!decisive) return new SealpinError('not_found', 'there is no source to ask');
  const { code, reason, hint, retryAfterSeconds } = decisive.error;
  // A source that was asked again and failed in the same way is named once.
  const detail = [...new Set(failures.map(({ source, error }) => `${source.id}: ${error.message}`))].join('; ');
  const cause = failures.length === 1 ? decisive.error : new AggregateError(failures.map(({ error }) => error));
  return new SealpinError(code, detail, { cause, reason, hint, retryAfterSeconds });
}
