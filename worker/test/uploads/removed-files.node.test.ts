/** Uploads of files that are gone: nobody is told that such a file is stored. */
import { beforeAll, describe, expect, it } from 'vitest';
import { problemOf, type Client } from '../../../testkit/api-client.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { dayMs, hourMs, invite, minuteMs, share, soon } from '../invitations/guest.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { create, head, metadataOf, patch, random, stateOf } from './tus-client.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

/** The ends of a stored file, each by its name; `isGuest`: an invitation stored it. */
const ends: Record<string, { isGuest?: true; more?: object; end(o: Ended): Promise<unknown> }> = {
  'was deleted': { end: ({ owner, fileId }) => owner.call.deleteFile({ fileId }) },
  'was deleted with others': { end: ({ owner, fileId }) => owner.call.deleteFiles({ files: [fileId] }) },
  'has expired': { more: { expiresAt: soon(hourMs) }, end: ({ owner }) => owner.object.ring(hourMs + minuteMs) },
  'has expired, while the alarm is late': {
    more: { expiresAt: soon(hourMs) },
    end: ({ owner }) => owner.object.wait(hourMs + minuteMs),
  },
  'expires earlier since it was changed': {
    async end({ owner, fileId }) {
      await owner.call.changeFile({ fileId, expiresAt: soon(hourMs) });
      await owner.object.wait(hourMs + minuteMs);
    },
  },
  'was provisional, and named by nothing': {
    more: { provisional: 'true' },
    end: ({ owner }) => owner.object.ring(dayMs + minuteMs),
  },
  'went with a share that was taken back': {
    isGuest: true,
    async end({ call, fileId }) {
      await call.deleteShare({ shareId: (await share(call, [fileId])).id });
    },
  },
};
type Ended = { owner: Owner; call: Client; fileId: string };

describe.each(Object.entries(ends))('an upload whose file %s', (_, { isGuest, more = {}, end }) => {
  it('is not there any more, and leaves no row; its creation begins another one', async () => {
    const owner = await newOwner(service);
    const call = isGuest === true ? await invite(owner.call) : owner.call;
    const about = { filename: 'a', ...(isGuest === true ? { expiresAt: soon(dayMs) } : {}), ...more };
    const headers = { 'Upload-Metadata': metadataOf(about), 'Idempotency-Key': crypto.randomUUID() };
    const bytes = random(5);
    const { path, id: fileId } = await create(call, 'plain', 5, { headers });
    expect((await patch(call, path, 0, bytes)).headers.get('Sealpin-File')).toBe(fileId);
    expect((await stateOf(call, path)).state).toBe('done');
    expect(await owner.object.rows('upload')).toHaveLength(1);

    await end({ owner, call, fileId });
    expect((await head(call, path)).status).toBe(404);
    for (const asked of [call(path), patch(call, path, 5, new Uint8Array(0))])
      expect(await problemOf(asked)).toBe('404 not_found');
    expect((await call.listUploads()).uploads).toEqual([]);
    // What is late is done by now.
    await owner.object.ring(0);
    expect(await owner.object.rows('upload')).toEqual([]);
    expect(JSON.stringify(await owner.object.rows('idempotency'))).not.toContain(fileId);
    const { id, response } = await create(call, 'plain', 5, { headers });
    expect(id).not.toBe(fileId);
    expect(response.headers.get('Sealpin-Cid')).toBeNull();
  });
});

it('the creation of an upload whose file has expired is not repeated before the alarm has removed it', async () => {
  const owner = await newOwner(service);
  const headers = {
    'Upload-Metadata': metadataOf({ filename: 'a', expiresAt: soon(hourMs) }),
    'Idempotency-Key': crypto.randomUUID(),
  };
  const { path } = await create(owner.call, 'plain', 0, { headers });
  expect((await stateOf(owner.call, path)).state).toBe('done');
  await owner.object.wait(hourMs + minuteMs);
  const again = owner.call('/v1/uploads/plain', {
    method: 'POST',
    headers: { 'Tus-Resumable': '1.0.0', 'Upload-Length': '0', ...headers },
  });
  expect(await problemOf(again)).toBe('409 idempotency_running');
});
