/**
 * Inboxes, against the service: who can open what comes, what they take, and what is left of a
 * delivery that fails.
 */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AccountDetails, NewAccountResponse, Scope } from '../../shared/api.ts';
import { detachedPayloadBytes, parseRecipients } from '../../shared/crypto/index.ts';
import { parseLink, sealedParcelType, sealParcelTo } from '../../shared/link/index.ts';
import { client, pathOf } from '../../testkit/api-client.ts';
import { equal } from '../../testkit/assertions.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import type { Fetch } from '../service-http.ts';
import { connect, generateKeys, handOver, receive, type Connection } from '../index.ts';
import { pattern } from './bytes.ts';
import { itemOf, present } from '../../testkit/present.ts';

const dayMs = 86_400_000;
let service: Service;
let account: NewAccountResponse;
let connection: Connection;
let owner: Awaited<ReturnType<typeof generateKeys>>;
beforeAll(async () => {
  service = await sharedService();
  owner = await generateKeys();
});
beforeEach(async () => {
  account = await service.account();
  connection = connect({ service: service.url, apiKey: account.apiKey });
});

type Made = Parameters<Connection['inbox']['create']>[0];
const create = (o: Partial<Made> = {}) => connection.inbox.create({ label: 'inbox', recipient: owner.recipient, ...o });

/** A connection with a key of the account that has these scopes. */
async function keyWith(
  scopes: readonly Scope[],
  o: { limits?: Made['limits']; expiresAt?: string } = {},
): Promise<Connection> {
  const { apiKey } = await client(service.url, account.apiKey).withKey(scopes, o);
  return connect({ service: service.url, apiKey });
}

function partsOf(link: string) {
  const parsed = parseLink(link).link;
  if (parsed.kind !== 'inbox') throw new Error('not the link of an inbox');
  return parsed;
}

/** A service whose answers about the account a test changes. */
function changing(change: (about: AccountDetails) => unknown): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (url.pathname !== pathOf('getAccount')) return response;
    return Response.json(change((await response.json()) as AccountDetails));
  };
}

const stored = async (): Promise<number> => (await connection.list()).files.length;

test('takes files from anybody with its link, and only the recipient opens them', async () => {
  const { link, key, recipient } = await create({
    label: 'tax office',
    expiresAt: new Date(Date.now() + dayMs),
    limits: { files: 10, bytes: 10_000_000 },
  });
  expect(key).toMatchObject({ label: 'tax office', scopes: ['write'], limits: { files: 10, bytes: 10_000_000 } });
  const parsed = partsOf(link);
  expect(parsed).toMatchObject({ service: `${service.url}/`, recipient });
  const progress: number[] = [];
  await handOver(
    link,
    [
      { source: 'the receipts', name: 'receipts.txt', type: 'text/plain' },
      { source: pattern(100_000), name: 'scan.tif' },
    ],
    { note: 'Of March', from: 'Ben', onProgress: (bytes) => progress.push(bytes) },
  );
  expect(progress).toHaveLength(2);
  const [first, ...others] = (await connection.inbox.list()).deliveries;
  expect(others).toEqual([]);
  const { id } = present(first);
  await expect(connection.inbox.open(id)).rejects.toMatchObject({ code: 'decrypt_failed' });
  const delivery = await connection.inbox.open(id, { keys: owner.privateKey });
  expect(delivery).toMatchObject({ note: 'Of March', from: 'Ben' });
  expect(delivery.files.map(({ name }) => name)).toEqual(['receipts.txt', 'scan.tif']);
  expect(await (await itemOf(delivery.files, 0).open()).text()).toBe('the receipts');
  equal(await (await itemOf(delivery.files, 1).open()).bytes(), pattern(100_000));

  // Anyone with the link can neither list nor read.
  const sender = connect({ service: service.url, apiKey: parsed.apiKey });
  for (const other of [sender, await keyWith(['write', 'share'])])
    await expect(other.inbox.open(id)).rejects.toMatchObject({ code: 'insufficient_scope' });
  await expect(receive(link)).rejects.toMatchObject({ code: 'link_invalid' });

  expect(await connection.inbox.close(key.id)).toMatchObject({ revoked: [key.id] });
  await expect(handOver(link, { source: 'x', name: 'x' })).rejects.toMatchObject({ code: 'unauthorized' });
  expect((await connection.inbox.open(id, { keys: owner.privateKey })).from).toBe('Ben');
});

describe('the recipient of an inbox', () => {
  test('is the one that its maker names, whatever key the service answers with', async () => {
    const { publicKey } = await generateKeys();
    const lying = connect({
      service: service.url,
      apiKey: account.apiKey,
      fetch: changing((about) => ({ ...about, account: { ...about.account, publicKey } })),
    });
    const { link, recipient } = await lying.inbox.create({ label: 'x', recipient: owner.recipient });
    expect(recipient).toEqual(owner.recipient);
    expect(partsOf(link).recipient).toEqual(owner.recipient);
  });

  test('may be that of the account, for which no private key is needed', async () => {
    const { publicKey } = account.account;
    const [key] = parseRecipients(publicKey);
    const { link } = await create({ recipient: present(present(key).text) });
    await handOver(link, { source: 'x', name: 'x' });
    const { id } = itemOf((await connection.inbox.list()).deliveries, 0);
    expect((await connection.inbox.open(id)).files).toHaveLength(1);
  });

  test('has a key that a link can have', async () => {
    const { recipient } = await generateKeys({ postQuantum: true });
    for (const other of [recipient, 'age1tag1x', '', `${owner.recipient}\n${account.account.publicKey}`])
      await expect(create({ recipient: other })).rejects.toMatchObject({ code: 'key_invalid' });
    await expect(create({ recipient: undefined as unknown as string })).rejects.toThrow(TypeError);
    expect(await stored()).toBe(0);
    // As it is read from a file.
    expect(partsOf((await create({ recipient: `${owner.recipient}\n` })).link).recipient).toBe(owner.recipient);
  });
});

describe('an inbox for which nothing else is said', () => {
  const defaults = { files: 200, bytes: 1024 ** 3 };

  test('takes 200 files and 1 GiB, for 90 days', async () => {
    const before = Date.now();
    const { key } = await create();
    expect(key.limits).toEqual(defaults);
    expect((await create({ limits: { files: undefined, bytes: undefined } })).key.limits).toEqual(defaults);
    const end = Date.parse(present(key.expiresAt));
    expect(end >= before + 90 * dayMs - 1000).toBe(true);
    expect(end <= Date.now() + 90 * dayMs).toBe(true);
    const { limits } = (await create({ limits: { bytes: 2000, fileBytes: 1000 } })).key;
    expect(limits).toEqual({ files: 200, bytes: 2000, fileBytes: 1000 });
  });

  test('takes no more, and no longer, than the key of its maker', async () => {
    const expiresAt = new Date(Date.now() + 30 * dayMs).toISOString();
    const maker = await keyWith(['write', 'keys'], { limits: { files: 50, fileBytes: 10 ** 6 }, expiresAt });
    const { key } = await maker.inbox.create({ label: 'x', recipient: owner.recipient });
    expect(key).toMatchObject({ expiresAt, limits: { ...defaults, files: 50, fileBytes: 10 ** 6 } });
  });
});

describe('what does not fit into an inbox', () => {
  test.each([
    ['files', { files: 3 }, 3, 'has room for 3 more files, and the delivery has 4'],
    ['a file', { files: 1 }, 1, 'has room for 1 more file, and the delivery has 2'],
    ['bytes', { bytes: 30_000 }, 2, 'more bytes'],
    ['one file', { fileBytes: 10_000 }, 1, 'at most 10000 bytes'],
    ['a list', { bytes: detachedPayloadBytes(20_000) }, 1, 'more bytes'],
  ])('is refused before anything is stored: %s', async (_, limits, count, message) => {
    const { link } = await create({ limits });
    const files = Array.from({ length: count }, (__, index) => ({ source: pattern(20_000), name: `${index}` }));
    const refused = handOver(link, files);
    await expect(refused).rejects.toMatchObject({
      code: 'quota_exceeded',
      message: expect.stringContaining(message) as unknown,
    });
    expect(await stored()).toBe(0);
  });

  test('is told from what fits, to the byte', async () => {
    const { link, key } = await create({ limits: { files: 2, bytes: 60_000 } });
    await handOver(link, { source: pattern(20_000), name: 'x' });
    await connection.inbox.close(key.id);
    const { files } = await connection.list();
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    const exact = await create({ limits: { files: 2, bytes } });
    await handOver(exact.link, { source: pattern(20_000), name: 'x' });
    const [newest] = (await connection.inbox.list()).deliveries;
    expect((await connection.inbox.open(present(newest).id, { keys: owner.privateKey })).files).toHaveLength(1);
    await expect(handOver(exact.link, { source: '', name: 'x' })).rejects.toMatchObject({ code: 'quota_exceeded' });
  });
});

describe('what was stored for a delivery', () => {
  /** Lets time pass for the account, and rings its alarm. */
  const ring = async (ms: number): Promise<void> => {
    const body = JSON.stringify({ binding: 'ACCOUNT', name: account.account.id, method: 'ring', args: [ms] });
    expect((await fetch(`${service.url}/test/object`, { method: 'POST', body })).status).toBe(200);
  };
  const left = new Error('the sender left');
  /** A sender who leaves before the parcel. */
  const leaving = (): { fetch: Fetch; signal: AbortSignal } => {
    const controller = new AbortController();
    const withoutParcels: Fetch = (url, init) => {
      if (url.search.includes('names=')) controller.abort(left);
      return fetch(url, init);
    };
    return { fetch: withoutParcels, signal: controller.signal };
  };
  const files = [
    { source: 'one', name: 'one' },
    { source: pattern(17 * 2 ** 20), name: 'two', size: 17 * 2 ** 20 },
  ];

  test('is gone a day after the sender broke off, and the inbox has its room again', async () => {
    const { link } = await create({ limits: { files: 4 } });
    await expect(handOver(link, files, leaving())).rejects.toBe(left);
    expect(await stored()).toBe(2);
    await expect(handOver(link, files)).rejects.toMatchObject({ code: 'quota_exceeded' });
    await ring(1.1 * dayMs);
    expect(await stored()).toBe(0);
    await handOver(link, files);
    expect(await stored()).toBe(3);
  });

  test('stays once it was handed over, and is refused as a whole if some of it is gone before', async () => {
    const { link } = await create();
    await handOver(link, itemOf(files, 0));
    await ring(30 * dayMs);
    const { deliveries } = await connection.inbox.list();
    const { files: arrived } = await connection.inbox.open(itemOf(deliveries, 0).id, { keys: owner.privateKey });
    expect(await (await itemOf(arrived, 0).open()).text()).toBe('one');
    const late: Fetch = async (url, init) => {
      if (url.search.includes('names='))
        for (const { fileId } of (await connection.list()).files) await connection.delete(fileId);
      return fetch(url, init);
    };
    const failure = { code: 'not_found', hint: expect.stringContaining('again') as unknown };
    await expect(handOver(link, itemOf(files, 0), { fetch: late })).rejects.toMatchObject(failure);
    expect((await connection.inbox.list()).deliveries).toEqual([]);
  });

  test('arrives once, also where the answer to the parcel is lost', async () => {
    const { link } = await create();
    let lost = 0;
    const losing: Fetch = async (url, init) => {
      const response = await fetch(url, init);
      if (!url.search.includes('names=') || (lost += 1) > 1) return response;
      throw new TypeError('the line breaks');
    };
    await handOver(link, itemOf(files, 0), { fetch: losing });
    expect(lost).toBe(2);
    expect((await connection.inbox.list()).deliveries).toHaveLength(1);
  });

  test('is left at once by who leaves while the service is asked to take the parcel later', async () => {
    const { link } = await create();
    const controller = new AbortController();
    let asked = 0;
    const busy: Fetch = async (url, init) => {
      if (!url.search.includes('names=')) return fetch(url, init);
      asked += 1;
      setTimeout(() => controller.abort(left), 100);
      return Response.json({ code: 'overloaded' }, { status: 503, headers: { 'Retry-After': '200' } });
    };
    await expect(handOver(link, itemOf(files, 0), { fetch: busy, signal: controller.signal })).rejects.toBe(left);
    expect(asked).toBe(1);
    expect((await connection.inbox.list()).deliveries).toEqual([]);
  });

  test('is stored as before where the service knows nothing of it', async () => {
    const { link } = await create();
    const older: Fetch = async (url, init) => {
      if (/provisional|names/.test(url.search)) return Response.json({}, { status: 400 });
      return changing(({ key, ...about }) => ({ ...about, key: { ...key, left: undefined } }))(url, init);
    };
    await handOver(link, itemOf(files, 0), { fetch: older });
    await ring(30 * dayMs);
    const { deliveries } = await connection.inbox.list();
    expect((await connection.inbox.open(itemOf(deliveries, 0).id, { keys: owner.privateKey })).files).toHaveLength(1);
  });
});

describe('a delivery', () => {
  test('is told from other files, from a parcel of another media type, and from one that is too long', async () => {
    const parcel = {
      files: [{ cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'x', type: 'a/b', size: 1 }],
    };
    const sealed = await sealParcelTo(parcel, { recipients: parseRecipients(owner.recipient) });
    const put = (bytes: Uint8Array, type: string) => connection.put(bytes, { mode: 'plain', type });
    const genuine = await put(sealed, sealedParcelType);
    expect((await connection.inbox.open(genuine.fileId, { keys: owner.privateKey })).files).toHaveLength(1);
    const others = [
      await put(sealed, 'application/octet-stream'),
      await put(sealed, `${sealedParcelType}x`),
      await put(new Uint8Array(50_177), sealedParcelType),
      await connection.put('x', { mode: 'plain' }),
      await connection.put(sealed, { type: sealedParcelType, name: 'x' }),
    ];
    for (const { fileId } of others)
      await expect(connection.inbox.open(fileId, { keys: owner.privateKey })).rejects.toMatchObject({
        code: 'parcel_invalid',
      });
    const listed = (await connection.inbox.list()).deliveries.map(({ id }) => id);
    expect(listed).toEqual([itemOf(others, 2).fileId, genuine.fileId]);
  });

  test('is read by the API key, and is what its blob ID says', async () => {
    await handOver((await create()).link, { source: 'x', name: 'x' });
    const { id } = itemOf((await connection.inbox.list()).deliveries, 0);
    const asked: string[] = [];
    const lying: Fetch = async (url, init) => {
      asked.push(url.pathname);
      const response = await fetch(url, init);
      if (!url.pathname.endsWith('/content')) return response;
      const bytes = await response.bytes();
      return new Response(bytes.with(bytes.length - 1, (bytes.at(-1) ?? 0) ^ 1));
    };
    const { inbox } = connect({ service: service.url, apiKey: account.apiKey, fetch: lying });
    await expect(inbox.open(id, { keys: owner.privateKey })).rejects.toMatchObject({ code: 'content_mismatch' });
    expect(asked.filter((path) => path.startsWith('/ipfs/'))).toEqual([]);
  });

  test('goes to the link of an inbox, and to no other', async () => {
    const { link } = await connection.send({ source: 'x', name: 'x' });
    await expect(handOver(link, { source: 'x', name: 'x' })).rejects.toMatchObject({ code: 'link_invalid' });
  });
});
