/** What an honest service does that gets files as a whole, as tests. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Replica, SourceFile } from '../../pinning/contract.ts';

export type HonestReplica = {
  /** The adapter, with pins under a name. */
  as(pinName: string): Replica;
  /** Makes bytes available where the service gets them from. */
  offer(bytes: Buffer): Promise<SourceFile>;
  /** The names of the pins of a CID at the service. */
  names(cid: string): Promise<string[]>;
  close(): Promise<void>;
};

const ours = 'sealpin:tested';
const { signal } = new AbortController();

/** @param o.hasOnePin the service has one pin for each CID, so that two names cannot both have one */
export function replicaContract(start: () => Promise<HonestReplica>, { hasOnePin = false } = {}): void {
  let honest: HonestReplica;
  let replica: Replica;
  beforeAll(async () => {
    honest = await start();
    replica = honest.as(ours);
  }, 120_000);
  afterAll(() => honest.close());

  const held = async (file: SourceFile, by = replica): Promise<void> => {
    await expect.poll(() => by.hold(file, signal), { timeout: 30_000 }).toBe('held');
  };

  test.each([1, 1_500_000])('holds a file of %i bytes, once, until it is removed', async (bytes) => {
    const file = await honest.offer(randomBytes(bytes));
    expect(await replica.stat(file.cid, signal)).toBe('absent');
    await held(file);
    expect(await replica.hold(file, signal)).toBe('held');
    expect(await replica.stat(file.cid, signal)).toBe('held');
    expect(await honest.names(file.cid)).toEqual([ours]);
    expect(await replica.unpin(file.cid, signal)).toBe('removed');
    expect(await replica.unpin(file.cid, signal)).toBe('absent');
    expect(await replica.stat(file.cid, signal)).toBe('absent');
    expect(await honest.names(file.cid)).toEqual([]);
  });

  test('a pin of somebody else stays as it is', async () => {
    const file = await honest.offer(randomBytes(5000));
    const theirs = honest.as('my-backup');
    await held(file, theirs);
    expect(await replica.stat(file.cid, signal)).toBe('absent');
    if (hasOnePin) {
      await expect(replica.hold(file, signal)).rejects.toMatchObject({ code: 'pinning_failed' });
      expect(await replica.unpin(file.cid, signal)).toBe('absent');
    } else {
      await held(file);
      expect(await replica.unpin(file.cid, signal)).toBe('removed');
    }
    expect(await theirs.stat(file.cid, signal)).toBe('held');
    expect(await honest.names(file.cid)).toEqual(['my-backup']);
    expect(await theirs.unpin(file.cid, signal)).toBe('removed');
  });

  test('responds to a ping', async () => {
    expect(await replica.ping(signal)).toBeTypeOf('object');
  });
}
