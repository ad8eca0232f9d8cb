/** The alarm of an object, whose calls may overlap. */
import { expect, it } from 'vitest';
import { Alarm, backoffMs, everyStep } from '../../objects/alarm.ts';
import { retryMs } from '../../objects/account/calls/upload-finisher.ts';

/** Storage that says late when its alarm rings. */
function storage(): { set: number | null; asStorage: DurableObjectStorage } {
  const state = {
    set: null as number | null,
    getAlarm: async () => await Promise.resolve(state.set),
    setAlarm: async (time: number) => void (await Promise.resolve((state.set = time))),
    deleteAlarm: async () => void (await Promise.resolve((state.set = null))),
  };
  return Object.assign(state, { asStorage: state as unknown as DurableObjectStorage });
}

it('rings for the earliest of several calls at once, in any order', async () => {
  for (const times of [
    [5, 10],
    [10, 5],
    [7, 5, 10],
    [10, 7, 5],
  ]) {
    const state = storage();
    const alarm = new Alarm(state.asStorage);
    await Promise.all(times.map((time) => alarm.by(time)));
    expect(state.set, JSON.stringify(times)).toBe(5);
    await alarm.by(4);
    expect(state.set).toBe(4);
  }
});

it('asks what is set where a time could not be written, and a call that relied on it fails as well', async () => {
  const state = storage();
  const write = Promise.withResolvers<void>();
  const { setAlarm } = state.asStorage;
  const alarm = new Alarm(state.asStorage);
  await alarm.by(20);
  state.asStorage.setAlarm = () => write.promise;
  const calls = [alarm.by(5), alarm.by(10)];
  await Promise.resolve();
  write.reject(new Error('the disk is full'));
  expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  state.asStorage.setAlarm = setAlarm;
  await alarm.by(10);
  expect(state.set).toBe(10);
});

it('is what it was reset to while a call waited', async () => {
  const state = storage();
  const alarm = new Alarm(state.asStorage);
  await Promise.all([alarm.by(10), alarm.reset(5)]);
  expect(state.set).toBe(5);
});

it('rings in 2200 for what is due after the last time that the runtime can count', async () => {
  const [last, due] = [Date.parse('2200-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59Z')];
  for (const set of ['by', 'reset'] as const) {
    const state = storage();
    await new Alarm(state.asStorage)[set](due);
    expect(state.set, set).toEqual(last);
  }
});

it('waits longer after each failure, at most an hour, and a quarter of one where a client waits', () => {
  const waits = (ms: (attempts: number) => number) => [1, 2, 8, 9, 10, 11, 5000].map((attempts) => ms(attempts) / 1000);
  expect(waits(backoffMs)).toEqual([5, 10, 640, 1280, 2560, 3600, 3600]);
  expect(waits(retryMs)).toEqual([5, 10, 640, 900, 900, 900, 900]);
});

it('a step that fails, at once or later, keeps no other one from being done, and is told', async () => {
  const done: string[] = [];
  const fail = (): never => {
    throw new Error('a bad row');
  };
  const step = (name: string) => () => void done.push(name);
  expect(await everyStep('test.alarm', [fail, step('a'), async () => fail(), step('b')])).toBe(false);
  expect(done).toEqual(['a', 'b']);
  expect(await everyStep('test.alarm', [step('c')])).toBe(true);
});
