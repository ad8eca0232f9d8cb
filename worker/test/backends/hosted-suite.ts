/** Behaviour of an honest service that gets files as a whole, as tests. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { HostedService, SourceFile } from '../../backends/contract.ts';

export type HonestService = {
  /** The adapter, with pins under a name. */
  as(pinName: string): HostedService;
  /** Makes bytes available where the service gets them from. */
  offer(bytes: Buffer): Promise<SourceFile>;
  /** The names of the pins of a CID at the service. */
  names(cid: string): Promise<string[]>;
  close(): Promise<void>;
};

const ours = 'sealpin:tested';
const { signal } = new AbortController();

/**
 * @param o.second what becomes of a request for a CID that is pinned under another name: services
 * with one pin for each CID have it `failed`, or leave it `pending`
 * @param o.others how many pins of others there are besides, which each takes a request
 */
export function hostedContract(
  start: () => Promise<HonestService>,
  { second = 'held', others = 0 }: { second?: 'held' | 'pending' | 'failed'; others?: number } = {},
): void {
  let honest: HonestService;
  let hosted: HostedService;
  beforeAll(async () => {
    honest = await start();
    hosted = honest.as(ours);
  }, 120_000);
  afterAll(() => honest.close());

  const held = async (file: SourceFile, by = hosted): Promise<void> => {
    await expect.poll(() => by.hold(file, signal), { timeout: 30_000 }).toBe('held');
  };

  test.each([1, 1_500_000])('holds a file of %i bytes, once, until it is removed', async (bytes) => {
    const file = await honest.offer(randomBytes(bytes));
    expect(await hosted.stat(file.cid, signal)).toBe('absent');
    await held(file);
    expect(await hosted.hold(file, signal)).toBe('held');
    expect(await hosted.stat(file.cid, signal)).toBe('held');
    expect(await honest.names(file.cid)).toEqual([ours]);
    expect(await hosted.unpin(file.cid, signal)).toBe('removed');
    expect(await hosted.unpin(file.cid, signal)).toBe('absent');
    expect(await hosted.stat(file.cid, signal)).toBe('absent');
    expect(await honest.names(file.cid)).toEqual([]);
  });

  test('a pin of somebody else stays as it is', async () => {
    const file = await honest.offer(randomBytes(5000));
    const theirs = honest.as('my-backup');
    await held(file, theirs);
    expect(await hosted.stat(file.cid, signal)).toBe('absent');
    if (second === 'failed') {
      await expect(hosted.hold(file, signal)).rejects.toMatchObject({ code: 'pinning_failed' });
      expect(await hosted.unpin(file.cid, signal)).toBe('absent');
    } else {
      if (second === 'held') await held(file);
      else
        expect({ hold: await hosted.hold(file, signal), stat: await hosted.stat(file.cid, signal) }).toEqual({
          hold: second,
          stat: second,
        });
      expect(await hosted.unpin(file.cid, signal)).toBe('removed');
    }
    expect(await theirs.stat(file.cid, signal)).toBe('held');
    expect(await honest.names(file.cid)).toEqual(['my-backup']);
    expect(await theirs.unpin(file.cid, signal)).toBe('removed');
  });

  test.runIf(others > 0)('finds a file among many newer ones', { timeout: 120_000 }, async () => {
    const file = await honest.offer(randomBytes(9));
    await held(file);
    for (let made = 0; made < others; made += 1) await held(await honest.offer(randomBytes(9)));
    expect(await hosted.stat(file.cid, signal)).toBe('held');
    expect(await hosted.unpin(file.cid, signal)).toBe('removed');
    expect(await honest.names(file.cid)).toEqual([]);
  });

  test('responds to a ping', async () => {
    expect(await hosted.ping(signal)).toBeTypeOf('object');
  });
}
