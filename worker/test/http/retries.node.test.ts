/**
 * Uploads that break and are sent again with their Idempotency-Key: every retry gets through, and
 * there is one file in the end.
 */
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { restartable } from '../kept-state.ts';
import { startPeer, type Peer, type Turn } from '../peer.ts';
import type { Service } from '../../../testkit/service.ts';
import { newOwner, ownerAt, pinned, sweep, type Owner } from '../stored-state.ts';
import { long } from '../../../testkit/long-run.ts';

let peer: Peer;
let service: Service;
let owner: Owner;

const restart = restartable(
  'retries',
  (started) => (service = started),
  async ({ node }) => {
    peer ??= await startPeer(node.url);
    return { through: () => peer.url, vars: { UPLOAD_IDLE_SECONDS: '1' } };
  },
);
beforeEach(async () => {
  owner = await newOwner(service);
});
afterEach(() => {
  peer.onCommand = undefined;
  peer.onBody = undefined;
});
afterAll(() => peer.close());

const key = 'one upload';
const minuteMs = 60_000;

const files = async (): Promise<StoredFile[]> => (await owner.call.listFiles()).files;

function post(body: BodyInit, headers: Record<string, string> = {}, mode = 'plain'): Promise<Response> {
  return owner.call(`/v1/storage/${mode}`, {
    method: 'POST',
    headers: {
      'Idempotency-Key': key,
      'Content-Type': 'text/a',
      'Content-Disposition': 'inline; filename=a',
      ...headers,
    },
    body,
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  });
}

/** Begins an upload by hand: it announces `length` bytes and sends some of them. */
function begin(length: number, bytes: Buffer, mode = 'plain'): Promise<Socket> {
  const { host, hostname, port } = new URL(service.url);
  const head = [
    `POST /v1/storage/${mode} HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: Bearer ${owner.call.apiKey}`,
    `Idempotency-Key: ${key}`,
    'Content-Type: text/a',
    'Content-Disposition: inline; filename=a',
    `Content-Length: ${length}`,
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(`${head.join('\r\n')}\r\n\r\n`);
      socket.write(bytes, () => resolve(socket));
    });
    socket.on('error', reject);
    socket.on('data', () => undefined);
  });
}

/** Waits until so many bytes of an upload are on their way to the pinning service. */
function moving(least: number): Promise<void> {
  return new Promise((resolve) => {
    peer.onBody = (bytes) => {
      if (bytes > least) resolve();
    };
  });
}

describe.each(['plain', 'encrypted'])('an upload in %s mode with an Idempotency-Key', (mode) => {
  const ways: ['reset' | 'closed', (socket: Socket) => void][] = [
    ['reset', (socket) => void socket.resetAndDestroy()],
    ['closed', (socket) => void socket.end()],
  ];
  // In the short form each mode meets one of them.
  it.each(ways.filter(([way]) => long || (way === 'reset') === (mode === 'encrypted')))(
    'whose connection is %s releases its claim',
    async (_, leave) => {
      const bytes = randomBytes(3_000_000);
      const reached = moving(1_000_000);
      const socket = await begin(bytes.length, bytes.subarray(0, 2_500_000), mode);
      await reached;
      expect(await problemOf(post(bytes, {}, mode))).toBe('409 idempotency_running');
      leave(socket);
      await expect.poll(async () => (await post(bytes, {}, mode)).status).toBe(201);
      expect((await files()).length).toBe(1);
      socket.destroy();
    },
  );
});

/** Holds the first `pin/add` until it is let go; every other command passes. */
function heldPin(): Promise<Turn> {
  return new Promise((resolve) => {
    let held = false;
    peer.onCommand = async (turn) => {
      if (held || turn.command !== 'pin/add') return (await turn.pass()).deliver();
      held = true;
      return resolve(turn);
    };
  });
}

describe('a claim', () => {
  const leaseEnd = async (): Promise<number> => Number((await owner.object.rows('idempotency'))[0]?.['expires_at']);

  it('is renewed while the upload runs, also after all of its bytes have arrived', async () => {
    await owner.object.lease(300);
    const held = heldPin();
    const first = post('held');
    const turn = await held;
    const end = await leaseEnd();
    await expect.poll(leaseEnd).toBeGreaterThan(end);
    (await turn.pass()).deliver();
    await jsonOf(first, 201);
  });

  it('that has run out is taken by the next request, and the one that had it can no longer commit', async () => {
    const held = heldPin();
    const first = post('twice');
    const turn = await held;
    const early = await post('twice');
    expect(early.headers.get('Retry-After')).toBe('2');
    expect(await problemOf(early)).toBe('409 idempotency_running');
    await owner.object.ring(minuteMs);
    const file = await jsonOf<StoredFile>(post('twice'), 201);
    (await turn.pass()).deliver();
    expect(await problemOf(first)).toBe('409 idempotency_running');
    expect(await jsonOf(post('twice'), 201)).toEqual(file);
    await sweep(service, [owner], [file.cid]);
    expect(await files()).toMatchObject([file]);
    expect(await pinned(service)).toContain(file.cid);
  });

  it('ends an upload whose claim another request has taken', async () => {
    // Long enough that the second request arrives between two renewals of the first.
    await owner.object.lease(6000);
    const reached = moving(100_000);
    const bytes = randomBytes(3_000_000);
    const socket = await begin(bytes.length, bytes.subarray(0, 2_000_000));
    await reached;
    peer.aborted.length = 0;
    let response: Response;
    do {
      // The first request renews its claim every 100 ms, and may do so between the two lines.
      await owner.object.ring(minuteMs);
      response = await post(bytes);
    } while (response.status === 409);
    const { fileId } = await jsonOf<StoredFile>(response, 201);
    await expect.poll(() => peer.aborted.includes('dag/import')).toBe(true);
    expect((await files()).map((file) => file.fileId)).toEqual([fileId]);
    socket.destroy();
  });

  it.each(long ? (['before', 'after'] as const) : (['after'] as const))(
    'of a service that died %s the bytes were pinned is free within a minute, and there is one file',
    async (when) => {
      const bytes = randomBytes(10_000);
      const held = heldPin();
      const lost = expect(post(bytes)).rejects.toThrow();
      const turn = await held;
      if (when === 'after') await turn.pass();
      await restart.kill(async () => {
        turn.cut();
        await lost;
        peer.onCommand = undefined;
      });
      owner = ownerAt(service, owner);
      const early = await post(bytes);
      expect(Number(early.headers.get('Retry-After'))).toBeGreaterThan(0);
      expect(Number(early.headers.get('Retry-After'))).toBeLessThanOrEqual(60);
      expect(await problemOf(early)).toBe('409 idempotency_running');
      await owner.object.ring(minuteMs);
      const file = await jsonOf<StoredFile>(post(bytes), 201);
      await sweep(service, [owner], [file.cid]);
      expect(await files()).toMatchObject([file]);
      expect((await owner.object.rows('file')).length).toBe(1);
      expect(await pinned(service)).toContain(file.cid);
    },
  );
});

describe('an upload that fails', () => {
  it.each(long ? ['plain', 'encrypted'] : ['encrypted'])(
    'because no backend is reached is 503 in %s mode, also with an Idempotency-Key, and can be sent again',
    async (mode) => {
      const bytes = randomBytes(300_000);
      for (let round = 0; round < 5; round += 1) {
        peer.onBody = (_, cut) => cut();
        const response = await post(bytes, {}, mode);
        expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
        expect(await problemOf(response)).toBe('503 pinning_unavailable');
      }
      peer.onBody = undefined;
      await jsonOf(post(bytes, {}, mode), 201);
    },
  );

  it('after its file was committed is the same file when it is sent again', async () => {
    await owner.object.fail('commit', 'after');
    expect(await problemOf(post('ready'))).toBe('500 internal');
    const again = await post('ready');
    expect(again.headers.get('Idempotency-Replayed')).toBe('true');
    expect(await files()).toEqual([await jsonOf(again, 201)]);
  });

  it.each([
    ['at once', 0],
    ['after its first bytes', 100],
    ...(long ? [['after it was fast', 2_000_000] as const] : []),
  ] as const)('because no more bytes arrive, %s, times out, and can be sent again', async (_, sent) => {
    const bytes = randomBytes(sent + 100_000);
    const socket = await begin(bytes.length, bytes.subarray(0, sent));
    const response = await new Promise<string>((resolve) => {
      socket.once('data', (chunk) => resolve(chunk.toString()));
    });
    expect(response).toMatch(/^HTTP\/1.1 408 /);
    expect(response).toContain('"body_timeout"');
    socket.destroy();
    await jsonOf(post(bytes), 201);
    expect((await files()).length).toBe(1);
  });
});

it.each(long ? ['plain', 'encrypted'] : ['encrypted'])(
  'an upload in %s mode that is slow for a long time does not time out',
  async (mode) => {
    const bytes = randomBytes(40);
    const socket = await begin(bytes.length, bytes.subarray(0, 1), mode);
    const answered = new Promise<string>((resolve) => {
      socket.once('data', (chunk) => resolve(chunk.toString()));
    });
    // Longer than an upload may send nothing at all.
    for (let sent = 1; sent < bytes.length; sent += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      socket.write(bytes.subarray(sent, sent + 1));
    }
    expect(await answered).toMatch(/^HTTP\/1.1 201 /);
    socket.destroy();
  },
);

describe('a second request with an Idempotency-Key', () => {
  const chunks = (text: string): ReadableStream => new Blob([text]).stream();

  it.each([
    ['another filename', { 'Content-Disposition': 'inline; filename=b' }],
    ['another digest', { 'Content-Digest': 'sha-256=:AAAA:' }],
    ['another type', { 'Content-Type': 'text/b' }],
  ])('and %s is another upload', async (_, headers) => {
    await jsonOf(post('first'), 201);
    expect(await problemOf(post('first', headers))).toBe('422 idempotency_mismatch');
  });

  it('may announce a length where the other one came in chunks', async () => {
    const file = await jsonOf(post(chunks('chunks')), 201);
    expect(await jsonOf(post('chunks'), 201)).toEqual(file);
    expect(await jsonOf(post(chunks('chunks')), 201)).toEqual(file);
  });

  it('may arrive in chunks where the other one announced a length, which must not change', async () => {
    const file = await jsonOf(post('length'), 201);
    expect(await jsonOf(post(chunks('length')), 201)).toEqual(file);
    expect(await problemOf(post('another length'))).toBe('422 idempotency_mismatch');
  });
});
