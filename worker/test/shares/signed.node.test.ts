/** Signed URLs: what they allow, to whom, how often and how long. */
import { createHmac, createPrivateKey, hkdfSync, randomBytes, sign as signBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { NewApiKeyResponse, Scope, StoredFile } from '../../../shared/api.ts';
import { parseApiKey } from '../../../shared/crypto/index.ts';
import { carHeader, carSection, carType, cidOf, encodeNode, sha256 } from '../../../shared/ipfs/index.ts';
import { type Service } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath, type Client, type Init } from '../../../testkit/api-client.ts';
import { startBehindPeer, type Peer } from '../peer.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const dayMs = 86_400_000;
let service: Service;
let peer: Peer;
let owner: Owner;
let anybody: Client;

beforeAll(async () => {
  ({ service, peer } = await startBehindPeer({ vars: { CORS_ORIGINS: 'https://page.example' } }));
  anybody = client(service.url, '');
});
afterAll(() => service.close());
beforeEach(async () => {
  peer.onCommand = undefined;
  owner = await newOwner(service);
});

const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;

/** The path of a URL with these claims, signed with a key of the account. */
const sign = (claims: Record<string, unknown>, apiKey = owner.call.apiKey): Promise<string> =>
  signedPath(apiKey, claims);
const reading = ({ fileId }: { fileId: string }, more: object = {}): Promise<string> =>
  sign({ method: 'GET', file: fileId, ...more });
const storing = (more: object = {}): Promise<string> =>
  sign({ method: 'POST', mode: 'plain', jti: crypto.randomUUID(), ...more });
const post = (path: string, body: BodyInit, init: Init = {}): Promise<Response> =>
  anybody(path, { method: 'POST', body, ...init, headers: { 'Content-Type': 'a/b', ...init.headers } });
const newKey = (scopes: Scope[], more: object = {}): Promise<NewApiKeyResponse> =>
  owner.call.createKey({ label: 'k', scopes, ...more });
const files = async (): Promise<StoredFile[]> => (await owner.call.listFiles()).files;

describe('a signed URL for a download', () => {
  it('reads the bytes of a plain file, also in parts, any number of times until it expires', async () => {
    const file = await owner.call.store('plain', 'plain bytes', { filename: 'a.txt', type: 'text/plain' });
    const path = await reading(file);
    for (let each = 0; each < 2; each += 1) {
      const response = await anybody(path);
      expect(response.headers.get('Content-Type')).toBe('text/plain');
      expect(response.headers.get('Content-Disposition')).toContain('a.txt');
      expect(response.headers.get('Referrer-Policy')).toBe('no-referrer');
      expect(response.headers.get('Cache-Control')).toContain('no-store');
      expect((await bytesOf(response)).toString()).toBe('plain bytes');
    }
    expect((await bytesOf(anybody(path, { headers: { Range: 'bytes=6-' } }))).toString()).toBe('bytes');
    expect((await anybody(path, { method: 'HEAD' })).headers.get('Content-Length')).toBe('11');
    await owner.object.ring(61_000);
    expect(await problemOf(anybody(path))).toBe('410 gone');
  });

  it('reads the container of an encrypted file, which is as sealed as what the account gets', async () => {
    const file = await owner.call.store('encrypted', 'a secret', { filename: 'secret.txt' });
    const response = await anybody(await reading(file));
    expect(response.headers.get('Content-Type')).toBe('application/vnd.sealpin');
    const container = await bytesOf(response);
    const headers = { Accept: 'application/vnd.sealpin' };
    expect(container).toEqual(await bytesOf(owner.call.ask('getFile', { fileId: file.fileId }, { headers })));
    expect(container.toString('latin1')).not.toContain('secret');
    const asJson = await anybody(await reading(file), { headers: { Accept: 'application/json' } });
    expect(await bytesOf(asJson)).toEqual(container);
  });

  it('that is for one use is used once, also by several at once, and not by HEAD', async () => {
    const file = await owner.call.store('plain', 'once');
    for (let round = 0; round < 3; round += 1) {
      const path = await reading(file, { jti: `round ${round}` });
      expect((await anybody(path, { method: 'HEAD' })).status).toBe(200);
      const statuses = await Promise.all([0, 1, 2].map(async () => (await anybody(path)).status));
      expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 410, 410]);
      expect((await anybody(path, { method: 'HEAD' })).status).toBe(410);
    }
    expect((await owner.object.rows('signed_use')).length).toBe(3);
    expect(JSON.stringify(await owner.object.rows('signed_use'))).not.toContain('round');
    await owner.object.ring(61_000);
    expect(await owner.object.rows('signed_use')).toEqual([]);
  });

  it('that is for one use is not used up by an answer without a byte of the file', async () => {
    const file = await owner.call.store('plain', 'once');
    const path = await reading(file, { jti: 'x' });
    const etag = present((await anybody(path, { method: 'HEAD' })).headers.get('ETag'));
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await anybody(path, { headers })).status;
    expect(await status({ 'If-None-Match': etag })).toBe(304);
    expect(await status({ Range: 'bytes=999-' })).toBe(416);
    expect(await status({ 'If-Match': '"other"' })).toBe(412);
    peer.onCommand = (turn) => turn.refuse();
    expect(await status({})).toBe(503);
    peer.onCommand = undefined;
    expect(await owner.object.rows('signed_use')).toEqual([]);
    const statuses = await Promise.all([1, 2, 3, 4].map((bytes) => status({ Range: `bytes=0-${bytes - 1}` })));
    expect(statuses.toSorted((a, b) => a - b)).toEqual([206, 410, 410, 410]);
  });

  it('is never handed on by a page that shows its response', async () => {
    const path = await reading(await owner.call.store('plain', 'x'));
    const answers = [
      anybody(`${path}x`),
      anybody(`${path}?a=b`),
      anybody(path, { method: 'DELETE' }),
      anybody(path, { headers: { Range: 'bytes=9-' } }),
      post(await storing(), 'x'),
      post(path, 'x'),
    ];
    for (const answer of answers) expect((await answer).headers.get('Referrer-Policy')).toBe('no-referrer');
  });

  it('that was used is forgotten by itself when it has expired', async () => {
    const path = await reading(await owner.call.store('plain', 'once'), { jti: 'x', exp: inSeconds(5) });
    expect((await bytesOf(anybody(path))).toString()).toBe('once');
    await expect.poll(() => owner.object.rows('signed_use')).toEqual([]);
  });

  it('is not used up for a file that is not there, and ends with its file', async () => {
    const path = await reading({ fileId: crypto.randomUUID() }, { jti: 'x' });
    expect(await problemOf(anybody(path))).toBe('404 not_found');
    expect(await owner.object.rows('signed_use')).toEqual([]);
    const file = await owner.call.store('plain', 'deleted');
    const gone = await reading(file);
    await owner.call.deleteFile({ fileId: file.fileId });
    expect(await problemOf(anybody(gone))).toBe('404 not_found');
  });
});

describe('a signed URL for an upload', () => {
  it.each(['plain', 'encrypted'] as const)('stores one file in %s mode, by the key that signed it', async (mode) => {
    const path = await storing({ mode });
    const headers = { 'Content-Disposition': 'inline; filename=name.txt' };
    const file = await jsonOf<StoredFile>(post(path, 'from outside', { headers }), 201);
    expect(await files()).toMatchObject([{ fileId: file.fileId, mode, filename: 'name.txt' }]);
    expect(String(await owner.call.getFileContent({ fileId: file.fileId }))).toBe('from outside');
    const again = await post(path, 'from outside', { headers });
    expect(again.headers.get('Idempotency-Replayed')).toBe('true');
    expect((await jsonOf<StoredFile>(again, 201)).fileId).toBe(file.fileId);
    const { events } = await owner.call.listEvents();
    expect(events.map(({ action, by }) => [action, by === itemOf(events, 0).keyId])).toEqual([
      ['key.created', false],
      ['file.stored', true],
    ]);
  });

  it('stores nothing more when its file was deleted, and is forgotten when it has expired', async () => {
    const path = await storing({ exp: inSeconds(3 * 86_400) });
    const { fileId } = await jsonOf<StoredFile>(post(path, 'x'), 201);
    await owner.object.ring(2 * dayMs);
    expect((await jsonOf<StoredFile>(post(path, 'x'), 201)).fileId).toBe(fileId);
    await owner.call.deleteFile({ fileId });
    expect(await problemOf(post(path, 'x'))).toBe('410 gone');
    await owner.object.ring(dayMs + 1000);
    expect(await problemOf(post(path, 'x'))).toBe('410 gone');
    expect(await owner.object.rows('signed_use')).toEqual([]);
    expect(await owner.object.rows('idempotency')).toEqual([]);
  });

  it('can be sent again after it failed, and at once', async () => {
    const path = await storing();
    peer.onCommand = (turn) => turn.refuse();
    expect((await post(path, 'x')).status).toBe(503);
    peer.onCommand = undefined;
    const statuses = await Promise.all([0, 1, 2].map(async () => (await post(path, 'x')).status));
    expect(statuses.every((status) => status === 201 || status === 409)).toBe(true);
    expect((await jsonOf<StoredFile>(post(path, 'x'), 201)).fileId).toBe(itemOf(await files(), 0).fileId);
    expect((await files()).length).toBe(1);
  });

  it('has a limit of its own, and those of its key', async () => {
    expect(await problemOf(post(await storing({ bytes: 10 }), 'x'.repeat(11)))).toBe('413 too_large');
    const chunks = { duplex: 'half' } as const;
    const stream = new Blob([randomBytes(11)]).stream();
    expect(await problemOf(post(await storing({ bytes: 10 }), stream, chunks))).toBe('413 too_large');
    await jsonOf(post(await storing({ bytes: 10 }), 'x'.repeat(10)), 201);
    const { apiKey } = await newKey(['write'], { limits: { files: 1 } });
    const claims = { method: 'POST', mode: 'plain' };
    await jsonOf(post(await sign({ ...claims, jti: '1' }, apiKey), 'y'), 201);
    expect(await problemOf(post(await sign({ ...claims, jti: '2' }, apiKey), 'z'))).toBe('413 quota_exceeded');
    const headers = { 'Idempotency-Key': 'k' };
    expect(await problemOf(post(await storing(), 'x', { headers }))).toBe('400 invalid_request');
    expect(await problemOf(post(`${await storing()}?cid=x`, 'x'))).toBe('400 invalid_request');
  });

  it('holds the file of a CAR to the bytes that it allows, not its body alone', async () => {
    const blocks = [{ cid: cidOf('raw', await sha256(Buffer.alloc(100))), bytes: Buffer.alloc(100), fileBytes: 100 }];
    for (let depth = 0; depth < 2; depth += 1) {
      const { cid, bytes, fileBytes } = itemOf(blocks, -1);
      const node = Buffer.from(
        encodeNode(Array.from({ length: 10 }, () => ({ cid, fileBytes, dagBytes: bytes.length }))),
      );
      blocks.push({ cid: cidOf('dag-pb', await sha256(node)), bytes: node, fileBytes: fileBytes * 10 });
    }
    const car = Buffer.concat([
      carHeader(),
      ...blocks.flatMap(({ cid, bytes }) => [carSection(cid, bytes.length), bytes]),
    ]);
    const headers = { 'Content-Type': carType };
    expect(await problemOf(post(await storing({ bytes: 9999 }), car, { headers }))).toBe('413 too_large');
    expect(await files()).toEqual([]);
    expect(await jsonOf(post(await storing({ bytes: 10_000 }), car, { headers }), 201)).toMatchObject({ size: 10_000 });
  });
});

describe('a signed URL is refused', () => {
  it('with another signature, key, account, or anything changed in it', async () => {
    const file = await owner.call.store('plain', 'x');
    const path = await reading(file);
    const token = itemOf(path.split('/'), -1);
    const [header = '', claims = '', signature = ''] = token.split('.');
    const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const kid = (JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string }).kid;
    const other = encode({ method: 'GET', file: crypto.randomUUID(), exp: inSeconds(60) });
    for (const wrong of [
      '',
      'x',
      `${header}.${claims}`,
      `${header}.${claims}.`,
      `${header}.${claims}.${signature}x`,
      `${header}.${claims}.${signature.slice(0, -1)}`,
      `${header}.${other}.${signature}`,
      `${encode({ alg: 'none', kid })}.${claims}.`,
      `${encode({ alg: 'EdDSA', kid: '0'.repeat(16) })}.${claims}.${signature}`,
      'x'.repeat(2000),
    ]) {
      const asked = anybody(path.replace(token, wrong));
      expect(await problemOf(asked), wrong).toEqual(wrong === '' ? '404 not_found' : '401 unauthorized');
    }
    const stranger = await newOwner(service);
    for (const id of [stranger.id, 'A'.repeat(22), 'x'])
      expect(await problemOf(anybody(path.replace(owner.id, id)))).toBe('401 unauthorized');
    expect((await anybody(path)).status).toBe(200);
  });

  it('at an account that does not exist, as at one that it is not for', async () => {
    const file = await owner.call.store('plain', 'theirs');
    const elsewhere = owner.id.replace(/^./, (first) => (first === '1' ? '2' : '1'));
    for (const path of [await reading(file), await storing()]) {
      const moved = path.replace(owner.id, elsewhere);
      expect(await problemOf(anybody(moved))).toBe('401 unauthorized');
      expect(await problemOf(post(moved, 'x'))).toBe('401 unauthorized');
    }
  });

  it('as soon as its key is revoked or has expired, and where the key lacks the scope', async () => {
    const file = await owner.call.store('plain', 'x');
    const { apiKey, key } = await newKey(['read']);
    const path = await sign({ method: 'GET', file: file.fileId }, apiKey);
    expect((await anybody(path)).status).toBe(200);
    await owner.call.revokeKey({ id: key.id });
    expect(await problemOf(anybody(path))).toBe('401 unauthorized');
    const ending = await newKey(['read'], { expiresAt: new Date(Date.now() + 60_000).toISOString() });
    const late = await sign({ method: 'GET', file: file.fileId, exp: inSeconds(3600) }, ending.apiKey);
    expect((await anybody(late)).status).toBe(200);
    await owner.object.ring(61_000);
    expect(await problemOf(anybody(late))).toBe('401 unauthorized');
    const writer = await newKey(['write']);
    const foreign = await sign({ method: 'GET', file: file.fileId, exp: inSeconds(3600) }, writer.apiKey);
    expect(await problemOf(anybody(foreign))).toBe('403 insufficient_scope');
  });

  it('for another method, a longer time, or claims that say something else', async () => {
    const file = await owner.call.store('plain', 'x');
    expect(await problemOf(post(await reading(file), 'x'))).toBe('403 forbidden');
    expect(await problemOf(anybody(await storing()))).toBe('403 forbidden');
    for (const more of [
      { exp: inSeconds(8 * 86_400) },
      { nbf: 1 },
      { exp: '1' },
      { exp: undefined },
      { file: 'x' },
      { jti: '' },
    ])
      expect(await problemOf(anybody(await reading(file, more))), JSON.stringify(more)).toBe('400 invalid_request');
    for (const more of [{ mode: 'other' }, { bytes: 0 }, { jti: undefined }])
      expect(await problemOf(post(await storing(more), 'x')), JSON.stringify(more)).toBe('400 invalid_request');
    expect((await anybody(await reading(file, { iat: 1 }))).status).toBe(200);
  });
});

it('pages may use signed URLs, whichever origin they are of', async () => {
  // The answer is the same for an origin that is listed; the guard of `sealpin start` lets no other
  // one pass.
  const headers = { Origin: 'https://page.example' };
  const path = await storing();
  const preflight = {
    ...headers,
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'content-type',
  };
  const allowed = await fetch(`${service.url}${path}`, { method: 'OPTIONS', headers: preflight });
  expect(allowed.status).toBe(204);
  expect(allowed.headers.get('Access-Control-Allow-Origin')).toBe('*');
  expect((await post(path, 'x', { headers })).headers.get('Access-Control-Allow-Origin')).toBe('*');
  const refused = await anybody(`${path}x`, { headers });
  expect(refused.headers.get('Access-Control-Allow-Origin')).toBe('*');
});

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signs with what `node:crypto` has, from the 32 bytes that are the seed. */
function tokenOf(seed: Uint8Array, header: object, claims: object): string {
  const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
  const signed = `${encode(header)}.${encode(claims)}`;
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  return `${signed}.${signBytes(null, Buffer.from(signed), key).toString('base64url')}`;
}

describe('who signs', () => {
  const info = 'sealpin/v1 signed-url ed25519';
  const derive = (ikm: Uint8Array, by = info): Buffer => Buffer.from(hkdfSync('sha256', ikm, '', by, 32));
  const reads = (token: string): Promise<Response> => anybody.ask('getSigned', { id: owner.id, token });

  it('is any program that has the API key: a JSON Web Token with Ed25519 alone in its header', async () => {
    const file = await owner.call.store('plain', 'x');
    const key = await parseApiKey(owner.call.apiKey);
    if (key === undefined) throw new Error('it is an API key');
    const [kid, seed] = [key.hash.slice(0, 16), derive(key.secret)];
    const claims = { exp: inSeconds(60), file: file.fileId, method: 'GET' };
    const right = { typ: 'JWT', alg: 'EdDSA', kid };
    expect((await reads(tokenOf(seed, right, claims))).status).toBe(200);
    for (const more of [
      { alg: 'none' },
      { alg: 'HS512' },
      { alg: 'ES256' },
      { alg: undefined },
      { typ: 'JWS' },
      { crit: ['x'] },
      { jwk: {} },
      { x5u: 'https://key.example' },
      { kid: kid.toUpperCase() },
      { kid: 'x' },
      { kid: undefined },
    ])
      expect(await problemOf(reads(tokenOf(seed, { ...right, ...more }, claims))), JSON.stringify(more)).toBe(
        '401 unauthorized',
      );
  });

  it('is nobody with the rows of the account, KV or a backup: what is stored checks, and does not sign', async () => {
    const file = await owner.call.store('plain', 'x');
    const [row] = await owner.object.rows('api_key');
    const hash = Buffer.from(String(row?.['hash']), 'hex');
    const isStored = (value: unknown) => typeof value === 'string' || value instanceof ArrayBuffer;
    const stored = [
      hash,
      ...Object.values(row ?? {})
        .filter(isStored)
        .map((value) => Buffer.from(value as ArrayBuffer)),
    ];
    const claims = { exp: inSeconds(60), file: file.fileId, method: 'GET' };
    const kid = hash.toString('hex').slice(0, 16);
    const header = { alg: 'EdDSA', kid };
    const seeds = [hash, ...stored.flatMap((value) => [derive(value), derive(value, 'sealpin/v1 signed-url')])];
    expect(stored.filter((value) => value.length === 32)).toHaveLength(2);
    for (const seed of [...seeds, ...stored.filter((value) => value.length === 32)])
      expect(await problemOf(reads(tokenOf(seed, header, claims)))).toBe('401 unauthorized');
    const signed = `${encode({ alg: 'HS256', kid })}.${encode(claims)}`;
    for (const key of seeds) {
      const mac = createHmac('sha256', key).update(signed).digest('base64url');
      expect(await problemOf(reads(`${signed}.${mac}`))).toBe('410 gone');
    }
  });
});
