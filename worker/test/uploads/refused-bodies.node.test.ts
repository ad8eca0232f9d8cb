/** Bodies that stall, or are refused: what is kept of their upload, and what its client is told. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { problemOf } from '../../../testkit/api-client.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { create, expectStored, modes, offsetOf, patch, random } from './tus-client.ts';

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await startService({ vars: { UPLOAD_IDLE_SECONDS: '1' } });
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

describe.each(modes)('PATCH, %s', (mode) => {
  it('whose body stalls is 423, which clients wait for, and continues behind what arrived', async () => {
    const bytes = random(100);
    const { path } = await create(owner.call, mode, bytes.length);
    const response = await patch(owner.call, path, 0, inChunks(bytes.subarray(0, 7), false));
    expect(response.headers.get('Retry-After')).toBe('2');
    expect(await problemOf(response)).toBe('423 upload_busy');
    expect(await offsetOf(owner.call, path)).toBe(7);
    await expectStored(owner.call, await patch(owner.call, path, 7, bytes.subarray(7)), bytes);
  });

  const digest = (bytes: Uint8Array) => ({
    'Content-Digest': `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`,
  });
  const ways = ['with a length', 'in chunks'].flatMap((how) => ['', ' and a digest'].map((checked) => how + checked));
  const extra = [1, 3000];
  it.each(ways.flatMap((way) => extra.map((more) => [way, more] as const)))(
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
