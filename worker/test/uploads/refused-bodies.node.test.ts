/** Bodies that stall, or are refused: what is kept of their upload, and what its client is told. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Problem } from '../../../shared/api.ts';
import { problemOf } from '../../../testkit/api-client.ts';
import { ci } from '../../../testkit/long-run.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import {
  broken,
  create,
  expectStored,
  metadataOf,
  mib,
  modes,
  offsetOf,
  patch,
  random,
  send,
  version,
} from './tus-client.ts';

const chunk = { 'Content-Type': 'application/offset+octet-stream' };

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await startService({ entry: 'worker/test/clock.ts', vars: { UPLOAD_IDLE_SECONDS: '1' } });
});
afterAll(() => service.close());
beforeEach(async () => {
  owner = await newOwner(service);
});

/** A body without a length: these bytes, and then none, or its end. */
function inChunks(bytes: Uint8Array, ends = true): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(bytes);
      if (ends) controller.close();
    },
  });
}

const digest = (bytes: Uint8Array) => ({
  'Content-Digest': `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`,
});

describe.each(modes)('PATCH, %s', (mode) => {
  const stalling = [
    ['behind what arrived', {}, 7],
    ['where it began, with a digest', digest(random(100)), 0],
  ] as const;
  it.each(stalling.filter(([, , recorded]) => ci || (recorded === 0) === (mode === 'plain')))(
    'whose body stalls is 423, which clients wait for, and continues %s',
    async (_, headers, recorded) => {
      const bytes = random(100);
      const { path } = await create(owner.call, mode, bytes.length);
      const response = await patch(owner.call, path, 0, inChunks(bytes.subarray(0, 7), false), headers);
      expect(response.headers.get('Retry-After')).toBe('2');
      const { detail } = await response.clone().json<Problem>();
      expect(detail).toBe('the body broke off or stalled; HEAD tells how much of it is recorded');
      expect(await problemOf(response)).toBe('423 upload_busy');
      expect(await offsetOf(owner.call, path)).toBe(recorded);
      await expectStored(owner.call, await patch(owner.call, path, recorded, bytes.subarray(recorded)), bytes);
    },
  );

  const ways = ['with a length', 'in chunks'].flatMap((how) => ['', ' and a digest'].map((checked) => how + checked));
  const extra = ways.flatMap((way) => [1, 3000].map((more) => [way, more] as const));
  it.each(extra.filter((_, at) => ci || at % 4 === 0 || at % 4 === 3))(
    'with more bytes than the file has, %s, %d too many, is 413 and changes nothing',
    async (way, more) => {
      const bytes = random(1000);
      const begun = await create(owner.call, mode, bytes.length);
      const { path } = begun;
      const send = (offset: number, count: number): Promise<Response> => {
        const body = Uint8Array.of(...bytes.subarray(offset), ...random(count));
        const headers = way.endsWith('digest') ? digest(body) : {};
        return patch(owner.call, path, offset, way.startsWith('in chunks') ? inChunks(body) : body, headers);
      };
      for (const offset of [0, 600]) {
        if (offset > 0) await patch(owner.call, path, 0, bytes.subarray(0, offset));
        expect(await problemOf(send(offset, more))).toBe('413 too_large');
        expect(await offsetOf(owner.call, path)).toBe(offset);
      }
      const finished = await send(600, 0);
      await expectStored(owner.call, finished, bytes);
      expect(await problemOf(send(bytes.length, more))).toBe('413 too_large');
      await expectStored(owner.call, await send(bytes.length, 0), bytes);
    },
  );

  it('that brings all bytes and does not end is complete', async () => {
    const bytes = random(1000);
    const { path } = await create(owner.call, mode, bytes.length);
    await expectStored(owner.call, await patch(owner.call, path, 0, inChunks(bytes, false)), bytes);
  });
});

describe.each(modes)('POST with the first bytes, %s', (mode) => {
  const length = 2 * mib;
  const whole = random(length);
  const tooLarge = random(9 * mib);
  const begin = (body: Uint8Array | ReadableStream<Uint8Array>, headers: Record<string, string>): Promise<Response> =>
    owner.call(`/v1/uploads/${mode}`, {
      method: 'POST',
      headers: {
        ...version,
        ...chunk,
        'Upload-Length': String(length),
        'Upload-Metadata': metadataOf({ filename: 'näme.bin', filetype: 'image/png' }),
        ...headers,
      },
      body: body as BodyInit,
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    });
  const some = whole.subarray(0, 1_200_000);
  const refused = [
    { why: 'more bytes than the file', body: () => some, headers: { 'Upload-Length': '1199999' } },
    { why: 'more, in chunks', body: () => inChunks(some), headers: { 'Upload-Length': '1199999' } },
    { why: 'another digest', body: () => some, headers: digest(random(5)), is: '422 digest_mismatch' },
    {
      why: 'a digest that is none',
      body: () => some,
      headers: { 'Content-Digest': 'sha-256=x' },
      is: '400 invalid_request',
    },
    {
      why: 'a digest and more than is held',
      body: () => tooLarge,
      headers: { 'Upload-Length': String(tooLarge.length), ...digest(tooLarge) },
    },
    {
      why: 'an end that does not come',
      body: () => inChunks(some, false),
      headers: {},
      is: '408 body_timeout',
      comes: true,
    },
  ];
  const keys = [{}, { 'Idempotency-Key': 'one' }] as Record<string, string>[];

  // In the short form each refusal in one mode with a key, in the other one without.
  const inForm = keys.filter((key) => ci || 'Idempotency-Key' in key === (mode === 'encrypted'));
  it.each(refused.flatMap((each) => inForm.map((key) => ({ ...each, key }))))(
    'and $why leaves no upload that nobody knows, $key',
    async ({ body, headers, key, is = '413 too_large', comes = false }) => {
      // The body may be cut off while it is sent.
      const answer = await begin(body(), { ...headers, ...key }).catch(() => undefined);
      if (answer !== undefined) expect(await problemOf(answer)).toBe(is);
      const isFound = comes && 'Idempotency-Key' in key;
      await expect.poll(async () => (await owner.object.rows('upload')).length).toBe(isFound ? 1 : 0);
      if (answer !== undefined && !isFound) expect(await owner.object.rows('idempotency')).toEqual([]);
      if (!isFound) return;
      const again = await create(owner.call, mode, length, { headers: key });
      expect(again.response.headers.get('Idempotency-Replayed')).toBe('true');
      const offset = Number(again.response.headers.get('Upload-Offset'));
      expect(offset).toBeGreaterThan(0);
      await expectStored(owner.call, await send(owner.call, again.path, whole, 4 * mib, offset), whole);
    },
  );

  it('that breaks leaves an upload only where a key finds it', async () => {
    await begin(broken(some), {}).catch(() => undefined);
    await begin(broken(some), { 'Idempotency-Key': 'one' }).catch(() => undefined);
    await expect.poll(async () => (await owner.object.rows('upload')).length).toBe(1);
    const again = await create(owner.call, mode, length, { headers: { 'Idempotency-Key': 'one' } });
    expect(again.response.headers.get('Idempotency-Replayed')).toBe('true');
  });
});
