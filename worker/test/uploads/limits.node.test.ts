/**
 * Limits that unfinished uploads take from a key, from its account and from others, and who may end
 * them.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { NewApiKeyResponse, ResumableUploadList } from '../../../shared/api.ts';
import { detachedPayloadBytes } from '../../../shared/crypto/index.ts';
import { cidOf, sha256 } from '../../../shared/ipfs/index.ts';
import { long } from '../../../testkit/long-run.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { create, expectStored, mib, modes, patch, random, send, stateOf, version, type Mode } from './tus-client.ts';
import { first, present } from '../../../testkit/present.ts';

type Limits = { files?: number; bytes?: number; fileBytes?: number };

let service: Service;
let owner: Owner;
beforeAll(async () => {
  service = await sharedService();
});
beforeEach(async () => {
  owner = await newOwner(service);
});

/** A key as that of an inbox. */
async function guest(
  limits?: Limits,
  maker: Client = owner.call,
  scopes = ['write'],
): Promise<Client & { id: string }> {
  const asked = maker.ask('createKey', { label: 'guest', scopes, ...(limits === undefined ? {} : { limits }) });
  const { apiKey, key } = await jsonOf<NewApiKeyResponse>(asked, 201);
  return Object.assign(client(service.url, apiKey), { id: key.id });
}

function begin(call: Client, length: number | undefined, mode: Mode = 'plain'): Promise<Response> {
  const announced: Record<string, string> =
    length === undefined ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': String(length) };
  const headers = { ...version, ...announced, 'Upload-Metadata': 'filename bg==' };
  return call(`/v1/uploads/${mode}`, { method: 'POST', headers });
}

/** Counts how many of so many uploads may begin, one after the other. */
async function begun(call: Client, count: number, length: number | undefined, mode?: Mode): Promise<number> {
  let accepted = 0;
  for (let each = 0; each < count; each += 1) if ((await begin(call, length, mode)).status === 201) accepted += 1;
  return accepted;
}

const full = '413 quota_exceeded';
const tooMany = '409 too_many_uploads';
const post = (call: Client, body: string): Promise<Response> => call.ask('storePlain', {}, { body });
const leftOf = async (call: Client): Promise<unknown> => (await call.getAccount()).key.left;

describe('a key that begins a hundred uploads', () => {
  it('has ten of them, and the other keys of its account do not feel it', async () => {
    const call = await guest();
    const responses = await Promise.all(Array.from({ length: long ? 300 : 100 }, () => begin(call, 5)));
    expect(responses.filter(({ status }) => status === 201)).toHaveLength(10);
    expect(await problemOf(begin(call, 5))).toEqual(tooMany);
    expect(await owner.object.rows('upload')).toHaveLength(10);
    for (const other of [owner.call, await guest()]) expect((await begin(other, 5)).status).toBe(201);
    const path = present(present(responses.find(({ status }) => status === 201)).headers.get('Location'));
    await patch(call, path, 0, random(5));
    expect((await begin(call, 5)).status).toBe(201);
    expect(await problemOf(begin(call, 5))).toEqual(tooMany);
  });

  it('meets the limit of the account when it comes in many keys, and no other account does', async () => {
    const keys = await Promise.all(Array.from({ length: 10 }, () => guest()));
    const responses = await Promise.all(keys.flatMap((call) => Array.from({ length: 10 }, () => begin(call, 5))));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
    expect(await problemOf(begin(owner.call, 5))).toEqual(tooMany);
    expect((await begin((await newOwner(service)).call, 5)).status).toBe(201);
    await owner.call.revokeKey({ id: first(keys).id });
    expect((await begin(owner.call, 5)).status).toBe(201);
  });
});

describe('what an upload announces', () => {
  it.each(modes)('counts for the limits of its key before a byte has come, %s', async (mode) => {
    const call = await guest({ bytes: 2 * mib + 100_000, files: 30 });
    expect(await begun(call, 8, 2 * mib, mode)).toBe(1);
    const bytes = mode === 'plain' ? 2 * mib : detachedPayloadBytes(2 * mib);
    expect(await leftOf(call)).toEqual({ files: 29, bytes: 2 * mib + 100_000 - bytes });
    expect(await problemOf(post(call, 'x'.repeat(100_001)))).toEqual(full);
    await call.store('plain', 'x');
    expect(await leftOf(call)).toMatchObject({ files: 28 });
  });

  it('counts as a file, and as bytes when it says later how many', async () => {
    const call = await guest({ files: 2, bytes: 1000 });
    expect(await begun(call, 3, undefined)).toBe(2);
    expect(await problemOf(post(call, 'x'))).toEqual(full);
    const { uploads } = await call.listUploads();
    const [one, other] = uploads.map(({ uploadId }) => `/v1/uploads/${uploadId}`);
    expect((await patch(call, present(one), 0, random(600))).status).toBe(204);
    expect(await problemOf(patch(call, present(other), 0, random(1), { 'Upload-Length': '401' }))).toEqual(full);
    expect(await problemOf(patch(call, present(other), 0, random(401)))).toEqual(full);
    expect((await patch(call, present(one), 600, random(400), { 'Upload-Length': '1000' })).status).toBe(204);
    expect(await leftOf(call)).toEqual({ files: 1, bytes: 0 });
  });

  it('counts for the keys from which its own descends, and for no other', async () => {
    const maker = await guest({ files: 3 }, owner.call, ['write', 'keys']);
    const [one, other] = [await guest(undefined, maker), await guest({ files: 2 }, maker)];
    expect(await begun(one, 2, 5)).toBe(2);
    // Without `read`, the other is not told what the first takes.
    expect([await leftOf(one), await leftOf(other), await leftOf(maker)].map((each) => (each as Limits).files)).toEqual(
      [1, 2, 1],
    );
    expect(await leftOf(owner.call)).toEqual({});
    expect(await begun(other, 2, 5)).toBe(1);
  });

  it('counts for the quota of the account, whichever key announces it', async () => {
    const operator = client(service.url, adminToken);
    await operator.changeAccount({ id: owner.id, quotaBytes: 3 * mib });
    const call = await guest();
    expect(await begun(call, 5, 2 * mib)).toBe(1);
    expect(await problemOf(begin(owner.call, 2 * mib))).toEqual(full);
    expect(await problemOf(post(owner.call, 'x'.repeat(mib + 1)))).toEqual(full);
    expect((await post(owner.call, 'x'.repeat(1000))).status).toBe(201);
    const { uploads } = await owner.call.listUploads();
    await owner.call.ask('deleteUpload', { uploadId: first(uploads).uploadId }, { headers: version });
    expect((await begin(owner.call, 2 * mib)).status).toBe(201);
  });

  it.each(modes)('is there for the upload when its bytes come, %s', async (mode) => {
    const bytes = random(300_000);
    const size = mode === 'plain' ? bytes.length : detachedPayloadBytes(bytes.length);
    const call = await guest({ files: 1, bytes: size }, owner.call, ['read', 'write']);
    const { path } = await create(call, mode, bytes.length);
    await expectStored(call, await send(call, path, bytes, 200_000), bytes);
    expect(await leftOf(call)).toEqual({ files: 0, bytes: 0 });
  });
});

it('uploads that an earlier version admitted beyond the limits complete, as far as their files fit', async () => {
  const call = await guest({ files: 12, bytes: 1000 });
  const some = await Promise.all(Array.from({ length: 6 }, () => create(call, 'plain', 50)));
  await owner.object.change(`UPDATE upload SET state = 'done'`);
  const others = await Promise.all(Array.from({ length: 6 }, () => create(call, 'plain', 50)));
  await owner.object.change(`UPDATE upload SET state = 'open'; UPDATE key_limit SET max_bytes = 400`);
  expect(await problemOf(begin(call, 50))).toEqual(tooMany);
  const codes = [];
  for (const { path } of [...some, ...others]) codes.push((await patch(call, path, 0, random(50))).status);
  expect(codes).toEqual([...Array.from({ length: 8 }, () => 204), ...Array.from({ length: 4 }, () => 413)]);
});

it('the owner sees the uploads of every key, and ends them', async () => {
  const call = await guest();
  const keysOnly = await guest(undefined, owner.call, ['keys']);
  const { path, id } = await create(call, 'encrypted', 100);
  const own = await create(owner.call, 'plain', 5);
  for (const seeing of [owner.call, keysOnly]) {
    const { uploads } = await jsonOf<ResumableUploadList>(seeing('/v1/uploads'));
    expect(uploads.map(({ uploadId, createdBy }) => [uploadId, createdBy])).toEqual([
      [own.id, expect.stringMatching(/^[0-9a-f]{16}$/)],
      [id, call.id],
    ]);
  }
  expect(await call.listUploads()).toMatchObject({ uploads: [{ uploadId: id }] });
  expect((await keysOnly(path, { method: 'DELETE', headers: version })).status).toBe(204);
  expect(await problemOf(patch(call, path, 0, random(1)))).toBe('404 not_found');
  expect(await stateOf(owner.call, own.path)).toMatchObject({ state: 'open' });
});

it('no part of an upload is served by its CID until its file is stored', async () => {
  const call = await guest();
  const bytes = random(mib + 200_000);
  const { path } = await create(call, 'plain', bytes.length);
  await send(call, path, bytes.subarray(0, mib + 100_000), mib + 100_000);
  expect(await owner.object.rows('part')).toHaveLength(1);
  const part = cidOf('raw', await sha256(bytes.subarray(0, mib))).text;
  const gateway = (cid: string): Promise<Response> => fetch(`${service.url}/ipfs/${cid}?format=raw`);
  expect((await gateway(part)).status).toBe(404);
  const finished = await patch(call, path, mib + 100_000, bytes.subarray(mib + 100_000));
  const root = present(finished.headers.get('Sealpin-Cid'));
  expect((await gateway(root)).status).toBe(200);
  expect((await gateway(part)).status).toBe(200);
});
