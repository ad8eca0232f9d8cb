/** The parts that leaves are sent in, to the embedded node. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { leafBytes, partMs, sha256, treeOf } from '../../../shared/ipfs/index.ts';
import { concat } from '../../../shared/streams/concat.ts';
import { startNode, type RunningNode } from '../../../testkit/node.ts';
import type { PinningService } from '../../backends/contract.ts';
import { importRoot } from '../../backends/import-root.ts';
import { kubo } from '../../backends/kubo/kubo.ts';
import { leafAnnouncer, type LeafAnnouncer } from '../../upload/leaf-announcer.ts';
import { plainLeaves } from '../../upload/leaf-source.ts';
import { PartWriter } from '../../upload/part-writer.ts';
import { receiveLeaves } from '../../upload/receive-leaves.ts';
import { quickMs } from '../../upload/send-parts.ts';
import { Semaphore } from '../../upload/semaphore.ts';
import { present } from '../../../testkit/present.ts';

let dir: string;
let node: RunningNode;
let service: PinningService;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'sealpin-parts-'));
  node = await startNode({ dir, token: 'token' });
  const headers = { Authorization: 'Bearer token' };
  service = kubo({ id: 'node', url: node.url, headers, fetch, pinName: 'sealpin:test' });
});
afterAll(async () => {
  await node.close();
  await rm(dir, { recursive: true, force: true });
});

const { signal } = new AbortController();

it('the first part has at most 16 leaves, and the root above the parts is the one of the file', async () => {
  const leaves = Array.from({ length: 18 }, (_, index) => randomBytes(index === 17 ? 5 : leafBytes));
  const digests = concat(...(await Promise.all(leaves.map((leaf) => sha256(leaf)))));
  const writer = new PartWriter({ service, signal, firstLeaf: 0, now: Date.now });
  const sent = [];
  for (const leaf of leaves) {
    if (writer.isDue()) sent.push(present(await writer.close()));
    await writer.add(leaf);
  }
  sent.push(present(await writer.close()));
  expect(await writer.close()).toBeUndefined();
  const parts = sent.map(({ part }) => part);
  expect(parts.map(({ firstLeaf, bytes }) => [firstLeaf, bytes])).toEqual([
    [0, 16 * leafBytes],
    [16, leafBytes + 5],
  ]);
  expect(concat(...parts.map((part) => part.digests))).toEqual(digests);
  for (const part of parts) expect(part.cid).toBe((await treeOf(part.digests, part.bytes)).text);
  await Promise.all(sent.map(({ held }) => held));
  const bytes = 17 * leafBytes + 5;
  const root = await importRoot(service, { digests, bytes, signal });
  expect(root).toBe((await treeOf(digests, bytes)).text);
  await service.pin(root, { bytes, beside: false, signal });
  expect(await service.stat(root, signal)).toEqual({ pin: 'ours' });
});

/** Takes blocks, and keeps none. */
function blind(write: () => Promise<void> = async () => undefined): PinningService {
  return { ...service, importBlocks: () => ({ write, finish: async () => undefined, abort: () => undefined }) };
}

it('parts grow with their file, from 16 to 64 leaves', async () => {
  const writer = new PartWriter({ service: blind(), signal, firstLeaf: 0, now: () => 0 });
  const leaf = new Uint8Array(leafBytes);
  const leaves: number[] = [];
  for (let left = 16 + 32 + 64 + 64 + 1; left > 0; left -= 1) {
    if (writer.isDue()) leaves.push(present(await writer.close()).part.digests.length / 32);
    await writer.add(leaf);
  }
  expect(leaves).toEqual([16, 32, 64, 64]);
});

it('a part is due 5 s after its first leaf', async () => {
  let nowMs = 1000;
  const writer = new PartWriter({ service, signal, firstLeaf: 7, now: () => nowMs });
  expect(writer.dueAt()).toBe(undefined);
  expect(writer.isDue()).toBe(false);
  await writer.add(randomBytes(leafBytes));
  nowMs += partMs - 1;
  await writer.add(randomBytes(leafBytes));
  expect(writer.dueAt()).toEqual(1000 + partMs);
  expect(writer.isDue()).toBe(false);
  nowMs += 1;
  expect(writer.isDue()).toBe(true);
  expect(await writer.close()).toMatchObject({ part: { firstLeaf: 7, bytes: 2 * leafBytes } });
  expect(writer.dueAt()).toBe(undefined);
  expect(writer.isDue()).toBe(false);
  await writer.add(randomBytes(1));
  expect(await writer.close()).toMatchObject({ part: { firstLeaf: 9, bytes: 1 } });
});

it('a part with 16 leaves is due 1 s after its first one, where another request can continue after it', async () => {
  let nowMs = 1000;
  const options = { service: blind(), signal, firstLeaf: 100, now: () => nowMs };
  const [continued, other] = [new PartWriter({ ...options, isContinued: true }), new PartWriter(options)];
  for (let leaf = 0; leaf < 15; leaf += 1) for (const writer of [continued, other]) await writer.add(new Uint8Array(1));
  nowMs += 1000;
  expect(continued.dueAt()).toEqual(1000 + partMs);
  expect(continued.isDue()).toBe(false);
  for (const writer of [continued, other]) await writer.add(new Uint8Array(1));
  expect(continued.dueAt()).toEqual(nowMs);
  expect(continued.isDue()).toBe(true);
  expect(other.dueAt()).toEqual(1000 + partMs);
  expect(other.isDue()).toBe(false);
});

it('a leaf is announced while the one before it is sent, and is sent after it', async () => {
  const { promise: taken, resolve: take } = Promise.withResolvers<void>();
  let writes = 0;
  const slow: PinningService = {
    ...service,
    importBlocks: (signal) => ({
      ...service.importBlocks(signal),
      write() {
        writes += 1;
        return taken;
      },
      finish: async () => undefined,
    }),
  };
  const announced: number[] = [];
  const announcer = leafAnnouncer(async (first) => void announced.push(first));
  const writer = new PartWriter({ service: slow, signal, firstLeaf: 0, now: Date.now, announcer });
  await writer.add(randomBytes(leafBytes));
  writer.flush();
  await expect.poll(() => writes).toBe(1);
  const { sent } = await writer.add(randomBytes(leafBytes));
  writer.flush();
  await expect.poll(() => announced).toEqual([0, 1]);
  expect(writes).toBe(1);
  take();
  await sent;
  expect(writes).toBe(2);
});

it('leaves are announced together, fewer towards the end that is expected', async () => {
  const announced: number[] = [];
  const announcer = leafAnnouncer(async (_, digests) => void announced.push(digests.length / 32));
  const writer = new PartWriter({ service, signal, firstLeaf: 2, now: Date.now, announcer, expected: 16 });
  const leaf = randomBytes(leafBytes);
  let last: Promise<void> = Promise.resolve();
  for (let index = 0; index < 16; index += 1) {
    ({ sent: last } = await writer.add(new Uint8Array(leaf)));
    if ([7, 11, 13, 14, 15].includes(index)) await last;
  }
  expect(announced).toEqual([8, 4, 2, 1, 1]);
  await (
    await writer.close()
  )?.held;
});

it('a part that ends has its leaves announced, and one that is abandoned has not', async () => {
  const announced: number[] = [];
  const announcer = leafAnnouncer(async (first, digests) => void announced.push(first, digests.length / 32));
  const writer = new PartWriter({ service, signal, firstLeaf: 2, now: Date.now, announcer });
  await writer.add(randomBytes(leafBytes));
  await writer.add(randomBytes(leafBytes));
  expect(announced).toEqual([]);
  await (
    await writer.close()
  )?.held;
  expect(announced).toEqual([2, 2]);
  const { sent } = await writer.add(randomBytes(leafBytes));
  writer.abort(new Error('given up'));
  await expect(sent).rejects.toThrow('given up');
  expect(announced).toEqual([2, 2]);
});

it('no byte of a leaf leaves before its digest is recorded, nor after one that may not be sent', async () => {
  const order: string[] = [];
  const recording: PinningService = {
    ...service,
    importBlocks(signal) {
      const blocks = service.importBlocks(signal);
      return {
        ...blocks,
        write(cid, bytes) {
          order.push(`write ${cid.codec}`);
          return blocks.write(cid, bytes);
        },
      };
    },
  };
  const leaf = randomBytes(leafBytes);
  const announcer = leafAnnouncer(async (first, digests) => {
    expect(digests.subarray(0, 32)).toEqual(await sha256(leaf));
    await new Promise((resolve) => setTimeout(resolve, 20));
    order.push(`recorded ${first}`);
    if (first === 4) throw new Error('the file has changed');
  });
  const writer = new PartWriter({ service: recording, signal, firstLeaf: 3, now: Date.now, announcer });
  await writer.add(new Uint8Array(leaf));
  writer.flush();
  await expect.poll(() => order).toContain('write raw');
  await writer.add(new Uint8Array(leaf));
  await writer.add(new Uint8Array(leaf));
  const part = await writer.close();
  await expect(part?.held).rejects.toThrow('the file has changed');
  await expect(writer.add(new Uint8Array(leaf))).rejects.toThrow('the file has changed');
  writer.abort(new Error('given up'));
  expect(order.filter((step) => step === 'write raw')).toHaveLength(1);
  expect(order.indexOf('recorded 3')).toBeLessThan(order.indexOf('write raw'));
});

/** Receives bytes, all of them, from a body that gives what it is asked for. */
async function receive(
  length: number,
  o: {
    read(maxBytes: number): Promise<Uint8Array<ArrayBuffer>>;
    permits: Semaphore;
    announcer?: LeafAnnouncer;
    service?: PinningService;
  },
): Promise<number> {
  const { read, permits, announcer } = o;
  let saved = 0;
  const arrived = await receiveLeaves({
    body: { read, cancel: async () => undefined },
    source: plainLeaves({ offset: 0, rest: new Uint8Array(0), tail: new Uint8Array(0), beginning: 'other' }, false),
    writer: new PartWriter({ service: o.service ?? service, signal, firstLeaf: 0, now: Date.now, announcer }),
    offset: 0,
    leaves: 0,
    length,
    maxBytes: length,
    announcer,
    async save(sent) {
      await sent?.held;
      saved += 1;
    },
    permits,
    now: Date.now,
  });
  expect({ arrived, taken: permits.taken }).toEqual({ arrived: length, taken: 0 });
  return saved;
}

it.each([
  [false, [16 * leafBytes + 100]],
  [true, [16 * leafBytes, 16 * leafBytes + 100]],
])('bytes after a full part are recorded with it, unless that is done (done: %s)', async (isDone, recorded) => {
  const body = [...Array.from({ length: 16 }, () => leafBytes), 100];
  const atEnd = Promise.withResolvers<void>();
  const offsets: number[] = [];
  await receiveLeaves({
    body: {
      async read() {
        const bytes = body.shift() ?? 0;
        if (bytes === 0) atEnd.resolve();
        if (bytes === 100 && isDone) await expect.poll(() => offsets).toHaveLength(1);
        return new Uint8Array(bytes);
      },
      cancel: async () => undefined,
    },
    source: plainLeaves({ offset: 0, rest: new Uint8Array(0), tail: new Uint8Array(0), beginning: 'other' }, false),
    writer: new PartWriter({ service, signal, firstLeaf: 0, now: Date.now }),
    offset: 0,
    leaves: 0,
    length: null,
    maxBytes: 2 ** 30,
    async save(sent, take) {
      await sent?.held;
      if (!isDone) await atEnd.promise;
      // The end is handled by then.
      await new Promise((resolve) => setTimeout(resolve));
      offsets.push(take().offset);
    },
    permits: new Semaphore(4),
    now: Date.now,
  });
  expect(offsets).toEqual(recorded);
});

it('a part that cannot be recorded ends an upload whose next bytes do not come', async () => {
  const body = Array.from({ length: 16 }, () => leafBytes);
  const received = receiveLeaves({
    body: {
      async read() {
        return new Uint8Array(body.shift() ?? (await new Promise<never>(() => undefined)));
      },
      cancel: async () => undefined,
    },
    source: plainLeaves({ offset: 0, rest: new Uint8Array(0), tail: new Uint8Array(0), beginning: 'other' }, false),
    writer: new PartWriter({ service: blind(), signal, firstLeaf: 0, now: Date.now }),
    offset: 0,
    leaves: 0,
    length: null,
    maxBytes: 2 ** 30,
    save: async () => Promise.reject(new Error('the account is closed')),
    permits: new Semaphore(4),
    now: Date.now,
  });
  await expect(received).rejects.toThrow('the account is closed');
});

it('leaves that wait to be announced are announced where no permit is free for the next one', async () => {
  const announced: number[] = [];
  const announcer = leafAnnouncer(async (_, digests) => void announced.push(digests.length / 32));
  const read = async (maxBytes: number): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(maxBytes);
  expect(await receive(6 * leafBytes, { read, permits: new Semaphore(3), announcer })).toBe(1);
  expect(announced[0]).toBe(3);
});

it('leaves are announced together also while earlier ones are sent', async () => {
  const announced: number[] = [];
  const announcer = leafAnnouncer(async (_, digests) => void announced.push(digests.length / 32));
  const read = async (maxBytes: number): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(maxBytes);
  const slow = blind(() => new Promise((resolve) => setTimeout(resolve, 5)));
  await receive(16 * leafBytes, { read, permits: new Semaphore(4), announcer, service: slow });
  // One at most comes alone: the last.
  expect(announced.filter((leaves) => leaves < 2).length).toBeLessThan(2);
});

it('a client has memory for 64 KiB while it is slow, and for a leaf while it is fast', async () => {
  const asked: number[] = [];
  async function read(maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
    asked.push(maxBytes);
    // The third read takes longer than a fast client does.
    if (asked.length === 3) await new Promise((resolve) => setTimeout(resolve, 4 * quickMs));
    return new Uint8Array(maxBytes);
  }
  await receive(3 * leafBytes, { read, permits: new Semaphore(4) });
  const few = 65_536;
  // At last, whether the body has more than the file.
  expect(asked).toEqual([few, leafBytes - few, leafBytes, few, leafBytes - few, 1]);
});
