/** Starts of the node over a catalog of which any page is damaged. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { cidOf, sha256 } from '../../../shared/ipfs/index.ts';
import { ci } from '../../../testkit/long-run.ts';
import { startNode } from '../../local/node/server.ts';
import { ask, directory, importBlocks, node, token } from './node-harness.ts';

/** A catalog of some pages, and what it holds, by CID. */
async function filled(dir: string): Promise<Map<string, Buffer>> {
  const running = await node({ dir });
  const held = new Map<string, Buffer>();
  for (let file = 0; file < 4; file += 1) {
    const all = Array.from({ length: 30 }, () => randomBytes(20));
    const blocks = await Promise.all(all.map(async (bytes) => ({ cid: cidOf('raw', await sha256(bytes)), bytes })));
    await importBlocks(running.url, ...blocks);
    for (const { cid, bytes } of blocks) {
      held.set(cid.text, bytes);
      await ask(running.url, `pin/add?arg=${cid.text}&name=sealpin`);
    }
  }
  await running.close();
  return held;
}

test('a damaged page anywhere is a damaged index with a way out, or changes no byte that is read', async () => {
  const dir = await directory();
  const held = await filled(dir);
  const path = join(dir, 'node.db');
  const db = new DatabaseSync(path);
  db.exec('PRAGMA journal_mode = DELETE');
  const page = Number(db.prepare('PRAGMA page_size').get()?.['page_size']);
  db.close();
  const whole = await readFile(path);
  const pages = whole.length / page;
  expect(pages).toBeGreaterThan(10);
  const spoilers: Record<string, (at: number) => Buffer> = {
    zeroed: (at) => Buffer.from(whole).fill(0, at, at + page),
    random: (at) => {
      const copy = Buffer.from(whole);
      randomBytes(page).copy(copy, at);
      return copy;
    },
    'another page': (at) => {
      const copy = Buffer.from(whole);
      whole.copy(copy, at, (at + 3 * page) % whole.length, ((at + 3 * page) % whole.length) + page);
      return copy;
    },
    truncated: (at) => whole.subarray(0, at),
    'truncated within': (at) => whole.subarray(0, at + page / 2),
  };
  // The short form damages every other page.
  const step = ci ? 1 : 2;
  let refused = 0;
  for (const [name, spoil] of Object.entries(spoilers)) {
    for (let number = 0; number < pages; number += step) {
      const what = `${name}, page ${number}`;
      await writeFile(path, spoil(number * page));
      const started = await startNode({ dir, token }).catch((error: unknown) => error);
      if (started instanceof Error) {
        expect(started, what).toMatchObject({
          code: 'config_invalid',
          message: `${path}, the index of the built-in IPFS node, is damaged`,
        });
        refused += 1;
        continue;
      }
      const { url, close } = started as Awaited<ReturnType<typeof startNode>>;
      for (const [cid, bytes] of [...held].slice(0, 20)) {
        const reply = await ask(url, `block/get?arg=${cid}&offline=true`);
        if (reply.status === 200) expect(reply.text === bytes.toString('latin1'), `${what}: ${cid}`).toBe(true);
        else expect(reply.json()['Message'], what).toMatch(/not found|is damaged/);
      }
      await close();
    }
  }
  expect(refused).toBeGreaterThan(pages / step);
  // No file of bytes was removed because its rows could not be read.
  await writeFile(path, whole);
  const { url } = await node({ dir });
  for (const [cid, bytes] of held)
    expect((await ask(url, `block/get?arg=${cid}&offline=true`)).text === bytes.toString('latin1')).toBe(true);
});
