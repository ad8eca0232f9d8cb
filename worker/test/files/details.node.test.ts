/** Names that are sealed to the owner of a file: who sets them, who sees them, and their end. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { fullScopes, type Scope, type StoredFile } from '../../../shared/api.ts';
import { generateKeyPair, parseIdentities, parseRecipients } from '../../../shared/crypto/index.ts';
import { maxDetailsBytes, openFileDetails, sealFileDetails } from '../../../shared/link/index.ts';
import { adminToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { newAccountId } from '../../../shared/crypto/index.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { invite, store } from '../invitations/guest.ts';
import { newOwner, type Owner } from '../stored-state.ts';

let service: Service;
let owner: Owner;
let file: StoredFile;
beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  owner = await newOwner(service);
  file = await owner.call.store('plain', 'sealed before it came', { filename: 'x' });
});

const container = (bytes: number): string => Buffer.from('sealpin/v1\n'.padEnd(bytes, 'x')).toString('base64');
const set = (details: unknown, by: Client = owner.call, fileId = file.fileId, headers = {}): Promise<Response> =>
  by.ask('changeFile', { fileId, details }, { headers });
const read = async (): Promise<StoredFile> => owner.call.getFile({ fileId: file.fileId, data: false });

describe('the details of a file', () => {
  it('come back as they were sealed, for the private key of its owner alone', async () => {
    const pair = await generateKeyPair();
    const recipients = parseRecipients(pair.publicPem);
    const sealed = await sealFileDetails({ cid: file.cid, name: 'the plans.pdf' }, { recipients });
    const { details } = await jsonOf<StoredFile>(set(Buffer.from(sealed).toString('base64')));
    expect((await read()).details).toBe(details);
    expect((await owner.call.listFiles()).files[0]?.details).toBe(details);
    const opened = await openFileDetails(new Uint8Array(Buffer.from(String(details), 'base64')), {
      cid: file.cid,
      identities: parseIdentities(pair.privatePem),
    });
    expect(opened).toMatchObject({ name: 'the plans.pdf' });
    expect(JSON.stringify(await owner.object.rows('file_sealed'))).not.toContain('plans');
    expect(await jsonOf<StoredFile>(set(null))).not.toHaveProperty('details');
    expect(await owner.object.rows('file_sealed')).toEqual([]);
  });

  it.each<[Scope[], 'own' | 'other', string | number]>([
    [['write'], 'own', 200],
    [['write'], 'other', '403 insufficient_scope'],
    [['read', 'write'], 'other', 200],
    [['read'], 'other', '403 insufficient_scope'],
    [fullScopes.filter((scope) => scope !== 'write'), 'other', '403 insufficient_scope'],
  ])('are set by a key with %s for its %s file: %s', async (scopes, whose, expected) => {
    const key = await owner.call.withKey(scopes);
    const { fileId } = whose === 'own' ? await key.store('plain', 'x') : file;
    const response = await set(container(100), key, fileId);
    expect(response.ok ? response.status : await problemOf(response)).toBe(expected);
    if (scopes.join() !== 'write' || whose === 'other') return;
    expect(await response.json()).not.toHaveProperty('details');
    // Nothing else of it, nor what is not there.
    for (const more of [{ filename: 'y' }, { tags: [] }, { expiresAt: null }])
      expect(await problemOf(key.ask('changeFile', { fileId, details: null, ...more }))).toBe('403 insufficient_scope');
    expect(await problemOf(set(container(100), key, crypto.randomUUID()))).toBe('403 insufficient_scope');
  });

  it('are not for guests, nor for files whose name is in their header', async () => {
    const guest = await invite(owner.call);
    const { fileId } = await store(guest);
    expect(await problemOf(set(container(100), guest, fileId))).toBe('403 insufficient_scope');
    const encrypted = await owner.call.store('encrypted', 'x');
    expect(await problemOf(set(container(100), owner.call, encrypted.fileId))).toBe('400 invalid_request');
  });

  it('are a container of at most 4,096 bytes, which a condition can guard', async () => {
    expect((await set(container(maxDetailsBytes))).status).toBe(200);
    for (const wrong of [container(maxDetailsBytes + 1), btoa('plans.pdf'), '', 'not base64', 5])
      expect(await problemOf(set(wrong))).toBe('400 invalid_request');
    const answer = await set(container(50));
    const etag = { 'If-Match': String(answer.headers.get('ETag')) };
    expect((await set(container(51), owner.call, file.fileId, etag)).status).toBe(200);
    expect(await problemOf(set(container(52), owner.call, file.fileId, etag))).toBe('412 precondition_failed');
    expect((await read()).details).toBe(container(51));
  });

  it('are in the backup of the account, and go with the file', async () => {
    await set(container(500));
    const operator = client(service.url, adminToken, { 'Sealpin-Restore': restoreToken });
    const page = await operator.backUpAccount({ id: owner.id, limit: 100 });
    const accountId = newAccountId();
    expect((await operator.ask('restoreAccount', { id: accountId, ...page, accountId })).status).toBe(200);
    const restored = client(service.url, owner.call.apiKey);
    const again = await operator.backUpAccount({ id: accountId, limit: 100 });
    expect(again.files).toEqual(page.files);
    expect(again.files[0]?.details).toBe(container(500));
    await restored.deleteFile({ fileId: file.fileId });
    expect(await owner.object.rows('file_sealed')).toEqual([]);
  });
});
