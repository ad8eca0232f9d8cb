/** Uploads that take days: what is kept meanwhile, what is left of them, and who may resume. */
import { describe, expect, it } from 'vitest';
import { client, problemOf, type Client } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { inOneMinute } from '../one-minute.ts';
import { accountObject, newOwner, heldOf, pinsParts, sweep, type Owner } from '../stored-state.ts';
import { startService, type Service } from '../../../testkit/service.ts';
import {
  create,
  expectStored,
  head,
  metadataOf,
  mib,
  modesInForm,
  offsetOf,
  patch,
  random,
  send,
  stateOf,
  version,
} from './tus-client.ts';

const dayMs = 86_400_000;
let service: Service;
const restart = restartable('lasting', (started) => {
  service = started;
});

const tables = ['upload', 'shown', 'part', 'file', 'outbox', 'idempotency', 'api_key'] as const;

/** Everything that the account's object has, as text in which bytes are Latin-1. */
async function dump(owner: Owner): Promise<string> {
  const rows = await Promise.all(tables.map((table) => owner.object.rows(table)));
  return rows
    .flat()
    .flatMap((row) => Object.values(row))
    .map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString('latin1') : String(value)))
    .join('\n');
}

const canary = 'canary-of-the-tests';
const named = { 'Upload-Metadata': metadataOf({ filename: canary }) };

/**
 * Bytes of an upload of 2 MiB that have arrived when it is half way: a leaf, and a tail that is
 * full of canaries.
 */
const sentBytes = 1_300_000;

async function halfWay(call: Client, mode: 'plain' | 'encrypted'): Promise<{ path: string; bytes: Uint8Array }> {
  const bytes = Buffer.alloc(2 * mib, canary);
  const { path } = await create(call, mode, bytes.length, { headers: named });
  await send(call, path, bytes.subarray(0, sentBytes), 700_000);
  return { path, bytes };
}

/** Expects that nothing of an owner's uploads is left: no row, no pin, no message. */
async function expectNothingLeft(owner: Owner, cids: readonly string[]): Promise<void> {
  await sweep(service, [owner], cids);
  for (const table of ['part', 'shown', 'outbox'] as const) expect(await owner.object.rows(table), table).toEqual([]);
  expect(await heldOf(service, cids)).toEqual([]);
}

async function partsOf(owner: Owner): Promise<string[]> {
  const cids = (await owner.object.rows('part')).map((row) => String(row['cid']));
  expect(cids.length).toBeGreaterThan(0);
  expect(await heldOf(service, cids)).toEqual(cids);
  return cids;
}

it('the parts of an upload in one request stay for as long as its pin may take', async () => {
  const owner = await newOwner(service);
  const bytes = random(17 * mib);
  await owner.object.fail('commit', 'held');
  const stored = owner.call.store('plain', bytes);
  await expect.poll(() => owner.object.awaits('commit'), { timeout: 20_000 }).toBe(false);
  const parts = await partsOf(owner);
  await owner.object.ring(dayMs / 24 + 300_000);
  expect(await partsOf(owner)).toEqual(parts);
  await owner.object.fail('commit', 'let go');
  expect(Buffer.compare(await owner.call.read((await stored).fileId), bytes)).toBe(0);
});

it.each(modesInForm)('%s: continues after the service was killed, and a day later', async (mode) => {
  const bytes = random(2 * mib + 77);
  const { apiKey, account } = await service.account();
  const { path } = await create(client(service.url, apiKey), mode, bytes.length);
  await send(client(service.url, apiKey), path, bytes.subarray(0, 1_300_000), 700_000);
  await restart.kill();
  const call = client(service.url, apiKey);
  await accountObject(service, account.id).ring(dayMs);
  expect(await offsetOf(call, path)).toBe(1_300_000);
  await expectStored(call, await send(call, path, bytes, mib, 1_300_000), bytes);
});

describe.each(modesInForm)('%s', (mode) => {
  it('keeps nothing that opens it without its key, and nothing of it once it is stored', async () => {
    const owner = await newOwner(service);
    const { path, bytes } = await halfWay(owner.call, mode);
    if (mode === 'encrypted') expect(await dump(owner)).not.toContain('canary');
    const parts = await partsOf(owner);
    const last = await send(owner.call, path, bytes, mib, sentBytes);
    expect(last.headers.get('Sealpin-Cid')).not.toBeNull();
    const [row] = await owner.object.rows('upload');
    const wiped = ['sealed_key', 'sealed_metadata', 'sealed_rest', 'tail', 'header', 'filename'];
    expect(wiped.map((column) => row?.[column])).toEqual(wiped.map(() => null));
    if (mode === 'encrypted') expect(await dump(owner)).not.toContain('canary');
    // In a bucket, the parts are the file.
    const isApart = (cid: string): boolean => pinsParts && cid !== last.headers.get('Sealpin-Cid');
    await expectNothingLeft(
      owner,
      parts.filter((cid) => isApart(cid)),
    );
    await owner.object.ring(3 * dayMs);
    expect(await owner.object.rows('upload')).toEqual([]);
    expect((await owner.call.ask('getFile', { fileId: path.split('/').at(-1), data: false })).status).toBe(200);
  });

  it('expires seven days after its last bytes', async () => {
    const owner = await newOwner(service);
    const { path } = await halfWay(owner.call, mode);
    const parts = await partsOf(owner);
    await owner.object.ring(6 * dayMs);
    await patch(owner.call, path, sentBytes, random(1));
    await owner.object.ring(6 * dayMs);
    expect(await offsetOf(owner.call, path)).toBe(sentBytes + 1);
    await owner.object.ring(1.1 * dayMs);
    expect((await head(owner.call, path)).status).toBe(404);
    expect(await owner.object.rows('upload')).toEqual([]);
    expect(await dump(owner)).not.toContain('canary');
    await expectNothingLeft(owner, parts);
  });

  it('ends with DELETE, with nothing left', async () => {
    const owner = await newOwner(service);
    const { path } = await halfWay(owner.call, mode);
    const parts = await partsOf(owner);
    expect((await owner.call(path, { method: 'DELETE', headers: version })).status).toBe(204);
    expect(await dump(owner)).not.toContain('canary');
    await expectNothingLeft(owner, parts);
  });

  it('ends with its key, with nothing left', async () => {
    const owner = await newOwner(service);
    const { key, apiKey } = await owner.call.createKey({ label: 'x', scopes: ['write'] });
    const other = await create(owner.call, mode, 5);
    const writer = client(service.url, apiKey);
    const { path } = await halfWay(writer, mode);
    const parts = await partsOf(owner);
    await owner.call.revokeKey({ id: key.id });
    expect((await head(writer, path)).status).toBe(401);
    expect((await owner.object.rows('upload')).map((row) => row['id'])).toEqual([other.id]);
    expect(await dump(owner)).not.toContain('canary');
    await expectNothingLeft(owner, parts);
  });

  it('does not continue with a key that has expired', async () => {
    const owner = await newOwner(service);
    const expiresAt = new Date(Date.now() + dayMs).toISOString();
    const { apiKey } = await owner.call.createKey({ label: 'x', scopes: ['write'], expiresAt });
    const writer = client(service.url, apiKey);
    const { path } = await create(writer, mode, 5);
    await owner.object.ring(2 * dayMs);
    expect(await problemOf(patch(writer, path, 0, random(5)))).toBe('401 unauthorized');
  });
});

it('an account that is deleted keeps nothing of its uploads', async () => {
  const owner = await newOwner(service);
  await halfWay(owner.call, 'encrypted');
  const parts = await partsOf(owner);
  const operator = client(service.url, 'operator-of-the-tests');
  await operator.deleteAccount({ id: owner.id });
  for (let round = 0; round < 3; round += 1) await owner.object.ring(7_200_000);
  expect(await heldOf(service, parts)).toEqual([]);
});

it('an upload whose end hangs in the alarm keeps no link open', async () => {
  const owner = await newOwner(service);
  const { fileId } = await owner.call.store('encrypted', 'shared');
  const share = await owner.call.createShare({ record: 'c2VhbGVk', files: [fileId], password: false });
  const { path } = await create(owner.call, 'plain', 5);
  await owner.object.fail('addReference', 'before');
  expect((await patch(owner.call, path, 0, random(5))).status).toBe(204);
  expect((await stateOf(owner.call, path)).state).toBe('finishing');
  await owner.object.stopAlarm();
  await owner.object.fail('addReference', 'hangs before');
  await owner.object.ring(60_000);
  await expect.poll(() => owner.object.awaits('addReference')).toBe(false);
  await owner.call.deleteFiles({ files: [fileId] });
  await owner.object.ring(0);
  expect((await owner.call.ask('openShare', { shareId: share.id })).status).toBe(410);
});

it('HEAD and PATCH are 423 where the rate limit ends them, which clients wait for', () =>
  inOneMinute(async () => {
    const limited = await startService({
      ratelimits: { KEY_LIMIT: { namespace_id: '1', simple: { limit: 6, period: 60 } } },
    });
    try {
      const call = client(limited.url, (await limited.account()).apiKey);
      const { path } = await create(call, 'plain', 500);
      const seen: number[] = [];
      for (let count = 0; count < 8; count += 1) seen.push((await head(call, path)).status);
      expect(new Set(seen)).toEqual(new Set([200, 423]));
      const response = await head(call, path);
      expect(response.status).toBe(423);
      expect(response.headers.get('Retry-After')).toBe('60');
      expect(await problemOf(patch(call, path, 0, random(1)))).toBe('423 upload_busy');
      expect(await problemOf(call(path))).toBe('429 rate_limited');
    } finally {
      await limited.close();
    }
  }));

it.runIf(pinsParts)('a part whose reference cannot be written ends the request, and nothing is lost', async () => {
  const owner = await newOwner(service);
  const bytes = random(2 * mib);
  const { path } = await create(owner.call, 'encrypted', bytes.length);
  await owner.object.fail('addReference', 'before');
  expect(await problemOf(patch(owner.call, path, 0, bytes.subarray(0, 1_500_000)))).toBe('423 upload_busy');
  expect(await offsetOf(owner.call, path)).toBe(0);
  await expectStored(owner.call, await send(owner.call, path, bytes, 1_500_000), bytes);
  expect(await stateOf(owner.call, path)).toMatchObject({ state: 'done' });
});
