/** Transfers of several files: small ones side by side, because they wait more than they work. */
import type { Context } from '../context.ts';

/** A larger file keeps the connection busy by itself, and may take much memory. */
const sideBySideBytes = 16 * 1024 * 1024;
/** Transfers of small files at once; a service takes eight uploads in all. */
const lanes = 4;

type Transfers<T> = {
  /** Size of an item; undefined where it is not known. */
  readonly bytesOf: (item: T) => number | undefined;
  /** Says what is done, of all of them. */
  readonly label: string;
  /** Transfers one item. Its progress is part of that of all. */
  readonly transfer: (item: T, index: number, context: Context) => Promise<void>;
};

/**
 * Transfers all items: small ones a few at a time, then the others one by one. After a failure none
 * is begun any more.
 * @throws the failure of the first item that failed, in their order, when all that ran have ended
 */
export async function sideBySide<T>(items: readonly T[], o: Transfers<T>, context: Context): Promise<void> {
  const indexes = [...items.keys()];
  const sizeAt = (index: number): number => o.bytesOf(items[index] as T) ?? Infinity;
  const small = indexes.filter((index) => sizeAt(index) <= sideBySideBytes);
  const isShared = small.length > 1;
  const failures: unknown[] = [];
  const run = async (queue: Iterator<number>, own: Context): Promise<void> => {
    for (let at = queue.next(); at.done !== true && failures.length === 0; at = queue.next()) {
      try {
        await o.transfer(items[at.value] as T, at.value, own);
      } catch (error) {
        failures[at.value] = error;
      }
    }
  };
  if (isShared) {
    const { output } = context;
    const bytes = small.reduce((sum, index) => sum + sizeAt(index), 0);
    const bar = output.progress(o.label, bytes);
    const part = { add: (more: number) => bar.add(more), hide: () => bar.hide(), done: () => undefined };
    const own = { ...context, output: { ...output, progress: () => part } };
    const queue = small.values();
    await Promise.all(Array.from({ length: lanes }, () => run(queue, own)));
    bar.done();
  }
  await run(indexes.filter((index) => !isShared || !small.includes(index)).values(), context);
  const failed = indexes.find((index) => index in failures);
  if (failed !== undefined) throw failures[failed];
}

/** Acts on each item, at most eight at a time. @throws the first failure, once all have ended */
export async function forEachOf<T>(items: Iterable<T>, act: (item: T) => Promise<void>): Promise<void> {
  const rest = items[Symbol.iterator]();
  const workers = Array.from({ length: 8 }, async () => {
    for (let next = rest.next(); next.done !== true; next = rest.next()) await act(next.value);
  });
  const ended = await Promise.allSettled(workers);
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
}
