/**
 * Shares that stop in the middle, between the object that decides and the one that has the record:
 * what is left is a share that is listed and opens, or none, and never a record that nobody can
 * revoke.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import type { Receipt, Revoked, Share, ShareReceipt } from '../../../shared/api.ts';
import { adminToken, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { dayMs, minuteMs, store } from '../invitations/guest.ts';
import { newOwner, shareObject, type Owner, ownerAt } from '../stored-state.ts';
import { first } from '../../../testkit/present.ts';
import { newShareId } from '../../../shared/link/index.ts';
import { long } from '../../../testkit/long-run.ts';

/** Time beyond that for which a record may be on its way. */
const longMs = 3_600_000;

let service: Service;
let owner: Owner;
let fileId: string;

const restart = restartable('shares', (started) => {
  service = started;
});
beforeEach(async () => {
  owner = await newOwner(service);
  ({ fileId } = await owner.call.store('encrypted', 'shared'));
});

const requested = (id?: string) => ({
  ...(id !== undefined && { id }),
  record: Buffer.alloc(500, 7).toString('base64'),
  files: [fileId],
  password: false,
});
const make = (id?: string): Promise<Response> => owner.call.ask('createShare', requested(id));
const made = (): Promise<Share> => jsonOf<Share>(make(), 201);
const open = (id: string): Promise<Response> => fetch(`${service.url}/v1/shares/${id}/open`, { method: 'POST' });
const remove = (path: string): Promise<Response> => owner.call(path, { method: 'DELETE' });
const listed = async (): Promise<string[]> => (await owner.call.listShares()).shares.map(({ id }) => id);
const outbox = async (): Promise<string[]> =>
  (await owner.object.rows('outbox')).filter((row) => row['op'] === 'unshare').map((row) => String(row['target']));
const record = async (id: string): Promise<unknown> =>
  (await shareObject(service, id).rows('share'))[0]?.['record'] ?? undefined;

/** The ID of the share that is being made. */
async function making(): Promise<string> {
  const id = async (): Promise<unknown> => (await owner.object.rows('share'))[0]?.['id'];
  await expect.poll(id).toBeTypeOf('string');
  return String(await id());
}

/** Kills the service, as a power cut would, and starts it again. */
async function crash(lost: Promise<unknown>): Promise<void> {
  const ended = expect(lost).rejects.toThrow();
  await restart.kill();
  await ended;
  owner = ownerAt(service, owner);
}

/** Expects that nothing is listed, opens, or waits. */
async function expectNothing(id: string): Promise<void> {
  await owner.object.ring(longMs);
  expect(await listed()).toEqual([]);
  expect(await record(id)).toBe(undefined);
  expect(await outbox()).toEqual([]);
  expect(await owner.object.rows('share')).toEqual([]);
  expect([404, 410]).toContain((await open(id)).status);
}

it.each(long ? (['before', 'after'] as const) : (['after'] as const))(
  'a record that cannot be sent (%s) makes no share',
  async (fault) => {
    await owner.object.fail('create', fault);
    let id: string | undefined;
    const asked = problemOf(make());
    const ended = asked.then(() => true);
    while (!(await Promise.race([ended, Promise.resolve(false)]))) {
      const [row] = await owner.object.rows('share');
      if (typeof row?.['id'] === 'string') id = row['id'];
    }
    expect(await asked).toBe('503 overloaded');
    expect(await listed()).toEqual([]);
    if (id !== undefined) await expectNothing(id);
    await owner.object.ring(longMs);
    expect({ outbox: await outbox(), share: await owner.object.rows('share') }).toEqual({ outbox: [], share: [] });
  },
);

describe('a share that is made at the second attempt', () => {
  it.each(['before', 'after'] as const)('stays where the record could not be sent (%s)', async (fault) => {
    const id = newShareId();
    await owner.object.fail('create', fault);
    expect(await problemOf(make(id))).toBe('503 overloaded');
    expect((await jsonOf<Share>(make(id), 201)).id).toBe(id);
    expect(await outbox()).toEqual([]);
    await owner.object.ring(longMs);
    expect((await open(id)).status).toBe(200);
    expect(await listed()).toEqual([id]);
    expect(await problemOf(make(id))).toBe('409 conflict');
  });

  it('is refused while what ends the first one may be on its way', async () => {
    const id = newShareId();
    await owner.object.fail('create', 'after');
    expect(await problemOf(make(id))).toBe('503 overloaded');
    await owner.object.fail('revoke', 'before');
    await owner.object.ring(longMs / 4);
    expect(await outbox()).toEqual([id]);
    expect(await problemOf(make(id))).toBe('503 overloaded');
    await owner.object.ring(longMs);
    expect(await outbox()).toEqual([]);
    expect(await record(id)).toBeUndefined();
  });

  it('is refused while the first is made, and leaves it alone', async () => {
    const id = newShareId();
    await owner.object.fail('create', 'held');
    const earlier = make(id);
    await expect.poll(() => owner.object.awaits('create')).toBe(false);
    expect((await make(id)).status).toBe(503);
    await owner.object.fail('create', 'let go');
    expect((await earlier).status).toBe(201);
    await owner.object.ring(longMs);
    expect((await open(id)).status).toBe(200);
  });

  describe('leaves that of another account alone', () => {
    type Guess = { by: Owner; fileId: string; keyId: string };
    it.each<[string, (guess: Guess) => Promise<unknown>]>([
      ['is refused', async () => undefined],
      ['has its file deleted', ({ by, fileId: of }) => by.call.deleteFile({ fileId: of })],
      ['has its file expire', ({ by }) => by.object.ring(minuteMs)],
      ['has its key revoked', ({ by, keyId }) => by.call.revokeKey({ id: keyId })],
      ['has its account deleted', ({ by }) => client(service.url, adminToken).deleteAccount({ id: by.id })],
    ])('where the one that is made %s', async (_, end) => {
      const { id } = await made();
      const by = await newOwner(service);
      const file = await store(by.call, minuteMs / dayMs);
      const { apiKey, key } = await by.call.createKey({ label: 'k', scopes: ['share'] });
      await by.object.fail('create', 'held');
      const asked = problemOf(
        client(service.url, apiKey).ask('createShare', { ...requested(id), files: [file.fileId] }),
      );
      await expect.poll(async () => (await by.object.rows('share')).length).toBe(1);
      await expect.poll(() => by.object.awaits('create')).toBe(false);
      await end({ by, fileId: file.fileId, keyId: key.id });
      await by.object.fail('create', 'let go');
      expect(await asked).toBe('409 conflict');
      await by.object.ring(longMs);
      expect((await open(id)).status).toBe(200);
      expect(await listed()).toEqual([id]);
    });

    it.each(['before', 'after'] as const)('where the record could not be sent (%s)', async (fault) => {
      const { id } = await made();
      const by = await newOwner(service);
      await by.object.fail('create', fault);
      expect(await problemOf(by.call.ask('createShare', { ...requested(id), files: [] }))).toBe('503 overloaded');
      await by.object.ring(longMs);
      expect((await open(id)).status).toBe(200);
    });
  });
});

it('a key that is revoked while it makes a share makes none, since nothing would end it', async () => {
  // No alarm is set then, so that the share sets one.
  await owner.object.ring(longMs);
  const key = await owner.call.createKey({ label: 'k', scopes: ['share', 'read'] });
  await owner.object.ring(longMs);
  await owner.object.fail('setAlarm', 'late');
  const lost = client(service.url, key.apiKey).ask('createShare', {
    record: Buffer.alloc(500, 7).toString('base64'),
    files: [fileId],
    password: false,
  });
  await expect.poll(() => owner.object.awaits('setAlarm')).toBe(false);
  await jsonOf<Revoked>(remove(`/v1/keys/${key.key.id}`));
  expect(await problemOf(lost)).toBe('401 unauthorized');
  expect(await owner.object.rows('share')).toEqual([]);
});

it('a file that is deleted while its share is made ends the share, even where the record comes later', async () => {
  await owner.object.fail('create', 'hangs after');
  const lost = make();
  const id = await making();
  await expect.poll(() => record(id)).toBeDefined();
  const receipt = await jsonOf<Receipt>(remove(`/v1/storage/${fileId}`));
  expect(receipt.shares).toEqual([{ id, record: 'destroyed' }]);
  expect(await record(id)).toBeUndefined();
  // The second message waits for a record that is still on its way.
  expect(await outbox()).toEqual([id]);
  await crash(lost);
  await expectNothing(id);
});

it('a share whose file was deleted before its record came is refused, and ended', async () => {
  await owner.object.fail('create', 'held');
  const asked = problemOf(make());
  const id = await making();
  await expect.poll(() => owner.object.awaits('create')).toBe(false);
  await jsonOf(remove(`/v1/storage/${fileId}`));
  await owner.object.fail('create', 'let go');
  expect(await asked).toBe('409 conflict');
  await expectNothing(id);
});

it('a record whose share expires while an opening is reported is destroyed then', async () => {
  const { id } = await made();
  const { expiresAt } = first((await owner.call.listShares()).shares);
  await owner.object.fail('shareOpened', 'before');
  expect((await open(id)).status).toBe(200);
  await expect.poll(() => owner.object.awaits('shareOpened')).toBe(false);
  await owner.object.fail('shareOpened', 'late');
  // The alarm rings before the end, and the report takes longer.
  await shareObject(service, id).ring(Date.parse(expiresAt) - Date.now() - 500);
  await expect.poll(() => record(id), { timeout: 5000 }).toBeUndefined();
});

describe('a record that cannot be reached', () => {
  const endings: [string, () => Promise<unknown>][] = [
    ['its revocation', async () => [await jsonOf<ShareReceipt>(remove(`/v1/shares/${first(await listed())}`))]],
    ['the deletion of its file', async () => (await jsonOf<Receipt>(remove(`/v1/storage/${fileId}`))).shares],
    [
      'the revocation of its key',
      async () => {
        const { id } = first((await owner.call.listKeys()).keys);
        const spare = await owner.call.createKey({
          label: 'spare',
          scopes: ['read', 'write', 'delete', 'keys', 'share'],
        });
        owner = { ...owner, call: client(service.url, spare.apiKey) };
        return (await jsonOf<Revoked>(remove(`/v1/keys/${id}`))).shares;
      },
    ],
  ];
  it.each(endings)('is destroyed as soon as it can be; %s says so', async (_, end) => {
    const { id } = await made();
    await owner.object.fail('revoke', 'before');
    expect(await end()).toEqual([{ id, record: 'scheduled' }]);
    expect(await listed()).toEqual([]);
    expect(await outbox()).toEqual([id]);
    await expectNothing(id);
  });

  it('and whose destruction is not acknowledged is destroyed once more', async () => {
    const { id } = await made();
    await owner.object.fail('revoke', 'after');
    expect(await jsonOf<ShareReceipt>(remove(`/v1/shares/${id}`))).toEqual({ id, record: 'scheduled' });
    expect(await record(id)).toBeUndefined();
    await expectNothing(id);
  });
});
