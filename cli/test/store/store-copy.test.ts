/** Tests of copies to services that are small, broken or hostile. */
import { createHash } from 'node:crypto';
import { CarBlockIterator } from '@ipld/car/iterator';
import { describe, expect, test } from 'vitest';
import { connect } from '../../../client/index.ts';
import { type BlockSource, cidBuilder, leafBytes } from '../../../shared/ipfs/index.ts';
import { sharedService } from '../../../testkit/service.ts';
import type { ServiceLimits } from '../../store/limits.ts';
import { storeCopy, storeEncrypted, type Target, targetAt } from '../../store/store-copy.ts';
import { defaultTimeouts } from '../../timeouts.ts';
import { drain, health, hostile, json, someApiKey, storedFile } from '../hostile.ts';
import { present } from '../../../testkit/present.ts';

const mib = 1_048_576;
const context = { signal: new AbortController().signal, timeouts: defaultTimeouts };
const sending = { idempotencyKey: '0000-1111', onBytes: () => undefined };
const unlimited: ServiceLimits = { requestBytes: null, carBytes: Infinity, uploadBytes: 64 * mib, fileBytes: null };

/** A service as a target, with limits that it did not name. */
async function target(url: string, limits: Partial<ServiceLimits> = {}, apiKey = someApiKey): Promise<Target> {
  const service = { url: new URL(`${url}/`), apiKey, local: false, gateways: [] };
  const named = await targetAt(service, context);
  return { ...named, limits: { ...unlimited, ...limits } };
}

/** A file in memory. */
async function fileOf(bytes: Uint8Array): Promise<{ cid: string; sources: BlockSource[] }> {
  const blocks = new Map<string, Uint8Array>();
  let at = 0;
  const builder = cidBuilder({
    onNode: (cid, node) => void blocks.set(cid, node),
    onLeaf: (cid, length) => void blocks.set(cid, bytes.slice(at, (at += length))),
  });
  await builder.write(bytes);
  const { cid } = await builder.finish();
  return { cid, sources: [{ id: 'memory', block: async (wanted) => present(blocks.get(wanted)) }] };
}

const fileId = storedFile('', 0).fileId;
const receipt = { fileId, key: 'none', pins: [] };
const problem = (status: number, code: string) => ({ type: 'about:blank', title: code, status, code });
const requestsOf = (seen: readonly { method: string; url: string }[]): string[] =>
  seen.filter(({ url }) => url !== '/v1/health').map(({ method, url }) => `${method} ${url}`);

describe('a copy under its CID', () => {
  test('goes as a CAR with each block once, leaves first, and is deleted where it becomes another file', async () => {
    const { cid, sources } = await fileOf(new Uint8Array(3 * leafBytes));
    const { cid: other } = await fileOf(new Uint8Array(1));
    let body: Buffer = Buffer.of();
    const { url, seen } = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/plain': async (request, response, entry) => {
        await drain(request, entry);
        ({ body } = entry);
        json(response, 201, storedFile(other, 3 * leafBytes));
      },
      [`DELETE /v1/storage/${fileId}`]: (_request, response) => json(response, 200, receipt),
    });
    await expect(storeCopy(cid, sources, await target(url), sending)).rejects.toMatchObject({
      code: 'cid_mismatch',
      message: `${cid} was not stored: the service stored it as ${other}, and it is ${cid}; it was deleted again`,
      hint: expect.stringContaining('another layout'),
    });
    expect(requestsOf(seen)).toEqual(['POST /v1/storage/plain', `DELETE /v1/storage/${fileId}`]);
    const car = await CarBlockIterator.fromBytes(body);
    const lengths: number[] = [];
    for await (const block of car) lengths.push(block.bytes.length);
    expect((await car.getRoots()).map(String)).toEqual([cid]);
    expect(lengths.length).toBe(2);
    expect(lengths[0]).toEqual(leafBytes);
  });

  test('that one request does not take arrives in several, with a leaf that it repeats', async () => {
    const service = await sharedService();
    const { apiKey } = await service.account();
    const bytes = new Uint8Array(3 * leafBytes);
    const { cid, sources } = await fileOf(bytes);
    let sent = 0;
    const o = { ...sending, onBytes: (count: number) => void (sent += count) };
    const copied = await storeCopy(cid, sources, await target(service.url, { requestBytes: 2 * mib }, apiKey), o);
    expect(copied).toEqual({ cid, fileId: copied.fileId, bytes: bytes.length });
    expect(sent).toBe(bytes.length);
    const files = connect({ service: service.url, apiKey });
    expect(Buffer.from(await (await files.get(copied.fileId)).bytes()).equals(bytes)).toBe(true);
  });

  test.each([
    { what: 'in several requests when only its CAR is too large for one', uploadBytes: mib, path: '/v1/uploads/plain' },
    {
      what: 'in several requests when it has more blocks than a CAR may have, whatever a request takes',
      requestBytes: null,
      carBytes: mib - 1,
      uploadBytes: mib,
      path: '/v1/uploads/plain',
    },
    { what: 'as a CAR up to there', requestBytes: null, carBytes: mib, uploadBytes: mib, path: '/v1/storage/plain' },
    { what: 'as a CAR where there is no other way', uploadBytes: 0, path: '/v1/storage/plain' },
  ])('goes $what', async ({ uploadBytes, path, requestBytes = mib, carBytes = 2 * mib }) => {
    const { cid, sources } = await fileOf(new Uint8Array(mib));
    const { url, seen } = await hostile({
      'GET /v1/health': health(),
      'POST /v1': async (request, response, entry) => {
        await drain(request, entry);
        json(response, 403, problem(403, 'forbidden'));
      },
    });
    const limits = { requestBytes, carBytes, uploadBytes, fileBytes: mib };
    await expect(storeCopy(cid, sources, await target(url, limits), sending)).rejects.toMatchObject({
      code: 'forbidden',
    });
    expect(requestsOf(seen)).toEqual([`POST ${path}`]);
  });
});

/** A plaintext that was opened. */
const openedAt = (bytes: Uint8Array<ArrayBuffer>) => ({
  plaintextBytes: bytes.length,
  decryptRange: async ({ start, end }: { start: number; end: number }) => new Blob([bytes.slice(start, end)]).stream(),
});

test('neither kind of copy is begun where it is larger than any file there', async () => {
  const { url, seen } = await hostile({ 'GET /v1/health': health() });
  const bytes = new Uint8Array(mib + 1);
  const { cid, sources } = await fileOf(bytes);
  const to = await target(url, { requestBytes: mib, uploadBytes: 0, fileBytes: mib });
  const refusal = { code: 'too_large', message: 'the file has 1.0 MiB; this service accepts at most 1.0 MiB' };
  await expect(storeCopy(cid, sources, to, sending)).rejects.toMatchObject(refusal);
  await expect(storeEncrypted(openedAt(bytes), 'a', to, sending)).rejects.toMatchObject(refusal);
  expect(requestsOf(seen)).toEqual([]);
});

describe('a copy that the service encrypts', () => {
  const bytes = new TextEncoder().encode('what was sent');
  const digestOf = (data: Uint8Array): string => `sha-256=:${createHash('sha256').update(data).digest('base64')}:`;

  test.each([
    { what: 'is kept where the service received what was sent', digest: digestOf(bytes), isDeleted: false },
    { what: 'is kept where the service does not say', digest: undefined, isDeleted: false },
    { what: 'is deleted where the service received something else', digest: digestOf(bytes.slice(1)), isDeleted: true },
  ])('$what', async ({ digest, isDeleted }) => {
    const { cid } = await fileOf(bytes);
    const { url, seen } = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/encrypted': async (request, response, entry) => {
        await drain(request, entry);
        json(response, 201, { ...storedFile(cid, bytes.length), mode: 'encrypted', digest });
      },
      [`DELETE /v1/storage/${fileId}`]: (_request, response) => json(response, 200, receipt),
    });
    const stored = storeEncrypted(openedAt(bytes), 'letter', await target(url), sending);
    if (isDeleted)
      await expect(stored).rejects.toMatchObject({ code: 'content_mismatch', message: / it was deleted$/ });
    else expect(await stored).toEqual({ fileId, cid, bytes: bytes.length });
    expect(requestsOf(seen)).toEqual([
      'POST /v1/storage/encrypted',
      ...(isDeleted ? [`DELETE /v1/storage/${fileId}`] : []),
    ]);
    expect(seen.at(1)).toMatchObject({ body: Buffer.from(bytes), headers: { 'idempotency-key': '0000-1111' } });
  });

  test('that is wrong and cannot be deleted is named', async () => {
    const { cid } = await fileOf(bytes);
    const { url } = await hostile({
      'GET /v1/health': health(),
      'POST /v1/storage/encrypted': async (request, response, entry) => {
        await drain(request, entry);
        json(response, 201, { ...storedFile(cid, bytes.length), mode: 'encrypted', digest: digestOf(bytes.slice(1)) });
      },
      'DELETE /v1/storage': (_request, response) => json(response, 403, problem(403, 'insufficient_scope')),
    });
    await expect(storeEncrypted(openedAt(bytes), 'letter', await target(url), sending)).rejects.toMatchObject({
      code: 'content_mismatch',
      message: expect.stringContaining('deleting it failed, too'),
      hint: `delete it by hand: sealpin delete ${fileId}`,
    });
  });

  test('is ended at the service when one of its requests is refused', async () => {
    const { url, seen } = await hostile({
      'GET /v1/health': health(),
      'POST /v1/uploads/encrypted': (_request, response) =>
        response.writeHead(201, { location: `/v1/uploads/${fileId}` }).end(),
      'HEAD /v1/uploads/': (_request, response) => response.writeHead(200, { 'upload-offset': '0' }).end(),
      'PATCH /v1/uploads/': async (request, response, entry) => {
        await drain(request, entry);
        json(response, 403, problem(403, 'forbidden'));
      },
      'DELETE /v1/uploads/': (_request, response) => response.writeHead(204).end(),
    });
    const to = await target(url, { requestBytes: 8 });
    await expect(storeEncrypted(openedAt(bytes), 'letter', to, sending)).rejects.toMatchObject({ code: 'forbidden' });
    expect(requestsOf(seen).at(-1)).toBe(`DELETE /v1/uploads/${fileId}`);
  });

  test('begins again, once, where the upload of an earlier call is gone', async () => {
    const { url, seen } = await hostile({
      'GET /v1/health': health(),
      'POST /v1/uploads/encrypted': (_request, response) =>
        response.writeHead(201, { location: `/v1/uploads/${fileId}` }).end(),
      'HEAD /v1/uploads/': (_request, response) => response.writeHead(410).end(),
      'GET /v1/uploads/': (_request, response) => json(response, 410, problem(410, 'gone')),
    });
    const to = await target(url, { requestBytes: 8 });
    await expect(storeEncrypted(openedAt(bytes), 'letter', to, sending)).rejects.toMatchObject({ code: 'gone' });
    const keys = seen.flatMap(({ method, headers }) => (method === 'POST' ? [headers['idempotency-key']] : []));
    expect(keys).toEqual(['0000-1111', expect.stringMatching(/^[0-9a-f-]{36}$/)]);
  });
});
