/**
 * Requests that break, stall or meet each other, and a pinning service that fails: what has arrived
 * is not lost.
 */
import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { problemOf, signedPath } from '../../../testkit/api-client.ts';
import { startBehindPeer, type Peer, type Step, type Turn } from '../peer.ts';
import { newOwner, pinned, pinsParts, sweep, type Owner } from '../stored-state.ts';
import { backendKind, type Service } from '../../../testkit/service.ts';
import {
  create,
  expectStored,
  head,
  mib,
  modesInForm,
  offsetOf,
  patch,
  random,
  send,
  stateOf,
  version,
} from './tus-client.ts';
import { first, present } from '../../../testkit/present.ts';
import { inCi, long } from '../../../testkit/long-run.ts';

let peer: Peer;
let service: Service;
let owner: Owner;
beforeAll(async () => {
  ({ service, peer } = await startBehindPeer({ vars: { UPLOAD_IDLE_SECONDS: '9' } }));
});
afterAll(() => service.close());
beforeEach(async () => {
  peer.onCommand = undefined;
  owner = await newOwner(service);
});

const answering = (step: Step, answer: (turn: Turn) => Promise<void> | void): void => {
  peer.onCommand = async (turn) => (turn.step === step ? answer(turn) : (await turn.pass()).deliver());
};
const json = { 'content-type': 'application/json' };
const failing = (message: string) => (turn: Turn) =>
  turn.answer(500, JSON.stringify({ Message: message, Code: 0, Type: 'error' }), json);
const refusing = (turn: Turn): void => turn.refuse();

/** A PATCH that is sent by hand: its bytes come when the test says so. */
type Slow = { write(bytes: Uint8Array): Promise<void>; cut(): void; status: Promise<number | undefined> };

function slowPatch(path: string, offset: number, length: number): Slow {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  const headers = {
    Host: new URL(service.url).host,
    Authorization: `Bearer ${owner.call.apiKey}`,
    ...version,
    'Content-Type': 'application/offset+octet-stream',
    'Upload-Offset': offset,
    'Content-Length': length,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.write(`${[`PATCH ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`);
  let text = '';
  const status = new Promise<number | undefined>((resolve) => {
    const settle = (): void => resolve(Number(/^HTTP\/1.1 (\d+)/.exec(text)?.[1] ?? Number.NaN) || undefined);
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (text.includes('\r\n\r\n')) settle();
    });
    socket.on('close', settle).on('error', settle);
  });
  const write = (bytes: Uint8Array): Promise<void> => new Promise((resolve) => socket.write(bytes, () => resolve()));
  return { write, cut: () => void socket.destroy(), status };
}

/** Waits until an upload is at an offset, without disturbing the request that continues it. */
async function arrives(path: string, offset: number): Promise<void> {
  await expect
    .poll(async () => (await stateOf(owner.call, path)).offset, { timeout: 20_000, interval: 250 })
    .toBe(offset);
}

describe.each(modesInForm)('%s', (mode) => {
  it.each(long ? [300_000, 1_300_000] : [1_300_000])(
    'a body that breaks after %d bytes keeps most of them',
    async (length) => {
      const bytes = random(2 * mib);
      const { path } = await create(owner.call, mode, bytes.length);
      const slow = slowPatch(path, 0, bytes.length);
      // The first bytes teach the service that the client is not fast: it then waits for few bytes
      // at a time.
      await slow.write(bytes.subarray(0, 1000));
      await new Promise((resolve) => setTimeout(resolve, 300));
      await slow.write(bytes.subarray(1000, length));
      slow.cut();
      // HEAD waits for the request that breaks. The bytes of a read that fails are lost.
      const offset = await offsetOf(owner.call, path);
      // A store loses what has come of an object that is not complete.
      expect(offset).toBeGreaterThanOrEqual(backendKind === 'kubo' ? 0.6 * length : 0);
      expect(offset).toBeLessThanOrEqual(length);
      await expectStored(owner.call, await send(owner.call, path, bytes, 2 * mib, offset), bytes);
    },
  );

  it.runIf(long)(
    'a fast line that breaks within a part of 64 leaves loses less than 1 MiB, or one object',
    async () => {
      const bytes = random(200 * mib);
      const { path } = await create(owner.call, mode, bytes.length);
      await send(owner.call, path, bytes.subarray(0, 64 * mib), 64 * mib);
      const fast = slowPatch(path, 64 * mib, bytes.length - 64 * mib);
      await fast.write(bytes.subarray(64 * mib, 104 * mib));
      fast.cut();
      const offset = await offsetOf(owner.call, path);
      // A store loses the object that is on its way, of at most 16 MiB.
      expect(offset).toBeGreaterThan((backendKind === 'kubo' ? 103 : 87) * mib);
      await expectStored(owner.call, await send(owner.call, path, bytes, 64 * mib, offset), bytes);
    },
  );

  // If HEAD waited for requests that have ended, these would take 30 s.
  it('HEAD does not wait after a request that has ended', { timeout: 20_000 }, async () => {
    const { path } = await create(owner.call, mode, 10);
    for (let offset = 0; offset < 10; offset += 1) {
      expect(await offsetOf(owner.call, path)).toBe(offset);
      await patch(owner.call, path, offset, random(1));
    }
  });

  inCi('a client that sends little and waits has its bytes recorded', async () => {
    const bytes = random(1_400_000);
    const { path } = await create(owner.call, mode, bytes.length);
    const slow = slowPatch(path, 0, bytes.length);
    await slow.write(bytes.subarray(0, 5));
    await arrives(path, 5);
    await slow.write(bytes.subarray(5));
    expect(await slow.status).toBe(204);
    const again = await patch(owner.call, path, bytes.length, new Uint8Array(0));
    await expectStored(owner.call, again, bytes);
  });

  it.runIf(long)('a body that stalls is 423, and its bytes are kept', async () => {
    const { path } = await create(owner.call, mode, 100);
    const slow = slowPatch(path, 0, 100);
    await slow.write(random(7));
    expect(await slow.status).toBe(423);
    expect(await offsetOf(owner.call, path)).toBe(7);
  });

  inCi('HEAD takes an upload over from a request that does not end, in the middle of a part', async () => {
    const bytes = random(3 * mib);
    const { path } = await create(owner.call, mode, bytes.length);
    const slow = slowPatch(path, 0, bytes.length);
    peer.steps.length = 0;
    // More than a leaf and the largest read, which waits for all of its bytes.
    await slow.write(bytes.subarray(0, 2_600_000));
    // A store has imported nothing before its object is complete.
    if (backendKind === 'kubo') await expect.poll(() => peer.steps).toContain('import');
    const offset = await offsetOf(owner.call, path);
    const finished = await send(owner.call, path, bytes, 4 * mib, offset);
    await expectStored(owner.call, finished, bytes);
    await slow.write(bytes.subarray(2_600_000));
    expect([410, 423, 422]).toContain(await slow.status);
    expect(await stateOf(owner.call, path)).toMatchObject({ state: 'done', offset: bytes.length });
  });

  it('of two writers at one offset one continues, and nothing is mixed', async () => {
    const bytes = random(2 * mib);
    const { path } = await create(owner.call, mode, bytes.length);
    const statuses = await Promise.all(
      [1, 2].map(async () => (await patch(owner.call, path, 0, bytes.subarray(0, 1_500_000))).status),
    );
    expect(statuses).toContain(204);
    expect(statuses.every((status) => [204, 409, 423].includes(status))).toBe(true);
    const offset = await offsetOf(owner.call, path);
    await expectStored(owner.call, await send(owner.call, path, bytes, 4 * mib, offset), bytes);
  });

  it('a service that refuses a part ends the request; its bytes can be sent again', async () => {
    const bytes = random(1_200_000);
    const { path } = await create(owner.call, mode, bytes.length);
    if (pinsParts) {
      answering('import', failing('no'));
      expect(await problemOf(patch(owner.call, path, 0, bytes))).toBe('502 pinning_failed');
      answering('keep', refusing);
      expect(await problemOf(patch(owner.call, path, 0, bytes))).toBe('503 pinning_unavailable');
    }
    answering('import', refusing);
    expect(await problemOf(patch(owner.call, path, 0, bytes))).toBe('503 pinning_unavailable');
    peer.onCommand = undefined;
    expect(await offsetOf(owner.call, path)).toBe(0);
    await expectStored(owner.call, await patch(owner.call, path, 0, bytes), bytes);
  });
});

it.runIf(pinsParts)('a part that the service has lost before it was pinned is withdrawn at once', async () => {
  const bytes = random(2 * mib);
  const { path } = await create(owner.call, 'plain', bytes.length);
  answering('keep', failing('pin: block was not found locally (offline)'));
  expect(await problemOf(patch(owner.call, path, 0, bytes.subarray(0, mib)))).toBe('503 pinning_unavailable');
  expect(await owner.object.rows('part')).toEqual([]);
  peer.onCommand = undefined;
  await expectStored(owner.call, await send(owner.call, path, bytes, mib), bytes);
});

/**
 * An upload whose bytes have all arrived, with less than a leaf at the end, and whose file could
 * not be stored yet.
 */
async function unfinished(
  bytes: Uint8Array,
  step: Step,
  answer: (turn: Turn) => void,
): Promise<Response & { path: string }> {
  const { path } = await create(owner.call, 'encrypted', bytes.length);
  const offset = bytes.length - 5;
  await patch(owner.call, path, 0, bytes.subarray(0, offset));
  answering(step, answer);
  const last = await patch(owner.call, path, offset, bytes.subarray(offset));
  expect(last.status).toBe(204);
  expect(last.headers.get('Upload-Offset')).toEqual(String(bytes.length));
  expect(await stateOf(owner.call, path)).toMatchObject({ state: 'finishing', offset: bytes.length });
  return Object.assign(last, { path });
}

/** Every request for the file says when to ask again, and changes nothing. */
async function isFinishing(id: string): Promise<void> {
  const token = await signedPath(owner.call.apiKey, { method: 'GET', file: id });
  const path = `/v1/storage/${id}`;
  const answers = [
    ...[path, `${path}/content`, token].map((each) => owner.call(each)),
    owner.call(path, { method: 'DELETE' }),
    owner.call(path, { method: 'DELETE', headers: { 'If-Match': '*' } }),
    owner.call.json(path, { filename: 'x' }, 'PATCH'),
    owner.call.json(`${path}/verification`, {}),
    owner.call.ask('deleteFiles', { files: [id] }),
    owner.call.ask('createShare', { record: 'aGVsbG8=', files: [id], password: false }),
  ];
  for (const answer of answers) {
    const response = await answer;
    expect(response.headers.get('Retry-After'), response.url).toBe('2');
    expect(await problemOf(response)).toBe('409 finishing');
  }
}

describe('a file whose bytes have all arrived', () => {
  it.each(['import', 'keep'] as const)('is stored by the alarm where the service did not %s it', async (step) => {
    const bytes = random(1_200_000);
    const last = await unfinished(bytes, step, refusing);
    expect((await head(owner.call, last.path)).status).toBe(200);
    await isFinishing(present(last.headers.get('Sealpin-File')));
    await owner.object.ring(10_000);
    expect(await stateOf(owner.call, last.path)).toMatchObject({ state: 'finishing' });
    peer.onCommand = undefined;
    // Far longer than a pending file of another route may stay.
    await owner.object.ring(5 * 3_600_000);
    expect(await stateOf(owner.call, last.path)).toMatchObject({ state: 'done' });
    await expectStored(owner.call, last, bytes);
  });

  it.runIf(pinsParts)('fails where the service has lost a part of it', async () => {
    const bytes = random(1_200_000);
    const { path } = await unfinished(bytes, 'keep', failing('pin: block was not found locally (offline)'));
    for (let attempt = 0; attempt < 2; attempt += 1) await owner.object.ring(60_000);
    expect(await stateOf(owner.call, path)).toMatchObject({ state: 'failed', code: 'pinning_lost' });
    expect((await head(owner.call, path)).status).toBe(410);
    peer.onCommand = undefined;
    const parts = (await owner.object.rows('part')).map((row) => String(row['cid']));
    await sweep(service, [owner], parts);
    expect(await owner.object.rows('part')).toEqual([]);
    expect(await owner.object.rows('file')).toEqual([]);
  });

  it('fails where it could not be stored for seven days', async () => {
    const { path } = await unfinished(random(100), 'import', refusing);
    await owner.object.ring(7.5 * 86_400_000);
    const [row] = await owner.object.rows('upload');
    expect(row?.['state']).toBe('failed');
    expect(row?.['code']).toBe('pinning_unavailable');
    expect(row?.['header']).toBe(null);
    expect(row?.['tail']).toBe(null);
    expect((await head(owner.call, path)).status).toBe(410);
  });

  it('is stored by the alarm where its last request ended before it could ask for that', async () => {
    const bytes = random(100);
    // The alarm that a new account has set would meet the fault otherwise.
    await owner.object.ring(2000);
    const { path, id } = await create(owner.call, 'encrypted', bytes.length);
    await owner.object.fail('setAlarm', 'before');
    expect((await patch(owner.call, path, 0, bytes)).status).toBe(500);
    expect(await stateOf(owner.call, path)).toMatchObject({ state: 'finishing', offset: 100 });
    await owner.object.ring(10_000);
    expect(await stateOf(owner.call, path)).toMatchObject({ state: 'done' });
    expect((await owner.call.ask('getFile', { fileId: id, data: false })).status).toBe(200);
  });

  it('is not stored where its upload is ended meanwhile, and leaves no pin', async () => {
    const bytes = random(1_200_000);
    const { path, headers } = await unfinished(bytes, 'keep', refusing);
    peer.onCommand = undefined;
    expect((await owner.call(path, { method: 'DELETE', headers: version })).status).toBe(204);
    const cid = present(headers.get('Sealpin-Cid'));
    await sweep(service, [owner], [cid]);
    expect(await owner.object.rows('file')).toEqual([]);
    expect(await pinned(service)).not.toContain(cid);
  });

  it.each(['import', 'keep'] as const)('is not stored where its upload is ended during %s', async (step) => {
    const bytes = random(100);
    const { path } = await create(owner.call, 'encrypted', bytes.length);
    const { promise: held, resolve } = Promise.withResolvers<Turn>();
    answering(step, resolve);
    const last = patch(owner.call, path, 0, bytes);
    const turn = await held;
    peer.onCommand = undefined;
    const cid = String(first(await owner.object.rows('upload'))['cid']);
    expect((await owner.call(path, { method: 'DELETE', headers: version })).status).toBe(204);
    // What is due now goes out before the service has pinned it.
    await owner.object.ring(10_000);
    // The end of the upload has ended the request, which may have arrived all the same.
    const passed = await turn.pass().catch(() => undefined);
    passed?.deliver();
    expect(await problemOf(last)).toBe('404 not_found');
    await sweep(service, [owner], [cid]);
    for (const table of ['file', 'outbox', 'upload'] as const)
      expect((await owner.object.rows(table)).length, table).toBe(0);
    expect(await pinned(service)).not.toContain(cid);
  });
});
