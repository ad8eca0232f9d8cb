/**
 * Durable Objects: one instance for each name, whose calls and answers are copies that travel. An
 * object's output waits until what it wrote is committed; an alarm rings at least once; a crash
 * ends an instance and all that waits for it.
 */
import { newOwner, type Owner, type Scheduler } from '../host/scheduler.ts';
import { Storage } from './storage.ts';

/** A class of objects, as a Worker exports it. */
export type ObjectClass = new (ctx: unknown, env: unknown) => Record<string, unknown>;

/** Fate of a call, which a fault decides. */
export type CallFate = 'arrives' | 'is refused' | 'is lost' | 'answer is lost';

export type ObjectsOptions = {
  scheduler: Scheduler;
  /** The environment of an object that is about to wake. */
  environment(): object;
  fateOf(owner: Owner): CallFate;
  /** Called when an object has kept what it wrote. */
  committed(object: SimulatedObject): void;
};

/** Time for which an object stays awake with nothing to do, in ms. */
const idleMs = 10_000;
/** Time that storing takes, in ms. */
const commitMs = [0.5, 20] as const;
/** Waits before an alarm that threw rings again, in ms. */
const alarmRetryMs = 2_000;

/** The error of a call whose object has crashed, or could not be reached. */
export function unreachable(message: string, marks: { retryable?: boolean; overloaded?: boolean }): Error {
  return Object.assign(new Error(message), { remote: true, ...marks });
}

type Instance = { owner: Owner; object: Record<string, unknown>; opened: Promise<void> };

/** One object: its storage, and the instance that is awake. */
export class SimulatedObject {
  readonly name: string;
  readonly storage: Storage;
  readonly #o: ObjectsOptions;
  readonly #made: ObjectClass;
  #instance: Instance | undefined;
  #held: (() => void)[] = [];
  #running = 0;
  #lastMs = 0;
  #cancelAlarm: (() => void) | undefined;
  #alarmAt: number | null = null;
  #isRinging = false;

  constructor(name: string, made: ObjectClass, options: ObjectsOptions) {
    this.name = name;
    this.#made = made;
    this.#o = options;
    const random = options.scheduler.random(`sql of ${name}`);
    this.storage = new Storage({ random, step: () => options.scheduler.step(), changed: () => this.#commitSoon() });
  }

  /** Tells whether somebody waits for it. */
  get isBusy(): boolean {
    return this.#running > 0;
  }

  /**
   * Ends the instance as a power cut would: what is not committed has never happened.
   * @returns whether there was one
   */
  crash(): boolean {
    const instance = this.#instance;
    this.#instance = undefined;
    this.#held = [];
    this.#running = 0;
    this.#isRinging = false;
    this.storage.rollback();
    if (instance !== undefined) this.#o.scheduler.kill(instance.owner);
    this.#armAlarm();
    return instance !== undefined;
  }

  /** Makes a call. @param path the names of getters, and of the method */
  async call(path: readonly string[], args: unknown[]): Promise<unknown> {
    this.#forgetIfIdle();
    const instance = this.#awake();
    const { scheduler } = this.#o;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const died = (): void => reject(unreachable('The Durable Object was reset.', { retryable: true }));
    instance.owner.died.add(died);
    this.#running += 1;
    scheduler.as(instance.owner, () => {
      const work = async (): Promise<unknown> => {
        await instance.opened;
        let target: unknown = instance.object;
        for (const name of path.slice(0, -1)) target = (target as Record<string, unknown>)[name];
        const method = (target as Record<string, unknown>)[path.at(-1) ?? ''];
        if (typeof method !== 'function')
          throw new TypeError(`The RPC receiver does not implement "${path.join('.')}".`);
        return structuredClone(await method.apply(target, args));
      };
      work().then(
        (value) => this.#output(() => resolve(value)),
        (error: unknown) =>
          this.#output(() => reject(new Error(String(error instanceof Error ? error.message : error)))),
      );
    });
    try {
      return await promise;
    } finally {
      instance.owner.died.delete(died);
      if (!instance.owner.isDead) this.#running -= 1;
      this.#lastMs = scheduler.now;
    }
  }

  /** Sends something out, once everything that was written before it is kept. */
  #output(send: () => void): void {
    if (this.storage.isDirty) this.#held.push(send);
    else send();
  }

  #awake(): Instance {
    if (this.#instance !== undefined) return this.#instance;
    const { scheduler, environment } = this.#o;
    const owner = newOwner(this.name, (output) => this.#output(output));
    let opened = Promise.resolve();
    const ctx = {
      id: { name: this.name, equals: (other: { name: string }) => other.name === this.name, toString: () => this.name },
      storage: this.storage,
      waitUntil: (work: Promise<unknown>) => void this.#keepAwake(owner, work),
      blockConcurrencyWhile: async (work: () => Promise<unknown>) => {
        const done = work();
        opened = opened.then(async () => void (await done));
        return await done;
      },
    };
    const object: Instance['object'] = scheduler.as(owner, () => new this.#made(ctx, environment()));
    this.#instance = { owner, object, opened };
    return this.#instance;
  }

  async #keepAwake(owner: Owner, work: Promise<unknown>): Promise<void> {
    this.#running += 1;
    const settled = (): void => {
      if (!owner.isDead) this.#running -= 1;
      this.#lastMs = this.#o.scheduler.now;
    };
    await work.then(settled, settled);
  }

  #forgetIfIdle(): void {
    const isIdle = this.#running === 0 && !this.storage.isDirty && this.#o.scheduler.now - this.#lastMs > idleMs;
    if (!isIdle || this.#instance === undefined) return;
    this.#o.scheduler.kill(this.#instance.owner);
    this.#instance = undefined;
  }

  #commitSoon(): void {
    const { scheduler } = this.#o;
    const owner = this.#instance?.owner ?? scheduler.owner;
    const ms = scheduler.random(this.name).spread(...commitMs);
    const commit = (): void => {
      this.storage.commit();
      this.#o.committed(this);
      this.#armAlarm();
      for (const send of this.#held.splice(0)) send();
    };
    scheduler.later(ms, 'commits', commit, owner);
  }

  #armAlarm(): void {
    const at = this.storage.committedAlarm;
    if (this.#isRinging || at === this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#alarmAt = at;
    this.#cancelAlarm = at === null ? undefined : this.#ringAt(at, 0);
  }

  #ringAt(at: number, attempts: number): () => void {
    const { scheduler } = this.#o;
    const late = scheduler.random(this.name).spread(1, 500);
    return scheduler.later(at - scheduler.now + late, 'alarm', () => void this.#ring(attempts), newOwner(this.name));
  }

  async #ring(attempts: number): Promise<void> {
    this.#forgetIfIdle();
    const { scheduler } = this.#o;
    const instance = this.#awake();
    this.#alarmAt = null;
    this.#cancelAlarm = undefined;
    this.storage.isRinging = true;
    this.#isRinging = true;
    this.#running += 1;
    const after = await scheduler.as(instance.owner, async (): Promise<'done' | 'failed'> => {
      try {
        await instance.opened;
        await (instance.object['alarm'] as () => Promise<void>).call(instance.object);
        return 'done';
      } catch {
        return 'failed';
      }
    });
    this.#running -= 1;
    this.#isRinging = false;
    this.#lastMs = scheduler.now;
    if (!this.storage.isRinging) return this.storage.isDirty ? undefined : this.#armAlarm();
    this.storage.isRinging = false;
    if (after === 'done') return await this.storage.deleteAlarm();
    this.#alarmAt = this.storage.committedAlarm;
    this.#cancelAlarm = this.#ringAt(scheduler.now + alarmRetryMs * 2 ** Math.min(attempts, 6), attempts + 1);
  }
}
