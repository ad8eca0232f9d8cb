/** Tables of an account's object: what becomes of the rows of each when it is restored. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { BackupPage } from '../../../shared/api.ts';
import { generateKeyPair, parseRecipients } from '../../../shared/crypto/index.ts';
import { sealFileDetails } from '../../../shared/link/index.ts';
import { client, jsonOf, problemOf, signedPath } from '../../../testkit/api-client.ts';
import { first } from '../../../testkit/present.ts';
import { adminToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { dayMs, hourMs, invite, share, soon, store } from '../invitations/guest.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { replacedBy } from './rotating.ts';

const longMs = 4 * hourMs;

/** The columns with which a restored row begins again; undefined: rows are not restored. */
const restored: Record<string, readonly string[] | undefined> = {
  account: ['backed_up'],
  account_setting: [],
  api_key: [],
  denied_file: [],
  event: [],
  file: [],
  file_detail: [],
  file_sealed: [],
  file_tag: [],
  // What a key added on the day of the backup: it may add as much again.
  key_limit: ['added_on', 'added'],
  named_file: [],
  // The time begins with the restoration.
  provisional_file: ['due', 'latest'],
  // What other services had to remove stays as it was.
  receipt: ['awaited'],
  rotation: [],
  rotation_file: [],
  share: [],
  share_file: [],
  signed_use: [],
  // Follows from the number of the first event that is kept.
  event_removed: undefined,
  // What is unfinished: its senders begin again.
  idempotency: undefined,
  part: undefined,
  shown: undefined,
  upload: undefined,
  // Messages to objects and services that the restored account does not have.
  outbox: undefined,
  // Statistics.
  key_usage: undefined,
};

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});
const operator = () => client(service.url, adminToken);

/** @param read called with each page before the next one is read */
async function backUp(id: string, read = async (_page: BackupPage) => {}): Promise<BackupPage[]> {
  const pages: BackupPage[] = [];
  for (let next: string | null = ''; next !== null; next = pages.at(-1)?.next ?? null) {
    const page = await operator().backUpAccount({ id, limit: 2, ...(next === '' ? {} : { cursor: next }) });
    pages.push(page);
    await read(page);
  }
  return pages;
}

async function restore({ id, object }: Owner, pages: readonly BackupPage[]): Promise<void> {
  await operator().deleteAccount({ id });
  await object.ring(longMs);
  const headers = { 'Sealpin-Restore': restoreToken };
  for (const page of pages)
    await jsonOf(operator().ask('restoreAccount', { id }, { headers, body: JSON.stringify(page) }));
}

/** All rows of a table as text, without some columns. */
async function rowsOf({ object }: Owner, table: string, except: readonly string[]): Promise<string[]> {
  const rows = await object.rows(table);
  const kept = rows.map((row) => Object.entries(row).filter(([column]) => !except.includes(column)));
  const text = (_: string, value: unknown): unknown =>
    value instanceof ArrayBuffer ? Buffer.from(value).toString('hex') : value;
  return kept.map((columns) => JSON.stringify(columns, text)).toSorted();
}

/** An account with a row in every table that a backup carries. */
async function fullOwner(): Promise<Owner> {
  const owner = await newOwner(service);
  const { call, object, id } = owner;
  await operator().changeAccount({ id, quotaBytes: 1_000_000, origins: ['https://a.example'] });
  const writer = await call.withKey(['write'], { limits: { files: 9 } });
  const plain = await writer.store('plain', `plain ${id}`, { filename: 'a' });
  const denied = await call.store('plain', `denied ${id}`);
  const deleted = await call.store('plain', `deleted ${id}`);
  const sealed = await call.store('encrypted', `sealed ${id}`);
  await call.changeFile({ fileId: sealed.fileId, tags: ['tag'] });
  const recipients = parseRecipients((await generateKeyPair()).publicPem);
  const details = await sealFileDetails({ cid: plain.cid, name: 'a' }, { recipients });
  const fileId = plain.fileId;
  await call.changeFile({ fileId, details: Buffer.from(details).toString('base64'), expiresAt: soon(9 * dayMs) });
  await share(call, [fileId]);
  await call.deleteFile({ fileId: deleted.fileId });
  await operator().denyCid({ cid: denied.cid });
  const stored = writer.ask('storePlain', { provisional: true }, { body: `named ${id}` });
  const { fileId: names } = await jsonOf<{ fileId: string }>(stored, 201);
  await writer.ask('storePlain', { names }, { body: `names ${id}` });
  await writer.ask('storePlain', { provisional: true }, { body: `provisional ${id}` });
  for (const method of ['GET', 'POST']) {
    const claims = method === 'GET' ? { method, file: fileId } : { method, mode: 'plain' };
    const path = await signedPath(call.apiKey, { ...claims, jti: crypto.randomUUID() });
    expect((await client(service.url, '')(path, { method, ...(method === 'POST' && { body: id }) })).ok).toBe(true);
  }
  await object.fail('rewrap', 'before');
  expect(await problemOf(call.ask('rotateAccount', { publicKey: await replacedBy(call) }))).toBe('500 internal');
  await object.stopAlarm();
  return owner;
}

it('each table of an account has an entry here: carried by a backup, with what is new, or not', async () => {
  const { object } = await newOwner(service);
  const tables = (await object.rows('sqlite_master')).filter(({ type }) => type === 'table');
  const names = tables.map(({ name }) => String(name)).filter((name) => !/^(sqlite|_cf)_/.test(name));
  expect(names.toSorted()).toEqual(Object.keys(restored).toSorted());
});

it('a restored account has the rows that it had in each table that a backup carries', async () => {
  const owner = await fullOwner();
  const carried = Object.entries(restored).filter(([, columns]) => columns !== undefined);
  const all = (): Promise<string[][]> =>
    Promise.all(carried.map(([table, columns = []]) => rowsOf(owner, table, columns)));
  const before = await all();
  await restore(owner, await backUp(owner.id));
  for (const [index, rows] of (await all()).entries()) {
    const [table] = carried[index] ?? [];
    expect(before[index]?.length, `rows of ${table}`).toBeGreaterThan(0);
    expect(rows, table).toEqual(before[index]);
  }
});

describe('after a restoration', () => {
  it('a provisional file has its time again, and ends then or stays by a name', async () => {
    const owner = await newOwner(service);
    const store = async (query: { provisional?: boolean; names?: string }): Promise<string> =>
      (await jsonOf<{ fileId: string }>(owner.call.ask('storePlain', query, { body: crypto.randomUUID() }), 201))
        .fileId;
    const [named, forgotten] = [await store({ provisional: true }), await store({ provisional: true })];
    await owner.object.wait(20 * hourMs);
    await restore(owner, await backUp(owner.id));
    await owner.object.ring(20 * hourMs);
    const parcel = await store({ names: named });
    await owner.object.ring(dayMs + hourMs);
    const left = (await owner.call.listFiles()).files.map(({ fileId }) => fileId);
    expect(left.toSorted()).toEqual([named, parcel].toSorted());
    expect(left).not.toContain(forgotten);
  });

  it.each<{ by: string; keep(owner: Owner): Promise<{ fileId: string; keep(): Promise<unknown> }> }>([
    {
      by: 'a delivery',
      async keep({ call }) {
        const stored = call.ask('storePlain', { provisional: true }, { body: crypto.randomUUID() });
        const { fileId } = await jsonOf<{ fileId: string }>(stored, 201);
        return { fileId, keep: () => jsonOf(call.ask('storePlain', { names: fileId }, { body: fileId }), 201) };
      },
    },
    {
      by: 'the link of a guest',
      async keep({ call }) {
        const guest = await invite(call);
        const { fileId } = await store(guest, 9);
        return { fileId, keep: () => share(guest, [fileId]) };
      },
    },
  ])('a file stays that was kept by $by after its page was read', async ({ keep }) => {
    const owner = await newOwner(service);
    const kept = await keep(owner);
    // The next page begins with files, too.
    for (let more = 0; more < 2; more += 1) await owner.call.store('plain', `${more} of ${owner.id}`);
    const pages = await backUp(owner.id, async ({ files }) => {
      if (files.some(({ fileId }) => fileId === kept.fileId)) await kept.keep();
    });
    await restore(owner, pages);
    expect(await owner.object.rows('provisional_file')).toEqual([]);
    await owner.object.ring(2 * dayMs);
    expect((await owner.call.listFiles()).files.map(({ fileId }) => fileId)).toContain(kept.fileId);
  });

  it('a signed URL that was used once stays used, until it has expired', async () => {
    const owner = await newOwner(service);
    const { fileId } = await owner.call.store('plain', `of ${owner.id}`);
    const anybody = client(service.url, '');
    const exp = Math.floor(Date.now() / 1000) + 3600 * 6;
    const reading = await signedPath(owner.call.apiKey, { method: 'GET', file: fileId, jti: 'a', exp });
    const storing = await signedPath(owner.call.apiKey, { method: 'POST', mode: 'plain', jti: 'b', exp });
    expect((await anybody(reading)).status).toBe(200);
    const post = (): Promise<Response> => anybody(storing, { method: 'POST', body: owner.id });
    expect((await post()).status).toBe(201);
    const pages = await backUp(owner.id);
    await restore(owner, pages);
    expect(await problemOf(anybody(reading))).toBe('410 gone');
    expect(await problemOf(post())).toBe('410 gone');
    await owner.object.ring(longMs);
    expect(await owner.object.rows('signed_use')).toEqual([]);
  });

  it('a backup without such state has no member for it, as those of earlier versions', async () => {
    const owner = await newOwner(service);
    await owner.call.store('plain', `of ${owner.id}`);
    const pages = await backUp(owner.id);
    expect(JSON.stringify(pages)).not.toMatch(/isProvisional|names|signedUses/);
    await restore(owner, pages);
    expect(await owner.object.rows('provisional_file')).toEqual([]);
    expect(first((await owner.call.listFiles()).files).size).toBeGreaterThan(0);
  });
});
