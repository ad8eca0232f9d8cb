/**
 * Reading a received file with memory that is used again: every byte is right, and a wrong one
 * shows nothing of what was there before.
 */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { equal } from '../../testkit/assertions.ts';
import { encryptPayload } from '../../shared/crypto/index.ts';
import { carOf, carType, cidBuilder } from '../../shared/ipfs/index.ts';
import { BufferPool } from '../../shared/streams/buffer-pool.ts';
import { chunksOf, readAll } from '../../shared/streams/read-all.ts';
import { openReceived } from '../receiving.ts';
import type { Fetch } from '../service-http.ts';
import { present } from '../../testkit/present.ts';

const MiB = 1024 * 1024;
const mark = 77;
const bytes = Uint8Array.from(randomBytes(6 * MiB + 10));
const tooLarge = (): Error => new RangeError('more than was made');

/** A piece that is given back too early loses what is in it. */
class EmptyingPool extends BufferPool {
  largePieces = 0;
  readonly #own = new WeakSet<ArrayBufferLike>();
  override take(bytes: number): Uint8Array<ArrayBuffer> {
    this.largePieces += bytes > MiB / 2 ? 1 : 0;
    const piece = super.take(bytes);
    this.#own.add(piece.buffer);
    return piece;
  }
  override giveBack(piece: Uint8Array): void {
    if (this.#own.has(piece.buffer)) new Uint8Array(piece.buffer).fill(mark);
    super.giveBack(piece);
  }
}

/** A gateway with a file, sealed. @param damage is done to each CAR that it gives */
async function sealed(bytes: Uint8Array<ArrayBuffer>, damage: (car: Uint8Array) => void = () => undefined) {
  const { payload, fileKey } = await encryptPayload(new Blob([bytes]).stream());
  const file = await readAll(payload, 2 * bytes.length, tooLarge);
  const blocks = new Map<string, Uint8Array>();
  let offset = 0;
  const builder = cidBuilder({
    onLeaf: (leaf, length) => void blocks.set(leaf, file.subarray(offset, (offset += length))),
    onNode: (node, block) => void blocks.set(node, block),
  });
  await builder.write(file);
  const { cid } = await builder.finish();
  const source = { id: 'memory', block: async (wanted: string) => blocks.get(wanted) ?? new Uint8Array() };
  const fetch: Fetch = async (url) => {
    const range = url.searchParams.get('entity-bytes')?.split(':').map(Number) ?? [0];
    const [from = 0, to] = range;
    const entityBytes = { from, ...(to === undefined || Number.isNaN(to) ? {} : { to }) };
    const car = await readAll(carOf(cid, [source], { entityBytes }), 2 * bytes.length, tooLarge);
    damage(car);
    // A Blob gives a byte stream, as a browser's `fetch` does.
    return new Response(new Blob([car]).stream(), { headers: { 'Content-Type': carType } });
  };
  return { cid, fileKey, fetch };
}

test('its pieces are right although the memory of those before is used again', async () => {
  const { cid, fileKey, fetch } = await sealed(bytes);
  const pool = new EmptyingPool();
  const o = { with: { fileKey }, from: 'https://gateway.example/', fetch, pool };
  const file = await openReceived({ cid, size: bytes.length }, o, new AbortController().signal);
  const got = new Uint8Array(bytes.length);
  let reused = 0;
  let at = 0;
  for await (const piece of chunksOf(await file.read({ start: 0, end: file.size }))) {
    got.set(piece, at);
    at += piece.length;
    // Behind the piece, where nothing is written.
    reused += new Uint8Array(piece.buffer).at(-1) === mark ? 1 : 0;
    pool.giveBack(piece);
  }
  equal(got, bytes);
  expect(reused).toBeGreaterThan(1);
  // Each of the six was read and opened, and some were read for the header.
  expect(pool.largePieces).toBeGreaterThan(11);
});

test.for([270_000, 280_000, 600_000, MiB - 1000, MiB, 3 * MiB])(
  'a file of %i bytes reads the same again, whole and in parts',
  async (size) => {
    const whole = bytes.subarray(0, size);
    const { cid, fileKey, fetch } = await sealed(whole);
    const pool = new EmptyingPool();
    const o = { with: { fileKey }, from: 'https://gateway.example/', fetch, pool };
    const file = await openReceived({ cid, size }, o, new AbortController().signal);
    for (const [start, end] of [
      [0, size],
      [size / 2, size],
      [0, 2],
      [0, size],
    ] as const)
      for await (const piece of chunksOf(await file.read({ start, end }))) {
        equal(piece, whole.subarray(start, start + piece.length));
        pool.giveBack(piece);
        if (piece.length < end - start) break;
      }
  },
);

test('a block that is not the one of its blob ID gives nothing', async () => {
  const { cid, fileKey, fetch } = await sealed(bytes, (car) => {
    if (car.length > 5 * MiB) car[4 * MiB] = present(car[4 * MiB]) ^ 1;
  });
  const pool = new EmptyingPool();
  const o = { with: { fileKey }, from: 'https://gateway.example/', fetch, pool };
  const file = await openReceived({ cid, size: bytes.length }, o, new AbortController().signal);
  let at = 0;
  const reading = (async () => {
    for await (const piece of chunksOf(await file.read({ start: 0, end: file.size }))) {
      equal(piece, bytes.subarray(at, at + piece.length));
      at += piece.length;
      pool.giveBack(piece);
    }
  })();
  await expect(reading).rejects.toMatchObject({ code: 'content_mismatch' });
  expect(at).toBeLessThan(4 * MiB);
});
