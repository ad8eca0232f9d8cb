/** The globals that a bundle sees: clock, timers, random numbers and network of a simulation. */
import { createHmac, hash, timingSafeEqual, webcrypto } from 'node:crypto';
import type { Scheduler } from './scheduler.ts';

/** The globals of one isolate, by name. */
export type Globals = Readonly<Record<string, unknown>>;

export type GlobalsOptions = {
  scheduler: Scheduler;
  fetch: typeof fetch;
  /** Takes a line that the product logs. */
  log(line: string): void;
};

/** Makes the globals of an isolate. */
export function globalsOf({ scheduler, fetch, log }: GlobalsOptions): Globals {
  const shadowed: Record<string, unknown> = {
    ...timers(scheduler),
    Date: clock(scheduler),
    Math: Object.create(Math, { random: { value: () => scheduler.random('Math.random').next() } }) as Math,
    crypto: cryptography(scheduler),
    performance: { now: () => scheduler.now },
    AbortSignal: abortSignal(scheduler),
    FixedLengthStream,
    fetch,
    console: { log: (line: string) => log(line) },
  };
  const all = new Proxy(globalThis, {
    get: (target, name) => (name in shadowed ? shadowed[String(name)] : (Reflect.get(target, name) as unknown)),
    has: (target, name) => name in shadowed || name in target,
  });
  return { ...shadowed, globalThis: all, self: all };
}

type TimerCallback = (...args: unknown[]) => void;

function timers(scheduler: Scheduler) {
  const running = new Map<number, () => void>();
  let last = 0;
  const start = (kind: 'timer' | 'interval', leastMs: number, ms: number, callback: () => void): number => {
    const id = (last += 1);
    const begin = (): void => {
      const ring = (): void => {
        if (kind === 'interval') begin();
        else running.delete(id);
        callback();
      };
      running.set(id, scheduler.later(Math.max(leastMs, ms), kind, ring));
    };
    begin();
    return id;
  };
  const setTimeout = (callback: TimerCallback, ms = 0, ...args: unknown[]): number =>
    start('timer', 0, ms, () => callback(...args));
  const setInterval = (callback: TimerCallback, ms = 0, ...args: unknown[]): number =>
    start('interval', 1, ms, () => callback(...args));
  const clear = (id?: number): void => {
    if (id === undefined) return;
    running.get(id)?.();
    running.delete(id);
  };
  const wait = (ms: number): Promise<void> => scheduler.sleep(ms, 'wait');
  return { setTimeout, setInterval, clearTimeout: clear, clearInterval: clear, scheduler: { wait } };
}

function clock(scheduler: Scheduler): DateConstructor {
  return class extends Date {
    constructor(...args: unknown[]) {
      super(...((args.length === 0 ? [scheduler.now] : args) as [number]));
    }

    static override now(): number {
      // A Worker's clock has whole milliseconds.
      return Math.floor(scheduler.now);
    }
  } as unknown as DateConstructor;
}

/**
 * Bytes of the IDs of objects in stores, and what they are digests of. Their first byte decides
 * which of 256 objects has their row, and has work for it on each day of ten years: here there are
 * two, which also meet more often.
 */
const idBytes = 16;
const objectsOf = 'sealpin/v1 objects ';

/** WebCrypto whose random numbers follow from the seed, and whose threads end in order. */
function cryptography(scheduler: Scheduler): Crypto {
  const { subtle } = webcrypto;
  const threaded =
    (name: 'importKey' | 'deriveKey' | 'deriveBits' | 'encrypt' | 'decrypt' | 'sign') =>
    (...args: unknown[]): Promise<unknown> =>
      scheduler.threaded((subtle[name] as unknown as (...args: unknown[]) => Promise<unknown>).apply(subtle, args));
  const names = ['deriveKey', 'deriveBits', 'encrypt', 'decrypt'] as const;
  const [imported, signed] = [threaded('importKey'), threaded('sign')];
  const getRandomValues = <T extends ArrayBufferView>(view: T): T => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    scheduler.random('crypto').draw(bytes);
    if (bytes.length === idBytes) bytes[0] = (bytes[0] ?? 0) & 1;
    return view;
  };
  const randomUUID = (): string => {
    const bytes = new Uint8Array(16);
    scheduler.random('crypto').draw(bytes);
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    const hex = bytes.toHex();
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  };
  return {
    getRandomValues,
    randomUUID,
    subtle: {
      ...Object.fromEntries(names.map((name) => [name, threaded(name)])),
      // A request to S3 has five of them, for which no thread is woken.
      importKey: async (format: string, data: BufferSource, ...rest: [{ name?: string }, ...unknown[]]) =>
        rest[0].name === 'HMAC' ? { hmac: bytesOfBufferSource(data).slice() } : await imported(format, data, ...rest),
      sign: async (algorithm: unknown, key: { hmac?: Uint8Array }, data: BufferSource) =>
        key.hmac === undefined
          ? await signed(algorithm, key, data)
          : Uint8Array.from(createHmac('sha256', key.hmac).update(bytesOfBufferSource(data)).digest()).buffer,
      async digest(algorithm: string, data: BufferSource) {
        const bytes = bytesOfBufferSource(data);
        const digest = Uint8Array.from(hash(algorithm.replace('-', ''), bytes, 'buffer'));
        if (Buffer.from(bytes.subarray(0, objectsOf.length)).toString() === objectsOf) digest[0] = (digest[0] ?? 0) & 1;
        return digest.buffer;
      },
      timingSafeEqual: (a: BufferSource, b: BufferSource) =>
        timingSafeEqual(bytesOfBufferSource(a), bytesOfBufferSource(b)),
    },
  } as unknown as Crypto;
}

/** Reason of all signals that have timed out: few of them are looked at. */
const timedOut = new DOMException('The operation was aborted due to timeout', 'TimeoutError');

/** What the product asks of AbortSignal. */
function abortSignal(scheduler: Scheduler): Pick<typeof AbortSignal, 'timeout' | 'any'> {
  const timeout = (ms: number): AbortSignal => {
    const controller = new AbortController();
    scheduler.later(ms, 'timeout', () => controller.abort(timedOut));
    return controller.signal;
  };
  // That of Node keeps what listens to a signal that is never aborted, and with it a whole world.
  const any = (signals: Iterable<AbortSignal>): AbortSignal => {
    const controller = new AbortController();
    for (const each of signals) {
      const follow = (): void => controller.abort(each.reason);
      if (each.aborted) follow();
      else each.addEventListener('abort', follow, { once: true });
    }
    return controller.signal;
  };
  return { timeout, any };
}

/** The stream of workerd that ends after so many bytes, and errs where there are more or fewer. */
class FixedLengthStream extends TransformStream<Uint8Array, Uint8Array> {
  constructor(length: number) {
    let left = length;
    super({
      transform(chunk, controller) {
        left -= chunk.length;
        if (left < 0) throw new TypeError('Attempt to write too many bytes through a FixedLengthStream.');
        controller.enqueue(chunk);
      },
      flush() {
        if (left > 0) throw new TypeError('FixedLengthStream did not see all expected bytes before close().');
      },
    });
  }
}

function bytesOfBufferSource(data: BufferSource): Uint8Array {
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}
