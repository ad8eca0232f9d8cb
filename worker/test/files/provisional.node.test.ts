/** Files that stay only if another upload of their API key names them. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { NewApiKeyResponse, StoredFile } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { first } from '../../../testkit/present.ts';
import { newOwner, sweep, pinned, type Owner } from '../stored-state.ts';
import { invite, request, store as storeAs } from '../invitations/guest.ts';
import { create, metadataOf, patch, random, version } from '../uploads/tus-client.ts';
import { ci } from '../../../testkit/long-run.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
let service: Service;
let owner: Owner;
let guest: Client;
beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  owner = await newOwner(service);
  guest = await newKey();
});

async function newKey(limits: object = { files: 4 }): Promise<Client> {
  const made = owner.call.ask('createKey', { label: 'inbox', scopes: ['write'], limits });
  return client(service.url, (await jsonOf<NewApiKeyResponse>(made, 201)).apiKey);
}

let count = 0;
function post(call: Client, query: string, body = `file ${(count += 1)}`): Promise<Response> {
  return call(`/v1/storage/plain${query}`, { method: 'POST', headers: { 'Content-Type': 'a/b' }, body });
}
const store = async (call: Client, query = '?provisional=true'): Promise<StoredFile> =>
  await jsonOf<StoredFile>(post(call, query), 201);
/** Begins an upload whose file is provisional. */
const begin = (call: Client, length: number) =>
  create(call, 'plain', length, { headers: { 'Upload-Metadata': metadataOf({ provisional: 'true' }) } });
const isThere = async (...fileIds: string[]): Promise<boolean[]> =>
  Promise.all(fileIds.map(async (id) => (await owner.call.ask('getFile', { fileId: id, data: false })).status === 200));
const left = async (call: Client) => (await call.getAccount()).key.left;

describe('a provisional file', () => {
  it('is removed 24 hours after the last request of its key, with its pin, and counts no longer', async () => {
    const [one, other] = [await store(guest), await store(guest)];
    await owner.object.ring(23 * hourMs);
    expect(await left(guest)).toEqual({ files: 2 });
    await owner.object.ring(23 * hourMs);
    expect(await isThere(one.fileId, other.fileId)).toEqual([true, true]);
    await owner.object.ring(2 * hourMs);
    expect(await isThere(one.fileId, other.fileId)).toEqual([false, false]);
    expect(await left(guest)).toEqual({ files: 4 });
    await sweep(service, [owner], [one.cid, other.cid]);
    const held = await pinned(service);
    expect([one, other].filter(({ cid }) => held.includes(cid))).toEqual([]);
    expect(await owner.call.getReceipt({ fileId: one.fileId })).toMatchObject({ reason: 'expired' });
    const { events } = await owner.call.listEvents({ limit: 100 });
    expect(events.filter(({ action }) => action === 'file.expired')).toHaveLength(2);
  });

  it('is removed after seven days, however often its key makes requests', async () => {
    const { fileId } = await store(guest);
    for (let round = 0; round < 14; round += 1) {
      await owner.object.ring(0.49 * dayMs);
      await left(guest);
    }
    expect(await isThere(fileId)).toEqual([true]);
    await owner.object.ring(0.15 * dayMs);
    expect(await isThere(fileId)).toEqual([false]);
  });

  it('stays no longer for an upload that names it and comes too late', async () => {
    const { fileId } = await store(guest);
    await owner.object.fail('commit', 'held');
    const parcel = post(guest, `?names=${fileId}`);
    await expect.poll(() => owner.object.awaits('commit')).toBe(false);
    await owner.object.ring(2 * hourMs);
    await owner.object.fail('commit', 'let go');
    expect(await problemOf(parcel)).toBe('504 pinning_timeout');
    await owner.object.ring(24 * hourMs);
    expect(await isThere(fileId)).toEqual([false]);
  });

  it('stays for good once another upload of its key names it', async () => {
    const [one, other, forgotten] = [await store(guest), await store(guest), await store(guest)];
    await owner.object.ring(23 * hourMs);
    const parcel = await store(guest, `?names=${one.fileId},${other.fileId.toUpperCase()}`);
    expect(await owner.object.rows('provisional_file')).toHaveLength(1);
    for (let day = 0; day < 3; day += 1) await owner.object.ring(3 * dayMs);
    const ids = [one, other, forgotten, parcel].map(({ fileId }) => fileId);
    expect(await isThere(...ids)).toEqual([true, true, false, true]);
    expect(await owner.object.rows('provisional_file')).toEqual([]);
  });

  it('does not stay when another key names it, and what names it is not stored', async () => {
    const { fileId } = await store(guest);
    for (const call of [await newKey(), owner.call])
      expect(await problemOf(post(call, `?names=${fileId}`))).toBe('404 not_found');
    expect(await isThere(fileId)).toEqual([true]);
    expect(await owner.object.rows('file')).toHaveLength(1);
    await owner.object.ring(dayMs + hourMs);
    expect(await isThere(fileId)).toEqual([false]);
  });

  it('that was removed is not named any more: nothing is acknowledged that is not there', async () => {
    const [one, other] = [await store(guest), await store(guest)];
    await owner.call.deleteFile({ fileId: one.fileId });
    expect(await problemOf(post(guest, `?names=${other.fileId},${one.fileId}`))).toBe('404 not_found');
    await owner.object.ring(dayMs + hourMs);
    expect(await isThere(other.fileId)).toEqual([false]);
  });

  it('may be one that comes in several requests, whose time begins with its end', async () => {
    const bytes = random(100);
    const [named, forgotten, ended] = [await begin(guest, 100), await begin(guest, 100), await begin(guest, 100)];
    for (const { path } of [named, forgotten]) await patch(guest, path, 0, bytes.subarray(0, 50));
    await owner.object.ring(6 * dayMs);
    for (const { path } of [named, forgotten])
      expect((await patch(guest, path, 50, bytes.subarray(50))).status).toBe(204);
    await guest(ended.path, { method: 'DELETE', headers: version });
    await owner.object.ring(23 * hourMs);
    expect(await isThere(named.id, forgotten.id)).toEqual([true, true]);
    await store(guest, `?names=${named.id}`);
    await owner.object.ring(8 * dayMs);
    expect(await isThere(named.id, forgotten.id)).toEqual([true, false]);
    expect(await owner.object.rows('provisional_file')).toEqual([]);
  });

  it('may be named while the service is still finishing it', async () => {
    const { path, id } = await begin(guest, 10);
    await owner.object.fail('addReference', 'before');
    await patch(guest, path, 0, random(10));
    await store(guest, `?names=${id}`);
    await owner.object.ring(hourMs);
    await owner.object.ring(9 * dayMs);
    expect(await isThere(id)).toEqual([true]);
    // One that is large has no row of a file for a while; one whose bytes have not all arrived may
    // never be a file.
    const large = await begin(guest, 10);
    expect(await problemOf(post(guest, `?names=${large.id}`))).toBe('404 not_found');
    await owner.object.change(`UPDATE upload SET state = 'finishing' WHERE id = '${large.id}'`);
    await store(guest, `?names=${large.id}`);
  });
});

describe('what a file named is removed with it, as it is', () => {
  /** A file, and the IDs of two that it named. */
  async function delivery(query = ''): Promise<{ parcel: StoredFile; named: string[]; cids: string[] }> {
    const payloads = [await store(guest), await store(guest)];
    const named = payloads.map(({ fileId }) => fileId);
    const parcel = await store(guest, `?names=${named.join(',')}${query}`);
    return { parcel, named, cids: payloads.map(({ cid }) => cid) };
  }
  const receiptOf = async (fileId = '') => await owner.call.getReceipt({ fileId });

  it('by DELETE, with its pins and what it counts, and by no key that may not', async () => {
    const { parcel, named, cids } = await delivery();
    const share = await owner.call.createShare({ record: 'AAAA', files: named, password: false });
    const { fileId } = parcel;
    expect(await problemOf(guest.ask('deleteFile', { fileId }))).toBe('403 insufficient_scope');
    expect(await isThere(fileId, ...named)).toEqual([true, true, true]);
    await owner.call.deleteFile({ fileId });
    expect(await isThere(fileId, ...named)).toEqual([false, false, false]);
    expect(await left(guest)).toEqual({ files: 4 });
    expect(await owner.call.getShare({ shareId: share.id })).toMatchObject({ state: 'revoked' });
    await sweep(service, [owner], cids);
    expect((await pinned(service)).filter((cid) => cids.includes(cid))).toEqual([]);
    expect(await receiptOf(named[1])).toMatchObject({ reason: 'deleted', pins: [{ status: 'unpinned' }] });
    const { events } = await owner.call.listEvents({ limit: 100 });
    const deleted = events.filter(({ action }) => action === 'file.deleted');
    expect(deleted.map((event) => `${event.fileId}`).toSorted()).toEqual([fileId, ...named].toSorted());
    expect(await owner.object.rows('named_file')).toEqual([]);
  });

  it('with many at once, each with its receipt, also one that is deleted beside it', async () => {
    const { parcel, named } = await delivery();
    const files = [parcel.fileId, first(named)];
    const { receipts, notFound } = await owner.call.deleteFiles({ files });
    expect(receipts.map(({ fileId }) => fileId)).toEqual(files);
    expect(notFound).toEqual([]);
    expect(await isThere(...named)).toEqual([false, false]);
  });

  it('when it expires', async () => {
    const { named } = await delivery(`&expiresAt=${new Date(Date.now() + dayMs).toISOString()}`);
    await owner.object.ring(dayMs + hourMs);
    expect(await isThere(...named)).toEqual([false, false]);
    expect(await receiptOf(named[0])).toMatchObject({ reason: 'expired' });
  });

  /** The ID of a row of `fill`. */
  const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
  const ends = [
    { how: 'expire', parcels: [1, 301, 601], left: [400, 0] },
    { how: 'are deleted', parcels: [1, 301, 601], left: [399, 0] },
    // Each but the first is named by the one before.
    { how: 'name each other and are deleted', parcels: [1, 300, 599], left: [400, 2] },
  ];
  it.each(ends.slice(ci ? 0 : 2))(
    'but no more than 500 at once, where files that name 299 each $how',
    async ({ how, parcels, left: counts }) => {
      await owner.object.stopAlarm();
      await owner.object.fill(900);
      for (const n of parcels)
        await owner.object.change(`INSERT INTO named_file (named_by, file_id) SELECT '${idOf(n)}', file_id FROM file
        WHERE file_id > '${idOf(n)}' AND file_id < '${idOf(n + 300)}'`);
      const files = parcels.map(idOf);
      if (how === 'expire') {
        const rows = files.map((fileId) => `('${fileId}', '', 0, 0)`);
        await owner.object.change(`INSERT INTO provisional_file (file_id, api_key, due, latest) VALUES ${rows.join()}`);
        await owner.object.ring(0);
      } else await owner.call.deleteFiles({ files: how === 'are deleted' ? files : [first(files)] });
      const stored = [await owner.object.rows('file')];
      await owner.object.ring(0);
      stored.push(await owner.object.rows('file'));
      expect(stored.map(({ length }) => length)).toEqual(counts);
      expect(await owner.object.rows('provisional_file')).toEqual([]);
    },
  );

  it('and what is left to the alarm can be read until then, but neither named nor shared', async () => {
    const sender = await invite(owner.call);
    const [{ fileId: named }, { fileId: sent }, { fileId: sending }] = [
      await store(guest),
      await storeAs(sender),
      await storeAs(sender),
    ];
    await owner.object.stopAlarm();
    await owner.object.fill(502);
    await owner.object.change(`INSERT INTO named_file (named_by, file_id) SELECT '${idOf(1)}', file_id FROM file
      WHERE file_id <> '${idOf(1)}'`);
    await owner.object.change('DELETE FROM provisional_file');
    await owner.object.fail('create', 'held');
    const late = sender.ask('createShare', {}, { body: JSON.stringify(request([sending])) });
    await expect.poll(() => owner.object.awaits('create')).toBe(false);
    await owner.call.deleteFile({ fileId: idOf(1) });
    await owner.object.fail('create', 'let go');
    expect(await problemOf(late)).toBe('409 conflict');
    expect(await problemOf(sender.ask('createShare', {}, { body: JSON.stringify(request([sent])) }))).toBe(
      '404 not_found',
    );
    expect(await problemOf(post(guest, `?names=${named}`))).toBe('404 not_found');
    expect(await isThere(named, sent, sending)).toEqual([true, true, true]);
    await owner.object.ring(0);
    expect(await isThere(named, sent, sending)).toEqual([false, false, false]);
    expect(await owner.object.rows('provisional_file')).toEqual([]);
    expect((await owner.call.listShares()).shares).toEqual([]);
  });

  it('and one that is still being finished a day after it is stored', async () => {
    const { path, id } = await begin(guest, 10);
    await owner.object.fail('addReference', 'before');
    await patch(guest, path, 0, random(10));
    const { fileId } = await store(guest, `?names=${id}`);
    await owner.call.deleteFile({ fileId });
    await owner.object.ring(hourMs);
    expect(await isThere(id)).toEqual([true]);
    await owner.object.ring(dayMs + hourMs);
    expect(await isThere(id)).toEqual([false]);
  });

  it('and what those named before, but nothing that another one named first, or that is its own', async () => {
    const [inner, kept] = [await store(guest), await store(guest)];
    const outer = await store(guest, `?provisional=true&names=${inner.fileId}`);
    const last = await store(guest, `?names=${outer.fileId}`);
    await owner.call.deleteFile({ fileId: last.fileId });
    expect(await isThere(outer.fileId, inner.fileId)).toEqual([false, false]);
    const keeper = await store(guest, `?names=${kept.fileId}`);
    const other = await store(guest, `?names=${kept.fileId},${keeper.fileId}`);
    await owner.call.deleteFile({ fileId: other.fileId });
    expect(await isThere(kept.fileId, keeper.fileId)).toEqual([true, true]);
  });
});

it('a file that is not provisional stays, as those of clients do that know nothing of it', async () => {
  const [payload, parcel] = [await store(guest, ''), await store(guest, '')];
  await owner.object.ring(30 * dayMs);
  expect(await isThere(payload.fileId, parcel.fileId)).toEqual([true, true]);
});

it('of wrong names nothing is stored', async () => {
  const id = crypto.randomUUID();
  for (const names of ['', 'x', `${id},`, `${id};${id}`, Array.from({ length: 301 }, () => id).join(',')])
    expect(await problemOf(post(guest, `?names=${names}`))).toBe('400 invalid_request');
  expect(await problemOf(post(guest, `?names=${id}`))).toBe('404 not_found');
  expect(await problemOf(post(guest, '?provisional=1'))).toBe('400 invalid_request');
  expect(await owner.object.rows('file')).toEqual([]);
});
