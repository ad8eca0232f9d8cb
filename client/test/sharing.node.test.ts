/** Sharing what is stored already, and inboxes, against the service. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { NewAccountResponse } from '../../shared/api.ts';
import { parseLink } from '../../shared/link/index.ts';
import { equal } from '../../testkit/assertions.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import { connect, generateKeys, handOver, receive, seal, type Connection } from '../index.ts';
import { pattern } from './bytes.ts';

let service: Service;
let account: NewAccountResponse;
let connection: Connection;
beforeAll(async () => {
  service = await sharedService();
  account = await service.account();
  connection = connect({ service: service.url, apiKey: account.apiKey });
});

/** A connection with a key of the account that has these scopes. */
async function keyWith(...scopes: string[]): Promise<Connection> {
  const response = await fetch(`${service.url}/v1/keys`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${account.apiKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ label: 'test', scopes }),
  });
  return connect({ service: service.url, apiKey: ((await response.json()) as { apiKey: string }).apiKey });
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
    equal(await (await files[0]!.open()).bytes(), bytes);
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

describe('an inbox', () => {
  test('takes files from anybody with its link, and only the account opens them', async () => {
    const { link, key, recipient } = await connection.inbox.create({
      label: 'tax office',
      expiresAt: new Date(Date.now() + 86_400_000),
      limits: { files: 10, bytes: 10_000_000 },
    });
    expect(key).toMatchObject({ label: 'tax office', scopes: ['write'], limits: { files: 10, bytes: 10_000_000 } });
    const parsed = parseLink(link).link;
    if (parsed.kind !== 'inbox') throw new Error('not the link of an inbox');
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
    const { deliveries } = await connection.inbox.list();
    expect(deliveries).toHaveLength(1);
    const delivery = await connection.inbox.open(deliveries[0]!.id);
    expect(delivery).toMatchObject({ note: 'Of March', from: 'Ben' });
    expect(delivery.files.map(({ name }) => name)).toEqual(['receipts.txt', 'scan.tif']);
    expect(await (await delivery.files[0]!.open()).text()).toBe('the receipts');
    equal(await (await delivery.files[1]!.open()).bytes(), pattern(100_000));

    // Anyone with the link can neither list nor read.
    const sender = connect({ service: service.url, apiKey: parsed.apiKey });
    await expect(sender.inbox.open(deliveries[0]!.id)).rejects.toMatchObject({ code: 'insufficient_scope' });
    await expect((await keyWith('write', 'share')).inbox.open(deliveries[0]!.id)).rejects.toMatchObject({
      code: 'insufficient_scope',
    });
    await expect(receive(link)).rejects.toMatchObject({ code: 'link_invalid' });

    expect(await connection.inbox.close(key.id)).toMatchObject({ revoked: [key.id] });
    await expect(handOver(link, { source: 'x', name: 'x' })).rejects.toMatchObject({ code: 'unauthorized' });
    expect((await connection.inbox.open(deliveries[0]!.id)).from).toBe('Ben');
  });

  test('may have a recipient of its own, and refuses one that its link cannot have', async () => {
    const owner = await generateKeys();
    const { link } = await connection.inbox.create({ label: 'x', recipient: owner.recipient });
    await handOver(link, { source: 'secret', name: 'x' });
    const { id } = (await connection.inbox.list()).deliveries[0]!;
    await expect(connection.inbox.open(id)).rejects.toMatchObject({ code: 'decrypt_failed' });
    const { files } = await connection.inbox.open(id, { keys: owner.privateKey });
    expect(await (await files[0]!.open()).text()).toBe('secret');
    const { recipient } = await generateKeys({ postQuantum: true });
    for (const other of [recipient, 'age1tag1x'])
      await expect(connection.inbox.create({ label: 'x', recipient: other })).rejects.toMatchObject({
        code: 'key_invalid',
      });
  });

  test('takes no more than its limits allow', async () => {
    const { link } = await connection.inbox.create({ label: 'small', limits: { fileBytes: 10_000 } });
    await expect(handOver(link, { source: pattern(20_000), name: 'x' })).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
  });

  test('is told from other files and links', async () => {
    const { fileId } = await connection.put('x', { mode: 'plain' });
    await expect(connection.inbox.open(fileId)).rejects.toMatchObject({ code: 'parcel_invalid' });
    const { link } = await connection.send({ source: 'x', name: 'x' });
    await expect(handOver(link, { source: 'x', name: 'x' })).rejects.toMatchObject({ code: 'link_invalid' });
  });
});
