/** The body of a request as it arrives, counted and compared with its digests. */
import { SealpinError } from '../../shared/errors.ts';
import { within } from '../../shared/streams/timing.ts';
import type { Algorithm, Digests } from '../http/digest-fields.ts';
import { PassingDigests } from './passing-digests.ts';

/**
 * The most bytes that one read waits for: workerd gives 4 KiB otherwise, and each read has its
 * cost.
 */
export const readBytes = 1024 * 1024;
/**
 * A read that takes less than this part of the idle time makes the next one wait for more bytes: a
 * fast client costs few reads.
 */
const quickPart = 1 / 64;
/** A read of this many bytes may take twice the idle time, one of 1 MiB five times. */
const bytesPerIdleTime = 256 * 1024;
/** The largest body without a limit: 4 PiB, so that all lengths computed are exact numbers. */
const largestBytes = 2 ** 52;

type Bytes = Uint8Array<ArrayBuffer>;

/** Options for reading a body. */
export type CountedOptions = {
  /** Largest number of bytes of the body; counted, because a length need not be announced. */
  limitBytes: number | undefined;
  /** Time for which it may send nothing before it fails, in ms. */
  idleMs: number;
  /** Called with the number of bytes that have arrived so far. */
  onArrival(bytes: number): void;
  /** Digests that the body must have as it is sent. */
  digests?: Digests;
  /** Digest to compute. */
  wanted?: Algorithm | undefined;
};

/**
 * Refuses a body whose announced length is over the limit, before a byte of it is read.
 * @throws too_large
 */
export function checkLength(request: Request, limitBytes = largestBytes): void {
  const announced = Number(request.headers.get('Content-Length') ?? Number.NaN);
  if (announced > limitBytes) throw tooLarge(limitBytes);
}

/**
 * A body that is read as it arrives. Its reads throw body_incomplete, body_timeout and too_large;
 * results are in the memory of their buffer.
 */
export class CountedBody {
  readonly #options: CountedOptions;
  readonly #reader: ReadableStreamBYOBReader | undefined;
  readonly #digests: PassingDigests;
  #received = 0;
  #minBytes = 1;

  constructor(request: Request, options: CountedOptions) {
    this.#options = options;
    this.#reader = request.body?.getReader({ mode: 'byob' });
    this.#digests = new PassingDigests(options.wanted, options.digests);
    this.#count(0);
  }

  /** Waits for bytes, for more of them while the client is fast; none: it has ended. */
  async readSome(buffer: Bytes): Promise<Bytes> {
    const { bytes } = await this.#read(buffer.subarray(0, this.#within(buffer.length)));
    this.#count(bytes.length);
    return bytes;
  }

  /**
   * Fills a buffer, unless the body ends before; no bytes: it has ended.
   * @throws digest_mismatch at the end
   */
  async read(buffer: Bytes): Promise<Bytes> {
    const wanted = this.#within(buffer.length);
    const { byteOffset } = buffer;
    let memory = buffer.buffer;
    let filled = 0;
    for (let ended = false; !ended && filled < wanted;) {
      const some = await this.#read(new Uint8Array(memory, byteOffset + filled, wanted - filled));
      ({ ended } = some);
      memory = some.bytes.buffer;
      filled += some.bytes.length;
    }
    this.#count(filled);
    const bytes = new Uint8Array(memory, byteOffset, filled);
    if (filled > 0) await this.#digests.write(bytes);
    else await this.#digests.check();
    return bytes;
  }

  /** The wanted digest of all that `read` gave, as the value of a field. */
  async digest(): Promise<string | undefined> {
    return await this.#digests.digest();
  }

  async cancel(reason: unknown): Promise<void> {
    await this.#reader?.cancel(reason);
  }

  /**
   * Reads until `#minBytes` have arrived. How many have is not visible before, so a slow client
   * gets small reads.
   */
  async #read(view: Bytes): Promise<{ bytes: Bytes; ended: boolean }> {
    if (this.#reader === undefined) return { bytes: view.subarray(0, 0), ended: true };
    const { idleMs } = this.#options;
    const wanted = Math.min(this.#minBytes, view.length);
    const startedAt = Date.now();
    const reading = this.#reader.readAtLeast(wanted, view).catch((cause: unknown) => {
      throw new SealpinError('body_incomplete', undefined, { cause });
    });
    const { value } = await within(reading, idleMs * (1 + wanted / bytesPerIdleTime), () => {
      throw new SealpinError('body_timeout');
    });
    if (value === undefined) throw new SealpinError('body_incomplete', 'the body was cancelled');
    const isQuick = Date.now() - startedAt < idleMs * quickPart;
    this.#minBytes = isQuick ? Math.min(Math.max(this.#minBytes * 4, value.length * 2), readBytes) : 1;
    return { bytes: value, ended: value.length < wanted };
  }

  /** Limits a read to one byte over the limit: the rest is not waited for. */
  #within(bytes: number): number {
    return Math.min(bytes, (this.#options.limitBytes ?? Number.MAX_SAFE_INTEGER) - this.#received + 1);
  }

  #count(bytes: number): void {
    const { limitBytes, onArrival } = this.#options;
    this.#received += bytes;
    if (this.#reader !== undefined) onArrival(this.#received);
    if (limitBytes !== undefined && this.#received > limitBytes) throw tooLarge(limitBytes);
  }
}

function tooLarge(limitBytes: number): SealpinError {
  return new SealpinError('too_large', `the body may have at most ${limitBytes} bytes`);
}
