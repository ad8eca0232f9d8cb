/** Bytes that the node takes in parts: at the ends of leaves and parts, slow ones, broken ones. */
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { leafBytes, partLeaves, treeOf } from '../../../shared/ipfs/index.ts';
import type { Received } from '../../local/node/direct.ts';
import type { RunningNode } from '../../local/node/server.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';
import { ask, node } from './node-harness.ts';

/** Gives bytes in pieces of a size, in memory that is used again. */
async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  const memory = Buffer.alloc(size);
  for (let at = 0; at < bytes.length; at += size) {
    yield memory.subarray(0, bytes.copy(memory, 0, at, at + size));
    memory.fill(0);
  }
}

/** Pins a part, as the Worker does that hears of it. */
async function pin({ url }: RunningNode, { part }: Received): Promise<void> {
  if (part === undefined) return;
  const { text: cid } = await treeOf(part.digests, part.bytes);
  expect((await ask(url, `pin/add?arg=${cid}`)).status).toBe(200);
}

async function take(
  running: RunningNode,
  pieces: AsyncIterable<Uint8Array>,
  leaves = 0,
  onReceived: (each: Received) => void = () => undefined,
): Promise<{ isWhole: boolean; all: Received[] }> {
  const all: Received[] = [];
  const pins: Promise<void>[] = [];
  const isWhole = await running.receiveParts(pieces, {
    leaves,
    signal: new AbortController().signal,
    onReceived(each) {
      all.push(each);
      pins.push(pin(running, each));
      onReceived(each);
    },
  });
  await Promise.all(pins);
  return { isWhole, all };
}

/** The bytes of which so much was told: those of the parts as the node has them, verified. */
async function bytesOf(running: RunningNode, all: readonly Received[]): Promise<Buffer> {
  const read: Uint8Array[] = [];
  for (const { part } of all) {
    if (part === undefined) continue;
    const { text: cid } = await treeOf(part.digests, part.bytes);
    for await (const piece of running.bytesOf({ cid, from: 0, to: part.bytes - 1 })) read.push(Buffer.from(piece));
  }
  return Buffer.concat([...read, present(all.at(-1)).tail]);
}

const around = (bytes: number): number[] => [bytes - 1, bytes, bytes + 1];
const sizes = [1, ...around(leafBytes), ...around(2 * leafBytes), ...around(16 * leafBytes), 49 * leafBytes + 5];

test.each(sizes)('%d bytes come in parts of whole leaves, and the rest', async (size) => {
  const running = await node();
  const bytes = randomBytes(size);
  for (const [pieceBytes, leaves] of [
    [256 * 1024, 0],
    [300_001, 64],
    [3 * leafBytes + 7, 16],
  ] as const) {
    const { isWhole, all } = await take(running, inPieces(bytes, pieceBytes), leaves);
    expect(isWhole).toBe(true);
    expect((await bytesOf(running, all)).equals(bytes)).toBe(true);
    let before = leaves;
    for (const { part, tail, head } of all) {
      expect(Buffer.from(head).equals(bytes.subarray(0, head.length))).toBe(true);
      expect(tail.length).toBeLessThan(leafBytes);
      const own = (part?.bytes ?? 0) / leafBytes;
      expect(own).toBeLessThanOrEqual(partLeaves(before));
      expect(part?.digests.length ?? 0).toBe(own * 32);
      before += own;
    }
  }
});

inCi('what a slow client has sent is told while it waits, and told again with what follows', async () => {
  const running = await node();
  const bytes = randomBytes(2 * leafBytes + 9);
  let told = Promise.withResolvers<Received>();
  const seen: Received[] = [];
  async function* slowly(): AsyncGenerator<Buffer> {
    for (const [from, to] of [
      [0, 5],
      [5, leafBytes + 7],
    ]) {
      yield bytes.subarray(from, to);
      seen.push(await told.promise);
      told = Promise.withResolvers();
    }
    yield bytes.subarray(leafBytes + 7);
  }
  const { all } = await take(running, slowly(), 0, (each) => told.resolve(each));
  expect(seen.map(({ part, tail }) => [part?.bytes, tail.length])).toEqual([
    [undefined, 5],
    [leafBytes, 7],
  ]);
  expect(seen.every((each, index) => all[index] === each)).toBe(true);
  expect((await bytesOf(running, all)).equals(bytes)).toBe(true);
});

test('what came before a break is told, and so is the break', async () => {
  const running = await node();
  const bytes = randomBytes(17 * leafBytes + 3);
  async function* breaking(): AsyncGenerator<Buffer> {
    yield* inPieces(bytes, 256 * 1024);
    throw new Error('the line breaks');
  }
  const { isWhole, all } = await take(running, breaking());
  expect(isWhole).toBe(false);
  expect((await bytesOf(running, all)).equals(bytes)).toBe(true);
});

test('what cannot be kept is told to nobody, and leaves no file', async () => {
  const running = await node();
  const data = join(running.dir, 'data');
  async function* failing(): AsyncGenerator<Buffer> {
    yield randomBytes(leafBytes + 1);
    // Its folder is closed, as by a stop, so that nothing can be published.
    await running.close();
  }
  const told: Received[] = [];
  await expect(take(running, failing(), 0, (each) => told.push(each))).rejects.toThrow(/./);
  expect(told).toEqual([]);
  expect(await readdir(data)).toEqual([]);
});

test('no more than two parts are ahead of their pins, and what nobody wants any more ends', async () => {
  const running = await node();
  const piece = 256 * 1024;
  let given = 0;
  let most = (16 + 32) * leafBytes;
  async function* endless(): AsyncGenerator<Buffer> {
    for (;;) {
      given += piece;
      if (given > most) throw new Error('it runs ahead');
      yield randomBytes(piece);
    }
  }
  const stop = new AbortController();
  const told: Received[] = [];
  const receiving = running.receiveParts(endless(), {
    leaves: 0,
    signal: stop.signal,
    onReceived: (each) => told.push(each),
  });
  const ended = expect(receiving).rejects.toMatchObject({ name: 'AbortError' });
  await expect.poll(() => told.length).toBe(1);
  let before = 0;
  const rests = (): boolean => before === (before = given);
  await expect.poll(rests, { interval: 200 }).toBe(true);
  most = present(first(told).part).bytes + (32 + 48) * leafBytes;
  await pin(running, first(told));
  await expect.poll(() => told.length).toBe(2);
  stop.abort();
  await ended;
  // The second one is like any other file that nobody pins.
  expect(await readdir(join(running.dir, 'data'))).toHaveLength(2);
});
