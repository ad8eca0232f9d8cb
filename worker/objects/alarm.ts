/** The one alarm of an object, set to the time at which its earliest task is due. */
import { orLog } from '../log.ts';

const firstRetryMs = 5_000;
/** The longest wait between two attempts, without jitter. */
export const lastRetryMs = 3_600_000;

/**
 * The last time that an alarm can be set to: 2200-01-01. The runtime counts nanoseconds in 64 bits,
 * which end in 2262.
 */
const lastMs = 7_258_118_400_000;

/** Returns the wait after a number of failed attempts: 5 s, doubling, at most an hour. */
export function backoffMs(attempts: number): number {
  return Math.min(firstRetryMs * 2 ** Math.min(attempts - 1, 20), lastRetryMs);
}

/** A time in ms, longer by up to a half: so that what failed together is not repeated together. */
export function withJitter(ms: number): number {
  return Math.round(ms * (1 + Math.random() / 2));
}

/** The first of some times; undefined where there is none. */
export function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/**
 * Does what an alarm has to do. A row that stops one step does not keep the others from theirs.
 * @param event of the line in the log for each that failed
 * @returns whether none failed
 */
export async function everyStep(event: string, steps: readonly (() => unknown)[]): Promise<boolean> {
  let isDone = true;
  for (const step of steps) {
    const done = await orLog({ event }, async () => {
      await step();
      return true;
    });
    isDone &&= done === true;
  }
  return isDone;
}

/** The alarm in an object's storage. */
export class Alarm {
  readonly #storage: DurableObjectStorage;
  #known: Promise<number | null> | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Makes the alarm ring at that time (in ms) or before; undefined: nothing is due. */
  async by(dueMs: number | undefined): Promise<void> {
    if (dueMs === undefined) return;
    let known;
    let set;
    do {
      known = this.#known ??= this.#storage.getAlarm();
      set = await known;
      // Another call may have set it meanwhile.
    } while (known !== this.#known);
    if (set !== null && set <= dueMs) return;
    await this.reset(dueMs);
  }

  /**
   * Sets the alarm, as after it rang; undefined: nothing is due. A call that waits for what is set
   * waits until it is.
   */
  async reset(dueMs: number | undefined): Promise<void> {
    const storage = this.#storage;
    const written = dueMs === undefined ? storage.deleteAlarm() : storage.setAlarm(Math.min(dueMs, lastMs));
    const known = written.then(() => dueMs ?? null);
    this.#known = known;
    try {
      await known;
    } catch (error) {
      // The next call asks what is set.
      if (this.#known === known) this.#known = undefined;
      throw error;
    }
  }
}
