/** Requests to a backend that fails: late, lost, full, lying, or away. */
import type { Random } from '../host/random.ts';
import { newOwner, type Scheduler } from '../host/scheduler.ts';

const backendTravelMs = [0.5, 80] as const;

/** The ways in which a backend fails for a while. */
export const troubles = [
  'refuses',
  'hangs',
  'busy',
  'late',
  'loses requests',
  'loses answers',
  'full',
  'lies',
  'cuts',
  'stalls',
] as const;
export type Trouble = (typeof troubles)[number];

/** Share of the requests that meet a trouble which is not there all the time. */
const troubledShare = 0.3;
/**
 * Time by which a late request is late, in ms: less than the 30 s for which the product waits for
 * what a store has not answered. The index of a file that came later would stay without a row.
 */
const lateMs = [1_000, 28_000] as const;

/** The behaviour of a backend at the moment. */
export class Behaviour {
  readonly id: string;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly #troubles = new Map<Trouble, number>();

  constructor(id: string, scheduler: Scheduler) {
    this.id = id;
    this.scheduler = scheduler;
    this.random = scheduler.random(`backend ${id}`);
  }

  begin(trouble: Trouble): void {
    this.#troubles.set(trouble, (this.#troubles.get(trouble) ?? 0) + 1);
  }

  end(trouble: Trouble): void {
    this.#troubles.set(trouble, (this.#troubles.get(trouble) ?? 1) - 1);
  }

  has(trouble: Trouble): boolean {
    return (this.#troubles.get(trouble) ?? 0) > 0;
  }

  /** Tells whether a request meets a trouble that some of them meet. */
  meets(trouble: Trouble): boolean {
    return this.has(trouble) && this.random.chance(troubledShare);
  }

  /** Changes bytes, where the backend lies. */
  honest(bytes: Uint8Array): Uint8Array {
    if (!this.meets('lies') || bytes.length === 0) return bytes;
    const other = bytes.slice();
    const at = this.random.below(other.length);
    other[at] = (other[at] ?? 0) ^ 1;
    return other;
  }

  /** Waits for the disk of a backend that is in the process in front. @throws where it fails */
  async disk(): Promise<void> {
    if (this.has('hangs')) await new Promise(() => undefined);
    await this.scheduler.sleep(this.#travelMs(), `${this.id} writes`);
    if (this.has('full')) throw Object.assign(new Error('write'), { code: 'ENOSPC' });
    if (this.meets('busy')) throw new Error('the disk does not answer');
  }

  /**
   * Makes a request.
   * @param work what the backend does, when it arrives @param signal takes it back before that
   */
  request<T>(label: string, work: () => T | Promise<T>, signal?: AbortSignal | null): Promise<T> {
    signal?.throwIfAborted();
    const { scheduler, random } = this;
    const { owner } = scheduler;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const name = `${this.id} ${label}`;
    const answer = (settle: () => void): void => {
      const settled = (): void => {
        signal?.removeEventListener('abort', aborted);
        settle();
      };
      scheduler.later(random.spread(...backendTravelMs), `${name} answers`, settled, owner);
    };
    const broken = (): void => answer(() => reject(new TypeError('the connection broke')));
    const arrive = async (): Promise<void> => {
      if (signal?.aborted === true || this.has('hangs')) return;
      if (this.has('refuses') || this.meets('loses requests')) return broken();
      const isAnswered = !this.meets('loses answers');
      try {
        const value = await work();
        if (isAnswered) answer(() => resolve(value));
        else broken();
      } catch (error) {
        answer(() => reject(error instanceof Error ? error : new Error('failed')));
      }
    };
    const aborted = (): void => reject(signal?.reason as Error);
    signal?.addEventListener('abort', aborted);
    owner.send(() => {
      scheduler.later(this.#travelMs(), name, () => void arrive(), newOwner(this.id));
    });
    return promise;
  }

  /** Time after which a request arrives, in ms. */
  #travelMs(): number {
    const ms = this.random.spread(...backendTravelMs);
    return ms + (this.meets('late') ? this.random.spread(...lateMs) : 0);
  }

  /** A stream of bytes, which may be cut, or never end. @param signal ends it, while it waits */
  stream(bytes: Uint8Array, signal?: AbortSignal | null): ReadableStream<Uint8Array> {
    const isCut = this.meets('cuts');
    const isStalled = this.meets('stalls');
    const part = isCut || isStalled ? bytes.subarray(0, this.random.below(bytes.length + 1)) : bytes;
    const sent = this.honest(part);
    return new ReadableStream({
      start(controller) {
        if (sent.length > 0) controller.enqueue(sent.slice());
        if (isStalled) signal?.addEventListener('abort', () => controller.error(signal.reason));
        else if (isCut) controller.error(new TypeError('terminated'));
        else controller.close();
      },
    });
  }
}

/** Reads a whole body. */
export async function readWholeBody(body: AsyncIterable<Uint8Array> | Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  if (body instanceof Uint8Array) return body.slice();
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(new Uint8Array(chunk));
  return new Uint8Array(Buffer.concat(chunks));
}

/** Reads the body of a request, until it is taken back. */
export async function sentWithin(
  body: ReadableStream<Uint8Array> | Uint8Array | null | undefined,
  signal: AbortSignal | null | undefined,
): Promise<Uint8Array> {
  if (body === undefined || body === null) return new Uint8Array();
  const { promise, reject } = Promise.withResolvers<never>();
  const aborted = (): void => reject(signal?.reason as Error);
  signal?.addEventListener('abort', aborted);
  try {
    return await Promise.race([readWholeBody(body), promise]);
  } finally {
    signal?.removeEventListener('abort', aborted);
  }
}
