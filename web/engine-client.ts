/** The engine as its page calls it. */
import type { CallName, Calls, Failure, FromEngine, FromPage } from './protocol.ts';
import { trustedAddress } from './trusted-addresses.ts';

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

/** How a call is followed, and ended. */
export type CallOptions = { readonly onProgress?: (bytes: number) => void; readonly signal?: AbortSignal };

/** Calls the engine. */
export interface Engine {
  /** @throws EngineError, with the code `aborted` after the signal */
  call<Name extends CallName>(
    name: Name,
    argument: Parameters<Calls[Name]>[0],
    options?: CallOptions & { readonly transfer?: Transferable[] },
  ): Promise<ReturnType<Calls[Name]>>;
}

type Waiting = {
  resolve(result: ReturnType<Calls[CallName]>): void;
  reject(error: Error): void;
  onProgress: CallOptions['onProgress'];
};

/** Starts the engine of a page. */
export function startEngine(): Engine {
  const worker = new Worker(trustedAddress('web/engine.js'));
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  const post = (message: FromPage, transfer: Transferable[] = []): void => worker.postMessage(message, transfer);

  worker.addEventListener('message', ({ data }: MessageEvent<FromEngine>) => {
    const call = waiting.get(data.id);
    if (call === undefined) return;
    if ('progress' in data) {
      call.onProgress?.(data.progress);
      return;
    }
    waiting.delete(data.id);
    if ('failure' in data) call.reject(new EngineError(data.failure));
    else call.resolve(data.result);
  });
  // It did not start, or it crashed: nothing that it was asked for will end.
  worker.addEventListener('error', () => {
    for (const { reject } of waiting.values()) reject(new EngineError({ code: 'internal', message: '' }));
    waiting.clear();
  });

  return {
    call(name, argument, { onProgress, signal, transfer } = {}) {
      const id = ++lastId;
      signal?.addEventListener('abort', () => post({ id, cancel: true }), { once: true });
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve: resolve as Waiting['resolve'], reject, onProgress });
        post({ id, call: name, argument } as FromPage, transfer);
        if (signal?.aborted === true) post({ id, cancel: true });
      });
    },
  };
}
