import { describe, expect, it } from 'vitest';
import { SealpinError } from '../../errors.ts';
import { carOf, cidBuilder, leafBytes, openFile, type BlockSource } from '../../ipfs/index.ts';
import { bytesOf, identical, randomBytes, stored, streamOf } from './source.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const big = await stored(randomBytes(3 * leafBytes + 1234));
const small = await stored(randomBytes(777));

async function read(
  cid: string,
  sources: BlockSource[],
  range: [start?: number, end?: number] = [],
  limits = {},
): Promise<Uint8Array> {
  const file = await openFile(cid, sources, { limits });
  return bytesOf(file.read(...range));
}

describe('openFile', () => {
  function cutting(after: number, end: (controller: ReadableStreamDefaultController<Uint8Array>) => void): BlockSource {
    return {
      id: 'cutting',
      block: big.single.block,
      async read(_, start, length) {
        const rest = [big.file.subarray(start, start + length).subarray(0, after)];
        return new ReadableStream(
          {
            pull(controller) {
              const next = rest.shift();
              if (next) controller.enqueue(next);
              else end(controller);
            },
          },
          // An error throws away what is queued.
          { highWaterMark: 0 },
        );
      },
    };
  }

  for (const [how, end] of [
    ['ends early', (controller: ReadableStreamDefaultController<Uint8Array>) => controller.close()],
    [
      'breaks',
      (controller: ReadableStreamDefaultController<Uint8Array>) => controller.error(new Error('connection reset')),
    ],
  ] as const) {
    it(`S63: continues at the block that failed when a source ${how}`, async () => {
      const { cid, ranged, asked, file } = await stored(big.file);
      expect(identical(await read(cid, [cutting(2 * leafBytes + 10, end), ranged]), file)).toBe(true);
      expect(asked).toEqual([`read ${cid} ${2 * leafBytes} ${file.length - 2 * leafBytes}`]);
    });

    it(`S63: a single source that ${how} after good blocks is asked again, with an end to it`, async () => {
      expect(identical(await read(big.cid, [cutting(2 * leafBytes + 10, end)]), big.file)).toBe(true);
      await expect(read(big.cid, [cutting(10, end)])).rejects.toBeInstanceOf(SealpinError);
    });
  }

  it('asks a source that says it lacks a part of the file for single blocks', async () => {
    const lacking: BlockSource = {
      id: 'lacking',
      block: big.single.block,
      read: async () => Promise.reject(new SealpinError('pinning_lost', 'a block is missing')),
    };
    expect(identical(await read(big.cid, [lacking]), big.file)).toBe(true);
  });

  it('S64: ends the wait for a source that connects and gives nothing, or one byte now and then', async () => {
    const never: BlockSource = { id: 'never', block: () => new Promise(() => undefined) };
    await expect(read(big.cid, [never], [], { idleMs: 20 })).rejects.toMatchObject({ code: 'pinning_timeout' });
    expect(identical(await read(big.cid, [never, big.single], [], { idleMs: 500 }), big.file)).toBe(true);
    let cancelled = false;
    const drip: BlockSource = {
      id: 'drip',
      block: big.single.block,
      read: async () =>
        new ReadableStream({
          async pull(controller) {
            await new Promise((resolve) => setTimeout(resolve, 5));
            if (!cancelled) controller.enqueue(big.file.subarray(0, 1));
          },
          cancel: () => void (cancelled = true),
        }),
    };
    await expect(read(big.cid, [drip], [], { idleMs: 50 })).rejects.toMatchObject({
      code: 'pinning_timeout',
      message: expect.stringContaining('drip: it sent no whole block within 0.05 s'),
    });
    expect(cancelled).toBe(true);
  });

  it('waits for a block that takes longer than the limit, as long as enough of it comes', async () => {
    const slow: BlockSource = {
      id: 'slow',
      block: big.single.block,
      async read(_, start, length) {
        let at = start;
        return new ReadableStream({
          async pull(controller) {
            if (at < leafBytes) await new Promise((resolve) => setTimeout(resolve, 300));
            controller.enqueue(big.file.slice(at, (at += leafBytes / 4)));
            if (at >= start + length) controller.close();
          },
        });
      },
    };
    expect(identical(await read(big.cid, [slow], [], { idleMs: 500 }), big.file)).toBe(true);
  });

  it('S64: keeps to a total time', async () => {
    const slow: BlockSource = {
      id: 'slow',
      block: (cid, signal) => new Promise((resolve) => setTimeout(() => resolve(big.single.block(cid, signal)), 30)),
    };
    await expect(read(big.cid, [slow], [], { totalMs: 50 })).rejects.toMatchObject({ code: 'pinning_timeout' });
  });

  it('S64: refuses a file larger than is wanted before reading it', async () => {
    await expect(openFile(big.cid, [big.single], { limits: { fileBytes: big.file.length - 1 } })).rejects.toMatchObject(
      { code: 'too_large' },
    );
    expect((await openFile(big.cid, [big.single], { limits: { fileBytes: big.file.length } })).size).toBe(
      big.file.length,
    );
  });

  it('S64: reads the file from an endless stream, and cancels it', async () => {
    let cancelled = false;
    const endless: BlockSource = {
      id: 'endless',
      block: big.single.block,
      async read(_, start) {
        let at = start;
        return new ReadableStream({
          pull(controller) {
            const piece = big.file.subarray(at, at + 500_000);
            at += 500_000;
            controller.enqueue(piece.length > 0 ? piece : new Uint8Array(500_000));
          },
          cancel: () => void (cancelled = true),
        });
      },
    };
    expect(identical(await read(big.cid, [endless]), big.file)).toBe(true);
    expect(cancelled).toBe(true);
  });

  it('asks for a leaf by itself that a CAR has wrong, and fails if that is wrong as well', async () => {
    const { cid, blocks, single, asked, file } = await stored(randomBytes(3 * leafBytes));
    const [, second = ''] = [...blocks.keys()].filter((each) => each !== cid);
    const damaged: BlockSource = {
      id: 'damaged',
      block: async (each) => (each === second ? new Uint8Array(leafBytes) : present(blocks.get(each))),
    };
    const car = async () => carOf(cid, [damaged], { passLeaves: true });
    expect(identical(await read(cid, [{ ...single, car }]), file)).toBe(true);
    expect(asked).toEqual([`block ${second}`]);
    await expect(read(cid, [{ ...damaged, car }])).rejects.toMatchObject({ code: 'content_mismatch' });
  });

  /** What a source has of each of two leaves. */
  const states = ['whole', 'damaged', 'lacking'] as const;
  const damages = states.flatMap((first) => states.map((second) => [first, second]));

  /** A source whose leaves are in these states, as one of blocks and as one of streams. */
  function inState(of: (typeof states)[number][], { blocks, cid }: Awaited<ReturnType<typeof stored>>, id: string) {
    const leaves = [...blocks.keys()].filter((each) => each !== cid);
    const leafOf = (each: string): Uint8Array => {
      const state = of[leaves.indexOf(each)];
      if (state === 'lacking') throw new SealpinError('pinning_lost', 'it was not found');
      const block = present(blocks.get(each));
      return state === 'damaged' ? block.with(0, 255 - itemOf(block, 0)) : block;
    };
    const single: BlockSource = { id, block: async (each) => leafOf(each) };
    async function read(_: string, start: number, length: number): Promise<ReadableStream<Uint8Array>> {
      const wanted = leaves.slice(start / leafBytes, (start + length) / leafBytes);
      return streamOf(...wanted.map((each) => leafOf(each)));
    }
    return [single, { ...single, read }] satisfies BlockSource[];
  }

  it('S62: a file is read while each block is whole at one source, whatever others have of it', async () => {
    const two = await stored(randomBytes(2 * leafBytes));
    for (const [index, first] of damages.entries())
      for (const second of damages.slice(index)) {
        const [one, other] = [inState(first, two, 'one'), inState(second, two, 'other')];
        const missing = first.findIndex((state, at) => state !== 'whole' && second[at] !== 'whole');
        const isDamaged = [first[missing], second[missing]].includes('damaged');
        for (const form of [0, 1]) {
          const reading = read(two.cid, [itemOf(one, form), itemOf(other, form)]);
          const about = `${first.join()} and ${second.join()}, ${form === 0 ? 'by blocks' : 'as a stream'}`;
          if (missing < 0) expect((await reading).length, about).toBe(two.file.length);
          else
            await expect(reading, about).rejects.toMatchObject({
              code: isDamaged ? 'content_mismatch' : 'pinning_lost',
            });
        }
      }
  });

  it('S62: many damaged blocks at two sources are read from the other one each, in every range', async () => {
    const many = await stored(randomBytes(8 * leafBytes));
    const leaves = Array.from({ length: 8 }, (_, index) => index);
    const half = (rest: number) => leaves.map((index) => (index % 2 === rest ? 'whole' : 'damaged'));
    const sources = [0, 1].map((rest) => itemOf(inState(half(rest), many, String(rest)), 1));
    const file = await openFile(many.cid, sources);
    for (const index of leaves) {
      const range = [index * leafBytes, Math.min(index + 2, 8) * leafBytes] as const;
      expect(identical(await bytesOf(file.read(...range)), many.file.subarray(...range)), `from ${index}`).toBe(true);
    }
  });

  it('S62: a source with a damaged block is asked for others again after it was away', async () => {
    const two = await stored(randomBytes(2 * leafBytes));
    const [damaged, lacking] = [inState(['damaged', 'whole'], two, 'a'), inState(['whole', 'lacking'], two, 'b')];
    let answer = itemOf(damaged, 0).block;
    const source: BlockSource = { id: 'a', block: (cid, signal) => answer(cid, signal) };
    const file = await openFile(two.cid, [source, itemOf(lacking, 0)]);
    expect(identical(await bytesOf(file.read(0, leafBytes)), two.file.subarray(0, leafBytes))).toBe(true);
    answer = () => Promise.reject(new SealpinError('service_unreachable', 'away'));
    await expect(bytesOf(file.read(leafBytes))).rejects.toMatchObject({ code: 'service_unreachable' });
    answer = itemOf(damaged, 0).block;
    expect(identical(await bytesOf(file.read(leafBytes)), two.file.subarray(leafBytes))).toBe(true);
  });

  it('S73: fails when no source has a block any more', async () => {
    const { cid, blocks, single } = await stored(randomBytes(2 * leafBytes));
    blocks.delete(itemOf([...blocks.keys()], 1));
    await expect(read(cid, [single])).rejects.toMatchObject({ code: 'pinning_unavailable' });
  });

  it('reports the failures of all sources, wrong bytes first unless another one may have the right ones', async () => {
    const dishonest: BlockSource = { id: 'dishonest', block: async () => new Uint8Array(10) };
    const busy = new SealpinError('rate_limited', 'later', { retryAfterSeconds: 7 });
    const gone = new SealpinError('not_found', 'later');
    const down = new SealpinError('service_unreachable', 'later');
    const other = (error: SealpinError): BlockSource => ({
      id: 'other',
      async block() {
        throw error;
      },
    });
    const wrong = { code: 'content_mismatch' };
    const codes = [
      [busy, { code: 'rate_limited', retryAfterSeconds: 7 }],
      [gone, wrong],
      [down, wrong],
    ] as const;
    for (const [error, expected] of codes) {
      const message = { message: expect.stringMatching(/dishonest: .*; other: later/) };
      await expect(read(big.cid, [dishonest, other(error)])).rejects.toMatchObject({ ...expected, ...message });
      const { code } = error;
      await expect(read(big.cid, [other(error)])).rejects.toMatchObject({ code });
    }
  });

  it('S89: stops with the reason of the signal, before and while reading', async () => {
    const abort = new AbortController();
    const file = await openFile(big.cid, [big.ranged], { signal: abort.signal });
    const reader = file.read().getReader();
    await reader.read();
    abort.abort(new Error('enough'));
    await expect(reader.read().then(() => reader.read())).rejects.toThrow('enough');
    await expect(openFile(big.cid, [big.single], { signal: abort.signal })).rejects.toThrow('enough');
    const waiting = new AbortController();
    const never: BlockSource = { id: 'never', block: () => new Promise(() => undefined) };
    const opening = openFile(big.cid, [never], { signal: waiting.signal });
    waiting.abort(new Error('no more'));
    await expect(opening).rejects.toThrow('no more');
  });

  it('S90: a cancel reaches the source', async () => {
    let cancelled: unknown;
    const source: BlockSource = {
      id: 'source',
      block: big.single.block,
      read: async (_, start) =>
        new ReadableStream({
          start: (controller) => controller.enqueue(big.file.subarray(start, start + leafBytes)),
          cancel: (reason) => void (cancelled = reason),
        }),
    };
    const reader = (await openFile(big.cid, [source])).read().getReader();
    await reader.read();
    await reader.cancel(new Error('enough'));
    expect(cancelled).toEqual(new Error('enough'));
  });

  it('S66: asks no source for what is no CID', async () => {
    await expect(openFile('../../etc/passwd', [big.single])).rejects.toMatchObject({ code: 'invalid_cid' });
  });
});

describe('nodes of hostile makers', async () => {
  const { encode } = await import('@ipld/dag-pb');
  const { UnixFS } = await import('ipfs-unixfs');
  const { CID } = await import('multiformats/cid');
  const { create } = await import('multiformats/hashes/digest');

  async function put(blocks: Map<string, Uint8Array>, block: Uint8Array): Promise<InstanceType<typeof CID>> {
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', block as Uint8Array<ArrayBuffer>));
    const cid = CID.createV1(0x70, create(0x12, digest));
    blocks.set(cid.toString(), block);
    return cid;
  }

  function node(
    links: { cid: unknown; size: number }[],
    o: { type?: 'file' | 'directory'; data?: Uint8Array; sizes?: bigint[] } = {},
  ): Uint8Array {
    const file = new UnixFS({
      type: o.type ?? 'file',
      ...(o.data && { data: o.data }),
      blockSizes: o.sizes ?? links.map((link) => BigInt(link.size)),
    });
    return encode({
      Data: file.marshal(),
      Links: links.map((link) => ({ Name: '', Tsize: link.size, Hash: link.cid as never })),
    });
  }

  async function refused(
    make: (blocks: Map<string, Uint8Array>, leaf: unknown) => Promise<Uint8Array> | Uint8Array,
  ): Promise<void> {
    const blocks = new Map(small.blocks);
    const root = await put(blocks, await make(blocks, CID.parse(small.cid)));
    const source: BlockSource = { id: 'source', block: async (cid) => present(blocks.get(cid)) };
    await expect(read(root.toString(), [source])).rejects.toMatchObject({ code: 'invalid_cid' });
  }

  it.each<[string, (blocks: Map<string, Uint8Array>, leaf: unknown) => Promise<Uint8Array> | Uint8Array]>([
    ['a directory', () => node([], { type: 'directory' })],
    ['no UnixFS', () => encode({ Links: [] })],
    ['no dag-pb', () => Uint8Array.of(0xff, 0xff)],
    ['bytes beside links', (_, leaf) => node([{ cid: leaf, size: 777 }], { data: Uint8Array.of(1) })],
    ['fewer sizes than links', (_, leaf) => node([{ cid: leaf, size: 777 }], { sizes: [] })],
    ['a size that is not that of the leaf', (_, leaf) => node([{ cid: leaf, size: 778 }])],
    ['a part of no bytes', (_, leaf) => node([{ cid: leaf, size: 0 }])],
    ['a leaf of 3 MiB', (_, leaf) => node([{ cid: leaf, size: 3 * leafBytes }])],
    [
      'a sum beyond 2^53',
      (_, leaf) =>
        node([
          { cid: leaf, size: 2 ** 53 - 1 },
          { cid: leaf, size: 2 ** 53 - 1 },
        ]),
    ],
    ['a link to CIDv0', () => node([{ cid: CID.parse('QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH'), size: 1 }])],
    [
      'a child that contradicts its parent',
      async (blocks, leaf) => node([{ cid: await put(blocks, node([{ cid: leaf, size: 777 }])), size: 700 }]),
    ],
    [
      'a tree without an end',
      async (blocks, leaf) => {
        let block = node([{ cid: leaf, size: 777 }]);
        for (let i = 0; i < 20; i += 1) block = node([{ cid: await put(blocks, block), size: 777 }]);
        return block;
      },
    ],
  ])('S66: %s is not a file of ours', (_, make) => refused(make));

  it('reads a file that has the same leaf often', async () => {
    const zeros = await stored(new Uint8Array(5 * leafBytes));
    expect(zeros.blocks.size).toBe(2);
    expect(identical(await read(zeros.cid, [zeros.ranged]), zeros.file)).toBe(true);
    expect((await cidBuilder().finish()).bytes).toBe(0);
  });
});

describe('a source that failed often', () => {
  it('is not asked any more, and its last failure is reported', async () => {
    let asked = 0;
    const failing: BlockSource = {
      id: 'failing',
      block: async (cid, signal) => {
        if (cid === big.cid) return big.single.block(cid, signal);
        asked += 1;
        throw new SealpinError('pinning_failed', 'no more');
      },
    };
    const file = await openFile(big.cid, [failing]);
    for (let i = 0; i < 5; i += 1)
      await expect(bytesOf(file.read())).rejects.toMatchObject({
        code: 'pinning_failed',
        message: expect.stringContaining('no more'),
      });
    expect(asked).toBeLessThanOrEqual(3);
  });

  it('is reported when there is no source at all', async () => {
    await expect(openFile(big.cid, [])).rejects.toMatchObject({ code: 'not_found' });
  });
});
