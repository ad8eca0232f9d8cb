/**
 * The one loop of a simulation: a queue of tasks by their virtual time. Whatever crosses a border
 * (a call, a request, a timer) is a task, so that the seed decides what comes first.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { Random } from './random.ts';

/**
 * Somebody for whom code runs: a client, a request in a Worker, an object while it is awake. What
 * it sends goes out by `send`: at once, or when what it has written is kept.
 */
export type Owner = {
  readonly name: string;
  isDead: boolean;
  readonly died: Set<() => void>;
  send(output: () => void): void;
};

/** Makes an owner who is alive. */
export function newOwner(name: string, send = (output: () => void): void => output()): Owner {
  return { name, isDead: false, died: new Set(), send };
}

type Task = { at: number; order: number; owner: Owner; label: string; run: () => void };

/** Virtual time at which every simulation begins: 2030-01-01. */
export const beginningMs = 1_893_456_000_000;

/** Characters of lines that are digested at once. */
const notedChars = 65_536;

/** Tasks after which a history is stuck, and steps of one task: far more than any needs. */
const maxTasks = 3_000_000;
const maxSteps = 100_000;

/** An end of a run that no seed should reach. */
class Stuck extends Error {}

/**
 * The owner of the code that runs. One for all simulations: each storage of its own would stay in
 * the context of the process, with a whole world, and be copied at each change of the owner.
 */
const owners = new AsyncLocalStorage<Owner>();

export class Scheduler {
  readonly #seed: string;
  readonly #nobody = newOwner('nobody');
  readonly #streams = new Map<string, Random>();
  readonly #digest = createHash('sha256');
  readonly #pending: Promise<() => void>[] = [];
  /** The tasks that wait, the next one last. */
  readonly #tasks: Task[] = [];
  #order = 0;
  /** Lines that are not in the digest yet. */
  #noted = '';
  #nowMs = beginningMs;
  /** Called before each task, such as to crash at the n-th of them. */
  beforeTask: ((owner: Owner, label: string) => void) | undefined;
  tasks = 0;
  #steps = 0;
  #stuck: Stuck | undefined;

  constructor(seed: string) {
    this.#seed = seed;
  }

  /** The virtual time, in ms. */
  get now(): number {
    return this.#nowMs;
  }

  /** The owner of the code that runs. */
  get owner(): Owner {
    return owners.getStore() ?? this.#nobody;
  }

  /**
   * The random numbers of somebody, which do not depend on those of others: what is left out of a
   * history changes little of the rest.
   */
  random(name: string): Random {
    let stream = this.#streams.get(name);
    if (stream === undefined) this.#streams.set(name, (stream = new Random(`${this.#seed}/${name}`)));
    return stream;
  }

  /** Runs code for an owner. */
  as<T>(owner: Owner, work: () => T): T {
    return owners.run(owner, work);
  }

  /** Lets something happen later, unless its owner is dead by then. @returns takes it back */
  later(ms: number, label: string, run: () => void, owner: Owner = this.owner): () => void {
    const task: Task = { at: this.#nowMs + Math.max(0, ms), order: this.#tieBreak(), owner, label, run };
    this.#push(task);
    return () => {
      task.run = nothing;
      task.label = '';
    };
  }

  /** Waits for some virtual time. */
  sleep(ms: number, label = 'sleep'): Promise<void> {
    return new Promise((resolve) => void this.later(ms, label, resolve));
  }

  /**
   * Waits for an operation of the platform's threads, and gives its result in the order of the
   * operations, not of their ends.
   */
  threaded<T>(work: Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#pending.push(
      work.then(
        (value) => () => resolve(value),
        (error: unknown) => () => reject(error instanceof Error ? error : new Error('refused')),
      ),
    );
    return promise;
  }

  /** Counts a step within a task, such as a query. One that never ends would never come back. */
  step(): void {
    this.#steps += 1;
    if (this.#steps <= maxSteps) return;
    this.#stuck = new Stuck(`${this.owner.name} loops without an end`);
    throw this.#stuck;
  }

  /** Adds a line to what two runs of one seed must have in common. */
  note(line: string): void {
    this.#noted += `${this.#nowMs} ${line}\n`;
    if (this.#noted.length > notedChars) this.digest();
  }

  /** The digest of everything that has happened. */
  digest(): string {
    this.#digest.update(this.#noted);
    this.#noted = '';
    return this.#digest.copy().digest('hex');
  }

  /** Ends an owner: what waits for it never happens. */
  kill(owner: Owner): void {
    if (owner.isDead) return;
    owner.isDead = true;
    for (const died of owner.died) died();
  }

  /** Runs tasks until a promise settles. */
  async run<T>(until: Promise<T>): Promise<T> {
    const state = { isSettled: false };
    const settled = (): void => void (state.isSettled = true);
    until.then(settled, settled);
    await this.#settle();
    while (!state.isSettled) {
      const task = this.#tasks.pop();
      if (task === undefined) throw new Stuck('nothing is left to happen');
      if (task.run === nothing || task.owner.isDead) continue;
      this.#nowMs = Math.max(this.#nowMs, task.at);
      this.beforeTask?.(task.owner, task.label);
      if (task.owner.isDead) {
        // Who waited for the one that has just died hears of it now, not after the next task.
        await this.#settle();
        continue;
      }
      if (++this.tasks > maxTasks) throw new Stuck(`more than ${maxTasks} tasks`);
      this.note(`${task.owner.name} ${task.label}`);
      this.#steps = 0;
      this.as(task.owner, task.run);
      await this.#settle();
      if (this.#stuck !== undefined) throw this.#stuck;
    }
    return await until;
  }

  /** Lets everything run that waits for no task. */
  async #settle(): Promise<void> {
    await turn();
    while (this.#pending.length > 0) {
      for (const deliver of await Promise.all(this.#pending.splice(0))) deliver();
      await turn();
    }
  }

  #tieBreak(): number {
    this.#order += 1;
    return this.random('order').next() + this.#order * 1e-12;
  }

  #push(task: Task): void {
    let [from, to] = [0, this.#tasks.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (isBefore(task, this.#tasks[middle] as Task)) from = middle + 1;
      else to = middle;
    }
    this.#tasks.splice(from, 0, task);
  }
}

const nothing = (): void => undefined;

function isBefore(a: Task, b: Task): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

const immediate = setImmediate;

/** Waits until no promise can go on by itself. */
function turn(): Promise<void> {
  return new Promise((resolve) => void immediate(resolve));
}
