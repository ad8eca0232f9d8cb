/** Bytes and sources for the tests of the IPFS room. */
import { chacha20 } from '@noble/ciphers/chacha.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { CarWriter } from '@ipld/car/writer';
import { CID } from 'multiformats/cid';
import { cidBuilder, leafBytes, type BlockSource } from '../../ipfs/index.ts';
import { concat } from '../../streams/concat.ts';
import { chunksOf } from '../../streams/read-all.ts';
import { present } from '../../../testkit/present.ts';

/**
 * Kubo's deterministic bytes: ChaCha20 over zeros, key SHA-256(seed), nonce 0 (kubo
 * test/cli/testutils/random_deterministic.go).
 */
export function* deterministic(seed: string, bytes: number, pieceBytes = leafBytes): Generator<Uint8Array> {
  const key = sha256(new TextEncoder().encode(seed));
  const zeros = new Uint8Array(pieceBytes);
  for (let at = 0; at < bytes; at += pieceBytes) {
    yield chacha20(key, new Uint8Array(12), zeros.subarray(0, Math.min(pieceBytes, bytes - at)), undefined, at / 64);
  }
}

export function randomBytes(bytes: number, seed = 'seed'): Uint8Array {
  const out = new Uint8Array(bytes);
  let at = 0;
  for (const piece of deterministic(seed, bytes)) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

export function streamOf(...chunks: Uint8Array[]): ReadableStream<Uint8Array> {
  const rest = [...chunks];
  return new ReadableStream({
    pull(controller) {
      const next = rest.shift();
      if (next) controller.enqueue(next);
      else controller.close();
    },
  });
}

/**
 * All bytes of a stream. A `Response` of it would not do: in a page it hides the error that the
 * stream fails with.
 */
export async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of chunksOf(stream)) chunks.push(chunk);
  return concat(...chunks);
}

/** The CID of a file, by the builder. */
export async function cidOfChunks(chunks: Iterable<Uint8Array>): Promise<string> {
  const builder = cidBuilder();
  for (const chunk of chunks) await builder.write(chunk);
  return (await builder.finish()).cid;
}

/** A CAR as the library of the format writes it. */
export async function carByLibrary(
  root: string,
  cids: readonly string[],
  blocks: ReadonlyMap<string, Uint8Array>,
): Promise<Uint8Array> {
  const { writer, out } = CarWriter.create([CID.parse(root)]);
  const chunks: Uint8Array[] = [];
  const reading = (async () => {
    for await (const chunk of out) chunks.push(chunk);
  })();
  for (const cid of cids) await writer.put({ cid: CID.parse(cid), bytes: present(blocks.get(cid)) });
  await writer.close();
  await reading;
  return bytesOf(streamOf(...chunks));
}

/**
 * A file in memory: its blocks by CID, and honest sources over it that count what they are asked
 * for.
 */
export async function stored(file: Uint8Array) {
  const blocks = new Map<string, Uint8Array>();
  let offset = 0;
  const builder = cidBuilder({
    onLeaf(cid, bytes) {
      blocks.set(cid, file.subarray(offset, offset + bytes));
      offset += bytes;
    },
    onNode: (cid, block) => void blocks.set(cid, block),
  });
  await builder.write(file);
  const { cid } = await builder.finish();
  const asked: string[] = [];
  const single: BlockSource = {
    id: 'single',
    async block(wanted) {
      asked.push(`block ${wanted}`);
      const block = blocks.get(wanted);
      if (!block) throw new Error('no such block');
      return block;
    },
  };
  const ranged: BlockSource = {
    ...single,
    id: 'ranged',
    async read(root, start, length) {
      asked.push(`read ${root} ${start} ${length}`);
      return streamOf(...pieces(file.subarray(start, start + length), 100_000));
    },
  };
  return { file, cid, blocks, asked, single, ranged };
}

export function pieces(bytes: Uint8Array, size: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

/** Compares bytes; the matchers of Vitest take seconds for some MiB. */
export function identical(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return false;
  return true;
}
