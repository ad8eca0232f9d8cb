/**
 * No order of imports, pins, removals and collections over shared blocks loses what a pin reaches,
 * nor keeps what none does.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { openStore, unpinnedMs, type Store } from '../../local/node/store.ts';
import { directory, leafOf, nodeOver, type Block } from './node-harness.ts';
import { present } from '../../../testkit/present.ts';
import { ci, long } from '../../../testkit/long-run.ts';

const leafCount = 5;

/**
 * A DAG: leaves, and nodes that link to any blocks before them. `imports` cuts the blocks into
 * CARs, with repetitions.
 */
type Dag = { blocks: { block: Block; children: number[] }[] };

const dags: fc.Arbitrary<Dag> = fc
  .array(fc.array(fc.nat(1000), { minLength: 1, maxLength: 4 }), { minLength: 2, maxLength: 6 })
  .map((nodes) => {
    const sized = Array.from({ length: leafCount }, (_, i) => leafOf(Buffer.alloc(10, i)));
    const children: number[][] = sized.map(() => []);
    for (const picks of nodes) {
      const below = picks.map((pick) => pick % sized.length);
      sized.push(nodeOver(below.map((index) => present(sized[index]))));
      children.push(below);
    }
    return { blocks: sized.map(({ block }, index) => ({ block, children: present(children[index]) })) };
  });

type Step =
  | { kind: 'import'; of: number[] }
  | { kind: 'pin' | 'unpin'; of: number }
  | { kind: 'collect'; all: boolean }
  | { kind: 'wait'; ms: number }
  | { kind: 'restart' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('import' as const),
      of: fc.array(fc.nat(1000), { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constantFrom('pin' as const, 'unpin' as const), of: fc.nat(1000) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('collect' as const), all: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1000, unpinnedMs + 1) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
);

/** Indices of the blocks at and below one. */
function reached({ blocks }: Dag, from: number, seen = new Set<number>()): Set<number> {
  if (seen.has(from)) return seen;
  seen.add(from);
  for (const child of present(blocks[from]).children) reached({ blocks }, child, seen);
  return seen;
}

async function importInto(store: Store, blocks: readonly Block[]): Promise<void> {
  const importer = await store.importer();
  for (const { cid, bytes } of blocks) await importer.write(cid, bytes, () => undefined);
  await store.publish([present(await importer.finish())]);
}

test('whatever a pin reaches is there, over all imports, and nothing else stays', async () => {
  await fc.assert(
    fc.asyncProperty(dags, fc.array(step, { minLength: 20, maxLength: 60, size: 'max' }), async (dag, steps) => {
      const dir = await directory();
      const { blocks } = dag;
      const cidOf = (index: number) => present(blocks[index % blocks.length]).block.cid.text;
      let now = 0;
      let store = await openStore(dir, () => now);
      const pinned = new Set<number>();
      const live = () => new Set([...pinned].flatMap((root) => [...reached(dag, root)]));
      try {
        for (const one of steps) {
          if (one.kind === 'import') {
            await importInto(
              store,
              one.of.map((pick) => present(blocks[pick % blocks.length]).block),
            );
          } else if (one.kind === 'pin') {
            const index = one.of % blocks.length;
            const below = [...reached(dag, index)];
            const complete = below.every((each) => store.catalog.find(cidOf(each)));
            // What the node says is missing is missing, and it says so of every block that is.
            expect(store.catalog.missing(cidOf(index)) === undefined).toBe(complete);
            if (!complete) continue;
            store.catalog.pin(cidOf(index), '');
            pinned.add(index);
            expect(store.catalog.size(cidOf(index)).blocks).toBe(new Set(below.map(cidOf)).size);
          } else if (one.kind === 'unpin') {
            const index = one.of % blocks.length;
            const same = [...pinned].filter((each) => cidOf(each) === cidOf(index));
            expect((await store.unpin([cidOf(index)])) === undefined).toBe(same.length > 0);
            for (const each of same) pinned.delete(each);
          } else if (one.kind === 'collect') {
            await store.collect({ all: one.all });
          } else if (one.kind === 'wait') {
            now += one.ms;
          } else if (one.kind === 'restart') {
            await store.close();
            store = await openStore(dir, () => now);
          }
          const lost = [...live()].filter((index) => store.catalog.find(cidOf(index)) === undefined);
          expect(lost).toEqual([]);
          const pins = new Set([...pinned].map(cidOf));
          const indirect = new Set([...live()].map(cidOf).filter((cid) => !pins.has(cid)));
          expect(new Set(store.catalog.indirect())).toEqual(indirect);
          for (const [index] of blocks.entries())
            expect(store.catalog.holder(cidOf(index)) !== undefined).toBe(indirect.has(cidOf(index)));
        }
        // A file stays only for a block that a pin reaches.
        await store.collect({ all: true });
        const files = new Set([...live()].map((index) => present(store.catalog.find(cidOf(index))).file));
        expect((await readdir(join(dir, 'data'))).length).toBeLessThanOrEqual(live().size);
        expect(files.size <= (await readdir(join(dir, 'data'))).length).toBe(true);
        if (pinned.size > 0) await store.unpin([...new Set([...pinned].map(cidOf))]);
        expect(await readdir(join(dir, 'data'))).toEqual([]);
      } finally {
        await store.close();
      }
    }),
    { numRuns: long ? 500 : ci ? 12 : 6 },
  );
});
