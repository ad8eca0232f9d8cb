/** Requests that continue an upload past the runtime, and end before their bytes do. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leafBytes } from '../../../shared/ipfs/index.ts';
import { client, problemOf } from '../../../testkit/api-client.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { freePort } from '../../local/port.ts';
import { remove, startHere, type RunningHere } from '../local/harness.ts';
import { adminTokenOf } from './public-service.ts';
import { chunk, statusOf, tus, uploadsTo, write, type Uploads } from './tus-uploads.ts';

let service: Pick<RunningHere, 'url' | 'apiKey' | 'dataDir'>;
let stop: () => Promise<unknown>;
let uploads: Uploads;
beforeAll(async () => {
  const port = await freePort(0);
  const args = [`--origin=https://localhost:${port}`, `--port=${port}`];
  // The time is less than a part of a slow client takes; the tests ask often.
  const env = { UPLOAD_IDLE_SECONDS: '4', KEY_LIMIT_POLICY: '', ADDRESS_LIMIT_POLICY: '' };
  const running = await startHere({ args, env });
  stop = () => remove(running);
  const url = `http://localhost:${port}`;
  const { apiKey } = await client(url, await adminTokenOf(running.dataDir)).createAccount({ label: 'owner' });
  service = { url, apiKey, dataDir: running.dataDir };
  uploads = uploadsTo(service);
});
afterAll(() => stop());

const leaves = (count: number): number => count * leafBytes;

/** Uploads of an account of its own, which may store so many leaves. */
async function limitedTo(count: number): Promise<Uploads & { limitTo(count: number): Promise<unknown> }> {
  const operator = await uploads.operator();
  const { apiKey, account } = await operator.createAccount({ label: 'ann', quotaBytes: leaves(count) });
  const limitTo = (most: number) => operator.changeAccount({ id: account.id, quotaBytes: leaves(most) });
  return { ...uploadsTo(service, client(service.url, apiKey)), limitTo };
}

describe('a quota that ends', () => {
  const quotas = [
    { how: 'as the operator lowers it', length: leaves(36), quota: 36 },
    { how: 'in an upload of unknown length', length: undefined, quota: 20 },
  ];
  test.each(quotas.slice(0, ci ? 2 : 1))(
    'amid a request, $how, ends the upload with what was recorded',
    async ({ length, quota }) => {
      const bytes = randomBytes(leaves(36));
      const limited = await limitedTo(quota);
      const before = { files: await uploads.filesOnDisk(), pins: await uploads.pins() };
      const path = await limited.create(length);
      const sent = limited.begin(path, 0, bytes.length);
      const answer = statusOf(sent);
      await write(sent, bytes.subarray(0, leaves(16)));
      await expect.poll(async () => (await limited.stateOf(path)).offset).toBe(leaves(16));
      await limited.limitTo(20);
      // One part more, and some of the next one.
      sent.write(bytes.subarray(leaves(16), leaves(34)));
      expect(await answer).toBe(413);
      sent.destroy();
      const ended = { state: 'failed', code: 'quota_exceeded', offset: leaves(16) };
      expect(await limited.stateOf(path)).toMatchObject(ended);
      expect((await limited.call(path, { method: 'HEAD', headers: tus })).status).toBe(410);
      await uploads.expectRows();
      // What was pinned and not recorded keeps its row until it is swept.
      const kept = async (): Promise<number[]> => {
        await uploads.collect();
        const [files, pins] = [await uploads.filesOnDisk(), await uploads.pins()];
        return [files.length - before.files.length, pins.length - before.pins.length];
      };
      await expect.poll(kept).toEqual([1, 1]);
    },
  );

  test('before a byte is refused before one is asked for', async () => {
    const limited = await limitedTo(20);
    const path = await limited.create(undefined);
    const sent = limited.begin(path, 0, leaves(2));
    sent.setHeader('upload-length', leaves(21)).setHeader('expect', '100-continue');
    let isAsked = false;
    sent.on('continue', () => (isAsked = true)).flushHeaders();
    expect(await statusOf(sent)).toBe(413);
    expect(isAsked).toBe(false);
    sent.destroy();
    expect(await limited.offsetOf(path)).toBe(0);
  });
});

inCi('of a client that stalls all that it has sent is recorded, and the upload continues there', async () => {
  const stall = async (count: number): Promise<void> => {
    const bytes = randomBytes(count + leaves(1));
    const path = await uploads.create(bytes.length);
    const sent = uploads.begin(path, 0, bytes.length);
    const answer = statusOf(sent);
    if (count > 0) await write(sent, bytes.subarray(0, count));
    else sent.flushHeaders();
    expect(await answer).toBe(423);
    sent.destroy();
    expect(await uploads.offsetOf(path)).toBe(count);
    await uploads.send(path, bytes, [], count);
    await uploads.expectStored(path, bytes);
  };
  await Promise.all([0, 5, leaves(2), leaves(2.5), leaves(16), leaves(16) + 3].map(stall));
});

/** Ways to end an upload whose bytes arrive, and the statuses of the request that has them. */
const ends = [
  {
    how: 'its deletion',
    statuses: [404, 410, 423],
    end: async ({ call }: Uploads, path: string) => {
      expect((await call(path, { method: 'DELETE', headers: tus })).status).toBe(204);
      expect(await problemOf(call(path))).toBe('404 not_found');
    },
  },
  {
    how: 'the revocation of its key',
    statuses: [401],
    end: async (_: Uploads, __: string, id: string) => await uploads.call.revokeKey({ id }),
  },
];

test.each(ends)('an upload that ends by $how takes no more bytes, and leaves none', async ({ end, statuses }) => {
  const before = { files: await uploads.filesOnDisk(), pins: await uploads.pins() };
  const key = await uploads.call.withKey(['write']);
  const own = uploadsTo(service, key);
  const bytes = randomBytes(leaves(40));
  const { path, sent, sentBytes } = await own.half(bytes);
  const answer = statusOf(sent);
  await end(own, path, key.id);
  sent.end(bytes.subarray(sentBytes));
  expect(statuses).toContain(await answer);
  const now = async (): Promise<typeof before> => {
    await uploads.collect();
    return { files: await uploads.filesOnDisk(), pins: await uploads.pins() };
  };
  await expect.poll(now).toEqual(before);
});

inCi.each(ends)('a client that reads nothing before it has sent all hears of $how', async ({ end, statuses }) => {
  const key = await uploads.call.withKey(['write']);
  const own = uploadsTo(service, key);
  const length = leaves(100);
  const path = await own.create(length);
  const { host, hostname, port } = new URL(service.url);
  const headers = { ...chunk, Host: host, Authorization: `Bearer ${key.apiKey}`, 'Upload-Offset': '0' };
  const all = { ...headers, 'Content-Length': String(length) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = connect(Number(port), hostname);
  const send = async (piece: Uint8Array | string): Promise<void> => {
    if (!socket.write(piece)) await once(socket, 'drain');
  };
  await send(`PATCH ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  const piece = randomBytes(leafBytes);
  for (let at = 0; at < leaves(17); at += piece.length) await send(piece);
  await expect.poll(async () => (await own.stateOf(path)).offset).toBeGreaterThanOrEqual(leaves(16));
  await end(own, path, key.id);
  for (let at = leaves(17); at < length; at += piece.length) await send(piece);
  const [response] = (await once(socket, 'data')) as [Buffer];
  expect(statuses).toContain(Number(response.toString('latin1').split(' ')[1]));
  socket.destroy();
});
