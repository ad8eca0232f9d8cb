import { isSealpinError } from '../../../errors.ts';
import { leafBytes, openFile, type BlockSource } from '../../../ipfs/index.ts';
import { equal, failedWith, fails, ok, type Tool } from '../../../../testkit/assertions.ts';
import { bytesOf, identical, randomBytes, stored, streamOf } from '../source.ts';
import { flip, itemOf, present } from '../../../../testkit/present.ts';

const html = new TextEncoder().encode('<html><body>502 Bad Gateway</body></html>');

/** Wrong bytes that a source may give instead of a block. */
const wrongBlocks: readonly (readonly [what: string, change: (honest: Uint8Array) => Uint8Array])[] = [
  ['another file', () => randomBytes(777)],
  ['an HTML page', () => html],
  ['nothing', () => new Uint8Array()],
  ['one flipped bit', (honest) => honest.map((byte, i) => (i === honest.length >> 1 ? byte ^ 1 : byte))],
  ['a byte more', (honest) => Uint8Array.of(...honest.subarray(0, 10), 0)],
  ['a block of 3 MiB', () => new Uint8Array(3 * leafBytes)],
];

async function read(cid: string, sources: BlockSource[], range: [start?: number, end?: number] = []) {
  return bytesOf((await openFile(cid, sources)).read(...range));
}

/** Files read from blocks that are verified. */
export function files(tool: Tool): void {
  const big = stored(randomBytes(3 * leafBytes + 1234));

  for (const kind of ['single', 'ranged'] as const)
    tool.test(`openFile reads a file, and each range of it, from ${kind} blocks`, async () => {
      const { cid, file: data, [kind]: source } = await big;
      const file = await openFile(cid, [source]);
      const { length } = data;
      equal(file.size, length, 'the size');
      ok(identical(await bytesOf(file.read()), data), 'the whole is the file');
      for (const [start, end] of [
        [0, 1],
        [5, 5],
        [leafBytes - 1, leafBytes + 1],
        [leafBytes, 2 * leafBytes],
        [length - 1, length],
        [length, length],
        [1, length - 1],
      ] as const)
        ok(identical(await bytesOf(file.read(start, end)), data.subarray(start, end)), `${start} to ${end}`);
      for (const [start, end] of [
        [0, length + 1],
        [2, 1],
        [-1, undefined],
      ] as const) {
        let error: unknown;
        try {
          file.read(start, end);
        } catch (thrown) {
          error = thrown;
        }
        ok(error instanceof TypeError, `${start} to ${end} is no range`);
      }
    });

  for (const bytes of [0, 1, 777, leafBytes])
    tool.test(`openFile reads a file of one leaf of ${bytes} bytes`, async () => {
      const one = await stored(randomBytes(bytes));
      ok(identical(await read(one.cid, [one.ranged]), one.file), 'it is the file');
    });

  tool.test('openFile asks for the blocks of a range only, and twice for a whole file', async () => {
    const { cid, ranged, asked, file } = await stored(randomBytes(3 * leafBytes + 1234));
    await read(cid, [ranged], [leafBytes + 5, leafBytes + 6]);
    equal(asked, [`block ${cid}`, `read ${cid} ${leafBytes} ${leafBytes}`]);
    asked.length = 0;
    await read(cid, [ranged]);
    equal(asked, [`block ${cid}`, `read ${cid} 0 ${file.length}`]);
  });

  for (const [what, change] of wrongBlocks)
    tool.test(`S62: openFile skips a source that gives ${what}, for the root and for a leaf`, async () => {
      const { cid: root, single, blocks, file } = await big;
      for (const wrong of [root, itemOf([...blocks.keys()], 1)]) {
        const dishonest: BlockSource = {
          id: 'dishonest',
          block: async (cid, signal) =>
            cid === wrong ? change(await single.block(cid, signal)) : single.block(cid, signal),
        };
        ok(identical(await read(root, [dishonest, single]), file), 'it is the file');
        const error: unknown = await read(root, [dishonest]).then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        failedWith('content_mismatch', error);
        ok(isSealpinError(error) && error.message.includes('dishonest'), 'the message names the source');
      }
    });

  tool.test('S62: openFile lets no byte of a wrong leaf out', async () => {
    const { cid, single, file } = await big;
    const wrong = file.slice();
    flip(wrong, leafBytes + 1);
    const dishonest: BlockSource = {
      id: 'dishonest',
      block: async (each, signal) => (each === cid ? single.block(each, signal) : wrong),
      read: async (_, start, length) => streamOf(wrong.subarray(start, start + length)),
    };
    const reader = (await openFile(cid, [dishonest])).read().getReader();
    ok(identical(present((await reader.read()).value), file.subarray(0, leafBytes)), 'the first leaf comes out');
    await fails('content_mismatch', () => reader.read(), 'the second leaf');
  });
}
