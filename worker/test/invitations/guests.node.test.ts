/**
 * Guests who try everything with the key of an invitation: what they reach, learn and use up of an
 * account, and of each other.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { fullScopes, type Share } from '../../../shared/api.ts';
import { scopesOf, type Route } from '../../openapi/route.ts';
import { routes } from '../../routes/table.ts';
import { inOneMinute } from '../one-minute.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { adminToken, sharedService, startService, type Service } from '../../../testkit/service.ts';
import { client, problemOf, signedPath, type Client, type Init } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { patch, random, version } from '../uploads/tus-client.ts';
import { present } from '../../../testkit/present.ts';
import { ask, begin, dayMs, hourMs, invite, minuteMs, request, share, soon, store, type Guest } from './guest.ts';

let service: Service;
let owner: Owner;
let guest: Guest;
let other: Guest;
let anybody: Client;
beforeAll(async () => {
  service = await sharedService();
  anybody = client(service.url, '');
});
beforeEach(async () => {
  owner = await newOwner(service);
  [guest, other] = [await invite(owner.call), await invite(owner.call)];
});

/** Operations that a guest may call. Each other one that takes an API key is refused. */
const allowed = [
  'getAccount',
  'storePlain',
  'createUploadPlain',
  'headUpload',
  'continueUpload',
  'getUpload',
  'deleteUpload',
  'listUploads',
  'createShare',
  'listShares',
  'changeShare',
  'deleteShare',
];

/** IDs of what somebody has, by the parameters that name them. */
type Ids = Record<'fileId' | 'uploadId' | 'shareId' | 'id', string>;

const absent = (): Ids => ({
  fileId: crypto.randomUUID(),
  uploadId: crypto.randomUUID(),
  shareId: `${crypto.randomUUID().replaceAll('-', '').slice(0, 21)}1`,
  id: '0'.repeat(16),
});

/** A whole request for a route, which names these IDs. */
function requestFor({ method, path, body = {}, operationId }: Route, ids: Ids): { path: string; init: Init } {
  const filled = path.replaceAll(/:(\w+)/g, (_, name: keyof Ids) => ids[name]);
  const uploading = {
    ...version,
    'Upload-Length': '5',
    'Upload-Offset': '0',
    'Upload-Metadata': `filename eA==,expiresAt ${btoa(soon(hourMs))}`,
  };
  const bodies: Record<string, [type: string, body: BodyInit]> = {
    storePlain: ['a/b', 'a planted file'],
    storeEncrypted: ['a/b', 'a planted file'],
    continueUpload: ['application/offset+octet-stream', 'bytes'],
    createKey: ['application/json', JSON.stringify({ label: 'x', scopes: ['send'] })],
    deleteFiles: ['application/json', JSON.stringify({ files: [ids.fileId] })],
    changeFile: ['application/json', JSON.stringify({ filename: 'swapped' })],
    createShare: ['application/json', JSON.stringify(request([ids.fileId]))],
    changeShare: ['application/json', JSON.stringify({ opens: 9 })],
  };
  const [type, bytes] = bodies[operationId] ?? (Object.keys(body).length > 0 ? ['application/json', '{}'] : []);
  const query = operationId === 'storePlain' ? `?${new URLSearchParams({ expiresAt: soon(hourMs) }).toString()}` : '';
  const headers = {
    'Content-Disposition': 'attachment; filename="x"',
    ...(path.startsWith('/v1/uploads') && uploading),
    ...(type !== undefined && { 'Content-Type': type }),
  };
  return { path: `${filled}${query}`, init: { method: method.toUpperCase(), headers, ...(bytes && { body: bytes }) } };
}

const withKey = routes.filter((route) => scopesOf(route) !== undefined);

/** A file, an upload, a link and the key of somebody, by their IDs. */
async function idsOf(call: Client & { id?: string }): Promise<Ids & { share: Share }> {
  const { fileId } = await store(call);
  const made = await share(call, [fileId]);
  const upload = await begin(call, 5);
  const uploadId = present(present(upload.headers.get('Location')).split('/').at(-1));
  return { fileId, uploadId, shareId: made.id, id: call.id ?? (await call.getAccount()).key.id, share: made };
}

/** Rows of the account, without those of what the guest has stored. */
async function stateOf(): Promise<unknown> {
  const tables = ['api_key', 'file', 'file_detail', 'share', 'share_file', 'upload', 'part', 'receipt'];
  const rows = await Promise.all(tables.map((table) => owner.object.rows(table)));
  const own = rows
    .flat()
    .flatMap((row) => (Object.values(row).includes(guest.id) ? [row['file_id'], row['id']] : []))
    .filter((id) => id !== undefined);
  const isOwn = (row: Record<string, unknown>): boolean => own.some((id) => id === row['file_id'] || id === row['id']);
  return rows.map((all) => all.filter((row) => !isOwn(row)));
}

/** The status, the headers and the body of a response, without what differs by itself. */
async function shown(response: Response): Promise<unknown> {
  // What is of the connection is nothing that the service says.
  const others = ['x-request-id', 'date', 'upload-expires', 'connection', 'keep-alive'];
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !others.includes(name)));
  const text = await response.text();
  return { status: response.status, headers, body: text.replaceAll(/"requestId":"[^"]*"/g, '') };
}

describe('a guest', () => {
  it('calling any operation for what the owner has is refused, or reaches nothing but its own', async () => {
    const ids = await idsOf(owner.call);
    const before = await stateOf();
    for (const route of withKey) {
      const { operationId } = route;
      const { path, init } = requestFor(route, ids);
      const response = await guest(path, init);
      const code = response.ok || init.method === 'HEAD' ? undefined : (await response.json<{ code: string }>()).code;
      const seen = `${operationId}: ${response.status} ${code}`;
      if (!allowed.includes(operationId)) expect(seen).toBe(`${operationId}: 403 insufficient_scope`);
      else if (/:|createShare/.test(`${route.path} ${operationId}`)) expect(response.status, seen).toBe(404);
      else expect(response.ok, seen).toBe(true);
      if (response.status !== 403) expect(await stateOf(), operationId).toEqual(before);
    }
    expect(await stateOf()).toEqual(before);
  });

  it('is refused by every route of the operator', async () => {
    for (const route of routes.filter(({ who }) => who === 'operator' || who === 'monitor')) {
      const { path, init } = requestFor(route, { ...absent(), id: owner.id });
      expect((await guest(path, init)).status, route.operationId).toBe(401);
    }
  });

  it('is told the same of what is another’s, was, or never was', async () => {
    const theirs = await idsOf(other);
    const finishing = await idsOf(other);
    await patch(other, `/v1/uploads/${finishing.uploadId}`, 0, random(5));
    const ended = await idsOf(other);
    await other.deleteShare({ shareId: ended.shareId });
    await other(`/v1/uploads/${ended.uploadId}`, { method: 'DELETE', headers: version });
    const owned = await idsOf(owner.call);
    const uploaded = { ...absent(), fileId: finishing.uploadId };
    const naming = ({ path, operationId }: Route): boolean => path.includes(':') || operationId === 'createShare';
    for (const route of withKey.filter((each) => naming(each))) {
      const asked = async (ids: Ids): Promise<unknown> => {
        const { path, init } = requestFor(route, ids);
        return await shown(await guest(path, init));
      };
      const expected = await asked(absent());
      for (const ids of [theirs, finishing, ended, owned, uploaded])
        expect(await asked(ids), route.operationId).toEqual(expected);
    }
  });

  it('is told the same by conditions, whatever others have', async () => {
    const ids = await idsOf(owner.call);
    const { fileId } = ids;
    for (const headers of [{ 'If-Match': '*' }, { 'If-None-Match': '*' }, { 'If-Match': '"0"' }]) {
      for (const id of [fileId, crypto.randomUUID()])
        for (const operationId of ['getFile', 'getFileContent', 'deleteFile'])
          expect(await problemOf(guest.ask(operationId, { fileId: id }, { headers }))).toBe('403 insufficient_scope');
      const named = { ...headers, 'Content-Disposition': 'attachment; filename="näme.bin"' };
      expect((await ask(guest, 'x', soon(hourMs), { headers: named })).status).toBeGreaterThanOrEqual(400);
    }
  });

  it('shares an idempotency key with nobody', async () => {
    const headers = { 'Idempotency-Key': 'the same' };
    const bodies = [owner.call, other, guest].map(async (call) => {
      const response = await ask(call, 'the same bytes', soon(hourMs), { headers });
      expect(response.status).toBe(201);
      expect(response.headers.get('Idempotency-Replayed')).toBeNull();
      return (await response.json<{ fileId: string }>()).fileId;
    });
    expect(new Set(await Promise.all(bodies)).size).toBe(3);
  });

  it('signs no URL that works', async () => {
    const { fileId } = await store(guest);
    await guest.getAccount();
    const download = await signedPath(guest.apiKey, { method: 'GET', file: fileId });
    const upload = await signedPath(guest.apiKey, { method: 'POST', mode: 'plain', jti: crypto.randomUUID() });
    expect(await problemOf(anybody(download))).toBe('403 insufficient_scope');
    expect(await problemOf(anybody(upload, { method: 'POST', body: 'x', headers: { 'Content-Type': 'a/b' } }))).toBe(
      '403 insufficient_scope',
    );
  });

  it('shares no file of another, with one of its own neither', async () => {
    const [own, theirs, hosts] = [await store(guest), await store(other), await store(owner.call)];
    for (const files of [[theirs], [hosts], [own, theirs], [own, hosts]])
      expect(await problemOf(guest.ask('createShare', request(files.map(({ fileId }) => fileId))))).toBe(
        '404 not_found',
      );
    expect((await guest.listShares()).shares).toEqual([]);
  });

  it('keeps no file of another by naming it, and none of its own beyond its end', async () => {
    const { fileId } = await store(other);
    const naming = (call: Client, names: string) =>
      call(`/v1/storage/plain?${new URLSearchParams({ expiresAt: soon(hourMs), names }).toString()}`, {
        method: 'POST',
        body: 'x',
        headers: { 'Content-Type': 'a/b' },
      });
    expect(await problemOf(naming(guest, fileId))).toBe('404 not_found');
    const own = await store(guest, 2);
    expect((await naming(guest, own.fileId)).status).toBe(201);
    await owner.object.ring(2 * dayMs + minuteMs);
    expect(await owner.object.rows('file')).toEqual([]);
  });

  it('changes no end: not by a change, not by another share', async () => {
    const { fileId, expiresAt } = await store(guest, 1);
    expect(await problemOf(guest.ask('changeFile', { fileId, expiresAt: soon(9 * dayMs) }))).toBe(
      '403 insufficient_scope',
    );
    for (const end of [soon(9 * dayMs), soon(29 * dayMs)])
      expect((await share(guest, [fileId], { expiresAt: end })).expiresAt).toBe(expiresAt);
    expect(await problemOf(guest.ask('createShare', request([fileId], { expiresAt: soon(31 * dayMs) })))).toBe(
      '400 invalid_request',
    );
  });
});

describe('the limits of a guest', () => {
  const full = '413 quota_exceeded';
  const stored = async (): Promise<{ files: number; bytes: number }> => {
    const rows = (await owner.object.rows('file')).filter((row) => row['created_by'] === guest.id);
    return { files: rows.length, bytes: rows.reduce((sum, row) => sum + Number(row['bytes']), 0) };
  };
  beforeEach(async () => {
    guest = await invite(owner.call, { limits: { files: 5, bytes: 5000 } });
  });

  it('hold for requests at once, of files and of uploads', async () => {
    const asked = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? ask(guest, `${index}`.padStart(900), soon(hourMs)) : begin(guest, 900),
    );
    const codes = (await Promise.all(asked)).map(({ status }) => status);
    expect(codes.filter((status) => status === 201).length).toBeLessThanOrEqual(5);
    expect((await stored()).files).toBeLessThanOrEqual(5);
    expect(await problemOf(ask(guest, 'x', soon(hourMs)))).toBe(full);
  });

  it('hold for bytes at once', async () => {
    const asked = Array.from({ length: 5 }, (_, index) => ask(guest, `${index}`.padStart(2000), soon(hourMs)));
    await Promise.all(asked);
    expect((await stored()).bytes).toBeLessThanOrEqual(5000);
  });

  it('hold for what is announced, and for more than was', async () => {
    expect(await problemOf(begin(guest, 5001))).toBe(full);
    const upload = present((await begin(guest, 4000)).headers.get('Location'));
    expect(await problemOf(ask(guest, 'x'.repeat(1001), soon(hourMs)))).toBe(full);
    expect((await patch(guest, upload, 0, random(4001))).status).toBeGreaterThanOrEqual(400);
    expect((await guest.getAccount()).key.left).toEqual({ files: 4, bytes: 1000 });
  });

  inCi('hold for four uploads that never end, which keep nobody out', async () => {
    guest = await invite(owner.call);
    const asked = await Promise.all(Array.from({ length: 30 }, () => begin(guest, 5)));
    expect(asked.filter(({ status }) => status === 201)).toHaveLength(4);
    const many = await Promise.all(Array.from({ length: 27 }, () => invite(owner.call)));
    const all = await Promise.all(many.flatMap((each) => Array.from({ length: 4 }, () => begin(each, 5))));
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([201]));
    expect((await begin(owner.call, 5)).status).toBe(201);
    expect((await owner.call.listUploads()).uploads).toHaveLength(4 + 27 * 4 + 1);
  });

  it('count what is there: taking back and storing again reaches no further', async () => {
    for (let round = 0; round < 8; round += 1) {
      const { fileId } = await store(guest);
      const { id } = await share(guest, [fileId]);
      expect((await guest.deleteShare({ shareId: id })).files).toEqual([fileId]);
    }
    expect((await guest.getAccount()).key.left).toEqual({ files: 5, bytes: 5000 });
    expect(await stored()).toEqual({ files: 0, bytes: 0 });
  });

  it('hold for links of one file, ended ones included, and keep nobody from sharing', async () => {
    const { fileId } = await store(guest);
    await share(guest, [fileId]);
    const [row] = (await owner.object.rows('share')).filter((each) => each['api_key'] === guest.id);
    const columns = Object.keys(present(row)).filter((name) => !['seq', 'id'].includes(name));
    const ends = 'CASE WHEN i < 400 THEN 1 ELSE expires_at END';
    const values = columns.map((name) => (name === 'expires_at' ? ends : name));
    await owner.object.change(
      `INSERT INTO share (id, ${columns.join()})
       WITH RECURSIVE n(i) AS (SELECT 2 UNION SELECT i + 1 FROM n WHERE i < 500)
       SELECT printf('%022d', i), ${values.join()} FROM n, share`,
    );
    expect(await problemOf(guest.ask('createShare', request([fileId])))).toBe(full);
    await owner.object.change(`UPDATE share SET api_key = '${other.id}' WHERE seq % 2 = 0`);
    await owner.object.change(
      `INSERT INTO share (id, ${columns.join()}) SELECT printf('%022d', seq + 1000), ${columns.join()} FROM share`,
    );
    const third = await invite(owner.call);
    expect((await third.ask('createShare', request([(await store(third)).fileId]))).status).toBe(201);
    expect((await owner.call.ask('createShare', request([]))).status).toBe(201);
  });

  it('are its own: it is told nothing of what else the key has that invited it, and stops there', async () => {
    const host = await owner.call.withKey(['keys', 'write', 'share', 'delete'], {
      limits: { files: 10, bytes: 10_000 },
    });
    const [one, two] = [
      await invite(host, { limits: { files: 5, bytes: 5000 } }),
      await invite(host, { limits: { files: 5, bytes: 5000 } }),
    ];
    // As if both were made before their limits were set aside.
    await owner.object.change(`UPDATE key_limit SET max_files = 6, max_bytes = 6000 WHERE key_id = '${host.id}'`);
    for (let each = 0; each < 4; each += 1) await ask(one, `${each}`.padStart(1400), soon(hourMs));
    expect((await two.getAccount()).key.left).toEqual({ files: 5, bytes: 5000 });
    expect(await problemOf(ask(two, 'x'.repeat(2000), soon(hourMs)))).toBe(full);
    for (let each = 0; each < 3; each += 1) await ask(two, `${each}`, soon(hourMs));
    expect(await problemOf(ask(two, '', soon(hourMs)))).toBe(full);
  });
});

describe('two guests and their host', () => {
  it('change nothing of each other', async () => {
    const [mine, theirs, hosts] = [await idsOf(guest), await idsOf(other), await idsOf(owner.call)];
    const before = [await other.listShares(), await other.listUploads(), await owner.call.listFiles()];
    for (const { shareId } of [theirs, hosts])
      expect(await problemOf(guest.ask('deleteShare', { shareId }))).toBe('404 not_found');
    for (const { uploadId } of [theirs, hosts])
      for (const method of ['DELETE', 'GET'])
        expect(await problemOf(guest(`/v1/uploads/${uploadId}`, { method, headers: version }))).toBe('404 not_found');
    expect(JSON.stringify([await other.listShares(), await other.listUploads(), await owner.call.listFiles()])).toBe(
      JSON.stringify(before),
    );
    await guest.deleteShare({ shareId: mine.shareId });
    expect((await other.listShares()).shares.map(({ id }) => id)).toEqual([theirs.shareId]);
  });

  inCi('keep each other out by no number of requests', async () => {
    const limited = await startService({
      ratelimits: { KEY_LIMIT: { namespace_id: '1', simple: { limit: 8, period: 60 } } },
    });
    try {
      const host = client(limited.url, (await limited.account()).apiKey);
      const guests = [await invite(host), await invite(host)];
      await inOneMinute(async () => {
        const statuses: number[] = [];
        for (let each = 0; each < 12; each += 1) statuses.push((await present(guests[0]).ask('getAccount')).status);
        expect(statuses.at(-1)).toBe(429);
        expect((await present(guests[1]).ask('getAccount')).status).toBe(200);
        expect((await host.ask('getAccount')).status).toBe(200);
      });
    } finally {
      await limited.close();
    }
  });

  it('are found by the host: in the lists of keys, files, links and uploads, and in the events', async () => {
    const theirs = await idsOf(guest);
    const [keys, files, shares, uploads, events] = [
      await owner.call.listKeys(),
      await owner.call.listFiles(),
      await owner.call.listShares(),
      await owner.call.listUploads(),
      await owner.call.listEvents(),
    ];
    expect(keys.keys.find(({ id }) => id === guest.id)?.scopes).toEqual(['send']);
    expect(files.files.map(({ createdBy }) => createdBy)).toEqual([guest.id]);
    expect(shares.shares.map(({ createdBy }) => createdBy)).toEqual([guest.id]);
    expect(uploads.uploads.map(({ uploadId }) => uploadId)).toEqual([theirs.uploadId]);
    expect(events.events.filter(({ by }) => by === guest.id).map(({ action }) => action)).toEqual([
      'file.stored',
      'share.created',
    ]);
    expect(await problemOf(client(service.url, adminToken).ask('listShares'))).toBe('401 unauthorized');
  });

  it('are not what an account begins with: its first key has every scope but send', async () => {
    expect((await owner.call.getAccount()).key.scopes).toEqual([...fullScopes]);
  });
});
