/** Files that expire, and the receipts of files that are gone. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { DeletedFiles, Receipt, StoredFile } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { newOwner, pinned, shareObject, type Owner } from '../stored-state.ts';
import { modesInForm } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';
import { long } from '../../../testkit/long-run.ts';

const minuteMs = 60_000;
const dayMs = 86_400_000;

let service: Service;
let owner: Owner;

beforeAll(async () => {
  service = await sharedService();
  owner = await newOwner(service);
});

const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

function upload(mode: string, query: Record<string, string>, by: Owner = owner): Promise<Response> {
  return by.call(`/v1/storage/${mode}?${new URLSearchParams(query).toString()}`, {
    method: 'POST',
    headers: { 'Content-Type': 'text/plain', 'Content-Disposition': 'attachment; filename=a.txt' },
    body: `expires ${Math.random()}`,
  });
}

/** An upload in several requests, of which the first has all bytes. */
function begin(mode: string, expiresAt: string, by: Owner): Promise<Response> {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  return by.call(`/v1/uploads/${mode}`, {
    method: 'POST',
    headers: {
      'Tus-Resumable': '1.0.0',
      'Upload-Length': '5',
      'Upload-Metadata': `filename ${base64('a.txt')},expiresAt ${base64(expiresAt)}`,
      'Content-Type': 'application/offset+octet-stream',
    },
    body: 'hello',
  });
}

const store = (mode: string, expiresAt: string, by?: Owner): Promise<StoredFile> =>
  jsonOf<StoredFile>(upload(mode, { expiresAt }, by), 201);
const receiptOf = (fileId: string, by: Owner = owner): Promise<Response> => by.call.ask('getReceipt', { fileId });

describe.each(modesInForm)('a file in %s mode that expires', (mode) => {
  it('says when, and is deleted then as a request would: header, row, pin and shares', async () => {
    const own = await newOwner(service);
    const expiresAt = inMs(10 * minuteMs);
    const { fileId, cid, ...file } = await store(mode, expiresAt, own);
    expect(file.expiresAt).toBe(expiresAt);
    expect(await own.call.getFile({ fileId, data: false })).toMatchObject({ expiresAt });
    const share = await own.call.createShare({ record: 'c2VhbGVk', files: [fileId], password: false });
    expect(share.expiresAt).toBe(expiresAt);
    expect(await problemOf(receiptOf(fileId, own))).toBe('404 not_found');

    await own.object.ring(9 * minuteMs);
    expect((await own.call.ask('getFileContent', { fileId })).status).toBe(200);
    await own.object.ring(2 * minuteMs);
    expect(await own.object.rows('file')).toEqual([]);
    expect(await own.object.rows('file_detail')).toEqual([]);
    expect(await pinned(service)).not.toContain(cid);
    expect((await shareObject(service, share.id).rows('share'))[0]?.['record']).toBeNull();
    const { deletedAt, ...receipt } = await jsonOf<Receipt>(receiptOf(fileId, own));
    expect(receipt).toEqual({
      fileId,
      reason: 'expired',
      key: mode === 'encrypted' ? 'destroyed' : 'none',
      pins: [{ service: 'node', status: 'unpinned' }],
      shares: [{ id: share.id, record: 'destroyed' }],
    });
    expect(Date.parse(present(deletedAt))).toBeGreaterThanOrEqual(Date.parse(expiresAt));
    const { usage } = await own.call.getAccount();
    expect(usage).toEqual({ files: 0, bytes: 0 });
  });

  it('is gone at its time even if the alarm is late, and its receipt is there', async () => {
    const own = await newOwner(service);
    const { fileId } = await store(mode, inMs(minuteMs), own);
    const other = await store(mode, inMs(minuteMs), own);
    const kept = await store(mode, inMs(dayMs), own);
    await own.object.wait(2 * minuteMs);
    for (const path of ['', '/content', '?data=false'])
      expect(await problemOf(own.call(`/v1/storage/${fileId}${path}`))).toBe('404 not_found');
    for (const asked of [
      own.call.ask('changeFile', { fileId, expiresAt: null }),
      own.call.ask('verifyFile', { fileId }),
      own.call.ask('deleteFile', { fileId }),
    ])
      expect(await problemOf(asked)).toBe('404 not_found');
    const of = { files: [other.fileId] };
    expect(await own.call.deleteFiles(of)).toEqual({ receipts: [], notFound: [other.fileId] });
    const shared = own.call.ask('createShare', { record: 'c2VhbGVk', files: [fileId], password: false });
    expect(await problemOf(shared)).toBe('404 not_found');
    const { files } = await own.call.listFiles();
    expect(files.map((file) => file.fileId)).toEqual([kept.fileId]);
    expect(await own.object.rows('file')).toHaveLength(3);
    for (const each of [fileId, other.fileId])
      expect(await jsonOf<Receipt>(receiptOf(each, own))).toMatchObject({ reason: 'expired' });
    expect(await own.object.rows('file')).toHaveLength(1);
  });

  it('may come in several requests', async () => {
    const own = await newOwner(service);
    const expiresAt = inMs(minuteMs);
    const fileId = present((await begin(mode, expiresAt, own)).headers.get('Sealpin-File'));
    expect(await own.call.getFile({ fileId, data: false })).toMatchObject({ expiresAt });
    await own.object.ring(2 * minuteMs);
    expect(await jsonOf(receiptOf(fileId, own))).toMatchObject({ reason: 'expired' });
  });

  // The last one is in a year of five digits in UTC, which no reader of a list takes.
  const impossible = ['tomorrow', '2020-01-01T00:00:00Z', '2030-02-30T00:00:00Z', '', '9999-12-31T23:59:59-01:00'];
  it.each(impossible)('not at %j', async (expiresAt) => {
    const { fileId } = await owner.call.store(mode, 'x');
    for (const answer of [
      upload(mode, { expiresAt }),
      owner.call.ask('changeFile', { fileId, expiresAt }),
      begin(mode, expiresAt, owner),
      owner.call.ask('createShare', { record: 'c2VhbGVk', files: [fileId], password: false, expiresAt }),
      owner.call.ask('createKey', { label: 'late', scopes: ['read'], expiresAt }),
    ])
      expect(await problemOf(answer)).toBe('400 invalid_request');
  });

  it('at the last moment that can be written', async () => {
    const own = await newOwner(service);
    const expiresAt = '9999-12-31T23:59:59.999Z';
    const { fileId } = await store(mode, expiresAt, own);
    expect(await own.call.listFiles()).toMatchObject({ files: [{ fileId, expiresAt }] });
  });
});

describe('a receipt', () => {
  it('of a deletion is the response to it, and is kept for 90 days', async () => {
    const own = await newOwner(service);
    const { fileId } = await own.call.store('encrypted', 'x');
    const receipt = await own.call.deleteFile({ fileId });
    expect(receipt).toMatchObject({ reason: 'deleted', key: 'destroyed' });
    expect(await jsonOf(receiptOf(fileId, own))).toEqual(receipt);
    expect(await problemOf(receiptOf(fileId))).toBe('404 not_found');
    await own.object.ring(89 * dayMs);
    expect((await receiptOf(fileId, own)).status).toBe(200);
    await own.object.ring(2 * dayMs);
    expect(await problemOf(receiptOf(fileId, own))).toBe('404 not_found');
    expect(await own.object.rows('receipt')).toEqual([]);
  });

  it('says when a pin that was scheduled for removal is removed', async () => {
    const own = await newOwner(service);
    const { fileId } = await own.call.store('plain', 'unpinned later');
    await own.object.fail('removeReference', 'before');
    const status = async (asked: Promise<Response>): Promise<unknown> => (await jsonOf<Receipt>(asked)).pins[0]?.status;
    expect(await status(own.call.ask('deleteFile', { fileId }))).toBe('scheduled');
    expect(await status(receiptOf(fileId, own))).toBe('scheduled');
    await own.object.ring(minuteMs);
    expect(await status(receiptOf(fileId, own))).toBe('unpinned');
  });
});

it('a file that cannot be removed keeps nothing else from being done', async () => {
  const own = await newOwner(service);
  const stuck = await store('plain', inMs(minuteMs), own);
  const { fileId } = await own.call.store('encrypted', 'shared');
  const share = await own.call.createShare({ record: 'c2VhbGVk', files: [fileId], password: false });
  await own.object.change(
    `INSERT INTO receipt (file_id, reason, key_fate, pins, shares, deleted_at, due, awaited)
     VALUES ('${stuck.fileId}', 'deleted', 'none', '[]', '[]', 0, ${Date.now() + 90 * dayMs}, 1)`,
  );
  await own.object.stopAlarm();
  await own.object.ring(2 * minuteMs);
  expect((await own.object.rows('file')).map((row) => row['file_id'])).toContain(stuck.fileId);
  await own.call.deleteFiles({ files: [fileId] });
  await own.object.ring(0);
  expect((await own.call.ask('openShare', { shareId: share.id })).status).toBe(410);
});

describe('many files', () => {
  const remove = (files: unknown, by: Owner): Promise<Response> => by.call.ask('deleteFiles', { files });

  it('are deleted at once, with a receipt each, and those that are not there are named', async () => {
    const own = await newOwner(service);
    const kept = await own.call.store('plain', `kept by ${own.id}`);
    const sealed = await own.call.store('encrypted', 'sealed');
    const plain = await own.call.store('plain', `plain of ${own.id}`);
    const share = await own.call.createShare({ record: 'c2VhbGVk', files: [plain.fileId], password: false });
    const strange = await owner.call.store('plain', `of another account than ${own.id}`);
    const never = crypto.randomUUID();
    const ids = [sealed.fileId, never, plain.fileId.toUpperCase(), strange.fileId, sealed.fileId];
    const { receipts, notFound } = await jsonOf<DeletedFiles>(remove(ids, own));
    expect(receipts.map(({ fileId, key }) => [fileId, key])).toEqual([
      [sealed.fileId, 'destroyed'],
      [plain.fileId, 'none'],
    ]);
    expect(notFound).toEqual([never, strange.fileId]);
    expect((await own.object.rows('file')).map((row) => row['file_id'])).toEqual([kept.fileId]);
    expect(await problemOf(own.call.ask('getFile', { fileId: sealed.fileId }))).toBe('404 not_found');
    for (const { fileId } of [sealed, plain])
      await expect
        .poll(() => jsonOf<Receipt>(receiptOf(fileId, own)))
        .toMatchObject({ pins: [{ status: 'unpinned' }] });
    expect(await jsonOf<Receipt>(receiptOf(plain.fileId, own))).toMatchObject({
      shares: [{ id: share.id, record: 'destroyed' }],
    });
    const pins = await pinned(service);
    expect([kept, strange, sealed, plain].map(({ cid }) => pins.includes(cid))).toEqual([true, true, false, false]);
    expect(await jsonOf<DeletedFiles>(remove([sealed.fileId], own))).toEqual({
      receipts: [],
      notFound: [sealed.fileId],
    });
  });

  it('may be 1,000, and neither more nor none', async () => {
    const own = await newOwner(service);
    // In the short form most of them are not there.
    const [stored, deleted] = long ? [1500, 1000] : [30, 20];
    await own.object.fill(stored);
    const ids = (await own.object.rows('file')).map((row) => String(row['file_id']));
    const unknown = Array.from({ length: 1000 - deleted }, () => crypto.randomUUID());
    const { receipts, notFound } = await jsonOf<DeletedFiles>(remove([...ids.slice(0, deleted), ...unknown], own));
    expect(receipts).toHaveLength(deleted);
    expect(notFound).toEqual(unknown);
    expect(await own.object.rows('file')).toHaveLength(stored - deleted);
    for (const files of [[...ids.slice(0, deleted + 1), ...unknown], [], ['x'], undefined])
      expect(await problemOf(remove(files, own))).toBe('400 invalid_request');
    expect(await own.object.rows('file')).toHaveLength(stored - deleted);
  });
});
