/** Workers KV, which says for up to a minute what it said before. */
import type { Random } from '../host/random.ts';
import type { Scheduler } from '../host/scheduler.ts';

/** The longest that a place of the network may serve an old value, in ms. */
const staleMs = 60_000;
const kvTravelMs = [0.5, 60] as const;

type Version = { value: string | null; at: number };

/** A namespace of KV. */
export class Kv {
  readonly #scheduler: Scheduler;
  readonly #random: Random;
  readonly #versions = new Map<string, Version[]>();
  /** Set while no request to it succeeds. */
  isDown = false;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    this.#random = scheduler.random('kv');
  }

  /** The names that have a value now. */
  names(): string[] {
    return [...this.#versions.keys()].filter((name) => this.#latest(name) !== null).toSorted();
  }

  /** The binding, for everybody. */
  binding() {
    const request = <T>(label: string, work: () => T): Promise<T> => this.#request(label, work);
    return {
      get: (name: string, o?: { type?: string }) =>
        request(`kv get ${name}`, () => {
          const value = this.#seen(name);
          return value !== null && o?.type === 'json' ? (JSON.parse(value) as unknown) : value;
        }),
      put: (name: string, value: string) => request(`kv put ${name}`, () => this.#write(name, value)),
      delete: (name: string) => request(`kv delete ${name}`, () => this.#write(name, null)),
      list: ({ prefix = '', limit = 1000, cursor }: { prefix?: string; limit?: number; cursor?: string | null }) =>
        request(`kv list ${prefix}`, () => {
          const all = this.names().filter((name) => name.startsWith(prefix) && name > (cursor ?? ''));
          const names = all.slice(0, limit);
          const isLast = names.length === all.length;
          return {
            keys: names.map((name) => ({ name })),
            list_complete: isLast,
            ...(!isLast && { cursor: names.at(-1) }),
          };
        }),
    };
  }

  #request<T>(label: string, work: () => T): Promise<T> {
    const { owner } = this.#scheduler;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const travel = (): number => this.#random.spread(...kvTravelMs);
    owner.send(() => {
      this.#scheduler.later(travel(), label, () => {
        const isDown = this.isDown;
        const isDone = !isDown || this.#random.chance(0.5);
        const value = isDone ? work() : undefined;
        const settle = isDown ? () => reject(new Error('KV: 500 Internal Server Error')) : () => resolve(value as T);
        this.#scheduler.later(travel(), `${label} answers`, settle, owner);
      });
    });
    return promise;
  }

  #latest(name: string): string | null {
    return this.#versions.get(name)?.at(-1)?.value ?? null;
  }

  /** One of the values that it had within the last minute. */
  #seen(name: string): string | null {
    const versions = this.#versions.get(name) ?? [];
    const since = this.#scheduler.now - staleMs;
    const current = versions.findLastIndex(({ at }) => at <= since);
    const possible = versions.slice(Math.max(0, current));
    if (current === -1) possible.unshift({ value: null, at: 0 });
    return possible[this.#random.below(possible.length)]?.value ?? null;
  }

  #write(name: string, value: string | null): void {
    const versions = this.#versions.get(name) ?? [];
    const since = this.#scheduler.now - 2 * staleMs;
    const current = versions.findLastIndex(({ at }) => at <= since);
    this.#versions.set(name, [...versions.slice(Math.max(0, current)), { value, at: this.#scheduler.now }]);
  }
}
