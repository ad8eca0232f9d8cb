/** The one alarm of an object, set to the earliest thing it has to do. */

const firstRetryMs = 5_000;
const lastRetryMs = 3_600_000;

/** How long to wait after so many failed attempts: 5 s, doubling, at most an hour. */
export function backoffMs(attempts: number): number {
  return Math.min(firstRetryMs * 2 ** Math.min(attempts - 1, 20), lastRetryMs);
}

export type Alarm = {
  /** Sees to it that the alarm rings at that time (in ms) or before. */
  by(dueMs: number): Promise<void>;
  /** Sets the alarm anew, after it rang; undefined: there is nothing to do. */
  reset(dueMs: number | undefined): Promise<void>;
};

/** The alarm of an object's storage. */
export function alarmOf(storage: DurableObjectStorage): Alarm {
  let known: Promise<number | null> | undefined;
  return {
    async by(dueMs) {
      known ??= storage.getAlarm();
      const set = await known;
      if (set !== null && set <= dueMs) return;
      known = Promise.resolve(dueMs);
      await storage.setAlarm(dueMs);
    },
    async reset(dueMs) {
      known = Promise.resolve(dueMs ?? null);
      if (dueMs === undefined) await storage.deleteAlarm();
      else await storage.setAlarm(dueMs);
    },
  };
}
