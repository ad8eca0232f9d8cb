import { CarBlockIterator } from '@ipld/car/iterator';
import {
  carHeader,
  carLength,
  carOf,
  carSection,
  fileFromCar,
  leafBytes,
  parseCid,
  type CarOptions,
} from '../../../ipfs/index.ts';
import { concat } from '../../../streams/concat.ts';
import { equal, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { bytesOf, carByLibrary, identical, pieces, randomBytes, stored, streamOf } from '../source.ts';
import { flip, present } from '../../../../testkit/present.ts';

/** The roots that the library reads in a CAR, and the blocks. */
async function readByLibrary(car: Uint8Array) {
  const iterator = await CarBlockIterator.fromBytes(car);
  const roots = (await iterator.getRoots()).map(String);
  const found: { cid: string; bytes: Uint8Array }[] = [];
  for await (const { cid, bytes } of iterator) found.push({ cid: cid.toString(), bytes });
  return { roots, found, cids: found.map(({ cid }) => cid) };
}

/** A file of four leaves, and its CIDs as a CAR has them. */
async function fourLeaves() {
  const file = await stored(randomBytes(3 * leafBytes + 1234));
  return { ...file, order: [file.cid, ...[...file.blocks.keys()].filter((cid) => cid !== file.cid)] };
}

const ranges: readonly (readonly [CarOptions, leaves: number[]])[] = [
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
];

/** CAR files in both directions, against the library of the format. */
export function cars(tool: Tool): void {
  const file = fourLeaves();
  const car = async (o: CarOptions = {}): Promise<Uint8Array> => {
    const { cid, single } = await file;
    return bytesOf(carOf(cid, [single], o));
  };
  const read = async (bytes: Uint8Array, size = bytes.length || 1): Promise<Uint8Array> =>
    bytesOf(fileFromCar((await file).cid, streamOf(...pieces(bytes, size))));

  tool.test('a header without its root, and sections, are read by the library', async () => {
    const blocks = [...(await file).blocks];
    const sections = blocks.flatMap(([cid, block]) => [carSection(parseCid(cid), block.length), block]);
    const { roots, found } = await readByLibrary(concat(carHeader(), ...sections));
    // The empty identity CID stands for the root that is not known yet.
    equal(roots, ['bafkqaaa']);
    equal(
      found.map(({ cid }) => cid),
      blocks.map(([cid]) => cid),
    );
    ok(
      found.every(({ bytes }, index) => identical(bytes, present(blocks[index])[1])),
      'each block has its bytes',
    );
  });

  tool.test('carOf writes root and leaves depth first, as the library reads and writes them', async () => {
    const { cid, blocks, order } = await file;
    const bytes = await car();
    const { roots, found, cids } = await readByLibrary(bytes);
    equal(roots, [cid]);
    equal(cids, order);
    ok(
      found.every((block) => identical(block.bytes, present(blocks.get(block.cid)))),
      'each block has its bytes',
    );
    ok(identical(bytes, await carByLibrary(cid, order, blocks)), 'it is the CAR of the library');
    ok(identical(bytes, await car({ scope: 'entity' })), 'it is the scope without options');
  });

  for (const [what, bytes] of [
    ['nothing', 0],
    ['one leaf', 5],
    ['two leaves', leafBytes + 1],
  ] as const)
    tool.test(`a CAR has the length that carLength tells without the leaves: ${what}`, async () => {
      const { cid, single } = await stored(randomBytes(bytes));
      equal(await carLength(cid, [single]), (await bytesOf(carOf(cid, [single], { dups: false }))).length);
    });

  for (const [options, leaves] of ranges)
    tool.test(`carOf writes for ${JSON.stringify(options)} the root and the leaves ${leaves.join()}`, async () => {
      const { cid, order } = await file;
      equal((await readByLibrary(await car(options))).cids, [cid, ...leaves.map((i) => order[i])]);
    });

  tool.test('carOf repeats a block that the file repeats; without repeats the length is still foretold', async () => {
    const zeros = await stored(new Uint8Array(3 * leafBytes));
    equal((await readByLibrary(await bytesOf(carOf(zeros.cid, [zeros.single])))).cids.length, 4);
    const once = await bytesOf(carOf(zeros.cid, [zeros.single], { dups: false }));
    equal((await readByLibrary(once)).cids.length, 2);
    equal(await carLength(zeros.cid, [zeros.single]), once.length);
  });

  for (const bytes of [0, 1])
    tool.test(`a file of one leaf of ${bytes} bytes goes through a CAR`, async () => {
      const one = await stored(randomBytes(bytes));
      const car = await bytesOf(carOf(one.cid, [one.single]));
      equal(await bytesOf(fileFromCar(one.cid, streamOf(car))), one.file);
    });

  tool.test('fileFromCar reads what carOf and the library write, whatever the cut', async () => {
    const { cid, file: data } = await file;
    const bytes = await car();
    for (const size of [bytes.length, 1000, leafBytes + 1])
      ok(identical(await read(bytes, size), data), `in pieces of ${size} bytes`);
    const native = present(new Response(bytes as Uint8Array<ArrayBuffer>).body);
    ok(identical(await bytesOf(fileFromCar(cid, native)), data), 'from the body of a response');
  });

  tool.test('fileFromCar reads a CAR that gives a repeated block once', async () => {
    const { cid, blocks, file: data } = await stored(new Uint8Array(3 * leafBytes));
    const once = await carByLibrary(cid, [cid, ...[...blocks.keys()].filter((each) => each !== cid)], blocks);
    ok(identical(await bytesOf(fileFromCar(cid, streamOf(once))), data), 'it is the file');
  });

  tool.test('fileFromCar skips blocks that are not of the file', async () => {
    const { cid, blocks, file: data, order } = await file;
    const stranger = await stored(randomBytes(5000, 'stranger'));
    const mixed = [stranger.cid, cid, stranger.cid, ...order.slice(1)];
    ok(
      identical(await read(await carByLibrary(cid, mixed, new Map([...blocks, ...stranger.blocks]))), data),
      'it is the file',
    );
  });

  tool.test('S63: fileFromCar fails when the CAR lacks a block, or is cut anywhere', async () => {
    const { cid, blocks, order } = await file;
    for (const lacking of [order.length - 1, 2]) {
      const rest = order.filter((_, i) => i !== lacking);
      const bytes = await carByLibrary(cid, rest, blocks);
      await fails('content_mismatch', () => read(bytes), `a CAR without block ${lacking}`);
    }
    const bytes = await car();
    for (const at of [0, 1, 30, 59, 60, 70, 300, leafBytes, bytes.length - 1])
      await fails('content_mismatch', () => read(bytes.subarray(0, at)), `a CAR cut at ${at}`);
  });

  tool.test('S62: fileFromCar fails on a flipped bit in any block, and lets nothing of it out', async () => {
    const { cid, file: data } = await file;
    const bytes = await car();
    for (const at of [100, leafBytes, bytes.length - 1]) {
      const wrong = bytes.slice();
      flip(wrong, at);
      await fails('content_mismatch', () => read(wrong), `a bit at ${at}`);
    }
    const wrong = bytes.slice();
    flip(wrong, wrong.length - 1);
    const reader = fileFromCar(cid, streamOf(wrong)).getReader();
    for (let i = 0; i < 3; i += 1)
      ok(
        identical(present((await reader.read()).value), data.subarray(i * leafBytes, (i + 1) * leafBytes)),
        `leaf ${i} comes out`,
      );
    await fails('content_mismatch', () => reader.read(), 'the last leaf');
  });

  for (const [what, bytes] of [
    ['HTML', new TextEncoder().encode('<!doctype html><title>Block page</title>'.repeat(50))],
    ['a CARv2', Uint8Array.of(0x0a, 0xa1, 0x67, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x02, ...new Uint8Array(40))],
    ['a header without an end', new Uint8Array(100).fill(0xff)],
    ['a header of 1 MiB', Uint8Array.of(0x80, 0x80, 0x40, ...new Uint8Array(100))],
  ] as const)
    tool.test(`S62: fileFromCar refuses ${what}`, () => fails('content_mismatch', () => read(bytes)));

  for (const [what, section] of [
    ['a section without room for a CID', [5]],
    ['a section of 4 MiB', [0x80, 0x80, 0x80, 0x02]],
    ['a length without an end', [0xff, 0xff, 0xff, 0xff, 0xff]],
  ] as const)
    tool.test(`S64: fileFromCar refuses ${what}`, async () => {
      const header = (await car()).subarray(0, 59);
      await fails('content_mismatch', () => read(Uint8Array.of(...header, ...section, ...new Uint8Array(100))));
    });
}
