/** The engine as its page calls it. */
import type { Calls, Failure, FromEngine, FromPage, Receiving, Sending } from './protocol.ts';
import { trustedAddress, type PageScript } from './page-scripts.ts';

/** A failure of the engine, by its code. */
export class EngineError extends Error {
  readonly code: Failure['code'];
  readonly reason: Failure['reason'];
  constructor({ code, reason, message }: Failure) {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

/** Recognizes a failure of the engine by one of some codes. */
export function isEngineError(thrown: unknown, ...codes: readonly Failure['code'][]): thrown is EngineError {
  return thrown instanceof EngineError && codes.includes(thrown.code);
}

/**
 * Options for following and ending a call. `onProgress` gets bytes so far, of `total` where that is
 * known, while the engine is at the file with an index. `onStalled` gets what holds the call up,
 * and how it resumes where it stopped; without it the call fails with that.
 */
export type CallOptions = {
  readonly onProgress?: (bytes: number, total?: number, file?: number) => void;
  readonly onStalled?: (error: EngineError, resume: () => void) => void;
  readonly signal?: AbortSignal;
};

/** Calls an engine. */
export interface Engine<C extends Calls> {
  /** @throws EngineError, with the code `aborted` after the signal */
  call<Name extends keyof C>(
    name: Name,
    argument: Parameters<C[Name]>[0],
    options?: CallOptions & { readonly transfer?: Transferable[] },
  ): Promise<ReturnType<C[Name]>>;
}

type WaitingCall = Pick<CallOptions, 'onProgress' | 'onStalled'> & {
  resolve(result: unknown): void;
  reject(error: Error): void;
};

export const startReceiving = (): Engine<Receiving> => startEngine('receiving');
export const startSending = (): Engine<Sending> => startEngine('sending');

function startEngine<C extends Calls>(name: PageScript): Engine<C> {
  const worker = new Worker(trustedAddress(name));
  const waiting = new Map<number, WaitingCall>();
  let lastId = 0;
  const post = (message: FromPage<C>, transfer: Transferable[] = []): void => worker.postMessage(message, transfer);

  worker.addEventListener('message', ({ data }: MessageEvent<FromEngine>) => {
    const call = waiting.get(data.id);
    if (call === undefined) return;
    const { id } = data;
    if ('progress' in data) return call.onProgress?.(data.progress, data.total, data.file);
    if ('stalled' in data && call.onStalled !== undefined)
      return call.onStalled(new EngineError(data.stalled), () => post({ id, resume: true }));
    waiting.delete(id);
    if ('result' in data) return call.resolve(data.result);
    call.reject(new EngineError('stalled' in data ? data.stalled : data.failure));
    if ('stalled' in data) post({ id, cancel: true });
  });
  // It did not start, or it crashed: nothing that it was asked for will end.
  worker.addEventListener('error', () => {
    for (const { reject } of waiting.values()) reject(new EngineError({ code: 'internal', message: '' }));
    waiting.clear();
  });

  return {
    call(name, argument, { signal, transfer, ...following } = {}) {
      const id = ++lastId;
      signal?.addEventListener('abort', () => post({ id, cancel: true }), { once: true });
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve: resolve as WaitingCall['resolve'], reject, ...following });
        post({ id, call: name, argument } as FromPage<C>, transfer);
        if (signal?.aborted === true) post({ id, cancel: true });
      });
    },
  };
}
