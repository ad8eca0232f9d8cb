/** CARv1 files (https://ipld.io/specs/transport/car/carv1/): writing one, and reading the file in one that nobody has to trust. */
import { SealpinError } from '../errors.ts';
import { bytesOfCid, cidBytes, parseCid, type Cid } from './cid.ts';
import { openDag, openFile, type BlockSource, type Dag, type OpenOptions } from './file.ts';

export type CarOptions = OpenOptions & {
  /** `block`: the root alone; `entity` and `all`: the file. */
  scope?: 'block' | 'entity' | 'all';
  /** The bytes that are wanted, as `entity-bytes` of the trustless gateway specification: inclusive, negative ones count from the end. */
  entityBytes?: { from: number; to?: number };
  /** Whether a block that the file repeats is repeated in the CAR (`dups=y`); true when left out. */
  dups?: boolean;
};

/**
 * A CAR of the file: the root first, then depth first. Every block is
 * verified before it goes out. When a block cannot be had the stream fails; whoever reads a CAR must check that it is complete.
 */
export function carOf(cid: string, sources: readonly BlockSource[], o: CarOptions = {}): ReadableStream<Uint8Array> {
  let blocks: ReturnType<Dag['blocks']> | undefined;
  const sent = new Set<string>();
  const { stop, signal } = stoppable(o.signal);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!blocks) {
        const dag = await openDag(cid, sources, { ...o, signal });
        const [start, end] = o.scope === 'block' ? [0, 0] : range(dag.root.size, o.entityBytes);
        blocks = dag.blocks(start, end);
        controller.enqueue(header(parseCid(cid)));
      }
      let block = await blocks.next();
      if (o.dups === false) {
        while (block && sent.has(block.cid.text)) block = await blocks.next();
        if (block) sent.add(block.cid.text);
      }
      if (block) {
        controller.enqueue(prefix(block.cid, block.bytes.length));
        if (block.bytes.length > 0) controller.enqueue(block.bytes);
        return;
      }
      blocks.close();
      controller.close();
    },
    cancel(reason) {
      stop(reason);
      blocks?.close(reason);
    },
  });
}

/**
 * The verified bytes of a file from a CAR that begins with its root and goes depth first; what is not of the file is passed
 * over, within bounds.
 * The stream fails with content_mismatch when the CAR is incomplete or wrong, else as `openFile`.
 */
export function fileFromCar(
  cid: string,
  car: ReadableStream<Uint8Array>,
  o: OpenOptions = {},
): ReadableStream<Uint8Array> {
  let given: ReadableStream<Uint8Array> | undefined = car;
  const source: BlockSource = {
    id: 'CAR',
    block: () => Promise.reject(new SealpinError('content_mismatch', 'there is only a CAR')),
    async car() {
      if (!given) throw new SealpinError('content_mismatch', 'the CAR broke off');
      const once = given;
      given = undefined;
      return once;
    },
  };
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const { stop, signal } = stoppable(o.signal);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      reader ??= (await openFile(cid, [source], { ...o, signal })).read().getReader();
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      stop(reason);
      await (reader ?? given)?.cancel(reason);
    },
  });
}

/** The signal of whoever asked, or the end of interest in the stream. */
function stoppable(signal: AbortSignal | undefined): { stop(reason: unknown): void; signal: AbortSignal } {
  const own = new AbortController();
  return { stop: (reason) => own.abort(reason), signal: signal ? AbortSignal.any([signal, own.signal]) : own.signal };
}

/** The bytes of a file that `entity-bytes` means: from start up to end, exclusive. */
function range(size: number, o: { from: number; to?: number } | undefined): [start: number, end: number] {
  const from = o?.from ?? 0;
  const to = o?.to ?? size - 1;
  const start = from < 0 ? Math.max(0, size + from) : from;
  const end = Math.min(size, (to < 0 && o?.to !== undefined ? size + to : to) + 1);
  return start < end ? [start, end] : [0, 0];
}

/** `{roots: [cid], version: 1}` in DAG-CBOR: a map of two, its keys in order, the CID as tag 42 over a zero byte and itself. */
function header(cid: Cid): Uint8Array {
  const text = (word: string) => [0x60 + word.length, ...new TextEncoder().encode(word)];
  const map = [
    0xa2,
    ...text('roots'),
    0x81,
    0xd8,
    0x2a,
    0x58,
    1 + cidBytes,
    0,
    ...bytesOfCid(cid),
    ...text('version'),
    1,
  ];
  return Uint8Array.from([map.length, ...map]);
}

/** What stands before a block: the length of the section as a varint, and the CID. */
function prefix(cid: Cid, blockBytes: number): Uint8Array {
  const length: number[] = [];
  let rest = cidBytes + blockBytes;
  for (; rest >= 0x80; rest >>>= 7) length.push((rest & 0x7f) | 0x80);
  return Uint8Array.from([...length, rest, ...bytesOfCid(cid)]);
}
