/**
 * `POST /v1/account/rotation`: the account gets another key pair, and all that is sealed follows.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { fullScopes, type Scope } from '../../../shared/api.ts';
import { generateKeyPair, open, parseIdentities } from '../../../shared/crypto/index.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';
import { adminToken, sharedService, type Service } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath, type Client } from '../../../testkit/api-client.ts';
import { accountObject, newOwner, type Owner } from '../stored-state.ts';
import { create, mib, patch } from '../uploads/tus-client.ts';
import { containerOf, opens, privateKeysOf, replacedBy, rotate } from './rotating.ts';

let service: Service;
beforeAll(async () => {
  service = await sharedService();
});

/** Begins a rotation whose first request ends before it has sealed anything. */
async function begun({ call, object }: Owner): Promise<string> {
  const publicKey = await replacedBy(call);
  await object.fail('rewrap', 'before');
  expect(await problemOf(call.ask('rotateAccount', { publicKey }))).toBe('500 internal');
  return publicKey;
}

const soon = (ms = 3_600_000): string => new Date(Date.now() + ms).toISOString();
const opened = (call: Client, fileId: string) => bytesOf(call.ask('getFileContent', { fileId })).then(String);

describe('a rotation', () => {
  it('revokes other keys with read, with their shares and uploads, and leaves the others', async () => {
    const { id, call } = await newOwner(service);
    const reader = await call.withKey(['read', 'write', 'share']);
    const [writer, sharer] = [await call.withKey(['write']), await call.withKey(['share'])];
    const terms = { record: btoa('record'), files: [], password: false };
    const [ending, staying] = [await reader.createShare(terms), await sharer.createShare(terms)];
    const uploads = [await create(reader, 'encrypted', 5), await create(writer, 'encrypted', 5)];
    const file = await writer.store('encrypted', 'before');
    const before = await call.getAccount();

    const [answer, ...more] = await rotate(call);
    expect(more).toEqual([]);
    expect(answer).toMatchObject({
      done: true,
      remaining: 0,
      revoked: [reader.id],
      shares: [{ id: ending.id, record: 'destroyed' }],
    });
    expect(answer?.publicKey).not.toBe(before.account.publicKey);
    expect(await call.getAccount()).toMatchObject({ account: { publicKey: answer?.publicKey } });
    expect((await call.getAccount()).rotation).toBeUndefined();
    expect(await problemOf(reader.ask('listFiles'))).toBe('401 unauthorized');
    expect((await call.listShares()).shares.map(({ id: share }) => share)).toEqual([staying.id]);
    expect((await call.listUploads()).uploads.map(({ uploadId }) => uploadId)).toEqual([itemOf(uploads, 1).id]);
    expect(await opened(call, file.fileId)).toBe('before');
    const { events } = await call.listEvents({ limit: 100 });
    const since = events.slice(events.findIndex(({ action }) => action === 'account.rotated'));
    expect(since.map(({ action }) => action).toSorted()).toEqual(['account.rotated', 'key.revoked', 'share.revoked']);
    expect(first(since).by).toBe(before.key.id);
    expect(id).toBe(before.account.id);
  });

  it('seals headers and names to the new pair: the private key before opens none that is stored', async () => {
    const { call } = await newOwner(service);
    const writer = await call.withKey(['write']);
    const files = [await writer.store('encrypted', 'x'), await writer.store('encrypted', '')];
    for (const { fileId } of files) await call.changeFile({ fileId, filename: 'named', metadata: { of: 'me' } });
    const [old] = await privateKeysOf(call);
    const held = await containerOf(call, first(files).fileId);
    await rotate(call);
    const later = await writer.store('encrypted', 'stored later');
    const [now, ...none] = await privateKeysOf(call);
    expect(none).toEqual([]);
    for (const { fileId } of [...files, later]) {
      const container = await containerOf(call, fileId);
      expect(await opens(present(now), container, fileId)).toBe(true);
      expect(await opens(present(old), container, fileId)).toBe(false);
    }
    // Who kept a header, or the file key, still has it.
    expect(await opens(present(old), held, first(files).fileId)).toBe(true);
    expect(await call.getFile({ fileId: first(files).fileId, data: false })).toMatchObject({
      filename: 'named',
      metadata: { of: 'me' },
    });
  });

  it('changes the ETag of the container, whose bytes change, and no other', async () => {
    const { call } = await newOwner(service);
    const { fileId } = await call.store('encrypted', 'x');
    const tags = async (): Promise<(string | null)[]> =>
      await Promise.all(
        ['application/vnd.sealpin', 'application/octet-stream'].map(async (Accept) => {
          const response = await call.ask('getFile', { fileId }, { headers: { Accept } });
          await response.arrayBuffer();
          return response.headers.get('ETag');
        }),
      );
    const [container, bytes] = await tags();
    await rotate(call);
    expect((await tags())[1]).toBe(bytes);
    const headers = { Accept: 'application/vnd.sealpin', 'If-None-Match': present(container) };
    expect((await call.ask('getFile', { fileId }, { headers })).status).toBe(200);
    expect(await problemOf(call.ask('deleteFile', { fileId }, { headers: { 'If-Match': present(container) } }))).toBe(
      '412 precondition_failed',
    );
    await call.deleteFile({ fileId }, { headers: { 'If-Match': present(bytes) } });
  });

  it('finds files by their tags, during and after it, in both modes', async () => {
    const owner = await newOwner(service);
    const { call } = owner;
    const files = [await call.store('encrypted', 'x'), await call.store('plain', 'y')];
    for (const { fileId } of files) await call.changeFile({ fileId, tags: ['invoice', 'paid'] });
    const tagged = async (tag: string): Promise<string[]> =>
      (await call.listFiles({ tag })).files.map(({ fileId }) => fileId).toSorted();
    const both = files.map(({ fileId }) => fileId).toSorted();
    await begun(owner);
    expect(await tagged('invoice')).toEqual(both);
    const later = await call.store('plain', 'z');
    await call.changeFile({ fileId: later.fileId, tags: ['invoice'] });
    await call.changeFile({ fileId: first(files).fileId, tags: ['invoice', 'unpaid'] });
    expect(await tagged('invoice')).toEqual([...both, later.fileId].toSorted());
    await rotate(call);
    expect(await tagged('invoice')).toEqual([...both, later.fileId].toSorted());
    expect(await tagged('paid')).toEqual([itemOf(files, 1).fileId]);
    expect(await tagged('unpaid')).toEqual([first(files).fileId]);
  });

  it('lets files be read, changed, deleted, stored and signed for while it runs', async () => {
    const owner = await newOwner(service);
    const { call } = owner;
    const writer = await call.withKey(['write']);
    const files = await Promise.all(['a', 'b', 'c', 'd'].map((text) => call.store('encrypted', text)));
    const [a, b, c, d] = files;
    const publicKey = await begun(owner);
    const { rotation } = await call.getAccount();
    expect(rotation).toMatchObject({ replaces: publicKey, remaining: 4 });
    expect((await writer.getAccount()).rotation).toBeUndefined();
    expect((await call.listFiles()).files).toHaveLength(4);
    expect(await opened(call, present(a).fileId)).toBe('a');
    const pairs = await privateKeysOf(call);
    const sealedTo = async (fileId: string): Promise<boolean[]> => {
      const container = await containerOf(call, fileId);
      return await Promise.all(pairs.map((pkcs8) => opens(pkcs8, container, fileId)));
    };
    await call.changeFile({ fileId: present(b).fileId, filename: 'renamed' });
    await call.deleteFile({ fileId: present(c).fileId });
    const later = await writer.store('encrypted', 'later');
    const reader = await call.withKey(['read']);
    expect(await opened(reader, present(d).fileId)).toBe('d');
    expect(await opened(reader, later.fileId)).toBe('later');
    const signed = await signedPath(call.apiKey, { method: 'GET', file: present(d).fileId });
    const byUrl = await bytesOf(client(service.url, '')(signed));
    expect(await opens(itemOf(pairs, 1), byUrl, present(d).fileId)).toBe(true);
    expect(await sealedTo(present(b).fileId)).toEqual([false, true]);
    expect(await sealedTo(later.fileId)).toEqual([true, false]);
    expect((await call.getAccount()).rotation?.remaining).toBe(3);
    expect(await rotate(call)).toMatchObject([{ done: true, remaining: 0 }]);
    expect(await sealedTo(present(b).fileId)).toEqual([true, false]);
    expect(await call.getFile({ fileId: present(b).fileId, data: false })).toMatchObject({ filename: 'renamed' });
    for (const [by, file, text] of [
      [call, present(a), 'a'],
      [reader, present(d), 'd'],
      [reader, later, 'later'],
    ] as const)
      expect(await opened(by, file.fileId)).toBe(text);
  });

  it('is continued after a file that changes at the same moment, and loses none of both changes', async () => {
    const { call, object } = await newOwner(service);
    const { fileId } = await call.store('encrypted', 'x');
    const publicKey = await replacedBy(call);
    await object.fail('rewrap', 'late');
    const [answer] = await Promise.all([
      call.rotateAccount({ publicKey }),
      // Its header is changed while the one that was read before is on its way.
      expect
        .poll(async () => (await call.getAccount()).rotation?.remaining)
        .toBe(1)
        .then(() => call.changeFile({ fileId, filename: 'changed meanwhile' })),
    ]);
    expect(answer).toMatchObject({ done: false, remaining: 1 });
    expect(await rotate(call)).toMatchObject([{ done: true }]);
    expect(await call.getFile({ fileId, data: false })).toMatchObject({ filename: 'changed meanwhile' });
    expect(await opened(call, fileId)).toBe('x');
  });

  inCi('of an upload whose bytes come before and after it seals the header to the new pair', async () => {
    const { call } = await newOwner(service);
    const writer = await call.withKey(['write']);
    const body = randomBytes(3 * mib + 5);
    const disposition = { 'Content-Disposition': 'attachment; filename=slow' };
    let send: (bytes: Uint8Array) => void = () => undefined;
    let end: () => void = () => undefined;
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        send = (bytes) => controller.enqueue(bytes);
        end = () => controller.close();
      },
    });
    const path = await signedPath(writer.apiKey, { method: 'POST', mode: 'encrypted', jti: randomUUID() });
    const uploads = [await create(writer, 'encrypted', body.length), await create(writer, 'encrypted', body.length)];
    for (const upload of uploads) await patch(writer, upload.path, 0, body.subarray(0, mib));
    const storing = client(service.url, '')(path, {
      method: 'POST',
      headers: { 'Content-Type': 'image/png', ...disposition },
      body: stream,
      duplex: 'half',
    });
    send(body.subarray(0, mib));
    // One is in the middle of a request, one between two.
    const [inRequest, between] = [first(uploads), itemOf(uploads, 1)];
    let finish: () => void = () => undefined;
    const patched = patch(
      writer,
      inRequest.path,
      mib,
      new ReadableStream({
        start(controller) {
          controller.enqueue(body.subarray(mib, 2 * mib));
          finish = () => {
            controller.enqueue(body.subarray(2 * mib));
            controller.close();
          };
        },
      }),
    );
    await expect.poll(async () => (await call.listUploads()).uploads.map(({ offset }) => offset)).toContain(2 * mib);
    await rotate(call);
    send(body.subarray(mib));
    end();
    finish();
    const fileIds = [
      (await jsonOf<{ fileId: string }>(storing, 201)).fileId,
      present((await patched).headers.get('Sealpin-File')),
      present((await patch(writer, between.path, mib, body.subarray(mib))).headers.get('Sealpin-File')),
    ];
    for (const fileId of fileIds)
      expect(Buffer.compare(await bytesOf(call.ask('getFileContent', { fileId })), body), fileId).toBe(0);
  });

  it('rewraps the header of an upload whose bytes have all come, and that is not stored yet', async () => {
    const owner = await newOwner(service);
    const { call, object } = owner;
    const writer = await call.withKey(['write']);
    const { path, id } = await create(writer, 'encrypted', 5);
    await object.fail('addReference', 'before');
    await patch(writer, path, 0, Buffer.from('hello'));
    expect(await problemOf(call.ask('getFile', { fileId: id }))).toBe('409 finishing');
    expect(await rotate(call)).toMatchObject([{ done: true }]);
    await object.ring(3_600_000);
    expect(await opened(call, id)).toBe('hello');
  });

  it('leaves a header that neither pair opens as it is, says so, and goes on', async () => {
    const { call, object } = await newOwner(service);
    const files = [await call.store('encrypted', 'damaged'), await call.store('encrypted', 'sound')];
    const [damaged, sound] = [first(files), itemOf(files, 1)];
    await object.change(`UPDATE file SET header = x'00' WHERE file_id = '${damaged.fileId}'`);
    expect(await rotate(call)).toMatchObject([{ done: true, unreadable: [damaged.fileId] }]);
    expect(await opened(call, sound.fileId)).toBe('sound');
    expect(await object.rows('rotation')).toEqual([]);
  });
});

describe('who asks for a rotation', () => {
  it('needs read and keys, each scope of the keys that it revokes, and a key that lives as long', async () => {
    const { call } = await newOwner(service);
    const publicKey = await replacedBy(call);
    const refused = async (of: readonly Scope[], expiresAt?: string): Promise<string> => {
      const key = await call.withKey(of, { expiresAt });
      const answer = await problemOf(key.ask('rotateAccount', { publicKey }));
      await call.revokeKey({ id: key.id });
      return answer;
    };
    expect(await refused(['read', 'write'])).toBe('403 insufficient_scope');
    expect(await refused(['keys', 'write'])).toBe('403 insufficient_scope');
    expect(await refused(['read', 'keys'])).toBe('403 insufficient_scope');
    expect(await refused(fullScopes, soon())).toBe('409 conflict');
    expect((await call.getAccount()).account.publicKey).toBe(publicKey);
    const equal = await call.withKey(fullScopes);
    expect(await rotate(equal)).toMatchObject([{ done: true }]);
    expect(await problemOf(call.ask('getAccount'))).toBe('401 unauthorized');
  });

  it('names the pair: a request that is repeated begins no second rotation', async () => {
    const owner = await newOwner(service);
    const { call } = owner;
    const file = await call.store('encrypted', 'x');
    const publicKey = await begun(owner);
    const next = (await call.getAccount()).account.publicKey;
    const ask = (of: string): Promise<Response> => call.ask('rotateAccount', { publicKey: of });
    expect(await problemOf(ask(next))).toBe('409 conflict');
    expect(await problemOf(ask((await generateKeyPair()).publicPem))).toBe('409 conflict');
    expect(await problemOf(ask('no key'))).toBe('400 key_invalid');
    for (const _ of [1, 2, 3])
      expect(await jsonOf(ask(publicKey))).toEqual({ publicKey: next, done: true, remaining: 0 });
    expect(await rotate(call)).toMatchObject([{ done: true }]);
    expect(await problemOf(ask(publicKey))).toBe('409 conflict');
    expect(await opened(call, file.fileId)).toBe('x');
  });

  it('joins the rotation that another request has begun at the same time, or has lost its key', async () => {
    const { call } = await newOwner(service);
    const other = await call.withKey(fullScopes);
    const files = await Promise.all(Array.from({ length: 5 }, (_, index) => call.store('encrypted', `${index}`)));
    const publicKey = await replacedBy(call);
    const asked = [call, call, other, other].map(async (by) => ({
      by,
      response: await by.ask('rotateAccount', { publicKey }),
    }));
    const answers = await Promise.all(asked);
    const done = answers.filter(({ response }) => response.status === 200);
    const [winner] = done;
    expect(new Set(done.map(({ by }) => by)).size).toBe(1);
    for (const { by, response } of answers)
      if (by !== winner?.by) expect(await problemOf(response)).toBe('401 unauthorized');
    const by = present(winner).by;
    expect(await by.listEvents({ limit: 100 }).then(({ events }) => events.map(({ action }) => action))).toEqual(
      expect.not.arrayContaining(['account.recovered']),
    );
    const rotations = (await by.listEvents({ limit: 100 })).events.filter(({ action }) => action === 'account.rotated');
    expect(rotations).toHaveLength(1);
    for (const [index, { fileId }] of files.entries()) expect(await opened(by, fileId)).toBe(`${index}`);
  });

  it('may lose the key on the way: another one that it made continues', async () => {
    const owner = await newOwner(service);
    const { call } = owner;
    const file = await call.store('encrypted', 'x');
    const publicKey = await begun(owner);
    const second = await call.withKey(fullScopes);
    await second.revokeKey({ id: (await call.getAccount()).key.id });
    expect(await problemOf(call.ask('rotateAccount', { publicKey }))).toBe('401 unauthorized');
    expect(await rotate(second)).toMatchObject([{ done: true }]);
    expect(await opened(second, file.fileId)).toBe('x');
  });
});

describe('the recovery file of a rotated account', () => {
  type Recoverable = Owner & { pair: Awaited<ReturnType<typeof generateKeyPair>> };

  async function recoverable(): Promise<Recoverable> {
    const pair = await generateKeyPair();
    const made = await client(service.url, adminToken).createAccount({ label: 'team', recovery: pair.publicPem });
    const { id } = made.account;
    return { pair, id, call: client(service.url, made.apiKey), object: accountObject(service, id) };
  }

  async function text({ id, pair }: Recoverable): Promise<string> {
    const file = await open(new Blob([await bytesOf(client(service.url).ask('getRecoveryFile', { id }))]).stream());
    if (file.kind !== 'age') throw new Error(file.kind);
    return await new Response(await file.decrypt(parseIdentities(pair.privatePem))).text();
  }

  const recover = (id: string, privateKey: string): Promise<Response> =>
    client(service.url).ask('recoverAccount', { id, privateKey });

  it('has a new secret: an older one recovers nothing, the new one does', async () => {
    const owner = await recoverable();
    const file = await owner.call.store('encrypted', 'x');
    const before = await text(owner);
    await rotate(owner.call);
    expect(await problemOf(recover(owner.id, before))).toBe('403 forbidden');
    const { apiKey } = await jsonOf<{ apiKey: string }>(recover(owner.id, await text(owner)), 201);
    expect(await opened(client(service.url, apiKey), file.fileId)).toBe('x');
  });

  it('recovers the account in the middle, and the rotation continues with the recovered key', async () => {
    const owner = await recoverable();
    const file = await owner.call.store('encrypted', 'x');
    const before = await text(owner);
    const publicKey = await begun(owner);
    expect(await problemOf(recover(owner.id, before))).toBe('403 forbidden');
    const { apiKey } = await jsonOf<{ apiKey: string }>(recover(owner.id, await text(owner)), 201);
    const call = client(service.url, apiKey);
    expect(await problemOf(owner.call.ask('rotateAccount', { publicKey }))).toBe('401 unauthorized');
    expect(await opened(call, file.fileId)).toBe('x');
    expect(await rotate(call)).toMatchObject([{ done: true }]);
    expect(await opened(call, file.fileId)).toBe('x');
    await rotate(call);
    expect(await opened(call, file.fileId)).toBe('x');
  });
});
