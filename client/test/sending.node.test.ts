/** Sending files by link, against the service. */
import { beforeAll, describe, expect, test } from 'vitest';
import type { NewAccountResponse, Scope } from '../../shared/api.ts';
import { client } from '../../testkit/api-client.ts';
import { equal } from '../../testkit/assertions.ts';
import { faultyProxy, type ProxyFault } from '../../testkit/faulty-proxy.ts';
import { ci, inCi } from '../../testkit/long-run.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import type { Fetch } from '../service-http.ts';
import { connect, generateKeys, receive, type Connection, type Outgoing } from '../index.ts';
import { pattern, thrownBy, watched } from './bytes.ts';
import { first, itemOf } from '../../testkit/present.ts';

const mib = 1024 * 1024;

let service: Service;
let account: NewAccountResponse;
let connection: Connection;
beforeAll(async () => {
  service = await sharedService();
  account = await service.account();
  connection = connect({ service: service.url, apiKey: account.apiKey });
});

/** The files of a fresh account's connection. */
async function another(through = service.url): Promise<Connection> {
  return connect({ service: through, apiKey: (await service.account()).apiKey });
}

/** A key of the account. */
async function keyWith(
  scopes: readonly Scope[],
  limits: { fileBytes?: number; files?: number } = {},
): Promise<Connection> {
  const { apiKey } = await client(service.url, account.apiKey).withKey(scopes, { limits });
  return connect({ service: service.url, apiKey });
}

describe('files that are sent', () => {
  test.each(ci ? [429, 503] : [429])(
    'are all stored once where a small one is refused with %i for a while',
    async (status) => {
      const seen: { path: string; method: string; key: unknown }[] = [];
      const { url } = await faultyProxy(
        () => service.url,
        ({ method, path, headers }) => {
          seen.push({ method, path, key: headers['idempotency-key'] });
          const stored = seen.filter((each) => each.path.startsWith('/v1/storage/plain'));
          return path.startsWith('/v1/storage/plain') && stored.length === 2
            ? { kind: 'answer', status, headers: { 'retry-after': '1' } }
            : undefined;
        },
      );
      const sender = await another(url);
      const sent = await sender.send([
        { source: 'one', name: 'one' },
        { source: watched([pattern(70_000)]).stream, name: 'two' },
      ]);
      expect(sent.files.map(({ size }) => size)).toEqual([3, 70_000]);
      const keys = seen.filter(({ path }) => path.startsWith('/v1/storage/plain')).map(({ key }) => key);
      expect(keys).toEqual([keys[0], keys[1], keys[1]]);
      expect(new Set(keys).size).toBe(2);
      expect(seen.some(({ path, method }) => method === 'DELETE' || path === '/v1/storage/delete')).toBe(false);
    },
  );

  test('come back by the link, with their names, types and the words of the sender', async () => {
    const files: Outgoing[] = [
      new File([pattern(100_000)], 'plans ☃.tif', { type: 'image/tiff' }),
      { source: 'hello', name: 'hello.txt', type: 'text/plain' },
      { source: watched([pattern(5), pattern(70_000)]).stream, name: 'stream.bin' },
      { source: '', name: 'empty' },
    ];
    const sent = await connection.send(files, { note: 'Here are the plans.', from: 'Anna', opens: 2 });
    expect(sent.share).toMatchObject({ state: 'active', opens: 2, opensLeft: 2, password: false });
    expect(sent.files.map(({ name, size }) => [name, size])).toEqual([
      ['plans ☃.tif', 100_000],
      ['hello.txt', 5],
      ['stream.bin', 70_005],
      ['empty', 0],
    ]);
    const received = await receive(sent.link);
    expect(received).toMatchObject({ note: 'Here are the plans.', from: 'Anna' });
    expect(received.files.map(({ name, type }) => [name, type])).toEqual([
      ['plans ☃.tif', 'image/tiff'],
      ['hello.txt', 'text/plain'],
      ['stream.bin', 'application/octet-stream'],
      ['empty', 'application/octet-stream'],
    ]);
    equal(await (await first(received.files).open()).bytes(), pattern(100_000));
    expect(await (await itemOf(received.files, 1).open()).text()).toBe('hello');
    equal(await (await itemOf(received.files, 2).open({ start: 5 })).bytes(), pattern(70_000));
    expect(await (await itemOf(received.files, 3).open()).text()).toBe('');
  });

  test('of more than a part are sent in parts, from a stream that is read once', async () => {
    const bytes = new Blob(Array.from({ length: 17 }, (_, index) => new Uint8Array(mib).fill(index)));
    const progress: [number, number | undefined][] = [];
    let cut = 0;
    const { url, passed } = await faultyProxy(
      () => service.url,
      ({ method }) => (method === 'PATCH' && (cut += 1) === 1 ? { kind: 'break', afterBytes: 5 * mib } : undefined),
    );
    const { link, files } = await (
      await another(url)
    ).send(new File([bytes], 'film.mkv'), {
      onProgress: (bytes, total) => progress.push([bytes, total]),
    });
    expect(passed.filter(({ method }) => method === 'PATCH').length).toBeGreaterThan(1);
    expect(progress.at(-1)).toEqual([progress.at(-1)?.[1], progress.at(-1)?.[1]]);
    expect(files).toMatchObject([{ name: 'film.mkv', size: 17 * mib }]);
    const received = await receive(link.replace(url, service.url));
    const opened = await first(received.files).open({ start: 16 * mib - 2, end: 16 * mib + 2 });
    equal(await opened.bytes(), new Uint8Array([15, 15, 16, 16]));
    equal(await (await first(received.files).open()).bytes(), new Uint8Array(await bytes.arrayBuffer()));
  });

  test('are not lost for their last request: it is sent again until it is answered, and makes one link', async () => {
    const { apiKey } = await service.account();
    const direct = connect({ service: service.url, apiKey });
    // The account has a newer share by then: the wrong one.
    const sendNewer = (): ProxyFault => ({ kind: 'late', until: direct.send({ source: 'other', name: 'other' }) });
    const faults: (() => ProxyFault)[] = [
      () => ({ kind: 'answer', status: 502 }),
      () => ({ kind: 'swallow' }),
      sendNewer,
    ];
    const { url } = await faultyProxy(
      () => service.url,
      ({ method, path }) => (method === 'POST' && path === '/v1/shares' ? faults.shift()?.() : undefined),
    );
    const { link, share } = await connect({ service: url, apiKey }).send(new File(['bytes'], 'letter.txt'));
    expect(faults).toEqual([]);
    expect((await direct.shares()).shares.map(({ id }) => id)).toEqual([expect.any(String), share.id]);
    const received = await receive(link.replace(url, service.url));
    expect(await (await first(received.files).open()).text()).toBe('bytes');
  });

  test('leave nothing with the service that tells their names, words, key or plaintext', async () => {
    const bodies: string[] = [];
    const watching = connect({
      service: service.url,
      apiKey: account.apiKey,
      fetch: async (url, init) => {
        const body = init.body === undefined || init.body === null ? '' : await new Response(init.body).bytes();
        bodies.push(`${url.href} ${JSON.stringify(init.headers)} ${Buffer.from(body).toString('latin1')}`);
        return fetch(url, init);
      },
    });
    const { link } = await watching.send(
      { source: 'the-plaintext', name: 'the-name.txt', type: 'a/the-type' },
      {
        note: 'the-note',
        from: 'the-sender',
      },
    );
    expect(bodies.length).toBe(3);
    const secret = link.slice(link.indexOf('#') + 1 + 1 + 22, -6);
    for (const text of ['the-', secret]) expect(bodies.join()).not.toContain(text);
  });

  test('expire, are used up and are taken back', async () => {
    const mine = await another();
    const soon = new Date(Date.now() + 3_600_000);
    const { link, share } = await mine.send({ source: 'x', name: 'x' }, { expiresAt: soon, opens: 1, label: 'plans' });
    expect(share).toMatchObject({ expiresAt: soon.toISOString(), label: 'plans' });
    await receive(link);
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone', message: expect.stringContaining('as often') });
    const other = await mine.send({ source: 'x', name: 'x' });
    expect((await mine.shares({ limit: 5 })).shares.map(({ id, state }) => [id, state])).toEqual([
      [other.share.id, 'active'],
      [share.id, 'used_up'],
    ]);
    expect(await mine.unshare(other.share.id)).toMatchObject({ record: 'destroyed', opened: 0 });
    await expect(receive(other.link)).rejects.toMatchObject({ code: 'gone', message: expect.stringContaining('back') });
    await expect(mine.unshare(other.share.id)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('end with the deletion of a file', async () => {
    const { link, files, share } = await connection.send([
      { source: 'x', name: 'x' },
      { source: 'y', name: 'y' },
    ]);
    expect(await connection.delete(itemOf(files, 1).fileId)).toMatchObject({
      key: 'elsewhere',
      shares: [{ id: share.id }],
    });
    await expect(receive(link)).rejects.toMatchObject({ code: 'gone' });
  });

  test('to keys need one of their private keys besides the link', async () => {
    const [ann, ben, eve] = await Promise.all([generateKeys(), generateKeys({ postQuantum: false }), generateKeys()]);
    const { link } = await connection.send({ source: 'hello', name: 'x' }, { to: [ann.recipient, ben.publicKey] });
    await expect(receive(link)).rejects.toMatchObject({ code: 'wrong_kind', reason: 'needs_key' });
    await expect(receive(link, { keys: eve.privateKey })).rejects.toMatchObject({ code: 'decrypt_failed' });
    for (const { privateKey } of [ann, ben]) {
      const { files } = await receive(link, { keys: [eve.privateKey, privateKey] });
      expect(await (await first(files).open()).text()).toBe('hello');
    }
  });

  inCi('with a password need it besides the link', async () => {
    const { link, share } = await connection.send({ source: 'hello', name: 'x' }, { password: 'correct horse' });
    expect(share.password).toBe(true);
    await expect(receive(link)).rejects.toMatchObject({ code: 'wrong_kind', reason: 'needs_password' });
    const { files } = await receive(link, { password: 'correct horse' });
    expect(await (await first(files).open()).text()).toBe('hello');
  });
});

describe('what cannot be sent', () => {
  test.each<[string, Parameters<Connection['send']>[0], Parameters<Connection['send']>[1], string]>([
    ['no file', [], {}, 'invalid_request'],
    ['a hostile name', { source: 'x', name: '../x' }, {}, 'invalid_filename'],
    ['a long note', { source: 'x', name: 'x' }, { note: 'x'.repeat(5000) }, 'parcel_invalid'],
    ['an empty password', { source: 'x', name: 'x' }, { password: '' }, 'password_invalid'],
    ['no key', { source: 'x', name: 'x' }, { to: [] }, 'no_recipients'],
    ['a key that is none', { source: 'x', name: 'x' }, { to: 'age1x' }, 'key_invalid'],
    ['a password and keys', { source: 'x', name: 'x' }, { to: 'age1x', password: 'x' }, 'invalid_request'],
    [
      'too many files',
      Array.from({ length: 400 }, (_, index) => ({ source: 'x', name: `${index}` })),
      {},
      'parcel_invalid',
    ],
  ])('is refused before any request: %s', async (_, files, options, code) => {
    let requests = 0;
    const watching = connect({
      service: service.url,
      apiKey: account.apiKey,
      fetch: (url, init) => {
        requests += 1;
        return fetch(url, init);
      },
    });
    await expect(watching.send(files, options)).rejects.toMatchObject({ code });
    expect(requests).toBe(0);
  });

  test('leaves nothing stored: more opens than the service allows, a source that fails, a signal', async () => {
    const mine = await another();
    const failure = new Error('the disk is gone');
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(failure);
      },
    });
    await expect(mine.send({ source: 'x', name: 'x' }, { opens: 1_000_000 })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    const later = watched([pattern(5)]);
    expect(
      await thrownBy(() =>
        mine.send([
          { source: 'x', name: 'x' },
          { source: broken, name: 'y' },
          { source: later.stream, name: 'z' },
        ]),
      ),
    ).toBe(failure);
    expect(later.cancelled).toEqual([failure]);
    const stop = new AbortController();
    const stopping = watched([pattern(5)], { stalls: true });
    const sending = mine.send(
      [
        { source: 'x', name: 'x' },
        { source: stopping.stream, name: 'y' },
      ],
      {
        signal: stop.signal,
        onProgress: () => stop.abort(failure),
      },
    );
    expect(await thrownBy(() => sending)).toBe(failure);
    expect(stopping.cancelled).toEqual([failure]);
    expect((await mine.list()).files).toEqual([]);
    expect((await mine.shares()).shares).toEqual([]);
  });

  test('is removed in one request, before one deadline, whatever came of it', async () => {
    const reason = new Error('cancelled');
    const stop = new AbortController();
    const undone: [path: string, signal: unknown][] = [];
    const stalled: Fetch = async (url, init) => {
      if (!stop.signal.aborted) return fetch(url, init);
      undone.push([url.pathname.replace(/[0-9a-f-]{36}$/, 'id'), init.signal]);
      throw new TypeError('the line has stalled');
    };
    const mine = connect({ service: service.url, apiKey: account.apiKey, fetch: stalled });
    const size = 17 * 2 ** 20;
    const files = [
      ...['a', 'b', 'c'].map((name) => ({ source: name, name })),
      { source: pattern(size), name: 'd', size },
    ];
    const onProgress = (bytes: number) => bytes > 2 ** 20 && stop.abort(reason);
    expect(await thrownBy(() => mine.send(files, { signal: stop.signal, onProgress }))).toBe(reason);
    expect(undone.map(([path]) => path)).toEqual(['/v1/uploads/id', '/v1/storage/delete']);
    expect(new Set(undone.map(([, signal]) => signal)).size).toBe(1);
  });

  test('is what the key may not: share, store so much', async () => {
    await expect((await keyWith(['write', 'read'])).send({ source: 'x', name: 'x' })).rejects.toMatchObject({
      code: 'insufficient_scope',
    });
    const limited = await keyWith(['write', 'share'], { fileBytes: 1000 });
    await expect(limited.send({ source: pattern(2000), name: 'x' })).rejects.toMatchObject({ code: 'quota_exceeded' });
    const large = new Blob(Array.from({ length: 17 }, () => new Uint8Array(mib)));
    await expect(limited.send(new File([large], 'x'))).rejects.toMatchObject({ code: 'quota_exceeded' });
  });
});
