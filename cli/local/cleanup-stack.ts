/** Undoing what was done, and running things in order. */

/**
 * Steps that undo what was done. They run in the opposite order, each even if another one failed,
 * and get the failures so far.
 */
export class CleanupStack {
  readonly #steps: ((before: readonly unknown[]) => unknown)[] = [];

  add(step: (before: readonly unknown[]) => unknown): void {
    this.#steps.push(step);
  }

  /** @throws the failure of a step, or an AggregateError of several */
  async run(): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).toReversed()) {
      try {
        await step(failures);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length === 0) return;
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, 'the service did not stop cleanly');
  }
}

/** Wraps a function so that it runs once; later calls get the first result. */
export function once<A extends unknown[], T>(act: (...args: A) => T): (...args: A) => T {
  let done: { value: T } | undefined;
  return (...args) => (done ??= { value: act(...args) }).value;
}

/** Wraps a function so that a call waits for the one before it. */
export function serialize<T>(act: () => Promise<T>): () => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    const next = last.then(act, act);
    last = next;
    return next;
  };
}
