/** Files that arrive in parts: each part an import, the nodes above them another. */
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import {
  anchorAbove,
  ask,
  block,
  carWith,
  fileInParts,
  importBlocks,
  importFile,
  multipart,
  node,
  pin,
  type Block,
} from './node-harness.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const command = 'dag/import?pin-roots=false&stats=true';

const unpin = (url: string, { cid }: Block) => ask(url, `pin/rm?arg=${cid.text}`);

describe('a file in parts', () => {
  test('is read whole and in ranges, is one pin, and its removal frees the disk', async () => {
    const { url, dir } = await node();
    const { bytes, root, leaves, parts } = await importFile(url);
    await ask(url, 'repo/gc');
    const { text } = root.cid;
    for (const [offset, length] of [
      [0, bytes.length],
      [3 * leafBytes - 5, 10],
      [1, 4 * leafBytes],
      [4 * leafBytes + 99, 50],
      [0, 0],
    ] as const) {
      const reply = await ask(url, `cat?arg=${text}&offset=${offset}&length=${length}`);
      expect(reply.text === bytes.subarray(offset, offset + length).toString('latin1'), `${offset}`).toBe(true);
    }
    expect((await ask(url, `dag/stat?arg=${text}&offline=true&progress=false`)).json()).toMatchObject({
      DagStats: [{ Cid: text, Size: bytes.length + root.bytes.length, NumBlocks: 6 }],
    });
    expect((await ask(url, `block/stat?arg=${text}`)).json()).toEqual({ Key: text, Size: root.bytes.length });
    const leaf = itemOf(leaves, 3).block;
    expect((await ask(url, `block/get?arg=${leaf.cid.text}`)).text === Buffer.from(leaf.bytes).toString('latin1')).toBe(
      true,
    );
    expect((await ask(url, `pin/ls?arg=${leaf.cid.text}`)).json()).toEqual({
      Keys: { [leaf.cid.text]: { Type: `indirect through ${text}`, Name: '' } },
    });
    expect(Object.keys(present((await ask(url, 'pin/ls')).json().Keys))).toHaveLength(6);
    expect((await ask(url, `pin/ls?arg=${itemOf(parts, 0).node.cid.text}`)).json()).toMatchObject({
      Message: expect.stringContaining('is not pinned') as string,
    });
    await unpin(url, root);
    expect(await readdir(join(dir, 'data'))).toEqual([]);
    expect((await ask(url, `block/stat?arg=${leaf.cid.text}`)).status).toBe(500);
  });

  test('is kept over a start, and its parts are kept for an hour without a pin', async () => {
    let now = 1_000_000;
    const first = await node({ now: () => now });
    const { bytes, root } = await importFile(first.url);
    const loose = fileInParts();
    await importBlocks(first.url, ...loose.leaves.map((leaf) => leaf.block));
    await first.close();
    now += 3_599_000;
    const second = await node({ dir: first.dir, now: () => now });
    expect((await ask(second.url, `block/stat?arg=${itemOf(loose.leaves, 0).block.cid.text}`)).status).toBe(200);
    await second.close();
    now += 2_000;
    const third = await node({ dir: first.dir, now: () => now });
    expect((await ask(third.url, `block/stat?arg=${itemOf(loose.leaves, 0).block.cid.text}`)).status).toBe(500);
    expect(await readdir(join(first.dir, 'data'))).toHaveLength(3);
    expect((await ask(third.url, `cat?arg=${root.cid.text}`)).text === bytes.toString('latin1')).toBe(true);
  });

  test('is not pinned while a block below is missing, which is named', async () => {
    const { url } = await node();
    const { leaves, root } = fileInParts();
    await importBlocks(url, root, ...leaves.slice(1).map((leaf) => leaf.block));
    const missing = `block was not found locally (offline): ipld: could not find ${itemOf(leaves, 0).block.cid.text}`;
    for (const [path, message] of [
      ['pin/add?timeout=2s', `pin: ${missing}`],
      ['dag/stat?offline=true&progress=false', `error traversing DAG: ${missing}`],
      ['cat?offline=true', missing],
    ]) {
      const reply = await ask(url, `${path}&arg=${root.cid.text}`);
      expect(reply.status).toBe(500);
      expect(reply.json()['Message']).toEqual(message);
    }
    await importBlocks(url, itemOf(leaves, 0).block);
    await pin(url, root);
  });

  test('is kept by an anchor, a node that is not of a file', async () => {
    const { url, dir } = await node();
    const { root, leaves } = fileInParts();
    await importBlocks(url, ...leaves.map((leaf) => leaf.block), root);
    const anchor = anchorAbove(root);
    await importBlocks(url, anchor);
    await pin(url, root);
    await pin(url, anchor);
    await unpin(url, root);
    await ask(url, 'repo/gc');
    expect((await ask(url, `dag/stat?arg=${root.cid.text}`)).status).toBe(200);
    expect((await ask(url, `cat?arg=${anchor.cid.text}`)).status).toBe(500);
    await unpin(url, anchor);
    expect(await readdir(join(dir, 'data'))).toEqual([]);
  });

  test('is kept once when a part is imported again', async () => {
    const { url, dir } = await node();
    const { leaves, root } = fileInParts();
    for (let i = 0; i < 3; i += 1) await importBlocks(url, ...leaves.map((leaf) => leaf.block), root);
    expect(await readdir(join(dir, 'data'))).toHaveLength(1);
  });
});

describe('dag/import', () => {
  test('takes several CARs, and counts their blocks', async () => {
    const { url } = await node();
    const { leaves, root } = fileInParts();
    const reply = await ask(
      url,
      command,
      multipart(
        { bytes: carWith(...leaves.map((leaf) => leaf.block)) },
        { bytes: carWith() },
        { bytes: carWith(root, itemOf(leaves, 0).block) },
      ),
    );
    expect(reply.records()).toEqual([
      { Stats: { BlockCount: 7, BlockBytesCount: 5 * leafBytes + 100 + root.bytes.length } },
    ]);
    await pin(url, root);
  });

  test('keeps nothing of a CAR that is wrong or cut off, nor of the others in the request', async () => {
    const { url, dir } = await node();
    const { leaves, root } = fileInParts();
    const good = carWith(...leaves.map((leaf) => leaf.block), root);
    const wrong = carWith(itemOf(leaves, 0).block, { cid: root.cid, bytes: itemOf(leaves, 1).block.bytes });
    const after = `import failed after block "${itemOf(leaves, 0).block.cid.text}": `;
    for (const [bytes, message] of [
      [good.subarray(0, leafBytes + 200), `${after}unexpected EOF`],
      [good.subarray(0, 70), 'import failed: unexpected EOF'],
      [wrong, `${after}mismatch in content integrity, expected: ${root.cid.text}, got: `],
      [carWith(block('raw', randomBytes(2 * leafBytes + 1))), 'import failed: '],
      [carWith(itemOf(leaves, 0).block, block('dag-pb', Buffer.from('no dag-pb'))), after],
    ] as const) {
      const reply = await ask(url, command, multipart({ bytes: good }, { bytes }));
      expect(reply.status).toBe(500);
      expect(reply.json()['Message']).toEqual(expect.stringContaining(message));
      expect(await readdir(join(dir, 'data'))).toEqual([]);
    }
    const { body, headers } = multipart({ bytes: good });
    const cut = await ask(url, command, { headers, body: body.subarray(0, body.length - 9) });
    expect(cut.status).toBe(500);
    expect(cut.json()['Message']).toBe(`import failed after block "${root.cid.text}": unexpected EOF`);
    expect(await readdir(join(dir, 'data'))).toEqual([]);
    expect((await ask(url, `block/stat?arg=${root.cid.text}`)).status).toBe(500);
  });

  test('takes blocks of 2 MiB, and refuses to pin roots', async () => {
    const { url } = await node();
    await importBlocks(url, block('raw', randomBytes(2 * leafBytes)));
    for (const query of ['', '?pin-roots=true']) {
      const reply = await ask(url, `dag/import${query}`, multipart({ bytes: carWith() }));
      expect(reply.status).toBe(400);
      expect(reply.json()['Message']).toEqual(expect.stringContaining('pin-roots must be false'));
    }
    expect((await ask(url, command, multipart())).status).toBe(400);
  });
});
