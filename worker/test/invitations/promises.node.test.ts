/**
 * What an invitation is promised, its limits, is there for its guest, although anybody else fills
 * the account in any way.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { carType } from '../../../shared/ipfs/index.ts';
import { client, problemOf, signedPath, type Client } from '../../../testkit/api-client.ts';
import { ci } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { foreignCar } from '../stores/foreign-car.ts';
import { metadataOf, patch, random, version, type Mode } from '../uploads/tus-client.ts';
import { ask, dayMs, hourMs, invite, minuteMs, soon, store, type Guest } from './guest.ts';

const full = '413 quota_exceeded';
const promised = { files: 3, bytes: 2000 };
const hosting = ['keys', 'write', 'share', 'delete'] as const;
/** Bytes of a file that is stored to fill: of what is promised, and of what is left, two fit. */
const pieceBytes = 850;

let service: Service;
let operator: Client;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
  operator = client(service.url, adminToken);
});
beforeEach(async () => {
  owner = await newOwner(service);
});

const setQuota = (quotaBytes: number) => operator.changeAccount({ id: owner.id, quotaBytes });

const named = { 'Content-Disposition': 'attachment; filename="n"' };

type Way = (call: Client, mode: Mode) => Promise<Response>;

function post(call: Client, mode: Mode, type: string, body: BodyInit, more: Record<string, string> = {}) {
  const query = new URLSearchParams({ expiresAt: soon(hourMs), ...more }).toString();
  const headers = { 'Content-Type': type, ...(type !== 'application/json' && named) };
  return call(`/v1/storage/${mode}?${query}`, { method: 'POST', headers, body, duplex: 'half' });
}

function open(call: Client, mode: Mode, length: number | undefined): Promise<Response> {
  const announced: Record<string, string> =
    length === undefined ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': `${length}` };
  const metadata = { 'Upload-Metadata': metadataOf({ filename: 'n', expiresAt: soon(dayMs) }) };
  return call(`/v1/uploads/${mode}`, { method: 'POST', headers: { ...version, ...announced, ...metadata } });
}

async function send(call: Client, opened: Response, headers: Record<string, string> = {}): Promise<Response> {
  if (!opened.ok) return opened;
  return await patch(call, present(opened.headers.get('Location')), 0, random(pieceBytes), headers);
}

const bytes = () => Buffer.from(random(pieceBytes));

/** All ways in which something is stored. */
const ways: Record<string, Way> = {
  'a body': (call, mode) => post(call, mode, 'a/b', bytes()),
  'a body of unknown length': (call, mode) => post(call, mode, 'a/b', new Blob([bytes()]).stream()),
  JSON: (call, mode) =>
    post(call, mode, 'application/json', JSON.stringify({ filename: 'n', data: bytes().toString('base64') })),
  'a CAR': async (call) => post(call, 'plain', carType, await foreignCar(bytes())),
  'payloads of a delivery': (call) => post(call, 'plain', 'a/b', bytes(), { provisional: 'true' }),
  'an upload in several requests': async (call, mode) => send(call, await open(call, mode, pieceBytes)),
  'an upload that never ends': (call, mode) => open(call, mode, pieceBytes),
  'an upload whose length comes last': async (call, mode) =>
    send(call, await open(call, mode, undefined), { 'Upload-Length': `${pieceBytes}` }),
  'an upload without a length': async (call, mode) => send(call, await open(call, mode, undefined)),
};

/** Those who fill an account, by its owner's key or by the key of a host with limits. */
const fillers: Record<string, (by: Client) => Promise<{ call: Client; mode: Mode }>> = {
  'another guest': async (by) => ({ call: await invite(by, { limits: promised }), mode: 'plain' }),
  'who invited': async (by) => ({ call: by, mode: 'encrypted' }),
  'an inbox': async (by) => ({ call: await by.withKey(['write']), mode: 'plain' }),
};

/** Stores until it is refused. @returns how often it was stored */
async function fill(way: Way, call: Client, mode: Mode): Promise<number> {
  for (let count = 0; count < 9; count += 1) {
    const answer = await way(call, mode);
    if (answer.ok) continue;
    const { code, detail, hint } = await answer.json<Record<string, string>>();
    expect(code).toBe('quota_exceeded');
    // A number would tell what others use, unless it is of the limits of the key itself.
    if (detail?.startsWith('the limits of the API key') !== true) expect(`${detail} ${hint}`).not.toMatch(/\d/);
    return count;
  }
  throw new Error('nothing refuses it');
}

async function usesAll(guest: Guest): Promise<void> {
  expect((await guest.getAccount()).key.left).toEqual(promised);
  for (const length of [900, 1099, 1])
    expect((await ask(guest, 'x'.repeat(length), soon(hourMs))).status, `${length} bytes`).toBe(201);
  expect(await problemOf(ask(guest, '', soon(hourMs)))).toBe(full);
}

describe('a guest stores all that was promised', () => {
  const table = Object.keys(ways)
    .flatMap((way) => Object.keys(fillers).map((filler) => [way, filler] as const))
    .filter(([way, filler]) => filler !== 'an inbox' || /body$|delivery/.test(way));
  const turnOf = (way: string, filler: string): number =>
    Object.keys(ways).indexOf(way) + Object.keys(fillers).indexOf(filler);
  /** In the short form, each way and each filler with some of the others. */
  const tried = table.filter(([way, filler]) => ci || turnOf(way, filler) % 2 === 0);

  it.each(tried)('after %s by %s has filled what the quota leaves', async (way, filler) => {
    await setQuota(6000);
    const guest = await invite(owner.call, { limits: promised });
    const { call, mode } = await present(fillers[filler])(owner.call);
    if (filler !== 'another guest') await invite(owner.call, { limits: promised });
    expect(await fill(present(ways[way]), call, mode)).toBe(2);
    await usesAll(guest);
  });

  it.each(tried.filter(([way]) => /^a body$|never/.test(way)))(
    'after %s by %s has filled what the limits of the host leave',
    async (way, filler) => {
      const host = await owner.call.withKey(hosting, { limits: { files: 8, bytes: 6000 } });
      const guest = await invite(host, { limits: promised });
      const { call, mode } = await present(fillers[filler])(host);
      if (filler !== 'another guest') await invite(host, { limits: promised });
      expect(await fill(present(ways[way]), call, mode)).toBe(2);
      await usesAll(guest);
    },
  );

  it('after a signed URL and a guest without a limit have filled what is left', async () => {
    await setQuota(6000);
    const [guest, boundless] = [await invite(owner.call, { limits: promised }), await owner.call.withKey(['send'])];
    const anybody = client(service.url, '');
    const signed: Way = async () => {
      const path = await signedPath(owner.call.apiKey, { method: 'POST', mode: 'plain', jti: crypto.randomUUID() });
      return anybody(path, { method: 'POST', body: bytes(), headers: { 'Content-Type': 'a/b' } });
    };
    expect(await fill(signed, owner.call, 'plain')).toBe(4);
    expect(await fill(present(ways['a body']), boundless, 'plain')).toBe(0);
    await usesAll(guest);
  });

  it('after others have stored files of no bytes where only their number is limited', async () => {
    const host = await owner.call.withKey(hosting, { limits: { files: 5 } });
    const guest = await invite(host, { limits: promised });
    const upload = present((await open(guest, 'plain', pieceBytes)).headers.get('Location'));
    expect(await fill((call) => post(call, 'plain', 'a/b', ''), host, 'plain')).toBe(2);
    await guest(upload, { method: 'DELETE', headers: version });
    await usesAll(guest);
  });

  it('after uploads without a length, which count as they are stored', async () => {
    await setQuota(promised.bytes + pieceBytes + 10);
    const guest = await invite(owner.call, { limits: promised });
    for (const mode of ['encrypted', 'plain'] as const)
      expect(await fill(present(ways['an upload without a length']), owner.call, mode)).toBe(mode === 'plain' ? 1 : 0);
    await usesAll(guest);
  });

  it('of uploads that were announced before others came, and again after it took something back', async () => {
    await setQuota(4000);
    const guest = await invite(owner.call, { limits: promised });
    const opened = await open(guest, 'plain', pieceBytes);
    expect(await fill(present(ways['a body']), owner.call, 'plain')).toBe(2);
    const sent = await send(guest, opened);
    expect(sent.status).toBe(204);
    await owner.call.deleteFile({ fileId: present(sent.headers.get('Sealpin-File')) });
    expect(await fill(present(ways['a body']), owner.call, 'plain')).toBe(0);
    await usesAll(guest);
  });
});

describe('an invitation', () => {
  const inviting = (limits: object, by: Client = owner.call, forMs = dayMs) =>
    by.ask('createKey', { label: 'x', scopes: ['send'], limits, expiresAt: soon(forMs) });

  it('is refused where it is promised more than is left, and says how much that is', async () => {
    await setQuota(5000);
    await owner.call.store('plain', 'x'.repeat(1000));
    await open(owner.call, 'plain', 500);
    await invite(owner.call, { limits: promised });
    const refused = await inviting({ bytes: 1501 });
    const { code, detail, hint } = await refused.json<Record<string, string>>();
    expect({ code, detail, hint }).toEqual({
      code: 'quota_exceeded',
      detail: 'an invitation is promised its limits: limits.bytes is 1501, and the quota of the account leaves 1500',
      hint: expect.stringMatching(/^set lower limits, .* or ask the operator/) as unknown,
    });
    const blind = await inviting({ bytes: 1501 }, await owner.call.withKey(hosting));
    expect((await blind.json<{ detail: string }>()).detail).toMatch(/the quota of the account leaves less$/);
    expect((await inviting({ bytes: 1500 })).status).toBe(201);
    expect(await problemOf(inviting({ bytes: 1 }))).toBe(full);
    expect((await inviting({ files: 9 })).status).toBe(201);
  });

  it('is refused where a host promises more than its own limits leave', async () => {
    const host = await owner.call.withKey(hosting, { limits: { files: 5, bytes: 5000 } });
    await invite(host, { limits: promised });
    for (const limits of [
      { files: 3, bytes: 1 },
      { files: 1, bytes: 3001 },
    ])
      expect(await problemOf(inviting(limits, host))).toBe(full);
    expect((await host.getAccount()).key.left).toEqual({ files: 2, bytes: 3000 });
    expect((await inviting({ files: 2, bytes: 3000 }, host)).status).toBe(201);
  });

  it.each(['revoked', 'over'])('gives back what it has not used when it is %s', async (end) => {
    await setQuota(3000);
    const guest = await invite(owner.call, { limits: promised });
    await store(guest);
    expect(await problemOf(inviting({ bytes: 1001 }))).toBe(full);
    if (end === 'revoked') await owner.call.revokeKey({ id: guest.id });
    else await owner.object.change(`UPDATE api_key SET expires_at = 1 WHERE id = '${guest.id}'`);
    // What it stored counts until it is deleted.
    expect((await inviting({ bytes: 2900 }, owner.call, 4 * dayMs)).status).toBe(201);
    await owner.object.ring(2 * dayMs + minuteMs);
    expect((await inviting({ bytes: 100 })).status).toBe(201);
  });

  it('for which there is not enough any more keeps nothing from others: who comes first is served', async () => {
    const guests = [await invite(owner.call, { limits: promised }), await invite(owner.call, { limits: promised })];
    await setQuota(3000);
    expect(await problemOf(inviting({ bytes: 1 }))).toBe(full);
    expect((await ask(owner.call, 'x'.repeat(900))).status).toBe(201);
    expect((await ask(present(guests[0]), 'x'.repeat(2000), soon(hourMs))).status).toBe(201);
    expect(await problemOf(ask(present(guests[1]), 'x'.repeat(101), soon(hourMs)))).toBe(full);
    expect((await ask(present(guests[1]), 'x'.repeat(100), soon(hourMs))).status).toBe(201);
  });

  it('is promised nothing of an account without a quota', async () => {
    await invite(owner.call, { limits: promised });
    expect((await inviting({ files: 9_000_000, bytes: 1e15 })).status).toBe(201);
    expect((await owner.call.store('plain', 'x'.repeat(5000))).size).toBe(5000);
  });
});
