/**
 * Integrity both ways: a body with another digest than it says is not stored, and a client learns
 * what was received.
 */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { NewlyStoredFile, StoredFile } from '../../../shared/api.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { bytesOf, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { create, head, mib, modesInForm, offsetOf, patch, version } from '../uploads/tus-client.ts';
import { newOwner, pinned, type Owner } from '../stored-state.ts';
import { flip, itemOf } from '../../../testkit/present.ts';

function digest(bytes: Uint8Array | string, algorithm: 'sha256' | 'sha512' = 'sha256'): string {
  return `${algorithm.replace('sha', 'sha-')}=:${createHash(algorithm).update(bytes).digest('base64')}:`;
}

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

/** Bytes of several leaves, the last of which is not full; of exactly one leaf; few, and none. */
const contents = [randomBytes(mib + 1234), randomBytes(mib), Buffer.from('hello'), Buffer.alloc(0)];
const disposition = { 'Content-Disposition': 'attachment; filename=x' };

describe.each(modesInForm)('an upload in %s mode', (mode) => {
  let owner: Owner;
  let call: Client;
  beforeAll(async () => {
    owner = await newOwner(service);
    ({ call } = owner);
  });

  const post = (body: BodyInit, headers: Record<string, string>): Promise<Response> =>
    call(`/v1/storage/${mode}`, { method: 'POST', headers: { ...disposition, ...headers }, body });
  const inJson = (bytes: Buffer): string => JSON.stringify({ filename: 'x', data: bytes.toString('base64') });

  it('with the digest of its body is stored, and one with another digest leaves nothing', async () => {
    const pins = await pinned(service);
    for (const bytes of contents) {
      const changed = Buffer.concat([bytes.subarray(0, -1), Buffer.from([(bytes.at(-1) ?? 0) ^ 1])]);
      for (const wrong of [
        digest(changed),
        digest(changed, 'sha512'),
        `${digest(bytes)}, ${digest(changed, 'sha512')}`,
      ])
        expect(await problemOf(post(bytes, { 'Content-Digest': wrong }))).toBe('422 digest_mismatch');
    }
    expect((await call.listFiles()).files).toEqual([]);
    expect(pins).toEqual(expect.arrayContaining(await pinned(service)));
    for (const table of ['file', 'part', 'upload']) expect(await owner.object.rows(table)).toEqual([]);
    for (const bytes of contents) {
      const right = `${digest(bytes, 'sha512')}, ${digest(bytes)}, md5=:AAAA:`;
      const { fileId } = await jsonOf<StoredFile>(post(bytes, { 'Content-Digest': right }), 201);
      expect(await call.getFileContent({ fileId })).toEqual(bytes);
      await call.deleteFile({ fileId });
    }
  });

  it('in JSON has the digest of the JSON', async () => {
    const json = { 'Content-Type': 'application/json' };
    for (const bytes of contents) {
      const text = inJson(bytes);
      const ofFile = { ...json, 'Content-Digest': digest(bytes) };
      expect(await problemOf(post(text, ofFile))).toBe('422 digest_mismatch');
      await jsonOf(post(text, { ...json, 'Content-Digest': digest(text) }), 201);
    }
  });

  it('says which bytes of the file it received, in the algorithm that is wanted', async () => {
    for (const bytes of contents) {
      const want = { 'Want-Repr-Digest': 'sha-256=1' };
      const checked = { 'Want-Repr-Digest': 'sha-512=10, sha-256=1', 'Content-Digest': digest(bytes) };
      const stored = await Promise.all([
        post(bytes, want),
        post(bytes, checked),
        post(inJson(bytes), { 'Content-Type': 'application/json', ...want }),
        post(bytes, { 'Want-Repr-Digest': 'md5=10' }),
        post(bytes, {}),
      ]);
      const digests = await Promise.all(stored.map(async (each) => (await jsonOf<NewlyStoredFile>(each, 201)).digest));
      expect(digests).toEqual([digest(bytes), digest(bytes, 'sha512'), digest(bytes), undefined, undefined]);
    }
  });

  it('with a digest that cannot be read is refused', async () => {
    for (const headers of [{ 'Content-Digest': 'sha-256=abc' }, { 'Want-Repr-Digest': 'yes please' }])
      expect(await problemOf(post('x', headers))).toBe('400 invalid_request');
  });

  it('in several requests takes one with another digest not at all, and continues with the right bytes', async () => {
    const bytes = itemOf(contents, 0);
    const { path, id } = await create(call, mode, bytes.length);
    const first = bytes.subarray(0, mib + 100);
    const wrong = Buffer.from(first);
    flip(wrong, 50);
    const header = { 'Content-Digest': digest(first) };
    expect(await problemOf(patch(call, path, 0, wrong, header))).toBe('422 digest_mismatch');
    expect(await problemOf(patch(call, path, 0, first.subarray(1), header))).toBe('422 digest_mismatch');
    expect(await offsetOf(call, path)).toBe(0);
    expect((await patch(call, path, 0, first, header)).status).toBe(204);
    expect(await offsetOf(call, path)).toBe(first.length);
    const rest = bytes.subarray(first.length);
    expect(await problemOf(patch(call, path, first.length, rest, header))).toBe('422 digest_mismatch');
    expect((await head(call, path)).headers.get('Upload-Offset')).toBe(String(first.length));
    expect((await patch(call, path, first.length, rest, { 'Content-Digest': digest(rest) })).status).toBe(204);
    expect(await call.getFileContent({ fileId: id })).toEqual(bytes);
  });

  /**
   * Sends the head of a request alone: `fetch` fails where the response comes, and the connection
   * ends, before it has sent the body.
   */
  async function announced(path: string, bytes: number, headers: Record<string, string>): Promise<Response> {
    const asked = request(`${service.url}${path}`, {
      method: 'PATCH',
      headers: {
        ...version,
        Authorization: `Bearer ${call.apiKey}`,
        'Content-Type': 'application/offset+octet-stream',
        'Content-Length': bytes,
        'Upload-Offset': '0',
        ...headers,
      },
    });
    asked.flushHeaders();
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const body = await buffer(answer);
    asked.on('error', () => undefined).destroy();
    return new Response(new Uint8Array(body), {
      status: answer.statusCode ?? 500,
      headers: answer.headers as Record<string, string>,
    });
  }

  it('in several requests refuses a body with a digest that it cannot hold, however it is announced', async () => {
    const bytes = Buffer.alloc(8 * mib + 1);
    const { path } = await create(call, mode, bytes.length);
    const header = { 'Content-Digest': digest(bytes) };
    expect(await problemOf(announced(path, bytes.length, header))).toBe('413 too_large');
    const chunked = new Blob([bytes]).stream();
    expect(await problemOf(patch(call, path, 0, chunked, header))).toBe('413 too_large');
    expect(await problemOf(patch(call, path, 0, bytes.subarray(0, 10), { 'Content-Digest': 'x' }))).toBe(
      '400 invalid_request',
    );
    expect(await offsetOf(call, path)).toBe(0);
    const largest = bytes.subarray(1);
    expect((await patch(call, path, 0, largest, { 'Content-Digest': digest(largest) })).status).toBe(204);
    expect(await offsetOf(call, path)).toBe(largest.length);
  });
});

describe('a response with bytes', () => {
  it('has their digest where the CID is that of one block', async () => {
    const { call } = await newOwner(service);
    const small = await call.store('plain', 'hello');
    const large = await call.store('plain', contents[0]);
    const sealed = await call.store('encrypted', 'hello');
    const sha256 = async (path: string, headers = {}): Promise<string | null> =>
      (await call(path, { headers })).headers.get('Repr-Digest');
    const content = `/v1/storage/${small.fileId}/content`;
    expect(await sha256(content)).toBe(digest('hello'));
    expect(await sha256(content, { Range: 'bytes=1-2' })).toBe(digest('hello'));
    expect((await call(content, { method: 'HEAD' })).headers.get('Repr-Digest')).toBe(digest('hello'));
    expect(await sha256(`/ipfs/${small.cid}`)).toBe(digest('hello'));
    for (const path of [`/ipfs/${large.cid}?format=raw`, `/ipfs/${sealed.cid}`, `/ipfs/${sealed.cid}?format=raw`])
      expect(await sha256(path)).toBe(digest(await bytesOf(call(path))));
    for (const path of [
      `/v1/storage/${small.fileId}`,
      `/v1/storage/${large.fileId}/content`,
      `/v1/storage/${sealed.fileId}/content`,
      `/ipfs/${large.cid}`,
    ])
      expect(await sha256(path)).toBeNull();
    const car = await fetch(`${service.url}/ipfs/${small.cid}?format=car`);
    expect(car.status).toBe(200);
    expect(car.headers.get('Repr-Digest')).toBe(null);
    await car.body?.cancel();
  });
});
