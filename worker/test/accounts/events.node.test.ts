/**
 * Events: each thing that happens is one of them, once and in order, also while the service dies
 * and objects do not respond.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import type { AccountEvent, Scope, Share } from '../../../shared/api.ts';
import { adminToken, type Service } from '../../../testkit/service.ts';
import { client, problemOf, type Client } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { newOwner, shareObject, type Owner, ownerAt } from '../stored-state.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { inCi } from '../../../testkit/long-run.ts';

const dayMs = 86_400_000;
/**
 * A share whose clock is so far ahead rings its alarm when the test does, however slow the machine
 * is.
 */
const aheadMs = 3_600_000;
let service: Service;
let owner: Owner;

const restart = restartable('events', (started) => {
  service = started;
});
beforeEach(async () => {
  owner = await newOwner(service);
});

const events = async (by: Client = owner.call): Promise<AccountEvent[]> => (await by.listEvents({ limit: 100 })).events;
const actions = async (by?: Client): Promise<string[]> => (await events(by)).map(({ action }) => action);
const newShare = (files: string[] = []): Promise<Share> =>
  owner.call.createShare({ record: 'AAAA', files, password: false, opens: 100 });
const open = (id: string): Promise<unknown> => client(service.url).openShare({ shareId: id });
const openings = async (id: string): Promise<number> =>
  (await events()).filter(({ action, shareId }) => action === 'share.opened' && shareId === id).length;

describe('the events of an account', () => {
  it('say what happened, to what, and by which key, and nothing else', async () => {
    const first = itemOf(await events(), 0);
    expect(first).toEqual({ id: '1', time: expect.any(String), action: 'key.created', keyId: expect.any(String) });
    const by = first.keyId;
    const { fileId } = await owner.call.store('encrypted', 'a secret', { filename: 'secret-name.pdf' });
    const writer = await owner.call.withKey(['write']);
    const { fileId: plain } = await writer.store('plain', 'plain', { filename: 'other-name' });
    const share = await newShare([fileId]);
    await open(share.id);
    await expect.poll(() => openings(share.id)).toBe(1);
    await owner.call.deleteFile({ fileId });
    await owner.call.revokeKey({ id: writer.id });
    const { id: shareId } = share;
    expect((await events()).slice(1)).toMatchObject([
      { action: 'file.stored', by, fileId },
      { action: 'key.created', by, keyId: writer.id },
      { action: 'file.stored', by: writer.id, fileId: plain },
      { action: 'share.created', by, shareId },
      { action: 'share.opened', shareId },
      { action: 'file.deleted', by, fileId },
      { action: 'share.revoked', by, shareId },
      { action: 'key.revoked', by, keyId: writer.id },
    ]);
    const rows = JSON.stringify(await owner.object.rows('event'));
    expect(rows).not.toMatch(/secret|name/);
    // What a row costs is bounded: it has IDs and numbers alone.
    expect(rows.length / 9).toBeLessThan(250);
  });

  it('have a file that tus completed, and none that failed or was sent again', async () => {
    const tus = { 'Tus-Resumable': '1.0.0' };
    const made = await owner.call.ask('createUploadPlain', {}, { headers: { ...tus, 'Upload-Length': '3' } });
    const patch = { ...tus, 'Upload-Offset': '0', 'Content-Type': 'application/offset+octet-stream' };
    const sent = await owner.call(present(made.headers.get('Location')), {
      method: 'PATCH',
      headers: patch,
      body: 'abc',
    });
    expect(sent.status).toBe(204);
    const wrong = owner.call.ask('storePlain', { cid: sent.headers.get('Sealpin-Cid') }, { body: 'no' });
    expect(await problemOf(wrong)).toBe('422 cid_mismatch');
    for (let each = 0; each < 2; each += 1) {
      const headers = { 'Idempotency-Key': 'one', 'Content-Type': 'a/b' };
      await owner.call.storePlain({}, { headers, body: 'twice' });
    }
    expect(await actions()).toEqual(['key.created', 'file.stored', 'file.stored']);
    expect(itemOf(await events(), 1).fileId).toBe(sent.headers.get('Sealpin-File'));
  });

  it('are read by the scope that can list what they are about', async () => {
    const share = await newShare();
    await owner.call.store('plain', 'x');
    const seen = async (...scopes: Scope[]): Promise<string[]> => {
      return [...new Set((await events(await owner.call.withKey(scopes))).map(({ action }) => action))].toSorted();
    };
    expect(await seen('read')).toEqual(['file.stored']);
    expect(await seen('share')).toEqual(['share.created']);
    expect(await seen('keys')).toEqual(['file.stored', 'key.created']);
    expect(await seen('keys', 'share')).toEqual(['file.stored', 'key.created', 'share.created']);
    for (const scopes of [['write'], ['delete'], ['write', 'delete'], ['send']] satisfies Scope[][])
      expect(await problemOf((await owner.call.withKey(scopes)).ask('listEvents'))).toBe('403 insufficient_scope');
    const both = await owner.call.withKey(['write', 'share']);
    const { fileId } = await both.store('plain', 'its own');
    expect(await events(both)).toMatchObject([{ action: 'share.created' }, { action: 'file.stored', fileId }]);
    const stranger = await newOwner(service);
    expect(JSON.stringify(await events(stranger.call))).not.toContain(share.id);
    expect(await problemOf(client(service.url, '').ask('listEvents'))).toBe('401 unauthorized');
  });

  it('come in pages whose cursor skips and repeats nothing while more happens, also unseen things', async () => {
    const reader = await owner.call.withKey(['read']);
    const stored: string[] = [];
    const seen: string[] = [];
    let cursor: string | undefined;
    const follow = async (): Promise<boolean> => {
      const next = await reader.listEvents({ limit: 2, after: cursor });
      seen.push(...next.events.map(({ fileId }) => String(fileId)));
      cursor = next.cursor;
      return next.more;
    };
    for (let round = 0; round < 4; round += 1) {
      await Promise.all(
        [0, 1, 2].map(async (each) => {
          stored.push((await owner.call.store('plain', `${round} ${each}`)).fileId);
          await owner.call.withKey(['write']);
        }),
      );
      await follow();
    }
    while (await follow());
    expect(seen.toSorted()).toEqual(stored.toSorted());
    expect(await reader.listEvents({ after: cursor })).toEqual({ events: [], cursor, more: false });
    await owner.call.withKey(['write']);
    const { fileId } = await owner.call.store('plain', 'last');
    expect((await reader.listEvents({ after: cursor })).events).toMatchObject([{ fileId }]);
  });

  it.each(['read', 'share', 'keys'] as const)(
    'whose cursor tells a key with %s alone nothing of what it does not see',
    async (scope) => {
      const reader = await owner.call.withKey([scope]);
      const acts = {
        share: newShare,
        keys: () => owner.call.withKey(['write']),
        read: () => owner.call.store('plain', 'x'),
      };
      const act = async (kind: keyof typeof acts): Promise<unknown> => await acts[kind]();
      await act(scope);
      const seen = await reader.listEvents();
      await act(scope === 'share' ? 'keys' : 'share');
      expect(await reader.listEvents()).toEqual(seen);
      expect(await reader.listEvents({ after: seen.cursor })).toEqual({ events: [], cursor: seen.cursor, more: false });
      await act(scope);
      expect((await reader.listEvents({ after: seen.cursor })).events).toHaveLength(1);
    },
  );

  it('that a key with share does not see give it no cursor', async () => {
    const reader = await owner.call.withKey(['share']);
    expect(await reader.listEvents()).toEqual({ events: [], more: false });
  });

  it('refuse a cursor that they have not given out', async () => {
    for (const after of ['0', '-1', 'Z', '01', '', 'zzzzzzzzzzzz', 'zz'])
      expect(await problemOf(owner.call.ask('listEvents', { after })), after).toBe('400 invalid_request');
  });

  it('are kept for 90 days; an older cursor is refused, so that nothing is skipped in silence', async () => {
    await owner.call.store('plain', 'old');
    await owner.object.ring(89 * dayMs);
    expect(await actions()).toEqual(['key.created', 'file.stored']);
    await owner.call.store('plain', 'new');
    await owner.object.ring(2 * dayMs);
    const { events: kept, cursor } = await owner.call.listEvents();
    expect(kept).toMatchObject([{ id: '3', action: 'file.stored' }]);
    expect(await problemOf(owner.call.ask('listEvents', { after: 1 }))).toBe('410 gone');
    expect((await owner.call.listEvents({ after: '2' })).events).toEqual(kept);
    await owner.object.ring(91 * dayMs);
    expect(await owner.call.listEvents()).toEqual({ events: [], cursor, more: false });
    expect(await problemOf(owner.call.ask('listEvents', { after: 2 }))).toBe('410 gone');
    await owner.call.store('plain', 'next');
    expect((await owner.call.listEvents({ after: cursor })).events).toMatchObject([{ id: '4' }]);
  });

  it('that a key does not see make it miss nothing, however long it waits', async () => {
    const reader = await owner.call.withKey(['share']);
    await newShare();
    const { cursor } = await reader.listEvents();
    for (let month = 0; month < 6; month += 1) {
      await owner.call.store('plain', 'unseen');
      await owner.object.ring(30 * dayMs);
      if (month !== 4) expect(await reader.listEvents({ after: cursor })).toEqual({ events: [], cursor, more: false });
    }
    await newShare();
    expect((await reader.listEvents({ after: cursor })).events).toMatchObject([{ action: 'share.created' }]);
    await owner.object.ring(92 * dayMs);
    expect(await problemOf(reader.ask('listEvents', { after: cursor }))).toBe('410 gone');
    const { cursor: again } = await reader.listEvents();
    expect(await reader.listEvents({ after: again })).toEqual({ events: [], cursor: again, more: false });
  });

  it('end with the account', async () => {
    await owner.call.store('plain', 'x');
    await client(service.url, adminToken).deleteAccount({ id: owner.id });
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
    await restart.kill();
    owner = ownerAt(service, owner);
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
    await client(service.url, adminToken).deleteAccount({ id: owner.id });
    await object.ring(dayMs);
    expect(await object.tables()).toBe(0);
  });
});

inCi('an account and a share from before there were events have them from now on', async () => {
  const { id } = await newShare();
  await restart.again((database) =>
    database.exec('DROP TABLE IF EXISTS event; DROP TABLE IF EXISTS origin; DROP TABLE IF EXISTS opening'),
  );
  owner = ownerAt(service, owner);
  expect(await owner.call.listEvents()).toEqual({ events: [], more: false });
  await open(id);
  const { fileId } = await owner.call.store('plain', 'x');
  expect((await events()).map(({ id: at, action, fileId: of }) => [at, action, of])).toEqual([
    ['1', 'file.stored', fileId],
  ]);
  await owner.call.deleteShare({ shareId: id });
  expect(await actions()).toEqual(['file.stored', 'share.revoked']);
});
