/**
 * The nonce trap: one key and one sequence of nonces belong to a payload, so the pinning service
 * must never see two ciphertexts for one leaf of one upload, whatever clients, networks and the
 * service do.
 */
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseApiKey, uploadSeal, webProvider } from '../../../shared/crypto/index.ts';
import { streamOf } from '../../../shared/crypto/bytes.ts';
import { sealpinV1 } from '../../../shared/crypto/formats/sealpin-v1.ts';
import { ByteSource } from '../../../shared/streams/byte-source.ts';
import { problemOf } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { startRecorder, type Recorder } from './recorder.ts';
import { broken, create, expectStored, head, mib, patch, random, stateOf } from './tus-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';

/** The short form has few schedules, so it takes those that are long enough to change an upload. */
let recorder: Recorder;
let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await startService({
    entry: 'worker/test/clock.ts',
    through: async (node) => {
      recorder = await startRecorder(node);
      return recorder.url;
    },
  });
  owner = await newOwner(service);
});
afterAll(async () => {
  await service.close();
  await recorder.close();
});

const chunkBytes = 16_384;
const sealedBytes = chunkBytes + 16;
const beforeChunks = 76;
type Opener = (index: number, sealed: Uint8Array) => Promise<boolean>;

/**
 * Says whether bytes are a chunk of an upload with an index, by the key that the upload has sealed.
 */
async function openerOf(uploadId: string): Promise<Opener> {
  const row = present((await owner.object.rows('upload')).find((each) => each['id'] === uploadId));
  const key = present(await parseApiKey(owner.call.apiKey));
  const preamble = new Uint8Array(row['preamble'] as ArrayBuffer);
  const seal = await uploadSeal(key, { uploadId, preamble });
  const fileKey = await seal.open(new Uint8Array(row['sealed_key'] as ArrayBuffer));
  const chunks = await sealpinV1.payload.read(new ByteSource(streamOf(preamble)), webProvider, fileKey);
  return async (index, sealed) => {
    try {
      await chunks.aead.open(chunks.nonce(index, false), sealed);
      return true;
    } catch {
      return false;
    }
  };
}

/**
 * The number of the leaf that a block begins with; undefined for a block of another upload, or too
 * short to tell.
 */
async function leafOf(block: Buffer, opens: Opener): Promise<number | undefined> {
  for (let leaf = 0; leaf < 6; leaf += 1) {
    const first = Math.max(0, Math.ceil((leaf * mib - beforeChunks) / sealedBytes));
    const start = beforeChunks + first * sealedBytes - leaf * mib;
    // The last chunk of a file ends where the block does.
    const end = Math.min(start + sealedBytes, block.length);
    if (end - start >= 16 && (await opens(first, block.subarray(start, end)))) return leaf;
  }
  return undefined;
}

/**
 * Checks that of each leaf of an upload one ciphertext was seen.
 * @returns how many leaves were seen
 */
async function expectOneEach(opens: Opener): Promise<number> {
  const seen = new Map<number, Buffer>();
  for (const block of recorder.blocks) {
    const leaf = await leafOf(block, opens);
    if (leaf === undefined) continue;
    const [shorter = block, longer = block] = [seen.get(leaf) ?? block, block].toSorted((a, b) => a.length - b.length);
    const isSame = Buffer.compare(longer.subarray(0, shorter.length), shorter) === 0;
    // A leaf may be cut off by a request that ends, but not be another one.
    expect(isSame, `leaf ${leaf} was seen with ${shorter.length} and ${longer.length} bytes`).toBe(true);
    seen.set(leaf, longer);
  }
  return seen.size;
}

async function begun(length: number | undefined): Promise<{ path: string; id: string; opens: Opener }> {
  recorder.blocks.length = 0;
  const { path, id } = await create(owner.call, 'encrypted', length);
  return { path, id, opens: await openerOf(id) };
}

/**
 * Sends bytes of which the service must forward a leaf, and refuses it there: the leaf was seen,
 * and is not recorded.
 */
async function showOnly(path: string, bytes: Uint8Array): Promise<void> {
  recorder.refusals = 1;
  expect(await problemOf(patch(owner.call, path, 0, bytes))).toBe('503 pinning_unavailable');
  expect(recorder.blocks.length).toBeGreaterThan(0);
}

describe('a leaf that was sent and not recorded', () => {
  inCi('may be sent again as it was', async () => {
    const bytes = random(2 * mib);
    const { path, opens } = await begun(bytes.length);
    await showOnly(path, bytes.subarray(0, 1_500_000));
    await expectStored(owner.call, await patch(owner.call, path, 0, bytes), bytes);
    expect(await expectOneEach(opens)).toBe(3);
  });

  it.each([
    ['edited in its first byte', (bytes: Uint8Array) => bytes.with(0, itemOf(bytes, 0) ^ 1), '2097152'],
    ['edited in its last byte', (bytes: Uint8Array) => bytes.with(1_047_000, itemOf(bytes, 1_047_000) ^ 1), '2097152'],
    ['as a shorter file', (bytes: Uint8Array) => bytes.subarray(0, 1_000_000), '1000000'],
  ])('and not %s: that ends the upload', async (_, edit, length) => {
    const bytes = random(2 * mib);
    const { path, opens } = await begun(undefined);
    await showOnly(path, bytes.subarray(0, 1_500_000));
    const changed = patch(owner.call, path, 0, edit(bytes), { 'Upload-Length': length });
    expect(await problemOf(changed)).toBe('422 upload_changed');
    expect(await expectOneEach(opens)).toBe(1);
    expect(await stateOf(owner.call, path)).toMatchObject({ state: 'failed', code: 'upload_changed' });
    expect((await head(owner.call, path)).status).toBe(410);
    expect(await problemOf(patch(owner.call, path, 0, bytes))).toBe('410 gone');
    const [row] = (await owner.object.rows('upload')).filter((each) => path.endsWith(String(each['id'])));
    expect(row?.['sealed_key']).toBe(null);
    expect(row?.['sealed_rest']).toBe(null);
    expect(row?.['tail']).toBe(null);
  });
});

it('in any order of breaks, retries, edits, lengths and take-overs one ciphertext is seen of each leaf', async () => {
  const bytes = random(4 * mib);
  const edited = bytes.map((byte, index) => (index % 30_000 === 29_999 ? byte ^ 1 : byte));
  const step = fc.record({
    from: fc.constantFrom(bytes, edited),
    length: fc.oneof(fc.integer({ min: 1, max: mib }), fc.integer({ min: mib, max: 2 * mib })),
    how: fc.constantFrom('whole', 'breaks', 'refused', 'refused', 'taken over', 'two writers'),
    // The length of the file, with few of the requests.
    told: fc.oneof(
      { weight: 9, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.integer({ max: 4 * mib, min: 1 }) },
    ),
  });
  const sent = { from: bytes, length: 1_500_000, how: 'refused', told: null } as const;
  let leaves = 0;
  let changed = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: long ? 3 : 6, maxLength: 8 }), async (steps) => {
      recorder.refusals = 0;
      const { path, opens } = await begun(undefined);
      for (const { from, length, how, told } of steps) {
        const at = await head(owner.call, path);
        if (at.status !== 200) break;
        const offset = Number(at.headers.get('Upload-Offset'));
        const part = from.subarray(offset, offset + length);
        const tell: Record<string, string> = told === null ? {} : { 'Upload-Length': String(told) };
        const send = (body: Uint8Array | ReadableStream<Uint8Array>) =>
          patch(owner.call, path, offset, body, tell).then(
            (response) => response.status,
            () => undefined,
          );
        if (how === 'refused') recorder.refusals = 1;
        if (how === 'breaks') await send(broken(part));
        else if (how === 'taken over') await Promise.all([send(part), head(owner.call, path)]);
        else if (how === 'two writers') await Promise.all([send(part), send(edited.subarray(offset, offset + length))]);
        else await send(part);
      }
      leaves += await expectOneEach(opens);
      const { code } = await stateOf(owner.call, path);
      if (code === 'upload_changed') changed += 1;
      await owner.call(path, { method: 'DELETE', headers: { 'Tus-Resumable': '1.0.0' } });
    }),
    // One that ends an upload for sure: else some runs would show nothing.
    {
      numRuns: long ? 300 : ci ? 6 : 4,
      endOnFailure: true,
      examples: [[[sent, { ...sent, from: edited, how: 'whole' }]]],
    },
  );
  expect({ leaves: leaves > 0, changed: changed > 0 }).toEqual({ leaves: true, changed: true });
});
