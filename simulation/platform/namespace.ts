/** The objects of a class, and the calls that travel to them. */
import { newOwner } from '../host/scheduler.ts';
import {
  SimulatedObject,
  unreachable,
  type CallFate,
  type ObjectClass,
  type ObjectsOptions,
} from './simulated-object.ts';

/** Time that a call travels, in ms. */
const callTravelMs = [0.2, 40] as const;

/** All objects of a class. */
export class Namespace {
  readonly objects = new Map<string, SimulatedObject>();
  readonly #name: string;
  readonly #made: ObjectClass;
  readonly #o: ObjectsOptions;

  constructor(name: string, made: ObjectClass, options: ObjectsOptions) {
    this.#name = name;
    this.#made = made;
    this.#o = options;
  }

  /** The object of a name. */
  object(name: string): SimulatedObject {
    let object = this.objects.get(name);
    if (object === undefined) {
      object = new SimulatedObject(`${this.#name} ${name}`, this.#made, this.#o);
      this.objects.set(name, object);
    }
    return object;
  }

  /** The binding, for everybody. */
  binding() {
    const stub = (name: string): unknown => this.#stub(name, (path, args) => this.#call(name, path, args), []);
    return {
      getByName: stub,
      idFromName: (name: string) => {
        const text = `${this.#name} ${name}`;
        return { name: text, toString: () => Buffer.from(text).toString('hex').padEnd(64, '0') };
      },
    };
  }

  #stub(
    id: string,
    call: (path: readonly string[], args: unknown[]) => Promise<unknown>,
    path: readonly string[],
  ): unknown {
    return new Proxy(() => undefined, {
      get: (_, name) => {
        if (typeof name === 'symbol' || name === 'then') return undefined;
        return name === 'name' && path.length === 0 ? id : this.#stub(id, call, [...path, name]);
      },
      apply: (_, __, args: unknown[]) => call(path, args),
    });
  }

  #call(name: string, path: readonly string[], args: unknown[]): Promise<unknown> {
    const { scheduler, fateOf } = this.#o;
    const sent = structuredClone(args);
    const caller = scheduler.owner;
    const travel = (): number => scheduler.random(caller.name).spread(...callTravelMs);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const method = `${this.#name} ${name} ${path.join('.')}`;
    const answer = (label: string, settle: () => void): void =>
      void scheduler.later(travel(), `${method} ${label}`, settle, caller);
    const arrive = (fate: CallFate): void => {
      if (fate === 'is refused')
        return answer('refused', () => reject(unreachable('Durable Object is overloaded.', { overloaded: true })));
      const lost = unreachable('Network connection lost.', { retryable: true });
      if (fate === 'is lost') return answer('lost', () => reject(lost));
      this.object(name)
        .call(path, sent)
        .then(
          (value) => answer('answers', () => (fate === 'answer is lost' ? reject(lost) : resolve(value))),
          (error: unknown) => answer('fails', () => reject(error instanceof Error ? error : lost)),
        );
    };
    caller.send(() => {
      const fate = fateOf(caller);
      // What has left arrives, whether who sent it lives on or not.
      scheduler.later(travel(), `${method} called by ${caller.name}`, () => arrive(fate), newOwner(name));
    });
    return promise;
  }
}
