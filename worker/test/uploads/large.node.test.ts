/** A file that is too large to be stored while its client waits. */
import { expect, it } from 'vitest';
import { bytesOf } from '../../../testkit/api-client.ts';
import { newOwner } from '../stored-state.ts';
import { backendKind, startService } from '../../../testkit/service.ts';
import { create, mib, patch, random, stateOf } from './tus-client.ts';
import { long } from '../../../testkit/long-run.ts';

it.skipIf(!long)('more than 1 GiB is stored after the last response, at once (long form)', async () => {
  const service = await startService({ entry: 'worker/test/clock.ts' });
  try {
    const { call, object } = await newOwner(service);
    const piece = random(64 * mib);
    const length = 17 * piece.length + 5;
    const { path, id } = await create(call, 'encrypted', length);
    for (let offset = 0; offset < length; offset += piece.length) {
      const response = await patch(call, path, offset, piece.subarray(0, Math.min(piece.length, length - offset)));
      expect(response.status).toBe(204);
      if (offset + piece.length >= length) expect(response.headers.get('Sealpin-File')).toBe(id);
    }
    // A store needs an index, and nothing that takes longer with more bytes.
    const states = backendKind === 'kubo' ? ['finishing'] : ['finishing', 'done'];
    expect(states).toContain((await stateOf(call, path)).state);
    const [upload] = await object.rows('upload');
    expect(upload?.['attempts'] === 1 || Number(upload?.['due']) <= Date.now(), 'the alarm does not wait').toBe(true);
    await expect.poll(async () => (await stateOf(call, path)).state, { timeout: 120_000 }).toBe('done');
    const read = await bytesOf(
      call.ask(
        'getFile',
        { fileId: id },
        { headers: { Accept: 'application/octet-stream', Range: `bytes=${length - 9}-` } },
      ),
    );
    expect(read).toEqual(Buffer.concat([piece.subarray(-4), piece.subarray(0, 5)]));
  } finally {
    await service.close();
  }
});
