/** The store of the embedded node: files that are published at the same time. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openStore, type Store } from '../../local/node/store.ts';
import { present } from '../../../testkit/present.ts';

const pin = { name: '' };

async function open(): Promise<Store> {
  const dir = await mkdtemp(join(tmpdir(), 'sealpin-store-'));
  const store = await openStore(dir, () => 0);
  onTestFinished(async () => {
    await store.close();
    await rm(dir, { recursive: true, force: true });
  });
  return store;
}

async function written(store: Store) {
  const writer = await store.writer({ keep: true });
  await writer.write(randomBytes(100));
  return writer.finish();
}

test('files that are published at the same time all exist afterwards, each with its pin', async () => {
  const store = await open();
  const files = await Promise.all(Array.from({ length: 20 }, () => written(store)));
  await Promise.all(files.map((file) => store.publish([file], pin)));
  for (const { cid } of files) {
    expect(store.catalog.find(cid)).toBeDefined();
    expect(store.catalog.pins(cid)).toEqual([{ cid, name: '' }]);
  }
});

test('one that cannot be published fails alone', async () => {
  const store = await open();
  const files = await Promise.all(Array.from({ length: 4 }, () => written(store)));
  const [first, second, third, fourth] = files.map((file) => ({ ...file }));
  const wrong = {
    ...present(third),
    blocks: present(third).blocks.map((block) => ({ ...block, bytes: 'no number' as never })),
  };
  const results = await Promise.allSettled(
    [present(first), present(second), wrong, present(fourth)].map((file) => store.publish([file], pin)),
  );
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
  expect(files.map(({ cid }) => store.catalog.find(cid) !== undefined)).toEqual([true, true, false, true]);
});
