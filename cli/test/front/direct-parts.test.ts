/** Requests that continue an upload, whose bytes the node takes past the runtime. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ResumableUpload } from '../../../shared/api.ts';
import { cidBuilder, leafBytes } from '../../../shared/ipfs/index.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';
import { loadRun, localPaths } from '../../local/state.ts';
import { api, remove, startHere, startLocal, type RunningHere } from '../local/harness.ts';

let service: RunningHere;
let call: Client;
beforeAll(async () => {
  service = await startHere({ env: { UPLOAD_IDLE_SECONDS: '9' } });
  call = api(service);
});
afterAll(() => remove(service));

const tus = { 'Tus-Resumable': '1.0.0' };
const chunk = { ...tus, 'Content-Type': 'application/offset+octet-stream' };

async function create(length: number | undefined, mode = 'plain', by = call): Promise<string> {
  const told = length === undefined ? { 'Upload-Defer-Length': '1' } : { 'Upload-Length': String(length) };
  const headers = { ...tus, ...told, 'Upload-Metadata': 'filename bg==' };
  const response = await by(`/v1/uploads/${mode}`, { method: 'POST', headers });
  expect(response.status).toBe(201);
  return present(response.headers.get('Location'));
}

function patch(path: string, offset: number, body: Uint8Array, by = call): Promise<Response> {
  const headers = { ...chunk, 'Upload-Offset': String(offset) };
  return by(path, { method: 'PATCH', headers, body: body as BodyInit });
}

/** Sends what is left, in requests that end at these offsets, and at the end. */
async function send(path: string, bytes: Buffer, ends: readonly number[] = [], from = 0): Promise<void> {
  let offset = from;
  for (const end of [...ends, bytes.length]) {
    const response = await patch(path, offset, bytes.subarray(offset, end));
    expect(response.status, await response.clone().text()).toBe(204);
    expect(response.headers.get('Upload-Offset')).toBe(String(end));
    offset = end;
  }
}

const stateOf = async (path: string): Promise<ResumableUpload> => jsonOf<ResumableUpload>(call(path));

/** The offset that HEAD tells, once there is a service. */
async function offsetOf(path: string): Promise<number> {
  const response = await call(path, { method: 'HEAD', headers: tus });
  expect(response.status).toBe(200);
  return Number(response.headers.get('Upload-Offset'));
}

/** Checks the file of an upload, byte for byte, and removes it. */
async function expectStored(path: string, bytes: Buffer): Promise<void> {
  const fileId = itemOf(path.split('/'), -1);
  await expect.poll(async () => (await stateOf(path)).state).toBe('done');
  const builder = cidBuilder();
  await builder.write(bytes);
  const { cid } = await builder.finish();
  const file = await call.getFile({ fileId, data: false });
  expect(file).toMatchObject({ size: bytes.length, ...(file.mode === 'plain' && { cid }) });
  expect((await call.read(fileId)).equals(bytes)).toBe(true);
  await call.deleteFile({ fileId });
}

/** A request whose bytes come when the test sends them. */
function begin(path: string, offset: number, length: number, key = call.apiKey): ClientRequest {
  const headers = { ...chunk, authorization: `Bearer ${key}`, 'upload-offset': offset, 'content-length': length };
  const sent = request(service.url + path, { method: 'PATCH', agent: false, headers });
  // What became of it, the test asks.
  sent.on('error', () => undefined);
  return sent;
}

async function write(sent: ClientRequest, bytes: Uint8Array): Promise<void> {
  await new Promise((resolve) => sent.write(bytes, resolve));
}

async function statusOf(sent: ClientRequest): Promise<number | undefined> {
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  await buffer(response);
  return response.statusCode;
}

const filesOnDisk = (): Promise<string[]> => readdir(join(localPaths(service.dataDir).ipfs, 'data'));

/** Begins an upload and sends half of it, of which the first part is recorded. */
async function half(bytes: Buffer): Promise<{ path: string; sent: ClientRequest; sentBytes: number }> {
  const path = await create(bytes.length);
  const sent = begin(path, 0, bytes.length);
  const sentBytes = 20 * leafBytes + 77;
  await write(sent, bytes.subarray(0, sentBytes));
  await expect.poll(async () => (await stateOf(path)).offset).toBeGreaterThanOrEqual(16 * leafBytes);
  return { path, sent, sentBytes };
}

const large = (): Buffer => randomBytes(40 * leafBytes + 5);

test('the bytes of a request go to the disk as they are, in parts, past the runtime', async () => {
  const bytes = randomBytes(18 * leafBytes);
  const path = await create(bytes.length);
  const before = new Set(await filesOnDisk());
  expect((await patch(path, 0, bytes.subarray(0, 17 * leafBytes))).status).toBe(204);
  const added = (await filesOnDisk()).filter((name) => !before.has(name));
  // What the runtime passes on arrives as a CAR.
  expect(added.filter((name) => name.endsWith('.car'))).toEqual([]);
  const folder = join(localPaths(service.dataDir).ipfs, 'data');
  const parts = await Promise.all(added.map((name) => readFile(join(folder, name))));
  expect(parts.reduce((sum, part) => sum + part.length, 0)).toBe(17 * leafBytes);
  for (const part of parts) expect(bytes.includes(part)).toBe(true);
  await send(path, bytes, [], 17 * leafBytes);
  await expectStored(path, bytes);
});

describe.each(['plain', 'encrypted'])('%s', (mode) => {
  const mib = leafBytes;
  test.each([
    { length: mib, ends: [] },
    { length: mib + 1, ends: [] },
    { length: 3 * mib, ends: [mib, 2 * mib] },
    { length: 3 * mib + 1, ends: [mib + 1, 2 * mib + 1] },
    { length: 5 * mib, ends: [mib - 1, mib, 3 * mib, 5 * mib - 1] },
    { length: 17 * mib + 5, ends: [16 * mib] },
  ])('$length bytes in requests that end at $ends come back as they were', async ({ length, ends }) => {
    const bytes = randomBytes(length);
    const path = await create(length, mode);
    await send(path, bytes, ends);
    await expectStored(path, bytes);
  });
});

test('an upload whose length is told late is stored', async () => {
  const bytes = randomBytes(3 * leafBytes + 1);
  const path = await create(undefined);
  expect((await patch(path, 0, bytes.subarray(0, 2 * leafBytes))).status).toBe(204);
  const headers = { ...chunk, 'Upload-Offset': String(2 * leafBytes), 'Upload-Length': String(bytes.length) };
  const last = await call(path, { method: 'PATCH', headers, body: new Uint8Array(bytes.subarray(2 * leafBytes)) });
  expect(last.status).toBe(204);
  await expectStored(path, bytes);
});

test('of an encrypted upload only the first request reaches the runtime twice', async () => {
  const bytes = randomBytes(3 * leafBytes);
  const path = await create(bytes.length, 'encrypted');
  const logged = (): number => service.stderr().split('"method":"PATCH"').length;
  const before = logged();
  await send(path, bytes, [leafBytes, 2 * leafBytes]);
  await expectStored(path, bytes);
  expect(logged() - before).toBe(4);
});

test('the beginning of a file tells what it is, also where it comes a few bytes at a time', async () => {
  const container = Buffer.concat([Buffer.from('age-encryption.org/v1\n'), randomBytes(2 * leafBytes)]);
  for (const ends of [[], [leafBytes]]) {
    const path = await create(container.length);
    await send(path, container, ends);
    await expect.poll(async () => (await stateOf(path)).state).toBe('done');
    const receipt = await call.deleteFile({ fileId: itemOf(path.split('/'), -1) });
    // A deletion destroys no key of a container.
    expect(JSON.stringify(receipt)).toContain('container');
  }
});

test('what has arrived is kept where the client leaves, and the upload continues there', async () => {
  const bytes = large();
  const { path, sent, sentBytes } = await half(bytes);
  sent.destroy();
  const offset = await offsetOf(path);
  expect(offset).toBeGreaterThan(sentBytes - leafBytes);
  expect(offset).toBeLessThanOrEqual(sentBytes);
  const logged = service.stderr().split('\n');
  expect(logged.findLast((line) => line.includes('"method":"PATCH"'))).toContain('"status":400');
  await send(path, bytes, [], offset);
  await expectStored(path, bytes);
});

test('what a slow client has sent is recorded while it waits', async () => {
  const bytes = randomBytes(2 * leafBytes);
  const path = await create(bytes.length);
  const sent = begin(path, 0, bytes.length);
  const answer = statusOf(sent);
  await write(sent, bytes.subarray(0, 5));
  await expect.poll(async () => (await stateOf(path)).offset).toBe(5);
  sent.end(bytes.subarray(5));
  expect(await answer).toBe(204);
  await expectStored(path, bytes);
});

test('HEAD takes an upload over from a request that does not end', async () => {
  const bytes = large();
  const { path, sent, sentBytes } = await half(bytes);
  const answer = statusOf(sent);
  const offset = await offsetOf(path);
  expect(offset).toBeGreaterThanOrEqual(16 * leafBytes);
  await send(path, bytes, [], offset);
  sent.end(bytes.subarray(sentBytes));
  expect([409, 410, 423]).toContain(await answer);
  await expectStored(path, bytes);
});

test('of two requests at one offset one continues, and nothing is mixed', async () => {
  const bytes = randomBytes(3 * leafBytes);
  const path = await create(bytes.length);
  const both = await Promise.all([1, 2].map(() => patch(path, 0, bytes.subarray(0, 2 * leafBytes))));
  const statuses = both.map(({ status }) => status);
  expect(statuses).toContain(204);
  expect(statuses.every((status) => [204, 409, 423].includes(status))).toBe(true);
  await send(path, bytes, [], await offsetOf(path));
  await expectStored(path, bytes);
});

test('an upload that is ended while its bytes arrive takes no more of them', async () => {
  const bytes = large();
  const { path, sent, sentBytes } = await half(bytes);
  const answer = statusOf(sent);
  expect((await call(path, { method: 'DELETE', headers: tus })).status).toBe(204);
  sent.end(bytes.subarray(sentBytes));
  expect([404, 410, 423]).toContain(await answer);
  expect(await problemOf(call(path))).toBe('404 not_found');
});

test('a key that is revoked while bytes arrive records no more of them', async () => {
  const bytes = randomBytes(3 * leafBytes);
  const key = await call.withKey(['write']);
  const path = await create(bytes.length, 'plain', key);
  const sent = begin(path, 0, bytes.length, key.apiKey);
  const before = await filesOnDisk();
  await write(sent, bytes.subarray(0, leafBytes));
  await expect.poll(async () => (await filesOnDisk()).length).toBe(before.length + 1);
  const answer = statusOf(sent);
  await call.revokeKey({ id: key.id });
  sent.end(bytes.subarray(leafBytes));
  expect(await answer).toBe(401);
});

test('bytes that are stored already are a file of their own', async () => {
  const bytes = large();
  const paths = [await create(bytes.length), await create(bytes.length)];
  for (const path of paths) await send(path, bytes, [24 * leafBytes]);
  for (const path of paths) await expectStored(path, bytes);
});

test('a client cannot speak for the process in front', async () => {
  const bytes = randomBytes(2 * leafBytes);
  const path = await create(bytes.length);
  const forged = {
    'sealpin-handover': 'x',
    'sealpin-length': '7',
    'sealpin-in-place': '7',
    'sealpin-body': 'wanted',
  };
  const headers = { ...chunk, ...forged, 'Upload-Offset': '0' };
  const response = await call(path, { method: 'PATCH', headers, body: new Uint8Array(bytes) });
  expect(response.status).toBe(204);
  expect(response.headers.get('sealpin-body')).toBe(null);
  await expectStored(path, bytes);
});

test('a body for which the file has no room is refused before a byte is asked for', async () => {
  const path = await create(2 * leafBytes);
  const sent = begin(path, 0, 3 * leafBytes)
    .setHeader('expect', '100-continue')
    .setHeader('sealpin-in-place', '7');
  let isAsked = false;
  sent.on('continue', () => (isAsked = true)).flushHeaders();
  expect(await statusOf(sent)).toBe(413);
  expect(isAsked).toBe(false);
  sent.destroy();
});

test('a runtime that is killed loses nothing that was recorded', async () => {
  const bytes = large();
  const { path, sent } = await half(bytes);
  const { workerd } = present(await loadRun(service.dataDir));
  process.kill(itemOf(workerd, 0).pid, 'SIGKILL');
  sent.destroy();
  await expect.poll(() => offsetOf(path).catch(() => -1)).toBeGreaterThanOrEqual(16 * leafBytes);
  await send(path, bytes, [], await offsetOf(path));
  await expectStored(path, bytes);
});

test('a process that is killed loses nothing that was recorded', async () => {
  const other = await startLocal();
  const [ours, ourCall] = [service, call];
  try {
    [service, call] = [other, api(other)];
    const bytes = large();
    const { path, sent } = await half(bytes);
    await other.end('SIGKILL');
    sent.destroy();
    const again = await startLocal({ dataDir: other.dataDir });
    [service, call] = [again, client(again.url, other.apiKey)];
    const offset = await offsetOf(path);
    expect(offset).toBeGreaterThanOrEqual(16 * leafBytes);
    await send(path, bytes, [], offset);
    await expectStored(path, bytes);
  } finally {
    await remove(service);
    [service, call] = [ours, ourCall];
  }
});
