import { describe, expect, it } from 'vitest';
import { carOf, fileFromCar, leafBytes, parseCid } from '../../ipfs/index.ts';
import { bytesOf, carByLibrary, randomBytes, stored, streamOf } from './source.ts';
import { flip, itemOf, present } from '../../../testkit/present.ts';

const big = await stored(randomBytes(3 * leafBytes + 1234));
const order = [big.cid, ...[...big.blocks.keys()].filter((cid) => cid !== big.cid)];
const car = (): Promise<Uint8Array> => bytesOf(carOf(big.cid, [big.single]));

describe('carOf', () => {
  it('S62: with passLeaves passes a wrong leaf on, which the reader of the CAR finds, and no wrong node', async () => {
    const { cid, blocks, single } = await stored(big.file);
    const leaf = present(blocks.get(itemOf(order, 2))).slice();
    flip(leaf, 500);
    blocks.set(itemOf(order, 2), leaf);
    const passed = await bytesOf(carOf(cid, [single], { passLeaves: true }));
    await expect(bytesOf(fileFromCar(cid, streamOf(passed)))).rejects.toMatchObject({ code: 'content_mismatch' });
    await expect(bytesOf(carOf(cid, [single]))).rejects.toMatchObject({ code: 'content_mismatch' });
    blocks.set(itemOf(order, 2), leaf.subarray(1));
    await expect(bytesOf(carOf(cid, [single], { passLeaves: true }))).rejects.toMatchObject({
      code: 'content_mismatch',
    });
    blocks.set(itemOf(order, 2), present(big.blocks.get(itemOf(order, 2))));
    // It names one leaf twice, and can be read.
    const node = present(blocks.get(cid)).slice();
    const [one, other] = [parseCid(itemOf(order, 1)).digest, parseCid(itemOf(order, 3)).digest];
    const at = node.findIndex((_, index) => one.every((byte, offset) => node[index + offset] === byte));
    node.set(other, at);
    blocks.set(cid, node);
    await expect(bytesOf(carOf(cid, [single], { passLeaves: true }))).rejects.toMatchObject({
      code: 'content_mismatch',
    });
  });

  it('S63: fails when a block cannot be had: a CAR that stops must not look complete', async () => {
    const { cid, blocks, single } = await stored(big.file);
    blocks.delete(itemOf(order, 3));
    await expect(bytesOf(carOf(cid, [single]))).rejects.toMatchObject({ code: 'pinning_unavailable' });
    await expect(bytesOf(carOf(itemOf(order, 3), [single]))).rejects.toMatchObject({ code: 'pinning_unavailable' });
  });
});

describe('fileFromCar', () => {
  it('S64: stops at a CAR that never has the file', async () => {
    const stranger = await stored(randomBytes(leafBytes, 'stranger'));
    const one = (await carByLibrary(big.cid, [stranger.cid], stranger.blocks)).subarray(59);
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

  it('S64: stops at a CAR of endless tiny blocks, which cost no bytes', async () => {
    const empty = await stored(new Uint8Array());
    const sections = (await carByLibrary(big.cid, [empty.cid], empty.blocks)).subarray(59);
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
    await expect.poll(() => reasons).toEqual(['enough', 'nothing', 'too slow']);
  });
});
