import { CarBlockIterator } from '@ipld/car/iterator';
import { CarWriter } from '@ipld/car/writer';
import { CID } from 'multiformats/cid';
import { describe, expect, it } from 'vitest';
import {
  carHeader,
  carLength,
  carOf,
  carSection,
  fileFromCar,
  leafBytes,
  parseCid,
  type BlockSource,
  type CarOptions,
} from '../../ipfs/index.ts';
import { concat } from '../../streams/concat.ts';
import { bytesOf, identical, pieces, randomBytes, stored, streamOf } from './source.ts';

const big = await stored(randomBytes(3 * leafBytes + 1234));
const order = [big.cid, ...[...big.blocks.keys()].filter((cid) => cid !== big.cid)];

async function car(o: CarOptions = {}, source: BlockSource = big.single): Promise<Uint8Array> {
  return bytesOf(carOf(big.cid, [source], o));
}

/** An independent reader. */
async function cidsIn(bytes: Uint8Array): Promise<string[]> {
  const iterator = await CarBlockIterator.fromBytes(bytes);
  expect((await iterator.getRoots()).map(String)).toEqual([big.cid]);
  const cids: string[] = [];
  for await (const { cid, bytes: block } of iterator) {
    expect(identical(block, big.blocks.get(cid.toString())!)).toBe(true);
    cids.push(cid.toString());
  }
  return cids;
}

/** An independent writer. */
async function written(cids: readonly string[], blocks: Map<string, Uint8Array>): Promise<Uint8Array> {
  const { writer, out } = CarWriter.create([CID.parse(big.cid)]);
  const chunks: Uint8Array[] = [];
  const reading = (async () => {
    for await (const chunk of out) chunks.push(chunk);
  })();
  for (const cid of cids) await writer.put({ cid: CID.parse(cid), bytes: blocks.get(cid)! });
  await writer.close();
  await reading;
  return bytesOf(streamOf(...chunks));
}

describe('carHeader and carSection', () => {
  it('name the empty identity CID where the root is not known yet, and blocks, as @ipld/car reads them', async () => {
    const blocks = [...big.blocks];
    const sections = blocks.flatMap(([cid, block]) => [carSection(parseCid(cid), block.length), block]);
    const read = await CarBlockIterator.fromBytes(concat(carHeader(), ...sections));
    expect((await read.getRoots()).map(String)).toEqual(['bafkqaaa']);
    const found: [string, Uint8Array][] = [];
    for await (const { cid, bytes } of read) found.push([cid.toString(), bytes]);
    expect(found.map(([cid]) => cid)).toEqual(blocks.map(([cid]) => cid));
    expect(found.every(([cid, bytes]) => identical(bytes, big.blocks.get(cid)!))).toBe(true);
  });
});

describe('carOf', () => {
  it('writes root and leaves depth first, as @ipld/car reads and writes them', async () => {
    const bytes = await car();
    expect(await cidsIn(bytes)).toEqual(order);
    expect(identical(bytes, await written(order, big.blocks))).toBe(true);
    expect(identical(bytes, await car({ scope: 'entity' }))).toBe(true);
  });

  it.each<[string, Uint8Array]>([
    ['nothing', new Uint8Array()],
    ['one leaf', randomBytes(5)],
    ['two leaves', randomBytes(leafBytes + 1)],
    ['a leaf that repeats', new Uint8Array(3 * leafBytes + 1)],
  ])('has the length that carLength tells without the leaves: %s', async (_, bytes) => {
    const { cid, single } = await stored(bytes);
    const length = await carLength(cid, [single]);
    expect(length).toBe((await bytesOf(carOf(cid, [single], { dups: false }))).length);
  });

  it.each<[CarOptions, number[]]>([
    [{ scope: 'block' }, []],
    [{ entityBytes: { from: 0, to: 0 } }, [1]],
    [{ entityBytes: { from: leafBytes } }, [2, 3, 4]],
    [{ entityBytes: { from: leafBytes - 1, to: leafBytes } }, [1, 2]],
    [{ entityBytes: { from: -1 } }, [4]],
    [{ entityBytes: { from: -1234 - leafBytes, to: -1235 } }, [3]],
    [{ entityBytes: { from: 0, to: 1e12 } }, [1, 2, 3, 4]],
    [{ entityBytes: { from: -1e12 } }, [1, 2, 3, 4]],
    [{ entityBytes: { from: 1e12 } }, []],
    [{ entityBytes: { from: 5, to: 2 } }, []],
  ])('writes for %j the root and the leaves %j', async (options, leaves) => {
    expect(await cidsIn(await car(options))).toEqual([big.cid, ...leaves.map((i) => order[i])]);
  });

  it('repeats a block that the file repeats', async () => {
    const zeros = await stored(new Uint8Array(3 * leafBytes));
    const iterator = await CarBlockIterator.fromBytes(await bytesOf(carOf(zeros.cid, [zeros.single])));
    let blocks = 0;
    for await (const { cid } of iterator) blocks += zeros.blocks.has(cid.toString()) ? 1 : 0;
    expect(blocks).toBe(4);
  });

  it('S62: with passLeaves passes a wrong leaf on, which the reader of the CAR finds, and no wrong node', async () => {
    const { cid, blocks, single } = await stored(big.file);
    const leaf = blocks.get(order[2]!)!.slice();
    leaf[500]! ^= 1;
    blocks.set(order[2]!, leaf);
    const passed = await bytesOf(carOf(cid, [single], { passLeaves: true }));
    await expect(bytesOf(fileFromCar(cid, streamOf(passed)))).rejects.toMatchObject({ code: 'content_mismatch' });
    await expect(bytesOf(carOf(cid, [single]))).rejects.toMatchObject({ code: 'content_mismatch' });
    blocks.set(order[2]!, leaf.subarray(1));
    await expect(bytesOf(carOf(cid, [single], { passLeaves: true }))).rejects.toMatchObject({
      code: 'content_mismatch',
    });
    const node = blocks.get(cid)!.slice();
    node[node.length - 3]! ^= 1;
    blocks.set(cid, node);
    await expect(bytesOf(carOf(cid, [single], { passLeaves: true }))).rejects.toMatchObject({
      code: 'content_mismatch',
    });
  });

  it.each([0, 1])('writes a file of one leaf of %i bytes', async (bytes) => {
    const one = await stored(randomBytes(bytes));
    const car = await bytesOf(carOf(one.cid, [one.single]));
    expect(await bytesOf(fileFromCar(one.cid, streamOf(car)))).toEqual(one.file);
  });

  it('S63: fails when a block cannot be had: a CAR that stops must not look complete', async () => {
    const { cid, blocks, single } = await stored(big.file);
    blocks.delete(order[3]!);
    await expect(bytesOf(carOf(cid, [single]))).rejects.toMatchObject({ code: 'pinning_unavailable' });
    await expect(bytesOf(carOf(order[3]!, [single]))).rejects.toMatchObject({ code: 'pinning_unavailable' });
  });
});

describe('fileFromCar', () => {
  const read = (bytes: Uint8Array, size = bytes.length || 1) =>
    bytesOf(fileFromCar(big.cid, streamOf(...pieces(bytes, size))));

  it('reads what carOf and @ipld/car write, whatever the cut', async () => {
    const bytes = await car();
    for (const size of [bytes.length, 1000, leafBytes + 1])
      expect(identical(await read(bytes, size), big.file)).toBe(true);
    const native = new Response(bytes as Uint8Array<ArrayBuffer>).body!;
    expect(identical(await bytesOf(fileFromCar(big.cid, native)), big.file)).toBe(true);
  });

  it('reads a CAR that gives a repeated block once', async () => {
    const file = await stored(new Uint8Array(3 * leafBytes));
    const once = await written([file.cid, ...[...file.blocks.keys()].filter((cid) => cid !== file.cid)], file.blocks);
    expect(identical(await bytesOf(fileFromCar(file.cid, streamOf(once))), file.file)).toBe(true);
  });

  it('skips blocks that are not of the file', async () => {
    const stranger = await stored(randomBytes(5000, 'stranger'));
    const blocks = new Map([...big.blocks, ...stranger.blocks]);
    expect(
      identical(
        await read(await written([stranger.cid, order[0]!, stranger.cid, ...order.slice(1)], blocks)),
        big.file,
      ),
    ).toBe(true);
  });

  it('S63: fails when the CAR lacks a block, or is cut anywhere', async () => {
    const bytes = await car();
    await expect(read(await written(order.slice(0, -1), big.blocks))).rejects.toMatchObject({
      code: 'content_mismatch',
    });
    await expect(
      read(
        await written(
          order.filter((_, i) => i !== 2),
          big.blocks,
        ),
      ),
    ).rejects.toMatchObject({ code: 'content_mismatch' });
    for (const at of [0, 1, 30, 59, 60, 70, 300, leafBytes, bytes.length - 1]) {
      await expect(read(bytes.subarray(0, at)), `cut at ${at}`).rejects.toMatchObject({ code: 'content_mismatch' });
    }
  });

  it('S62: fails on a flipped bit in any block, and lets nothing of it out', async () => {
    const bytes = await car();
    for (const at of [100, leafBytes, bytes.length - 1]) {
      const wrong = bytes.slice();
      wrong[at]! ^= 1;
      await expect(read(wrong), `bit at ${at}`).rejects.toMatchObject({ code: 'content_mismatch' });
    }
    const wrong = bytes.slice();
    wrong[wrong.length - 1]! ^= 1;
    const reader = fileFromCar(big.cid, streamOf(wrong)).getReader();
    for (let i = 0; i < 3; i += 1)
      expect(identical((await reader.read()).value!, big.file.subarray(i * leafBytes, (i + 1) * leafBytes))).toBe(true);
    await expect(reader.read()).rejects.toMatchObject({ code: 'content_mismatch' });
  });

  it.each([
    ['HTML', new TextEncoder().encode('<!doctype html><title>Block page</title>'.repeat(50))],
    ['a CARv2', Uint8Array.of(0x0a, 0xa1, 0x67, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x02, ...new Uint8Array(40))],
    ['a header without an end', new Uint8Array(100).fill(0xff)],
    ['a header of 1 MiB', Uint8Array.of(0x80, 0x80, 0x40, ...new Uint8Array(100))],
  ])('S62: refuses %s', async (_, bytes) => {
    await expect(read(bytes)).rejects.toMatchObject({ code: 'content_mismatch' });
  });

  it.each([
    ['a section without room for a CID', [5]],
    ['a section of 4 MiB', [0x80, 0x80, 0x80, 0x02]],
    ['a length without an end', [0xff, 0xff, 0xff, 0xff, 0xff]],
  ])('S64: refuses %s', async (_, section) => {
    const header = (await car()).subarray(0, 59);
    await expect(read(Uint8Array.of(...header, ...section, ...new Uint8Array(100)))).rejects.toMatchObject({
      code: 'content_mismatch',
    });
  });

  it('S64: gives up on a CAR that never has the file', async () => {
    const stranger = await stored(randomBytes(leafBytes, 'stranger'));
    const one = (await written([stranger.cid], stranger.blocks)).subarray(59);
    const header = (await car()).subarray(0, 59);
    let cancelled = false;
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(sent++ === 0 ? header : one);
      },
      cancel: () => void (cancelled = true),
    });
    await expect(bytesOf(fileFromCar(big.cid, endless))).rejects.toMatchObject({ code: 'content_mismatch' });
    expect(cancelled).toBe(true);
    expect(sent).toBeLessThan(30);
  });

  it('S64: gives up on a CAR of endless tiny blocks, which cost no bytes', async () => {
    const empty = await stored(new Uint8Array());
    const sections = (await written([empty.cid], empty.blocks)).subarray(59);
    const many = new Uint8Array(sections.length * 1000);
    for (let at = 0; at < many.length; at += sections.length) many.set(sections, at);
    const header = (await car()).subarray(0, 59);
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        // A reader that counts bytes only would go on until here.
        if (sent > 50) controller.error(new Error('it does not give up'));
        else controller.enqueue(sent++ === 0 ? header : many);
      },
    });
    await expect(bytesOf(fileFromCar(big.cid, endless))).rejects.toMatchObject({
      code: 'content_mismatch',
      message: expect.stringContaining('other blocks'),
    });
    expect(sent).toBeLessThan(10);
  });

  it('S90: a cancel reaches the CAR, also before the first read', async () => {
    const reasons: unknown[] = [];
    const source = (start: Uint8Array[]) =>
      new ReadableStream<Uint8Array>({
        start: (controller) => start.forEach((chunk) => controller.enqueue(chunk)),
        cancel: (reason) => void reasons.push(reason),
      });
    const reader = fileFromCar(big.cid, source([(await car()).subarray(0, 2 * leafBytes)])).getReader();
    await reader.read();
    await reader.cancel('enough');
    await fileFromCar(big.cid, source([])).cancel('nothing');
    const opening = fileFromCar(big.cid, source([]));
    await new Promise((resolve) => setTimeout(resolve, 5));
    await opening.cancel('too slow');
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(reasons).toEqual(['enough', 'nothing', 'too slow']);
  });
});
