/** Bodies that stall, or are refused: what is kept of their upload, and what its client is told. */
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
});
