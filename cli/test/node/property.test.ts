/** No order of add, pin, unpin and collect loses what is pinned, nor keeps what nothing holds. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { content, runs } from '../../local/node/content.ts';
import type { Written } from '../../local/node/indexer.ts';
import { openStore, unpinnedMs, type Store } from '../../local/node/store.ts';
import { directory } from './node-harness.ts';
import { present } from '../../../testkit/present.ts';
import { ci, long } from '../../../testkit/long-run.ts';

const leaf = (value: number) => Buffer.alloc(leafBytes, value);

/** Files that share leaves and whole subtrees: a file of one leaf is a leaf of the others. */
const shapes = [[1], [1, 2], [3, 1, 1]].map((leaves) => Buffer.concat(leaves.map(leaf)));

async function written(store: Store, bytes: Buffer, keep: boolean): Promise<Written> {
  const writer = await store.writer({ keep });
  await writer.write(bytes);
  return await writer.finish();
}

/** Throws where a block of a CID is missing. */
function whole(store: Store, cid: string): void {
  const missing = store.catalog.missing(cid);
  if (missing !== undefined) throw new Error(`${missing} of ${cid} is gone`);
}

type Step =
  | { kind: 'add'; shape: number; pin: boolean }
  | { kind: 'pin' | 'unpin'; of: number }
  | { kind: 'collect'; all: boolean }
  | { kind: 'wait'; ms: number }
  | { kind: 'restart' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('add' as const), shape: fc.nat(shapes.length - 1), pin: fc.boolean() }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constantFrom('pin' as const, 'unpin' as const), of: fc.nat(shapes.length) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('collect' as const), all: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1000, unpinnedMs + 1) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
);

/** A part of a file outlives the pin of the whole. */
const partAlone: Step[] = [
  { kind: 'add', shape: 1, pin: true },
  { kind: 'pin', of: shapes.length },
  { kind: 'unpin', of: 1 },
];

test('whatever is pinned can be read, and what nothing holds goes', async () => {
  const bytesOf = new Map<string, Buffer>();
  const scratch = await openStore(await directory(), () => 0);
  for (const bytes of [...shapes, leaf(2)]) bytesOf.set((await written(scratch, bytes, false)).cid, bytes);
  await scratch.close();
  const known = [...bytesOf.keys()];
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 30, size: 'max' }), async (steps) => {
      const dir = await directory();
      let now = 0;
      let store = await openStore(dir, () => now);
      try {
        const pinned = new Set<string>();
        for (const one of steps) {
          if (one.kind === 'add') {
            const file = await written(store, present(shapes[one.shape]), true);
            await store.publish([file], one.pin ? { name: '' } : undefined);
            if (one.pin) pinned.add(file.cid);
          } else if (one.kind === 'pin') {
            const cid = present(known[one.of % known.length]);
            if (store.catalog.find(cid)) {
              store.catalog.pin(cid, '');
              pinned.add(cid);
            }
          } else if (one.kind === 'unpin') {
            const cid = present(known[one.of % known.length]);
            expect((await store.unpin([cid])) === undefined).toBe(pinned.delete(cid));
          } else if (one.kind === 'collect') {
            await store.collect({ all: one.all });
          } else if (one.kind === 'wait') {
            now += one.ms;
          } else if (one.kind === 'restart') {
            await store.close();
            store = await openStore(dir, () => now);
          }
          for (const cid of pinned) whole(store, cid);
        }
        for (const cid of pinned) await readable(store, cid, present(bytesOf.get(cid)));
        // When the last pin is gone and the hour is over, so is everything.
        for (const cid of pinned) await store.unpin([cid]);
        now += unpinnedMs + 1;
        await store.collect();
        expect(await readdir(join(dir, 'data'))).toEqual([]);
        expect(known.filter((cid) => store.catalog.find(cid))).toEqual([]);
      } finally {
        await store.close();
      }
    }),
    { numRuns: long ? 500 : ci ? 15 : 8, examples: [[partAlone]] },
  );
});

/** The bytes on the disk are those of the CID. */
async function readable(store: Store, cid: string, expected: Buffer): Promise<void> {
  const find = (one: string) => present(store.catalog.find(one));
  const read: Uint8Array[] = [];
  for await (const bytes of content(runs(cid, { from: 0, to: expected.length - 1, find }), (location) =>
    store.open(location),
  ))
    read.push(Buffer.from(bytes));
  expect(Buffer.concat(read).equals(expected)).toBe(true);
}
