/** Waits end when they should, and leave no timer and no listener behind. */
import { expect, test } from 'vitest';
import { interruptible, settlesWithin, sleep, timeLimit, within } from '../../streams/timing.ts';

const never = new Promise<never>(() => undefined);
const long = 60_000;

test('a result in time is that of the work', async () => {
  expect(await within(Promise.resolve('done'), long, () => 'late')).toBe('done');
  await expect(within(Promise.reject(new Error('broken')), long, () => 'late')).rejects.toThrow('broken');
});

test('work that takes too long has the result of late, or its error', async () => {
  expect(await within(never, 1, () => 'late')).toBe('late');
  const refuse = () => {
    throw new Error('too slow');
  };
  await expect(within(never, -1, refuse)).rejects.toThrow('too slow');
});

test('no wait is too long for a timer', async () => {
  for (const ms of [2 ** 31, 1764421200_000, Infinity]) {
    expect(
      await settlesWithin(
        within(never, ms, () => 'late'),
        20,
      ),
    ).toBe(false);
    const { signal, clear } = timeLimit(ms, () => new Error('late'));
    await sleep(5);
    expect(signal.aborted).toBe(false);
    clear();
  }
});

test('work that fails after its time is no unhandled rejection', async () => {
  const { promise, reject } = Promise.withResolvers<never>();
  expect(await within(promise, 1, () => 'late')).toBe('late');
  reject(new Error('too late to matter'));
  await sleep(1);
});

test.each(['before', 'during'])('an abort %s the wait ends it with its reason', async (when) => {
  const stop = new AbortController();
  if (when === 'before') stop.abort(new Error('stopped'));
  const waits = [sleep(long, stop.signal), within(never, long, () => 'late', stop.signal)];
  if (when === 'during') stop.abort(new Error('stopped'));
  for (const wait of waits) await expect(wait).rejects.toThrow('stopped');
});

test('a wait takes back each listener that it adds', async () => {
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  signal.addEventListener = (_: string, listener: unknown) => void listeners.add(listener);
  signal.removeEventListener = (_: string, listener: unknown) => void listeners.delete(listener);
  const waits = [within(Promise.resolve(), long, () => undefined, signal), sleep(1, signal)];
  expect(listeners.size).toBe(2);
  await Promise.all(waits);
  expect(listeners.size).toBe(0);
});

test('what fails in time has settled', async () => {
  expect(await settlesWithin(Promise.reject(new Error('broken')), long)).toBe(true);
  expect(await settlesWithin(never, 1)).toBe(false);
});

test('a limit aborts with its error, unless it is cleared', async () => {
  const limits = [timeLimit(1, () => new Error('over')), timeLimit(1, () => new Error('over'))] as const;
  limits[1].clear();
  await sleep(20);
  expect(limits[0].signal.reason).toEqual(new Error('over'));
  expect(limits[1].signal.aborted).toBe(false);
});

test('an interruption ends the wait that runs and those after it, and changes none before', async () => {
  const { wait, interrupt } = interruptible();
  expect(await wait(Promise.resolve('done'))).toBe('done');
  await expect(wait(Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  const running = wait(never);
  interrupt(new Error('stopped'));
  interrupt(new Error('once more'));
  await expect(running).rejects.toThrow('stopped');
  await expect(wait(Promise.resolve('done'))).rejects.toThrow('stopped');
});
