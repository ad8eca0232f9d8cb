/** Uploads whose API key ends after their last bytes, and before their file is stored. */
import { beforeAll, describe, expect, it } from 'vitest';
import { client, problemOf, signedPath, type Client } from '../../../testkit/api-client.ts';
import { ci } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { hourMs, soon, store } from '../invitations/guest.ts';
import { newOwner, pinned, sweep, type Owner } from '../stored-state.ts';
import { create, patch, random } from './tus-client.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

type Writer = Client & { id: string };
type Sent = Promise<Response>;

/** A request that stores a file. */
function post(call: Client, path: string, more: Record<string, string> = {}): Sent {
  const headers = { 'Content-Type': 'a/b', 'Content-Disposition': 'attachment; filename=a', ...more };
  return call(path, { method: 'POST', headers, body: crypto.randomUUID() });
}

/** The ways to store a file in one request: each prepares it, and returns what sends it. */
const ways: Record<string, (call: Writer) => Promise<() => Sent>> = {
  'in plain mode': async (call) => () => post(call, '/v1/storage/plain'),
  'in encrypted mode': async (call) => () => post(call, '/v1/storage/encrypted'),
  'that may be sent again': async (call) => () =>
    post(call, '/v1/storage/plain', { 'Idempotency-Key': crypto.randomUUID() }),
  async 'that names another one'(call) {
    const { fileId } = await store(call);
    return () => post(call, `/v1/storage/plain?names=${fileId}`);
  },
  async 'by a signed URL'(call) {
    const path = await signedPath(call.apiKey, { method: 'POST', mode: 'plain', jti: crypto.randomUUID() });
    return () => post(client(service.url, ''), path);
  },
};

/** The ends of a key, with what an upload is told. */
const ends: Record<string, { told: string; end(owner: Owner, key: Writer): Promise<unknown> }> = {
  'is revoked': { told: '401 unauthorized', end: (owner, { id }) => owner.call.revokeKey({ id }) },
  'has expired': { told: '401 unauthorized', end: ({ object }) => object.wait(hourMs) },
  'is of an account that the operator disables': {
    told: '403 account_disabled',
    end: ({ id }) => client(service.url, adminToken).changeAccount({ id, disabled: true }),
  },
};

describe.each(Object.entries(ends))('an upload whose key %s stores nothing', (name, { told, end }) => {
  // In the short form each end, and each way, with some of the others.
  const turn = Object.keys(ends).indexOf(name);
  const tried = Object.entries(ways).filter((_, at) => ci || (at + turn) % 2 === 0);
  it.each(tried)('%s', async (_way, prepare) => {
    const owner = await newOwner(service);
    const writer = await owner.call.withKey(['write'], { expiresAt: soon(hourMs) });
    const send = await prepare(writer);
    const pins = new Set(await pinned(service));
    const files = await owner.object.rows('file');
    await owner.object.fail('commit', 'held');
    const sent = send();
    await expect.poll(() => owner.object.awaits('commit')).toBe(false);
    const cid = present((await owner.object.rows('file')).at(-1)?.['cid']) as string;
    await end(owner, writer);
    await owner.object.fail('commit', 'let go');
    expect(await problemOf(sent)).toBe(told);
    expect(await owner.object.rows('file')).toEqual(files);
    expect(await owner.object.rows('idempotency')).toEqual([]);
    await sweep(service, [owner], [cid]);
    expect((await pinned(service)).filter((each) => !pins.has(each))).toEqual([]);
  });
});

it('an upload in several requests whose key is revoked while its file is being stored stores nothing', async () => {
  const owner = await newOwner(service);
  const writer = await owner.call.withKey(['write']);
  const { path } = await create(writer, 'plain', 5);
  await owner.object.fail('addReference', 'held');
  const sent = patch(writer, path, 0, random(5));
  await expect.poll(() => owner.object.awaits('addReference')).toBe(false);
  await owner.call.revokeKey({ id: writer.id });
  await owner.object.fail('addReference', 'let go');
  expect(await problemOf(sent)).toBe('404 not_found');
  expect(await owner.object.rows('file')).toEqual([]);
  expect(await owner.object.rows('upload')).toEqual([]);
});
