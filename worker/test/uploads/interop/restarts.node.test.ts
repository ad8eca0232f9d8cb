/** Uploads whose client, service or day changes on the way, with tus-js-client unmodified. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Service } from '../../../../testkit/service.ts';
import { restartable } from '../../kept-state.ts';
import { accountObject, newOwner, type Owner } from '../../stored-state.ts';
import { mib, modes, type Mode } from '../tus-client.ts';
import { startBreakingProxy, type BreakingProxy } from './breaking-proxy.ts';
import { open, send } from './request.ts';
import { uploadsOf, type TusServer } from './servers.ts';
import { pausedAfter, start } from './tus-js.ts';
import { present } from '../../../../testkit/present.ts';
import { inCi, long } from '../../../../testkit/long-run.ts';

const dayMs = 86_400_000;
const chunkSize = 512_000;
const file = randomBytes(3 * mib + 7);
const retryDelays = [100, 200, 400, 800, 1600, 3200, 3200];

let service: Service;
/** Stays where it is when the service comes back on another port. */
let proxy: BreakingProxy;
let owner: Owner;

const restart = restartable('uploads', (started) => (service = started));
beforeAll(async () => {
  proxy = await startBreakingProxy(service.url);
});
afterAll(() => proxy.close());
beforeEach(async () => {
  proxy.plan = undefined;
  owner = await newOwner(service);
});

const uploads = (mode: Mode): TusServer => uploadsOf(proxy.origin, owner.call.apiKey, mode);

async function offsetOf(server: TusServer, url: string): Promise<[number, number]> {
  const { status, headers } = await send('HEAD', url, { ...server.headers, 'Tus-Resumable': '1.0.0' });
  return [status, Number(headers.get('Upload-Offset'))];
}

/** Starts an upload that its client leaves after so many chunks; resolves with its URL. */
async function leave(server: TusServer, chunks: number): Promise<string> {
  const { url } = await pausedAfter(chunks, server, file, { chunkSize });
  return url ?? '';
}

/** Kills the service and starts it again. What is sent to it in between fails. */
async function kill(): Promise<void> {
  await restart.kill();
  proxy.target = service.url;
  owner.object = accountObject(service, owner.id);
}

describe.each(long ? modes : (['encrypted'] as const))('%s', (mode) => {
  inCi('two clients that continue one upload at once end with the file', async () => {
    const server = uploads(mode);
    const uploadUrl = await leave(server, 1);
    const both = [chunkSize, 300_000].map((size) => start(server, file, { uploadUrl, chunkSize: size, retryDelays }));
    expect(await Promise.all(both.map(({ finished }) => finished))).toEqual([uploadUrl, uploadUrl]);
    expect((await server.stored(uploadUrl)).equals(file)).toBe(true);
  });

  inCi('the service is killed: what it has acknowledged is there, and the client continues by itself', async () => {
    const server = uploads(mode);
    for (let round = 0; round < (long ? 20 : 1); round += 1) {
      let patches = 0;
      let acknowledged = 0;
      let came: Promise<number> | undefined;
      proxy.plan = ({ method }) => {
        if (method !== 'PATCH') return undefined;
        patches += 1;
        // The first bytes of the fourth request arrive, then the service is gone.
        if (patches === 4)
          came = kill().then(async () => {
            const [, offset] = await offsetOf(server, present(upload.url));
            return offset;
          });
        return patches === 4 ? { cut: { of: 'body', bytes: 1 + ((round * 30_011) % chunkSize) } } : undefined;
      };
      const { upload, finished } = start(server, file, {
        chunkSize,
        retryDelays,
        onChunkComplete: (_, accepted) => {
          if (came === undefined) acknowledged = accepted;
        },
      });
      const url = await finished;
      expect(acknowledged).toBe(3 * chunkSize);
      expect(await came).toBeGreaterThanOrEqual(acknowledged);
      expect((await server.stored(url)).equals(file)).toBe(true);
    }
  });

  inCi('a day passes and the service is killed: another client continues', async () => {
    const server = uploads(mode);
    const uploadUrl = await leave(server, 4);
    await kill();
    await owner.object.ring(dayMs);
    expect(await offsetOf(server, uploadUrl)).toEqual([200, 4 * chunkSize]);
    expect(await start(server, file, { uploadUrl, chunkSize }).finished).toBe(uploadUrl);
    await owner.object.ring(dayMs);
    expect((await server.stored(uploadUrl)).equals(file)).toBe(true);
  });

  it('eight days pass: the upload is gone, and the client begins again', async () => {
    const server = uploads(mode);
    const uploadUrl = await leave(server, 2);
    await owner.object.ring(8 * dayMs);
    const url = await start(server, file, { uploadUrl, chunkSize }).finished;
    expect(url).not.toBe(uploadUrl);
    expect((await server.stored(url)).equals(file)).toBe(true);
  });
});

inCi('a client takes over within a part: the earlier request ends, and the file is that of the later one', async () => {
  const server = uploads('encrypted');
  const created = await send('POST', server.endpoint, {
    ...server.headers,
    'Tus-Resumable': '1.0.0',
    'Upload-Length': String(file.length),
    'Upload-Metadata': 'filename ZmlsZS5iaW4=',
  });
  const url = new URL(present(created.headers.get('Location')), server.endpoint).href;
  const earlier = open('PATCH', url, {
    ...server.headers,
    'Tus-Resumable': '1.0.0',
    'Content-Type': 'application/offset+octet-stream',
    'Upload-Offset': '0',
    'Content-Length': String(file.length),
  });
  const sent = 2 * mib + 700_000;
  earlier.request.write(file.subarray(0, sent));
  // A leaf is on its way to the pinning service, in a part that is still open, or is there.
  const leaves = async (): Promise<number> =>
    (await owner.object.rows('shown')).length + (await owner.object.rows('part')).length;
  await expect.poll(leaves).toBeGreaterThan(0);
  expect(await start(server, file, { uploadUrl: url, retryDelays }).finished).toBe(url);
  earlier.request.end(file.subarray(sent));
  const status = await earlier.answered.then((answer) => answer.status).catch(() => 0);
  expect([0, 423]).toContain(status);
  expect((await server.stored(url)).equals(file)).toBe(true);
});
