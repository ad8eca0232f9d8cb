/** Sharing what is stored already, against the service. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { Health, NewAccountResponse, Scope } from '../../shared/api.ts';
import { dayMs } from '../../shared/time.ts';
import { client, pathOf } from '../../testkit/api-client.ts';
import { equal } from '../../testkit/assertions.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import { connect, connectAsGuest, generateKeys, receive, seal, type Connection } from '../index.ts';
import type { Fetch } from '../service-http.ts';
import { pattern } from './bytes.ts';
import { first } from '../../testkit/present.ts';

let service: Service;
let account: NewAccountResponse;
let connection: Connection;
beforeAll(async () => {
  service = await sharedService();
  account = await service.account();
  connection = connect({ service: service.url, apiKey: account.apiKey });
});

/** A connection with a key of the account that has these scopes. */
async function keyWith(...scopes: readonly Scope[]): Promise<Connection> {
  const { apiKey } = await client(service.url, account.apiKey).withKey(scopes);
  return connect({ service: service.url, apiKey });
}

describe('what is stored is shared', () => {
  const bytes = pattern(1_500_000);

  test('where the service encrypted it, with its name and type, and nothing is uploaded', async () => {
    const { fileId } = await connection.put(bytes, { name: 'film ☃.mkv', type: 'video/x-matroska' });
    const before = (await connection.list()).files.length;
    const { link, share } = await connection.share({ fileId }, { note: 'Watch this', from: 'Ann', opens: 3 });
    expect(share).toMatchObject({ files: [fileId], opens: 3 });
    expect((await connection.list()).files).toHaveLength(before);
    const { files, ...words } = await receive(link);
    expect(words).toEqual({ note: 'Watch this', from: 'Ann' });
    expect(files).toMatchObject([{ name: 'film ☃.mkv', type: 'video/x-matroska', size: bytes.length }]);
    equal(await (await first(files).open()).bytes(), bytes);
    expect(await connection.delete(fileId)).toMatchObject({ key: 'destroyed', shares: [{ id: share.id }] });
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
  });

  test('where it is a container, by its file ID or its blob ID, also several together', async () => {
    const keys = await generateKeys();
    const sealed = async (format: 'age' | 'sealpin') => {
      const { stream } = await seal(bytes, { to: { keys: keys.recipient }, format });
      return connection.put(stream, { mode: 'plain' });
    };
    const [age, own] = [await sealed('age'), await sealed('sealpin')];
    const { link, share } = await connection.share([
      { fileId: age.fileId, with: { keys: keys.privateKey }, name: 'a' },
      { cid: own.cid, with: { keys: keys.privateKey }, name: 'b', type: 'a/b' },
    ]);
    expect(share.files).toEqual([age.fileId, own.fileId]);
    const { files } = await receive(link);
    expect(files.map(({ name, type, size }) => [name, type, size])).toEqual([
      ['a', 'application/octet-stream', bytes.length],
      ['b', 'a/b', bytes.length],
    ]);
    for (const file of files) equal(await (await file.open()).bytes(), bytes);
    const wrong = { keys: (await generateKeys()).privateKey };
    await expect(connection.share({ fileId: age.fileId, with: wrong, name: 'a' })).rejects.toMatchObject({
      code: 'decrypt_failed',
    });
    await expect(connection.share({ fileId: age.fileId, with: { keys: keys.privateKey } })).rejects.toMatchObject({
      code: 'invalid_filename',
    });
    await expect(connection.share({ fileId: age.fileId, name: 'a' })).rejects.toMatchObject({ code: 'wrong_kind' });
    const fileKey = new Uint8Array(32);
    await expect(connection.share({ cid: own.cid, with: { fileKey }, name: 'b' })).rejects.toMatchObject({
      code: 'decrypt_failed',
    });
  });

  test('and what is not there, not encrypted or not for this key is not', async () => {
    const missing = { fileId: crypto.randomUUID() };
    await expect(connection.share(missing)).rejects.toMatchObject({ code: 'not_found' });
    const { fileId } = await connection.put('hello', { mode: 'plain', name: 'x' });
    await expect(connection.share({ fileId, with: { password: 'x' } })).rejects.toMatchObject({
      code: 'not_encrypted',
    });
    const own = await connection.put('hello', { name: 'x' });
    await expect((await keyWith('share', 'write')).share({ fileId: own.fileId })).rejects.toMatchObject({
      code: 'insufficient_scope',
    });
    await expect((await keyWith('read')).share({ fileId: own.fileId })).rejects.toMatchObject({
      code: 'insufficient_scope',
    });
  });
});

test.each(['2027-02-31', '2027-02-31T00:00:00Z', '2027-01-31T18:00:00', '31 January 2027', ''])(
  'what is to end at %j is refused, and nothing of it is sent',
  async (expiresAt) => {
    const { link } = await connection.invitation.create({ label: 'Ann' });
    const methods: (string | undefined)[] = [];
    const watched: Fetch = (url, init) => {
      methods.push(init.method);
      return fetch(url, init);
    };
    const { put, send, changeShare, inbox, invitation } = connect({
      service: service.url,
      apiKey: account.apiKey,
      fetch: watched,
    });
    const { recipient } = await generateKeys();
    for (const attempt of [
      () => put('x', { name: 'x', expiresAt }),
      () => send(new File(['x'], 'x'), { expiresAt }),
      () => changeShare('7n42DGM5Tflk9n8mt7Fhc7', { expiresAt }),
      () => inbox.create({ label: 'x', recipient, expiresAt }),
      () => invitation.create({ label: 'x', expiresAt }),
      () => connectAsGuest(link, { fetch: watched }).send(new File(['x'], 'x'), { expiresAt }),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'invalid_request' });
    expect(methods.filter((method = 'GET') => method !== 'GET')).toEqual([]);
  },
);

const daysFromNow = (days: number) => new Date(Date.now() + days * dayMs);
const few = { maxDays: 3, maxOpens: 3 };
test.each<{ shares: Health['shares']; options: object; date?: Date | null; code?: string }>([
  { shares: few, options: { opens: 4 }, code: 'invalid_request' },
  { shares: few, options: { expiresAt: daysFromNow(4) }, code: 'invalid_request' },
  { shares: few, options: { expiresAt: daysFromNow(-1) }, code: 'invalid_request' },
  { shares: null, options: {}, code: 'forbidden' },
  { shares: few, options: { opens: 3, expiresAt: daysFromNow(3) } },
  { shares: undefined, options: {} },
  // By the clock of the service: here it is ahead, behind, and not told.
  { shares: few, options: { expiresAt: daysFromNow(12) }, date: daysFromNow(10) },
  { shares: few, options: { expiresAt: daysFromNow(9) }, date: daysFromNow(10), code: 'invalid_request' },
  { shares: few, options: { expiresAt: daysFromNow(2) }, date: daysFromNow(-2), code: 'invalid_request' },
  { shares: few, options: { expiresAt: daysFromNow(12) }, date: null },
])('terms beyond those of the service are refused before a file is sent: $shares, $options, $date', async (o) => {
  const invitation = await connection.invitation.create({ label: 'Ann' });
  const methods: (string | undefined)[] = [];
  const naming: Fetch = async (url, init) => {
    methods.push(init.method);
    const response = await fetch(url, init);
    if (url.pathname !== pathOf('getHealth')) return response;
    const headers: HeadersInit = o.date === null ? {} : { Date: (o.date ?? new Date()).toUTCString() };
    return Response.json({ ...((await response.json()) as Health), shares: o.shares }, { headers });
  };
  const file = new File(['x'], 'x');
  for (const { send } of [
    connect({ service: service.url, apiKey: account.apiKey, fetch: naming }),
    connectAsGuest(invitation.link, { fetch: naming }),
  ]) {
    methods.length = 0;
    const sending = send(file, o.options);
    if (o.code === undefined) expect(await sending).toMatchObject({ files: [{ name: 'x' }] });
    else {
      await expect(sending).rejects.toMatchObject({ code: o.code });
      expect(methods).toEqual(['GET']);
    }
  }
});
