/** Reading parts of files, under conditions, and uploads that are asked for twice. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { bytesOf, client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { startBehindPeer, type Peer } from '../peer.ts';
import { type Service } from '../../../testkit/service.ts';
import { newOwner, settle, sweep, type Owner } from '../stored-state.ts';
import { modesInForm } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';

let service: Service;
let peer: Peer;
let owner: Owner;
let call: Client;

beforeAll(async () => {
  ({ service, peer } = await startBehindPeer());
  owner = await newOwner(service);
  call = owner.call;
});
afterAll(() => service.close());

const raw = { Accept: 'application/octet-stream' };

describe.each(['encrypted', 'plain'] as const)('a file in %s mode', (mode) => {
  const bytes = randomBytes(5_000_000);
  let path: string;
  let etag: string;
  beforeAll(async () => {
    const { fileId, cid } = await call.store(mode, bytes);
    await settle(service, cid);
    path = `/v1/storage/${fileId}`;
    etag = present((await call(path, { method: 'HEAD', headers: raw })).headers.get('ETag'));
  });

  it('is not sent to who has it', async () => {
    peer.seen.length = 0;
    const known = await call(path, { headers: { ...raw, 'If-None-Match': etag } });
    expect(known.status).toBe(304);
    expect(known.headers.get('ETag')).toEqual(etag);
    expect(await known.text()).toBe('');
    expect(await problemOf(call(path, { headers: { ...raw, 'If-Match': '"other"' } }))).toBe('412 precondition_failed');
    expect((await call(path, { method: 'HEAD', headers: { 'If-None-Match': etag } })).status).toBe(200);
    const since = present(known.headers.get('Last-Modified'));
    expect((await call(path, { headers: { ...raw, 'If-Modified-Since': since } })).status).toBe(304);
    expect(
      await problemOf(call(path, { headers: { ...raw, 'If-Unmodified-Since': 'Thu, 01 Jan 1970 00:00:00 GMT' } })),
    ).toBe('412 precondition_failed');
    expect(peer.seen).toEqual([]);
  });

  it('is read in parts', async () => {
    const cases: [string, number, number][] = [
      ['bytes=0-0', 0, 1],
      ['bytes=16383-16384', 16_383, 16_385],
      ['bytes=1048575-2097153', 1_048_575, 2_097_154],
      ['bytes=4999999-', 4_999_999, 5_000_000],
      ['bytes=-100', 4_999_900, 5_000_000],
      ['bytes=3000000-9999999', 3_000_000, 5_000_000],
    ];
    for (const [range, start, end] of cases) {
      const response = await call(path, { headers: { ...raw, Range: range } });
      expect(response.status, range).toBe(206);
      expect(response.headers.get('Content-Range')).toBe(`bytes ${start}-${end - 1}/5000000`);
      expect(response.headers.get('Content-Length')).toBe(String(end - start));
      expect(Buffer.compare(await bytesOf(response), bytes.subarray(start, end))).toBe(0);
    }
    const outside = await call(path, { headers: { ...raw, Range: 'bytes=5000000-' } });
    expect(outside.headers.get('Content-Range')).toBe('bytes */5000000');
    expect(await problemOf(outside)).toBe('416 range_not_satisfiable');
  });

  it('reads only the blocks that a part needs', async () => {
    peer.steps.length = 0;
    await bytesOf(call(path, { headers: { ...raw, Range: 'bytes=2500000-2500009' } }));
    const reads = peer.steps.filter((step) => step === 'read').length;
    expect(reads).toBeGreaterThan(0);
    expect(reads).toBeLessThanOrEqual(4);
  });

  it('is answered whole where a range does not apply', async () => {
    for (const headers of [
      { Range: 'bytes=0-0', 'If-Range': '"other"' },
      { Range: 'bytes=0-0,2-3' },
      { Range: 'items=0-0' },
    ]) {
      const response = await call(path, { headers: { ...raw, ...headers } });
      expect(response.status).toBe(200);
      expect(response.headers.get('Content-Length')).toBe('5000000');
      expect(response.headers.get('Accept-Ranges')).toBe('bytes');
      await response.body?.cancel();
    }
    const head = await call(path, { method: 'HEAD', headers: { ...raw, Range: 'bytes=0-0' } });
    expect(head.status).toBe(200);
    expect(head.headers.get('Content-Length')).toBe('5000000');
    const json = await call(path, { headers: { Range: 'bytes=0-0' } });
    expect(json.status).toBe(200);
    expect(json.headers.get('Accept-Ranges')).toBe('none');
    await json.body?.cancel();
  });
});

describe('the response for a file', () => {
  it('S84: cannot be run by a browser', async () => {
    const file = await call.store('encrypted', '<script>alert(1)</script>', {
      filename: '<b>.html',
      type: 'text/html',
    });
    for (const headers of [raw, { Accept: 'application/vnd.sealpin' }, {}, { Accept: 'text/html' }]) {
      const response = await call.ask('getFile', { fileId: file.fileId }, { headers });
      await response.arrayBuffer();
      expect(response.headers.get('X-Content-Type-Options')).toBe('nosniff');
      expect(response.headers.get('Content-Security-Policy')).toContain('sandbox');
      expect(response.headers.get('Vary')).toContain('Accept');
      expect(response.headers.get('Cache-Control')).toBe('no-transform, no-store');
      if ('Accept' in headers) expect(response.headers.get('Content-Disposition')).toMatch(/^attachment/);
    }
    expect(await problemOf(call.ask('getFile', { fileId: file.fileId }, { headers: { Accept: 'text/css' } }))).toBe(
      '406 not_acceptable',
    );
    const plain = await call.store('plain', 'x');
    expect(
      await problemOf(
        call.ask('getFile', { fileId: plain.fileId }, { headers: { Accept: 'application/vnd.sealpin' } }),
      ),
    ).toBe('406 not_acceptable');
  });
});

describe.each(modesInForm)('a file with a type of its own in %s mode', (mode) => {
  let fileId: string;
  beforeAll(async () => {
    ({ fileId } = await call.store(mode, 'bytes of an image', { type: 'image/png' }));
  });

  it.each([
    ['image/png', 'image/png'],
    ['image/*', 'image/png'],
    ['image/webp, image/png;q=0.5, application/json;q=0.1', 'image/png'],
    ['text/html, */*;q=0.8', 'application/json'],
    ['*/*', 'application/json'],
    ['application/json, image/png', 'application/json'],
    ['application/octet-stream', 'image/png'],
  ])('is asked for by Accept: %s', async (accept, type) => {
    const response = await call.ask('getFile', { fileId }, { headers: { Accept: accept } });
    expect(response.status).toBe(200);
    expect(response.headers.get('Content-Type')).toEqual(type);
    const text = await response.text();
    expect(type === 'image/png' ? text : 'bytes of an image').toBe('bytes of an image');
  });
});

describe.each(['encrypted', 'plain'] as const)('the content of a file in %s mode', (mode) => {
  it('is its bytes with its type and name, whatever the request accepts', async () => {
    const { fileId } = await call.store(mode, 'bytes of an image', { type: 'image/png', filename: 'a.png' });
    const path = `/v1/storage/${fileId}/content`;
    for (const accept of ['application/json', 'text/html', 'application/vnd.sealpin', '*/*']) {
      const response = await call(path, { headers: { Accept: accept } });
      expect(response.headers.get('Content-Type')).toBe('image/png');
      expect(await response.text()).toBe('bytes of an image');
      expect(response.headers.get('Content-Disposition')).toContain('a.png');
    }
    const part = await call(path, { headers: { Range: 'bytes=6-7' } });
    expect({ status: part.status, text: await part.text() }).toEqual({ status: 206, text: 'of' });
    const head = await call(path, { method: 'HEAD' });
    expect(head.headers.get('Content-Length')).toBe('17');
    expect(await head.text()).toBe('');
    expect(await problemOf(call(`${path}?data=false`))).toBe('400 invalid_request');
  });
});

describe('a file that is deleted while it is opened', () => {
  it.each([
    {
      form: 'as bytes',
      mode: 'plain',
      path: (file: StoredFile) => `/v1/storage/${file.fileId}`,
      headers: raw,
      says: '404 not_found',
    },
    {
      form: 'as JSON',
      mode: 'encrypted',
      path: (file: StoredFile) => `/v1/storage/${file.fileId}`,
      headers: {},
      says: '404 not_found',
    },
    {
      form: 'as a container',
      mode: 'encrypted',
      path: (file: StoredFile) => `/v1/storage/${file.fileId}`,
      headers: { Accept: 'application/vnd.sealpin' },
      says: '404 not_found',
    },
    {
      form: 'at the gateway',
      mode: 'plain',
      path: (file: StoredFile) => `/ipfs/${file.cid}`,
      headers: raw,
      says: '404 not_found',
    },
  ] as const)('is gone, and no fault of the pinning service: $form', async ({ mode, path, headers, says }) => {
    const file = await call.store(mode, randomBytes(5000));
    peer.onCommand = async (turn) => {
      peer.onCommand = undefined;
      await call.deleteFile({ fileId: file.fileId });
      (await turn.pass()).deliver();
    };
    expect(await problemOf(call(path(file), { headers }))).toEqual(says);
  });

  it('and one that the pinning service has lost is its fault', async () => {
    const file = await call.store('plain', randomBytes(5000));
    peer.onCommand = (turn) => turn.lose();
    const response = await problemOf(call.ask('getFile', { fileId: file.fileId }, { headers: raw }));
    peer.onCommand = undefined;
    expect(response).toBe('502 pinning_lost');
  });
});

describe('an upload with an Idempotency-Key', () => {
  const post = (mode: string, headers: Record<string, string>, body = 'once', by = call): Promise<Response> =>
    by(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: { 'Content-Disposition': 'attachment; filename="n"', 'Content-Type': 'text/a', ...headers },
      body,
    });

  it.each(['encrypted', 'plain'])('S78: happens once, in %s mode', async (mode) => {
    const name = { 'Idempotency-Key': `"${mode} once"` };
    const first = await post(mode, name);
    const file = await jsonOf<StoredFile>(first, 201);
    expect(first.headers.has('Idempotency-Replayed')).toBe(false);
    const second = await post(mode, name);
    expect(second.headers.get('Idempotency-Replayed')).toBe('true');
    expect(await jsonOf(second, 201)).toEqual(file);
    expect(await problemOf(post(mode, name, 'another length'))).toBe('422 idempotency_mismatch');
    expect(await problemOf(post(mode, { ...name, 'Content-Type': 'text/b' }))).toBe('422 idempotency_mismatch');
    // Another route or key is another request.
    expect((await jsonOf<StoredFile>(post(mode === 'plain' ? 'encrypted' : 'plain', name), 201)).fileId).not.toBe(
      file.fileId,
    );
    const { apiKey } = await call.createKey({ label: 'w', scopes: ['write'] });
    const writer = client(service.url, apiKey);
    const others = await jsonOf<StoredFile>(post(mode, name, 'once', writer), 201);
    expect(others.fileId).not.toBe(file.fileId);
    expect(await jsonOf(post(mode, name, 'once', writer), 201)).toEqual(others);
    // Kept until the file is deleted.
    await call.deleteFile({ fileId: file.fileId });
    expect((await jsonOf<StoredFile>(post(mode, name), 201)).fileId).not.toBe(file.fileId);
  });

  it('is refused while the first one runs, and free again when that one fails', async () => {
    const name = { 'Idempotency-Key': 'runs' };
    const { promise: refusal, resolve: refuse } = Promise.withResolvers<void>();
    const { promise: held, resolve } = Promise.withResolvers<void>();
    peer.onCommand = async (turn) => {
      if (turn.step !== 'look') return (await turn.pass()).deliver();
      resolve();
      await refusal;
      turn.refuse();
    };
    const first = post('plain', name, 'runs');
    await held;
    expect(await problemOf(post('plain', name, 'runs'))).toBe('409 idempotency_running');
    refuse();
    expect(await problemOf(first)).toBe('503 pinning_unavailable');
    peer.onCommand = undefined;
    await jsonOf(post('plain', name, 'runs'), 201);
    expect(await problemOf(post('plain', { 'Idempotency-Key': 'x'.repeat(256) }))).toBe('400 invalid_request');
  });

  it('is forgotten after a day, and its record says nothing', async () => {
    const name = { 'Idempotency-Key': 'canary-of-the-key' };
    const file = await jsonOf<StoredFile>(post('plain', name), 201);
    const rows = await owner.object.rows('idempotency');
    expect(rows.some((row) => row['file_id'] === file.fileId)).toBe(true);
    expect(JSON.stringify(rows)).not.toContain('canary');
    await owner.object.ring(23 * 3_600_000);
    expect((await post('plain', name)).headers.get('Idempotency-Replayed')).toBe('true');
    await owner.object.ring(2 * 3_600_000);
    expect(await owner.object.rows('idempotency')).toEqual([]);
    expect((await post('plain', name)).headers.has('Idempotency-Replayed')).toBe(false);
    await sweep(service, [owner], []);
  });
});
