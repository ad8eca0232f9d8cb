/** Requests that continue an upload, whose bytes the node takes past the runtime. */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { itemOf } from '../../../testkit/present.ts';
import { localPaths } from '../../local/state.ts';
import { remove, startHere, type RunningHere } from '../local/harness.ts';
import { chunk, statusOf, uploadsTo, write, type Uploads } from './tus-uploads.ts';

let service: RunningHere;
let uploads: Uploads;
beforeAll(async () => {
  service = await startHere();
  uploads = uploadsTo(service);
});
afterAll(() => remove(service));

const large = (): Buffer => randomBytes(40 * leafBytes + 5);

test('the bytes of a request go to the disk as they are, in parts, past the runtime', async () => {
  const bytes = randomBytes(18 * leafBytes);
  const path = await uploads.create(bytes.length);
  const before = new Set(await uploads.filesOnDisk());
  expect((await uploads.patch(path, 0, bytes.subarray(0, 17 * leafBytes))).status).toBe(204);
  const added = (await uploads.filesOnDisk()).filter((name) => !before.has(name));
  // What the runtime passes on arrives as a CAR.
  expect(added.filter((name) => name.endsWith('.car'))).toEqual([]);
  const folder = join(localPaths(service.dataDir).ipfs, 'data');
  const parts = await Promise.all(added.map((name) => readFile(join(folder, name))));
  expect(parts.reduce((sum, part) => sum + part.length, 0)).toBe(17 * leafBytes);
  for (const part of parts) expect(bytes.includes(part)).toBe(true);
  await uploads.send(path, bytes, [], 17 * leafBytes);
  await uploads.expectStored(path, bytes);
});

test('so do those on a connection that began with a page, as a browser asks for one', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const page = request(`${service.url}/send`, { agent, headers: { 'upgrade-insecure-requests': '1' } }).end();
  expect(await statusOf(page)).toBe(200);
  const bytes = randomBytes(2 * leafBytes);
  const path = await uploads.create(bytes.length);
  const before = new Set(await uploads.filesOnDisk());
  const authorization = `Bearer ${service.apiKey}`;
  const headers = { ...chunk, authorization, 'upload-offset': '0', 'content-length': leafBytes };
  const sent = request(service.url + path, { method: 'PATCH', agent, headers }).end(bytes.subarray(0, leafBytes));
  expect(await statusOf(sent)).toBe(204);
  expect(sent.reusedSocket).toBe(true);
  agent.destroy();
  const added = (await uploads.filesOnDisk()).filter((name) => !before.has(name));
  expect(added.map((name) => name.endsWith('.car'))).toEqual([false]);
  await uploads.send(path, bytes, [], leafBytes);
  await uploads.expectStored(path, bytes);
});

describe.each(['plain', 'encrypted'])('%s', (mode) => {
  const mib = leafBytes;
  const uploaded = [
    { length: mib, ends: [] },
    { length: mib + 1, ends: [] },
    { length: 3 * mib, ends: [mib, 2 * mib] },
    { length: 3 * mib + 1, ends: [mib + 1, 2 * mib + 1] },
    { length: 5 * mib, ends: [mib - 1, mib, 3 * mib, 5 * mib - 1] },
    { length: 17 * mib + 5, ends: [16 * mib] },
  ];
  // In the short form each length in one mode.
  test.each(uploaded.filter((_, at) => ci || at % 2 === Number(mode === 'plain')))(
    '$length bytes in requests that end at $ends come back as they were',
    async ({ length, ends }) => {
      const bytes = randomBytes(length);
      const path = await uploads.create(length, mode);
      await uploads.send(path, bytes, ends);
      await uploads.expectStored(path, bytes);
    },
  );
});

test('an upload whose length is told late is stored', async () => {
  const bytes = randomBytes(3 * leafBytes + 1);
  const path = await uploads.create(undefined);
  expect((await uploads.patch(path, 0, bytes.subarray(0, 2 * leafBytes))).status).toBe(204);
  const headers = { ...chunk, 'Upload-Offset': String(2 * leafBytes), 'Upload-Length': String(bytes.length) };
  const body = new Uint8Array(bytes.subarray(2 * leafBytes));
  const last = await uploads.call(path, { method: 'PATCH', headers, body });
  expect(last.status).toBe(204);
  await uploads.expectStored(path, bytes);
});

test('of an encrypted upload only the first request reaches the runtime twice', async () => {
  const bytes = randomBytes(3 * leafBytes);
  const path = await uploads.create(bytes.length, 'encrypted');
  const logged = (): number => service.stderr().split('"method":"PATCH"').length;
  const before = logged();
  await uploads.send(path, bytes, [leafBytes, 2 * leafBytes]);
  await uploads.expectStored(path, bytes);
  expect(logged() - before).toBe(4);
});

test('the beginning of a file tells what it is, also where it comes a few bytes at a time', async () => {
  const container = Buffer.concat([Buffer.from('age-encryption.org/v1\n'), randomBytes(2 * leafBytes)]);
  for (const ends of [[], [leafBytes]]) {
    const path = await uploads.create(container.length);
    await uploads.send(path, container, ends);
    await expect.poll(async () => (await uploads.stateOf(path)).state).toBe('done');
    const receipt = await uploads.call.deleteFile({ fileId: itemOf(path.split('/'), -1) });
    // A deletion destroys no key of a container.
    expect(JSON.stringify(receipt)).toContain('container');
  }
});

inCi('what has arrived is kept where the client leaves, and the upload continues there', async () => {
  const bytes = large();
  const { path, sent, sentBytes } = await uploads.half(bytes);
  sent.destroy();
  const offset = await uploads.offsetOf(path);
  expect(offset).toBeGreaterThan(sentBytes - leafBytes);
  expect(offset).toBeLessThanOrEqual(sentBytes);
  const logged = service.stderr().split('\n');
  expect(logged.findLast((line) => line.includes('"method":"PATCH"'))).toContain('"status":423');
  await uploads.send(path, bytes, [], offset);
  await uploads.expectStored(path, bytes);
});

inCi('what a slow client has sent is recorded while it waits', async () => {
  const bytes = randomBytes(2 * leafBytes);
  const path = await uploads.create(bytes.length);
  const sent = uploads.begin(path, 0, bytes.length);
  const answer = statusOf(sent);
  await write(sent, bytes.subarray(0, 5));
  await expect.poll(async () => (await uploads.stateOf(path)).offset).toBe(5);
  sent.end(bytes.subarray(5));
  expect(await answer).toBe(204);
  await uploads.expectStored(path, bytes);
});

inCi('HEAD takes an upload over from a request that does not end', async () => {
  const bytes = large();
  const { path, sent, sentBytes } = await uploads.half(bytes);
  const answer = statusOf(sent);
  const offset = await uploads.offsetOf(path);
  expect(offset).toBeGreaterThanOrEqual(16 * leafBytes);
  await uploads.send(path, bytes, [], offset);
  sent.end(bytes.subarray(sentBytes));
  expect([409, 410, 423]).toContain(await answer);
  await uploads.expectStored(path, bytes);
});

test('of two requests at one offset one continues, and nothing is mixed', async () => {
  const bytes = randomBytes(3 * leafBytes);
  const path = await uploads.create(bytes.length);
  const both = await Promise.all([1, 2].map(() => uploads.patch(path, 0, bytes.subarray(0, 2 * leafBytes))));
  const statuses = both.map(({ status }) => status);
  expect(statuses).toContain(204);
  expect(statuses.every((status) => [204, 409, 423].includes(status))).toBe(true);
  await uploads.send(path, bytes, [], await uploads.offsetOf(path));
  await uploads.expectStored(path, bytes);
});

inCi('bytes that are stored already are a file of their own', async () => {
  const bytes = large();
  const paths = [await uploads.create(bytes.length), await uploads.create(bytes.length)];
  for (const path of paths) await uploads.send(path, bytes, [24 * leafBytes]);
  for (const path of paths) await uploads.expectStored(path, bytes);
});

test('a client cannot speak for the process in front', async () => {
  const bytes = randomBytes(2 * leafBytes);
  const path = await uploads.create(bytes.length);
  const forged = {
    'sealpin-handover': 'x',
    'sealpin-length': '7',
    'sealpin-in-place': '7',
    'sealpin-body': 'wanted',
  };
  const headers = { ...chunk, ...forged, 'Upload-Offset': '0' };
  const response = await uploads.call(path, { method: 'PATCH', headers, body: new Uint8Array(bytes) });
  expect(response.status).toBe(204);
  expect(response.headers.get('sealpin-body')).toBe(null);
  await uploads.expectStored(path, bytes);
});

test('a body for which the file has no room is refused before a byte is asked for', async () => {
  const path = await uploads.create(2 * leafBytes);
  const sent = uploads
    .begin(path, 0, 3 * leafBytes)
    .setHeader('expect', '100-continue')
    .setHeader('sealpin-in-place', '7');
  let isAsked = false;
  sent.on('continue', () => (isAsked = true)).flushHeaders();
  expect(await statusOf(sent)).toBe(413);
  expect(isAsked).toBe(false);
  sent.destroy();
});

test('a body in chunks with more than the file has room for is refused, and none of it counts', async () => {
  const bytes = randomBytes(2 * leafBytes);
  const path = await uploads.create(bytes.length);
  const sent = uploads.begin(path, 0, 0);
  sent.removeHeader('content-length');
  sent.end(Buffer.concat([bytes, randomBytes(1)]));
  expect(await statusOf(sent)).toBe(413);
  expect(await uploads.offsetOf(path)).toBe(0);
  await uploads.send(path, bytes);
  await uploads.expectStored(path, bytes);
});
