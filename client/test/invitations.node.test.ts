/** Invitations, against the service: their terms, and what a guest sends, sees and takes back. */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { parseLink } from '../../shared/link/index.ts';
import { sharedService, startService, type Service } from '../../testkit/service.ts';
import { connect, connectAsGuest, receive, type Connection } from '../index.ts';
import { ci } from '../../testkit/long-run.ts';
import { first, present } from '../../testkit/present.ts';
import { pattern } from './bytes.ts';

const dayMs = 86_400_000;
let service: Service;
let host: Connection;
beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  host = connect({ service: service.url, apiKey: (await service.account()).apiKey });
});

const daysUntil = (time: string | undefined): number => (Date.parse(present(time)) - Date.now()) / dayMs;

test('an invitation is limited, unless it says otherwise, and is listed until it is revoked', async () => {
  const { link, key } = await host.invitation.create({ label: 'Ann' });
  expect(parseLink(link).link).toMatchObject({ kind: 'invitation', service: `${service.url}/` });
  expect(key).toMatchObject({ label: 'Ann', scopes: ['send'], limits: { files: 200, bytes: 1024 ** 3 } });
  expect(daysUntil(key.expiresAt)).toBeCloseTo(90, 1);
  const expiresAt = new Date(Date.now() + dayMs);
  const other = await host.invitation.create({ label: 'Ben', expiresAt, limits: { files: 1, fileBytes: 5 } });
  expect(other.key).toMatchObject({ limits: { files: 1, bytes: 1024 ** 3, fileBytes: 5 } });
  expect((await host.invitation.list()).map(({ label }) => label)).toEqual(['Ann', 'Ben']);
  await host.inbox.create({
    label: 'inbox',
    recipient: 'age1tag1q0r9t82pdha4dtm3fu2xmytuyj4lsx9jlvfpvpqjjeycfq3s5tf9sphmvua',
  });
  expect(await host.invitation.revoke(key.id)).toEqual({ revoked: [key.id] });
  expect((await host.invitation.list()).map(({ label }) => label)).toEqual(['Ben']);
  await expect(connectAsGuest(link).shares()).rejects.toMatchObject({ code: 'unauthorized' });
});

test('a guest sends files of any size, sees the links, and takes them back with the files', async () => {
  const guest = connectAsGuest((await host.invitation.create({ label: 'Ann' })).link);
  const bytes = pattern((ci ? 17 : 2) * 1024 * 1024);
  const files = [
    { source: bytes, name: 'large.bin' },
    { source: 'small', name: 'small.txt' },
  ];
  const sent = await guest.send(files, { note: 'As promised.' });
  expect(daysUntil(sent.share.expiresAt)).toBeCloseTo(7, 1);
  const received = await receive(sent.link);
  expect(received.note).toBe('As promised.');
  expect(Buffer.compare(await (await first(received.files).open()).bytes(), bytes)).toBe(0);
  for (const { expiresAt } of (await host.list()).files) expect(daysUntil(expiresAt)).toBeCloseTo(7, 1);
  expect((await guest.shares()).shares).toMatchObject([{ id: sent.share.id, state: 'active', opensLeft: 4 }]);
  const changed = await guest.changeShare(sent.share.id, { expiresAt: new Date(Date.now() + 20 * dayMs), opens: 9 });
  expect(changed).toMatchObject({ opens: 9, opensLeft: 8 });
  for (const { expiresAt } of (await host.list()).files) expect(daysUntil(expiresAt)).toBeCloseTo(20, 1);
  const ids = sent.files.map(({ fileId }) => fileId);
  expect(await guest.unshare(sent.share.id)).toMatchObject({ record: 'destroyed', opened: 1, files: ids });
  expect((await host.list()).files).toEqual([]);
});

test('what a guest sends ends with the invitation, at the latest', async () => {
  const expiresAt = new Date(Date.now() + 2 * dayMs);
  const guest = connectAsGuest((await host.invitation.create({ label: 'Ann', expiresAt })).link);
  const { share } = await guest.send({ source: 'x', name: 'x' });
  expect(share.expiresAt).toBe(expiresAt.toISOString());
  const later = { expiresAt: new Date(Date.now() + 3 * dayMs) };
  await expect(guest.send({ source: 'x', name: 'x' }, later)).rejects.toMatchObject({ code: 'forbidden' });
});

test('what a guest sends without an end ends no later than the service permits', async () => {
  const strict = await startService({ vars: { SHARE_MAX_DAYS: '2' } });
  try {
    const owner = connect({ service: strict.url, apiKey: (await strict.account()).apiKey });
    const guest = connectAsGuest((await owner.invitation.create({ label: 'Ann' })).link);
    const { share } = await guest.send({ source: 'x', name: 'x' });
    expect(daysUntil(share.expiresAt)).toBeCloseTo(2, 1);
    for (const { expiresAt } of (await owner.list()).files) expect(daysUntil(expiresAt)).toBeCloseTo(2, 1);
  } finally {
    await strict.close();
  }
});

test('a service that does not know invitations is said to be older, and other links are no invitations', async () => {
  const older = connect({
    service: service.url,
    apiKey: (await service.account()).apiKey,
    async fetch(url, init) {
      const { body } = init;
      const known = typeof body === 'string' ? body.replace('"send"', '"unknown"') : body;
      return await fetch(url, body === undefined ? init : { ...init, body: known ?? null });
    },
  });
  await expect(older.invitation.create({ label: 'x' })).rejects.toMatchObject({ code: 'unsupported_version' });
  await expect(host.invitation.create({ label: '' })).rejects.toMatchObject({ code: 'invalid_request' });
  const { link } = await host.send({ source: 'x', name: 'x' });
  expect(() => connectAsGuest(link)).toThrow(expect.objectContaining({ code: 'link_invalid' }) as Error);
  await expect(receive((await host.invitation.create({ label: 'Ann' })).link)).rejects.toMatchObject({
    code: 'link_invalid',
  });
});
