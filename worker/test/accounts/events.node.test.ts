/** Events: each thing that happens is one of them, once and in order, also while the service dies and objects do not respond. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AccountEvent, EventList, NewApiKeyResponse, Scope, Share } from '../../../shared/api.ts';
import { adminToken, startService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../client.ts';
import { changeDatabases, keepState, type KeptState } from '../kept-state.ts';
import { accountObject, newOwner, shareObject, type Owner } from '../stored-state.ts';

const dayMs = 86_400_000;
/** A share whose clock is so far ahead rings its alarm when the test does, however slow the machine is. */
const aheadMs = 3_600_000;
let kept: KeptState;
let service: Service;
let owner: Owner;

const start = (): Promise<Service> => startService({ entry: 'worker/test/clock.ts', ...kept });
beforeAll(async () => {
  kept = await keepState('events');
  service = await start();
});
afterAll(async () => {
  await service.close();
  await kept.close();
});
beforeEach(async () => {
  owner = await newOwner(service);
});

async function again(change?: () => Promise<void>): Promise<void> {
  await service.close();
  await change?.();
  service = await start();
  owner = { ...owner, call: client(service.url, owner.call.apiKey), object: accountObject(service, owner.id) };
}

const page = (query = '', by: Client = owner.call): Promise<EventList> => jsonOf<EventList>(by(`/v1/events${query}`));
const events = async (by?: Client): Promise<AccountEvent[]> => (await page('?limit=100', by)).events;
const actions = async (by?: Client): Promise<string[]> => (await events(by)).map(({ action }) => action);
const remove = (path: string): Promise<unknown> => jsonOf(owner.call(path, { method: 'DELETE' }));
const newKey = (scopes: Scope[]): Promise<NewApiKeyResponse> =>
  jsonOf<NewApiKeyResponse>(owner.call.json('/v1/keys', { label: 'k', scopes }), 201);
const newShare = (files: string[] = []): Promise<Share> =>
  jsonOf<Share>(owner.call.json('/v1/shares', { record: 'AAAA', files, password: false, opens: 100 }), 201);
const open = (id: string): Promise<unknown> => jsonOf(fetch(`${service.url}/v1/shares/${id}/open`, { method: 'POST' }));
const openings = async (id: string): Promise<number> =>
  (await events()).filter(({ action, shareId }) => action === 'share.opened' && shareId === id).length;

describe('the events of an account', () => {
  it('say what happened, to what, and by which key, and nothing else', async () => {
    const first = (await events())[0]!;
    expect(first).toEqual({ id: '1', time: expect.any(String), action: 'key.created', keyId: expect.any(String) });
    const by = first.keyId;
    const { fileId } = await owner.call.store('encrypted', 'a secret', { filename: 'secret-name.pdf' });
    const key = await newKey(['write']);
    const { fileId: plain } = await client(service.url, key.apiKey).store('plain', 'plain', { filename: 'other-name' });
    const share = await newShare([fileId]);
    await open(share.id);
    await expect.poll(() => openings(share.id)).toBe(1);
    await remove(`/v1/storage/${fileId}`);
    await remove(`/v1/keys/${key.key.id}`);
    const { id: shareId } = share;
    expect((await events()).slice(1)).toMatchObject([
      { action: 'file.stored', by, fileId },
      { action: 'key.created', by, keyId: key.key.id },
      { action: 'file.stored', by: key.key.id, fileId: plain },
      { action: 'share.created', by, shareId },
      { action: 'share.opened', shareId },
      { action: 'file.deleted', by, fileId },
      { action: 'share.revoked', by, shareId },
      { action: 'key.revoked', by, keyId: key.key.id },
    ]);
    const rows = JSON.stringify(await owner.object.rows('event'));
    expect(rows).not.toMatch(/secret|name/);
    // What a row costs is bounded: it has IDs and numbers alone.
    expect(rows.length / 9).toBeLessThan(250);
  });

  it('have a file that tus finished, and none that failed or was sent again', async () => {
    const tus = { 'Tus-Resumable': '1.0.0' };
    const made = await owner.call('/v1/uploads/plain', { method: 'POST', headers: { ...tus, 'Upload-Length': '3' } });
    const patch = { ...tus, 'Upload-Offset': '0', 'Content-Type': 'application/offset+octet-stream' };
    const sent = await owner.call(made.headers.get('Location')!, { method: 'PATCH', headers: patch, body: 'abc' });
    expect(sent.status).toBe(204);
    const wrong = owner.call(`/v1/storage/plain?cid=${sent.headers.get('Sealpin-Cid')}`, {
      method: 'POST',
      body: 'no',
    });
    expect(await problemOf(wrong)).toEqual([422, 'cid_mismatch']);
    for (let each = 0; each < 2; each += 1) {
      const headers = { 'Idempotency-Key': 'one', 'Content-Type': 'a/b' };
      await jsonOf(owner.call('/v1/storage/plain', { method: 'POST', headers, body: 'twice' }), 201);
    }
    expect(await actions()).toEqual(['key.created', 'file.stored', 'file.stored']);
    expect((await events())[1]!.fileId).toBe(sent.headers.get('Sealpin-File'));
  });

  it('are read by the scope that can list what they are about', async () => {
    const share = await newShare();
    await owner.call.store('plain', 'x');
    const seen = async (...scopes: Scope[]): Promise<string[]> => {
      const { apiKey } = await newKey(scopes);
      return [...new Set((await events(client(service.url, apiKey))).map(({ action }) => action))].toSorted();
    };
    expect(await seen('read')).toEqual(['file.stored']);
    expect(await seen('share')).toEqual(['share.created']);
    expect(await seen('keys')).toEqual(['file.stored', 'key.created']);
    expect(await seen('keys', 'share')).toEqual(['file.stored', 'key.created', 'share.created']);
    const { apiKey } = await newKey(['write', 'delete']);
    const writer = client(service.url, apiKey);
    const { fileId } = await writer.store('plain', 'its own');
    expect(await events(writer)).toMatchObject([{ action: 'file.stored', fileId }]);
    const stranger = await newOwner(service);
    expect(JSON.stringify(await events(stranger.call))).not.toContain(share.id);
    expect(await problemOf(client(service.url, '')('/v1/events'))).toEqual([401, 'unauthorized']);
  });

  it('come by pages whose cursor skips nothing and repeats nothing while more happens, also unseen things', async () => {
    const reader = client(service.url, (await newKey(['read'])).apiKey);
    const stored: string[] = [];
    const seen: string[] = [];
    let cursor: string | undefined;
    const follow = async (): Promise<boolean> => {
      const next = await page(`?limit=2${cursor === undefined ? '' : `&after=${cursor}`}`, reader);
      seen.push(...next.events.map(({ fileId }) => String(fileId)));
      cursor = next.cursor;
      return next.more;
    };
    for (let round = 0; round < 4; round += 1) {
      await Promise.all(
        [0, 1, 2].map(async (each) => {
          stored.push((await owner.call.store('plain', `${round} ${each}`)).fileId);
          await newKey(['write']);
        }),
      );
      await follow();
    }
    while (await follow());
    expect(seen.toSorted()).toEqual(stored.toSorted());
    // At the end a page is empty, and its cursor goes on.
    expect(await page(`?after=${cursor}`, reader)).toEqual({ events: [], cursor, more: false });
    await newKey(['write']);
    const unseen = await page(`?after=${cursor}`, reader);
    expect([unseen.events, unseen.cursor === cursor]).toEqual([[], false]);
    const { fileId } = await owner.call.store('plain', 'last');
    expect((await page(`?after=${cursor}`, reader)).events).toMatchObject([{ fileId }]);
  });

  it('refuse a cursor that they have not given out', async () => {
    for (const after of ['0', '-1', 'Z', '01', '', 'zzzzzzzzzzzz', 'zz'])
      expect([after, await problemOf(owner.call(`/v1/events?after=${after}`))]).toEqual([
        after,
        [400, 'invalid_request'],
      ]);
  });

  it('are kept for 90 days; a cursor from before what is kept is refused, so that nothing is skipped in silence', async () => {
    await owner.call.store('plain', 'old');
    await owner.object.ring(89 * dayMs);
    expect(await actions()).toEqual(['key.created', 'file.stored']);
    await owner.call.store('plain', 'new');
    await owner.object.ring(2 * dayMs);
    const { events: kept, cursor } = await page();
    expect(kept).toMatchObject([{ id: '3', action: 'file.stored' }]);
    expect(await problemOf(owner.call('/v1/events?after=1'))).toEqual([410, 'gone']);
    expect((await page('?after=2')).events).toEqual(kept);
    await owner.object.ring(91 * dayMs);
    expect(await page()).toEqual({ events: [], cursor, more: false });
    expect(await problemOf(owner.call('/v1/events?after=2'))).toEqual([410, 'gone']);
    await owner.call.store('plain', 'next');
    expect((await page(`?after=${cursor}`)).events).toMatchObject([{ id: '4' }]);
  });

  it('end with the account', async () => {
    await owner.call.store('plain', 'x');
    const authorization = { Authorization: `Bearer ${adminToken}` };
    await jsonOf(
      fetch(`${service.url}/v1/operator/accounts/${owner.id}`, { method: 'DELETE', headers: authorization }),
    );
    await owner.object.ring(2 * 3_600_000);
    expect(await owner.object.tables()).toBe(0);
  });
});

describe('the opening of a share', () => {
  it.each(['before', 'after'] as const)(
    'is recorded once where the account fails %s it has recorded it',
    async (fault) => {
      const { id } = await newShare();
      const object = shareObject(service, id);
      await object.wait(aheadMs);
      await owner.object.fail('shareOpened', fault);
      await open(id);
      await expect.poll(() => object.rows('opening')).toMatchObject([{ attempts: 1 }]);
      if (fault === 'after') await expect.poll(() => openings(id)).toBe(1);
      const told = await events();
      await object.ring(60_000);
      await expect.poll(() => object.rows('opening')).toEqual([]);
      // Told again, it keeps its place: a cursor does not meet it twice.
      if (fault === 'after') expect(await events()).toEqual(told);
      await open(id);
      await expect.poll(() => openings(id)).toBe(2);
    },
  );

  it('is told again where the account was too busy to hear of it', async () => {
    const { id } = await newShare();
    const object = shareObject(service, id);
    await object.wait(aheadMs);
    await owner.object.fail('shareOpened', 'refused');
    await open(id);
    await expect.poll(() => object.rows('opening')).toMatchObject([{ attempts: 1 }]);
    expect(await openings(id)).toBe(0);
    await object.ring(60_000);
    await expect.poll(() => openings(id)).toBe(1);
    await expect.poll(() => object.rows('opening')).toEqual([]);
  });

  it('is not recorded again where the record of it is no longer kept', async () => {
    const { id } = await newShare();
    const object = shareObject(service, id);
    await object.wait(aheadMs);
    await owner.object.fail('shareOpened', 'after');
    await open(id);
    await expect.poll(() => openings(id)).toBe(1);
    await expect.poll(() => object.rows('opening')).toMatchObject([{ attempts: 1 }]);
    await owner.object.ring(92 * dayMs);
    await object.ring(60_000);
    await expect.poll(() => object.rows('opening')).toEqual([]);
    expect(await openings(id)).toBe(0);
  });

  it('is recorded where the service died after it handed the record out', async () => {
    const { id } = await newShare();
    await owner.object.fail('shareOpened', 'hangs before');
    await open(id);
    expect(await shareObject(service, id).rows('opening')).toHaveLength(1);
    await service.kill();
    service = await start();
    owner = { ...owner, call: client(service.url, owner.call.apiKey), object: accountObject(service, owner.id) };
    await shareObject(service, id).ring(60_000);
    await expect.poll(() => openings(id)).toBe(1);
  });

  it('is told also when the share has long expired, and to no account that is deleted', async () => {
    const { id } = await newShare();
    const object = shareObject(service, id);
    await object.wait(aheadMs);
    await owner.object.fail('shareOpened', 'before');
    await open(id);
    await expect.poll(() => object.rows('opening')).toMatchObject([{ attempts: 1 }]);
    await owner.object.fail('shareOpened', 'before');
    await object.ring(20 * dayMs);
    expect(await object.tables()).toBe(1);
    const headers = { Authorization: `Bearer ${adminToken}` };
    await jsonOf(fetch(`${service.url}/v1/operator/accounts/${owner.id}`, { method: 'DELETE', headers }));
    await object.ring(dayMs);
    expect(await object.tables()).toBe(0);
  });
});

it('an account and a share from before there were events have them from now on', async () => {
  const { id } = await newShare();
  await again(() =>
    changeDatabases(kept.dir, (database) => {
      database.exec('DROP TABLE IF EXISTS event; DROP TABLE IF EXISTS origin; DROP TABLE IF EXISTS opening');
    }),
  );
  expect(await page()).toEqual({ events: [], more: false });
  await open(id);
  const { fileId } = await owner.call.store('plain', 'x');
  expect((await events()).map(({ id: at, action, fileId: of }) => [at, action, of])).toEqual([
    ['1', 'file.stored', fileId],
  ]);
  await remove(`/v1/shares/${id}`);
  expect(await actions()).toEqual(['file.stored', 'share.revoked']);
});
