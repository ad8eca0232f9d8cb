/** The Worker with objects that let a test advance their clock, ring their alarm, see their rows, and make their calls fail. */
import { Account as RealAccount, Pin as RealPin } from '../index.ts';
import type { Result } from '../objects/result.ts';
import type { Env } from '../env.ts';
import type { PinBinding } from '../objects/shard.ts';

// oxlint-disable-next-line import/no-default-export -- workerd looks for it there
export { default } from '../index.ts';

/** A call that fails once, before it does anything or after it has done everything. */
export type Fault = 'before' | 'after';
type Row = Record<string, SqlStorageValue>;

export class Account extends RealAccount {
  #offsetMs = 0;
  readonly #faults: Map<string, Fault>;

  constructor(ctx: DurableObjectState, env: Env & PinBinding) {
    const faults = new Map<string, Fault>();
    super(ctx, { ...env, PIN: failing(env.PIN, faults) });
    this.#faults = faults;
  }

  protected override now(): number {
    return Date.now() + this.#offsetMs;
  }

  /** Lets that much time pass, and rings the alarm. */
  async ring(ms: number): Promise<void> {
    this.#offsetMs += ms;
    await this.alarm();
  }

  /** Makes claims last that long. */
  lease(ms: number): void {
    this.leaseMs = ms;
  }

  /** Lets the next call of that name fail: `addReference`, `removeReference` of `Pin`, `commit`, `commitPart` of this object. */
  fail(call: string, fault: Fault): void {
    this.#faults.set(call, fault);
  }

  override commit(...args: Parameters<RealAccount['commit']>): Promise<Result> {
    return faulty(this.#faults, 'commit', () => super.commit(...args));
  }

  override commitPart(...args: Parameters<RealAccount['commitPart']>): Promise<Result> {
    return faulty(this.#faults, 'commitPart', () => super.commitPart(...args));
  }

  rows(table: 'file' | 'part' | 'upload' | 'shown' | 'outbox' | 'idempotency' | 'api_key'): Row[] {
    return this.ctx.storage.sql.exec<Row>(`SELECT * FROM ${table}`).toArray();
  }

  tables(): number {
    return this.ctx.storage.sql.exec('SELECT name FROM sqlite_master').toArray().length;
  }
}

export class Pin extends RealPin {
  #offsetMs = 0;

  protected override now(): number {
    return Date.now() + this.#offsetMs;
  }

  async ring(ms: number): Promise<void> {
    this.#offsetMs += ms;
    await this.alarm();
  }

  rows(table: 'pin' | 'reference'): Row[] {
    return this.tables() === 0 ? [] : this.ctx.storage.sql.exec<Row>(`SELECT * FROM ${table}`).toArray();
  }

  tables(): number {
    return this.ctx.storage.sql.exec(`SELECT name FROM sqlite_master WHERE name IN ('pin', 'reference')`).toArray()
      .length;
  }
}

async function faulty<T>(faults: Map<string, Fault>, call: string, work: () => Promise<T>): Promise<T> {
  const fault = faults.get(call);
  faults.delete(call);
  if (fault === 'before') throw new Error(`${call} fails before`);
  const answer = await work();
  if (fault === 'after') throw new Error(`${call} fails after`);
  return answer;
}

/** The namespace, with stubs whose calls may fail. */
function failing<T extends object>(namespace: T, faults: Map<string, Fault>): T {
  const wrapped = <O extends object>(
    target: O,
    wrap: (name: string, result: (...args: unknown[]) => unknown) => unknown,
  ): O =>
    new Proxy(target, {
      get(object, name) {
        const value: unknown = Reflect.get(object, name);
        return typeof value === 'function' && typeof name === 'string'
          ? wrap(name, (...args) => Reflect.apply(value, object, args) as unknown)
          : value;
      },
    });
  return wrapped(namespace, (name, call) =>
    name === 'getByName'
      ? (...args: unknown[]) =>
          wrapped(
            call(...args) as object,
            (method, ask) =>
              (...given: unknown[]) =>
                faulty(faults, method, () => Promise.resolve(ask(...given))),
          )
      : call,
  );
}
