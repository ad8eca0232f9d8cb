/** Heap that an upload holds while its body stays open, by the kind of the body. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, expect, it } from 'vitest';
import { cidOf, leafBytes, type Cid } from '../../../shared/ipfs/index.ts';
import type { ObjectStore } from '../../backends/objects/store-contract.ts';
import { parseMetadata } from '../../http/tus-headers.ts';
import { intakeOf } from '../../objects/pin/stores/object-intake.ts';
import type { PinBinding } from '../../objects/pin/shard.ts';
import { CarStructure } from '../../upload/car-structure.ts';
import { JsonUploadReader } from '../../upload/json-upload-reader.ts';
import { carPermits } from '../../upload/semaphore.ts';
import { ci } from '../../../testkit/long-run.ts';

beforeAll(() => setFlagsFromString('--expose-gc'));

async function heapBytes(): Promise<number> {
  runInNewContext('gc()');
  // Buffers are freed behind the first collection.
  await new Promise((resolve) => setImmediate(resolve));
  runInNewContext('gc()');
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** A CID of its own for each number. */
function cidOfNumber(n: number, codec: Cid['codec'] = 'raw'): Cid {
  const digest = new Uint8Array(32);
  new DataView(digest.buffer).setUint32(0, n);
  return cidOf(codec, digest);
}

/** The most blocks of a CAR. */
const maxBlocks = 32_768;

/** A part of an upload by CAR at an object store. */
function partAtStore() {
  const pins = { getByName: () => ({ objects: { open: async () => ({ ok: true, from: 0 }) } }) };
  const store = { id: 'files', takes: 'objects', put: async () => undefined } as unknown as ObjectStore;
  const options = { account: 'a', uploadId: 'b', numbers: maxBlocks, forMs: 1000, isForeign: true };
  const intake = intakeOf({ PIN: pins } as unknown as PinBinding, store, options);
  return { intake, part: () => intake.importBlocks(new AbortController().signal) };
}

/**
 * Takes bytes until there are as many as may be, or it is refused.
 * @param hold takes what knows of them
 */
type Fill = (hold: (held: object) => void) => unknown;

const megabytes = 1e6;

/**
 * Of each kind of body: how it is filled, why more is refused, and the most bytes that are held of
 * it.
 */
const fillings: [string, Fill, RegExp | undefined, number][] = [
  [
    'a CAR of as many blocks as there may be',
    (hold) => {
      const structure = new CarStructure(2 ** 52);
      hold(structure);
      const leaf = new Uint8Array(4096);
      for (let n = 0; n <= maxBlocks; n += 1) structure.add(cidOfNumber(n), leaf);
    },
    /it has more than 32768 blocks/,
    carPermits * megabytes,
  ],
  [
    'a CAR of small leaves',
    (hold) => {
      const structure = new CarStructure(2 ** 52);
      hold(structure);
      for (let n = 0; n < maxBlocks; n += 1) structure.add(cidOfNumber(n), new Uint8Array(8));
    },
    /its first 8216 bytes are 1027 blocks, which is less than 4096 bytes each/,
    megabytes,
  ],
  [
    'leaves of a CAR, in parts at an object store',
    async (hold) => {
      const { intake, part } = partAtStore();
      hold(intake);
      const leaf = new Uint8Array(4096);
      for (let n = 0; n < maxBlocks;) {
        const blocks = part();
        for (const end = n + 1024; n < end; n += 1) await blocks.write(cidOfNumber(n), leaf);
        await blocks.finish();
      }
    },
    undefined,
    // With the memory of two leaves that waits to be used again.
    4 * megabytes,
  ],
  [
    'nodes of a CAR, for the index of an object store',
    async (hold) => {
      const { intake, part } = partAtStore();
      hold(intake);
      const blocks = part();
      for (let n = 0; n < 100; n += 1) await blocks.write(cidOfNumber(n, 'dag-pb'), new Uint8Array(leafBytes));
    },
    /too many small blocks for an object store/,
    5 * megabytes,
  ],
  [
    'JSON whose name does not end',
    (hold) => {
      const reader = new JsonUploadReader();
      hold(reader);
      reader.write(Buffer.from('{"filename": "'));
      for (;;) reader.write(Buffer.from('a'));
    },
    /a name or filename is too long/,
    megabytes,
  ],
  [
    'metadata of tus',
    (hold) => hold(parseMetadata(`key ${'AAAA'.repeat(1024)}`)),
    /Upload-Metadata may have at most 4096 characters/,
    megabytes,
  ],
];
it.each(fillings.filter((_, at) => ci || at % 4 === 0))(
  '%s take no more than there is for them',
  async (_, fill, refusal, mostBytes) => {
    const held: object[] = [];
    const before = await heapBytes();
    const filling = (async () => await fill((each) => held.push(each)))();
    await (refusal === undefined ? filling : expect(filling).rejects.toThrow(refusal));
    expect((await heapBytes()) - before).toBeLessThan(mostBytes);
    expect(held.length).toBeLessThan(2);
  },
);
