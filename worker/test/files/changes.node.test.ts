/** Changes of what is known of a file: name, type, metadata, tags, expiry. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { FileList, Scope, StoredFile } from '../../../shared/api.ts';
import {
  decodePem,
  identityFromPkcs8,
  openDetached,
  parseApiKey,
  unsealPrivateKey,
} from '../../../shared/crypto/index.ts';
import { sharedService, type Service } from '../../../testkit/service.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath, type Client } from '../../../testkit/api-client.ts';
import { newOwner, type Owner } from '../stored-state.ts';
import { modesInForm } from '../uploads/tus-client.ts';
import { itemOf, present } from '../../../testkit/present.ts';

const minuteMs = 60_000;

let service: Service;
let owner: Owner;

beforeAll(async () => {
  service = await sharedService();
  owner = await newOwner(service);
});

function patch(fileId: string, change: unknown, headers: Record<string, string> = {}, by: Client = owner.call) {
  return by.ask(
    'changeFile',
    { fileId },
    { headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(change) },
  );
}

const read = (fileId: string): Promise<StoredFile> => owner.call.getFile({ fileId, data: false });
const keyWith = async (...scopes: Scope[]): Promise<Client> => {
  const made = await owner.call.createKey({ label: 'k', scopes });
  return client(service.url, made.apiKey);
};

describe.each(modesInForm)('a file in %s mode', (mode) => {
  it('gets another name and type, and keeps its bytes', async () => {
    const file = await owner.call.store(mode, 'the bytes', { filename: 'old.txt', type: 'text/plain' });
    const changed = await jsonOf<StoredFile>(
      patch(file.fileId, { filename: 'new.pdf', contentType: 'application/pdf' }),
    );
    const { changedAt } = changed;
    expect(changed).toEqual({ ...file, filename: 'new.pdf', contentType: 'application/pdf', changedAt });
    expect(Date.parse(present(changedAt))).toBeGreaterThanOrEqual(Date.parse(file.createdAt));
    expect(await read(file.fileId)).toEqual(changed);
    const { files } = await owner.call.listFiles({ cid: file.cid });
    expect(files).toEqual([changed]);
    const raw = await owner.call.ask('getFileContent', { fileId: file.fileId });
    expect(raw.headers.get('Content-Disposition')).toContain('new.pdf');
    expect(raw.headers.get('Content-Type')).toBe('application/pdf');
    expect((await bytesOf(raw)).toString()).toBe('the bytes');
    expect(await jsonOf<StoredFile>(patch(file.fileId, { contentType: 'text/plain' }))).toMatchObject({
      filename: 'new.pdf',
      contentType: 'text/plain',
    });
  });

  it('takes metadata and tags, replaces and removes them', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    const metadata = { project: 'Prüfung', 'x.y_z-1': '' };
    const first = await jsonOf<StoredFile>(patch(fileId, { metadata, tags: ['invoice', '2030', 'invoice'] }));
    expect({ metadata: first.metadata, tags: first.tags }).toEqual({ metadata, tags: ['invoice', '2030'] });
    expect(await read(fileId)).toEqual(first);
    const second = await jsonOf<StoredFile>(patch(fileId, { metadata: { other: '1' } }));
    expect(second.metadata).toEqual({ other: '1' });
    expect(second.tags).toEqual(['invoice', '2030']);
    const third = await jsonOf<StoredFile>(patch(fileId, { metadata: null, tags: [] }));
    expect({ metadata: third.metadata, tags: third.tags }).toEqual({ metadata: undefined, tags: undefined });
  });

  it('keeps metadata of every name that the rules allow, also those that every object has', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    const inherited = Object.getOwnPropertyNames(Object.prototype).filter((name) =>
      /^[0-9A-Za-z._-]{1,64}$/.test(name),
    );
    for (const names of [inherited.slice(0, 6), inherited.slice(6), ['prototype', 'then', 'length', '__proto__']]) {
      // As text: `__proto__` in a literal sets the prototype.
      const metadata = `{${names.map((name) => `"${name}":"${name}"`).join()}}`;
      const change = { method: 'PATCH', headers: { 'Content-Type': 'application/json' } };
      const changed = await owner.call(`/v1/storage/${fileId}`, { ...change, body: `{"metadata":${metadata}}` });
      for (const response of [changed, await owner.call.ask('getFile', { fileId, data: false })]) {
        const kept = new Map(Object.entries((await jsonOf<StoredFile>(response)).metadata ?? {}));
        expect(kept).toEqual(new Map(names.map((name) => [name, name])));
      }
      for (const wrong of ['1', `"${'x'.repeat(513)}"`]) {
        const body = `{"metadata":{"__proto__":${wrong},"a":"b"}}`;
        expect(await problemOf(owner.call(`/v1/storage/${fileId}`, { ...change, body }))).toBe('400 invalid_request');
      }
    }
    const { cid } = await read(fileId);
    const { files } = await owner.call.listFiles({ cid });
    expect(Object.hasOwn(files[0]?.metadata ?? {}, '__proto__')).toBe(true);
  });

  it('has a content type that is one, however it is told', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    for (const contentType of [
      'x',
      '',
      'a/b/c',
      'a b/c',
      '/',
      'text/',
      'text/x y',
      'text/ä',
      `a/${'b'.repeat(254)}`,
      ';a/b',
    ]) {
      expect(await problemOf(patch(fileId, { contentType }))).toBe('400 invalid_request');
      if (contentType === '' || contentType === 'text/ä') continue;
      const headers = { 'Content-Type': contentType, 'Content-Disposition': 'attachment; filename=x' };
      const stored = owner.call(`/v1/storage/${mode}`, { method: 'POST', headers, body: 'x' });
      expect(await problemOf(stored), contentType).toBe('415 unsupported_media_type');
    }
    for (const contentType of [
      'a/b',
      'text/plain; charset=utf-8',
      'x-!#$%&\'*+.^_`|~/1 ;a="b/c"',
      `a/${'b'.repeat(253)}`,
    ]) {
      expect((await jsonOf<StoredFile>(patch(fileId, { contentType }))).contentType).toBe(contentType);
      expect((await owner.call.store(mode, 'x', { type: contentType })).contentType).toBe(contentType);
    }
  });

  it('is found by its tags, in its account alone', async () => {
    const own = await newOwner(service);
    const tagged = async (tags: string[]): Promise<string> => {
      const { fileId } = await own.call.store(mode, tags.join());
      await jsonOf(patch(fileId, { tags }, {}, own.call));
      return fileId;
    };
    const [one, two, three] = [await tagged(['a', 'é b']), await tagged(['b']), await tagged(['a'])];
    const found = async (query: string, by: Client = own.call): Promise<string[]> =>
      (await jsonOf<FileList>(by(`/v1/storage?${query}`))).files.map(({ fileId }) => fileId);
    expect(await found('tag=a')).toEqual([three, one]);
    expect(await found('tag=a&order=asc&limit=1')).toEqual([one]);
    expect(await found(`tag=${encodeURIComponent('é b')}`)).toEqual([one]);
    expect(await found('tag=c')).toEqual([]);
    expect(await found('tag=a', owner.call)).toEqual([]);
    const { cursor } = await own.call.listFiles({ tag: 'a', limit: 1 });
    expect(await found(`tag=a&limit=1&cursor=${cursor}`)).toEqual([one]);
    await jsonOf(patch(two, { tags: ['a'] }, {}, own.call));
    await own.call.ask('deleteFile', { fileId: one });
    expect(await found('tag=a')).toEqual([three, two]);
    expect(await found('tag=b')).toEqual([]);
    expect((await own.object.rows('file_tag')).map(({ tag }) => /^[0-9a-f]{64}$/.test(String(tag)))).toEqual([
      true,
      true,
    ]);
  });

  it('is changed only as it was seen, where the request says so', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    const path = `/v1/storage/${fileId}`;
    const etag = async (suffix: string): Promise<string> =>
      present((await owner.call(`${path}${suffix}`)).headers.get('ETag'));
    const before = [await etag(''), await etag('?data=false'), await etag('/content')];
    const changed = await patch(fileId, { filename: 'a' }, { 'If-Match': itemOf(before, 2) });
    expect(changed.status).toBe(200);
    expect(await etag('?data=false')).toBe(changed.headers.get('ETag'));
    for (const tag of before)
      expect(await problemOf(patch(fileId, { filename: 'b' }, { 'If-Match': tag }))).toBe('412 precondition_failed');
    expect((await owner.call(`${path}/content`, { headers: { 'If-None-Match': itemOf(before, 2) } })).status).toBe(200);
    expect((await patch(fileId, { filename: 'c' }, { 'If-Match': '*' })).status).toBe(200);
    expect((await read(fileId)).filename).toBe('c');
  });

  it('keeps the changes of all who change it at once', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    const changes = [{ filename: 'new' }, { contentType: 'text/new' }, { tags: ['new'] }];
    for (const change of changes) expect((await patch(fileId, change)).status).toBe(200);
    await Promise.all(
      [{ filename: 'newer' }, { tags: ['newer'] }].map(async (change) => await jsonOf(patch(fileId, change))),
    );
    expect(await read(fileId)).toMatchObject({ filename: 'newer', contentType: 'text/new', tags: ['newer'] });
  });

  it('expires at another time, or no more', async () => {
    const own = await newOwner(service);
    const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();
    const [one, two] = [await own.call.store(mode, '1'), await own.call.store(mode, '2')];
    for (const { fileId } of [one, two]) await jsonOf(patch(fileId, { expiresAt: inMs(minuteMs) }, {}, own.call));
    expect((await jsonOf<StoredFile>(patch(two.fileId, { expiresAt: null }, {}, own.call))).expiresAt).toBeUndefined();
    await own.object.ring(2 * minuteMs);
    expect((await own.call.ask('getFile', { fileId: two.fileId })).status).toBe(200);
    expect(await own.call.getReceipt({ fileId: one.fileId })).toMatchObject({ reason: 'expired' });
    expect(await problemOf(patch(one.fileId, { filename: 'x' }, {}, own.call))).toBe('404 not_found');
    expect(await problemOf(patch(two.fileId, { expiresAt: inMs(-1) }, {}, own.call))).toBe('400 invalid_request');
  });

  it('is changed by a key with read and write, and ended by one with delete as well', async () => {
    const { fileId } = await owner.call.store(mode, 'x');
    for (const scopes of [['read'], ['write'], ['read', 'delete', 'keys', 'share']] as Scope[][])
      expect(await problemOf(patch(fileId, { filename: 'y' }, {}, await keyWith(...scopes)))).toBe(
        '403 insufficient_scope',
      );
    const editor = await keyWith('read', 'write');
    expect((await patch(fileId, { filename: 'y' }, {}, editor)).status).toBe(200);
    for (const expiresAt of ['2199-01-01T00:00:00Z', null])
      expect(await problemOf(patch(fileId, { expiresAt }, {}, editor))).toBe('403 insufficient_scope');
  });

  it.each<[unknown, string]>([
    [{ filename: 'a/b' }, 'invalid_request'],
    [{ filename: 'é'.repeat(200) }, 'invalid_filename'],
    [{ contentType: 'é' }, 'invalid_request'],
    [{ contentType: null }, 'invalid_request'],
    [{ metadata: { 'a b': 'x' } }, 'invalid_request'],
    [{ metadata: { a: 1 } }, 'invalid_request'],
    [{ metadata: { a: 'x'.repeat(513) } }, 'invalid_request'],
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, ''])) }, 'invalid_request'],
    [{ tags: Array.from({ length: 17 }, String) }, 'invalid_request'],
    [{ tags: [''] }, 'invalid_request'],
    [{ size: 5 }, 'invalid_request'],
    [[], 'invalid_request'],
  ])('refuses the change %j', async (change, code) => {
    const { fileId } = await owner.call.store(mode, 'x');
    expect(await problemOf(patch(fileId, change))).toBe(`400 ${code}`);
    expect((await read(fileId)).changedAt).toBeUndefined();
  });
});

describe('a name that no other file may have', () => {
  const send = (filename: string, o: { mode?: string; match?: string; json?: boolean } = {}): Promise<Response> => {
    const { mode = 'plain', match = '*', json = false } = o;
    return owner.call(`/v1/storage/${mode}`, {
      method: 'POST',
      headers: {
        'If-None-Match': match,
        ...(json
          ? { 'Content-Type': 'application/json' }
          : { 'Content-Type': 'text/plain', 'Content-Disposition': `attachment; filename="${filename}"` }),
      },
      body: json ? JSON.stringify({ filename, data: 'AAAA' }) : filename,
    });
  };

  it('is free until a file has it, and again when that is deleted or renamed', async () => {
    const first = await jsonOf<StoredFile>(send('one'), 201);
    for (const json of [true, false]) expect(await problemOf(send('one', { json }))).toBe('412 precondition_failed');
    expect((await send('two', { json: true })).status).toBe(201);
    await jsonOf(patch(first.fileId, { filename: 'renamed' }));
    const second = await jsonOf<StoredFile>(send('one'), 201);
    await owner.call.ask('deleteFile', { fileId: second.fileId });
    expect((await send('one')).status).toBe(201);
    const { files } = await owner.call.listFiles({ mode: 'plain', name: 'one' });
    expect(files).toHaveLength(1);
  });

  it('tells no name to who may not read names: a key without read, and who has a signed URL', async () => {
    await jsonOf(send('divorce-papers.pdf'), 201);
    const made = owner.call.ask('createKey', { label: 'x', scopes: ['write', 'delete', 'share', 'keys'] });
    const { apiKey } = await jsonOf<{ apiKey: string }>(made, 201);
    const blind = client(service.url, apiKey);
    const path = await signedPath(owner.call.apiKey, { method: 'POST', mode: 'plain', jti: 'probe' });
    for (const name of ['divorce-papers.pdf', 'another.pdf']) {
      const headers = {
        'If-None-Match': '*',
        'Content-Disposition': `attachment; filename="${name}"`,
        'Content-Type': 'text/plain',
      };
      const ask = (call: Client, at: string): Promise<Response> => call(at, { method: 'POST', headers, body: 'x' });
      expect(await problemOf(ask(blind, '/v1/storage/plain'))).toBe('403 insufficient_scope');
      expect(await problemOf(ask(blind, path))).toBe('400 invalid_request');
    }
  });

  it('goes to one of those that ask for it at once', async () => {
    const statuses = await Promise.all(Array.from({ length: 6 }, async () => (await send('race')).status));
    expect(statuses.toSorted((a, b) => a - b)).toEqual([201, 412, 412, 412, 412, 412]);
    const { files } = await owner.call.listFiles({ mode: 'plain', name: 'race' });
    expect(files).toHaveLength(1);
  });

  it('cannot be asked for where names are sealed, without a name, or for some files only', async () => {
    expect(await problemOf(send('x', { mode: 'encrypted' }))).toBe('400 invalid_request');
    expect(await problemOf(send('x', { match: '"tag"' }))).toBe('400 invalid_request');
    const headers = { 'If-None-Match': '*', 'Content-Type': 'text/plain' };
    expect(await problemOf(owner.call.ask('storePlain', {}, { headers, body: 'x' }))).toBe('400 invalid_request');
    const nameless = { ...headers, 'Content-Type': 'application/json' };
    const body = JSON.stringify({ data: 'AAAA' });
    expect(await problemOf(owner.call.ask('storePlain', {}, { headers: nameless, body }))).toBe('400 invalid_request');
    const tus = { 'Tus-Resumable': '1.0.0', 'Upload-Length': '1', 'If-None-Match': '*' };
    expect(await problemOf(owner.call.ask('createUploadPlain', {}, { headers: tus }))).toBe('400 invalid_request');
  });
});

describe('what is known of a file', () => {
  it('is nowhere in the rows in encrypted mode, where its name cannot be removed', async () => {
    const own = await newOwner(service);
    const { fileId } = await own.call.store('encrypted', 'x', { filename: 'old-name' });
    await jsonOf(
      patch(fileId, { filename: 'canary-name', metadata: { k: 'canary-value' }, tags: ['canary-tag'] }, {}, own.call),
    );
    const tables = ['file', 'file_detail', 'file_tag'];
    const rows = await Promise.all(tables.map((table) => own.object.rows(table)));
    const bytes = rows.flat().flatMap((row) => Object.values(row));
    const text = bytes
      .map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString('latin1') : String(value)))
      .join('\n');
    expect(text).toContain(fileId);
    expect(text).not.toMatch(/canary|old-name/);
    expect(await problemOf(patch(fileId, { filename: null }, {}, own.call))).toBe('400 invalid_filename');
    const plain = await own.call.store('plain', 'x');
    expect((await jsonOf<StoredFile>(patch(plain.fileId, { filename: null }, {}, own.call))).filename).toBeNull();
  });

  it('is in the container that opens offline', async () => {
    const own = await newOwner(service);
    const { fileId } = await own.call.store('encrypted', 'the plaintext');
    await jsonOf(patch(fileId, { filename: 'renamed', tags: ['t'] }, {}, own.call));
    const { account, key } = await own.call.getAccount();
    const apiKey = present(await parseApiKey(own.call.apiKey));
    const spki = present(decodePem('PUBLIC KEY', account.publicKey));
    const sealed = Buffer.from(present(key.sealed), 'base64');
    const pkcs8 = await unsealPrivateKey(apiKey, { id: key.id, sealed, spki });
    const identities = [identityFromPkcs8(pkcs8)];
    const [row] = await own.object.rows('file');
    const opened = await openDetached(new Uint8Array(present(row)['header'] as ArrayBuffer), { fileId, identities });
    expect(opened.file).toEqual({ filename: 'renamed', contentType: 'image/png', size: 13, tags: ['t'] });
    const accept = { headers: { Accept: 'application/vnd.sealpin' } };
    const container = await bytesOf(own.call(`/v1/storage/${fileId}`, accept));
    expect(container.subarray(0, (present(row)['header'] as ArrayBuffer).byteLength)).toEqual(
      Buffer.from(present(row)['header'] as ArrayBuffer),
    );
  });
});
