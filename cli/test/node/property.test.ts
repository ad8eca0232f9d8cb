/** No order of add, pin, unpin and collect loses what is pinned, nor keeps what nothing holds. */
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { openStore, unpinnedMs, type Store } from '../../local/node/store.ts';
import { directory } from './harness.ts';

const leaf = (value: number) => Buffer.alloc(leafBytes, value);

/** Files that share leaves and whole subtrees: a file of one leaf is a leaf of the others. */
const shapes = [[1], [2], [1, 2], [2, 1], [1, 1], [1, 2, 3], [3, 3, 1]].map((leaves) => Buffer.concat(leaves.map(leaf)));

async function add(store: Store, bytes: Buffer, pin: boolean): Promise<string> {
  const writer = await store.writer({ keep: true });
  await writer.write(bytes);
  const written = await writer.finish();
  await store.publish([written], { pin: pin ? { name: '' } : undefined });
  return written.cid;
}

/** The blocks of a CID as a reader finds them, each verified; throws where one is missing. */
function whole(store: Store, cid: string): void {
  const place = store.catalog.find(cid);
  if (!place) throw new Error(`${cid} is gone`);
  for (const { cid: child } of store.catalog.indirect().filter((block) => block.through === cid)) {
    if (!store.catalog.find(child)) throw new Error(`${child} of ${cid} is gone`);
  }
}

type Step = { kind: 'add'; shape: number; pin: boolean } | { kind: 'pin' | 'unpin'; of: number } | { kind: 'collect'; all: boolean } | { kind: 'wait'; ms: number } | { kind: 'restart' };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('add' as const), shape: fc.nat(shapes.length - 1), pin: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('pin' as const, 'unpin' as const), of: fc.nat(50) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('collect' as const), all: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1000, unpinnedMs + 1) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
);

test('whatever is pinned can be read, and what nothing holds goes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
      const dir = await directory();
      let now = 0;
      let store = await openStore(dir, () => now);
      try {
        const seen: string[] = [];
        const bytesOf = new Map<string, Buffer>();
        const pinned = new Set<string>();
        const know = (cid: string) => void (seen.includes(cid) || seen.push(cid));
        for (const one of steps) {
          if (one.kind === 'add') {
            const cid = await add(store, shapes[one.shape]!, one.pin);
            bytesOf.set(cid, shapes[one.shape]!);
            know(cid);
            const place = store.catalog.find(cid);
            if (place?.node) store.catalog.indirect().forEach((block) => know(block.cid));
            if (one.pin) pinned.add(cid);
          } else if (one.kind === 'pin' && seen.length > 0) {
            const cid = seen[one.of % seen.length]!;
            if (store.catalog.find(cid)) {
              store.catalog.pin(cid, '');
              pinned.add(cid);
            }
          } else if (one.kind === 'unpin' && seen.length > 0) {
            const cid = seen[one.of % seen.length]!;
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
        for (const cid of pinned) await readable(store, dir, cid, bytesOf.get(cid));
        // When the last pin is gone and the hour is over, so is everything.
        for (const cid of pinned) store.catalog.unpin([cid]);
        now += unpinnedMs + 1;
        await store.collect();
        expect(await readdir(join(dir, 'data'))).toEqual([]);
        expect(seen.filter((cid) => store.catalog.find(cid))).toEqual([]);
      } finally {
        await store.close();
      }
    }),
    { numRuns: process.env['SEALPIN_LONG'] === '1' ? 1000 : 25 },
  );
});

/** The bytes on the disk are those of the CID. */
async function readable(store: Store, dir: string, cid: string, expected: Buffer | undefined): Promise<void> {
  const { open } = await import('node:fs/promises');
  const place = store.catalog.find(cid)!;
  const file = await open(join(dir, 'data', place.file));
  try {
    const bytes = Buffer.alloc(place.bytes);
    await file.read(bytes, 0, place.bytes, place.offset);
    const digest = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');
    if (expected) expect(digest(bytes)).toBe(digest(expected));
    else expect([1, 2, 3].map((value) => digest(leaf(value)))).toContain(digest(bytes));
  } finally {
    await file.close();
  }
}
