/** The SDK against the service. */
import { Readable } from 'node:stream';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ListQuery } from '../../shared/api.ts';
import { client } from '../../testkit/api-client.ts';
import { equal } from '../../testkit/assertions.ts';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import {
  cidOf,
  connect,
  fetchBlob,
  seal,
  SealpinError,
  type Connection,
  type ListOptions,
  type Source,
} from '../index.ts';
import { pattern, thrownBy, watched } from './bytes.ts';
import { itemOf, present } from '../../testkit/present.ts';

const mib = 1024 * 1024;
const gone = new Error('the test has seen enough');

let service: Service;
let apiKey: string;
let connection: Connection;
beforeAll(async () => {
  service = await sharedService();
  ({ apiKey } = await service.account());
  connection = connect({ service: service.url, apiKey });
});

/** A stream of so many MiB. */
function streamOf(count: number): ReadableStream<Uint8Array> {
  return watched(Array.from({ length: count }, (_, index) => new Uint8Array(mib).fill(index))).stream;
}

describe('files', () => {
  const sources: Record<string, () => Source> = {
    text: () => 'hello',
    array: () => new TextEncoder().encode('hello'),
    blob: () => new Blob(['hello']),
    response: () => new Response('hello'),
    stream: () => new Blob(['hello']).stream(),
  };
  test.each(Object.entries(sources))('that are stored encrypted come back: %s', async (_, source) => {
    const file = await connection.put(source(), { name: "it's ☃ (1).txt", type: 'text/plain' });
    expect(file).toMatchObject({ mode: 'encrypted', filename: "it's ☃ (1).txt", contentType: 'text/plain', size: 5 });
    const served = await connection.get(file.fileId);
    expect(served).toMatchObject({ size: 5, type: 'text/plain' });
    equal(await served.bytes(), new TextEncoder().encode('hello'));
  });

  const wrong: Record<string, () => unknown> = {
    nothing: () => undefined,
    null: () => null,
    list: () => [1, 2, 3],
    promise: () => Promise.resolve('hello'),
    number: () => 5,
    'stream of Node': () => Readable.from(['hello']),
  };
  const readOnce: typeof wrong = { response: () => new Response('hello'), stream: () => new Blob(['hello']).stream() };
  test.each([
    ...Object.keys(wrong).flatMap((what) => [
      { what, how: 'put' as const },
      { what, how: 'upload' as const },
    ]),
    ...Object.keys(readOnce).map((what) => ({ what, how: 'upload' as const })),
  ])('that are no source are refused before anything is stored: $how of $what', async ({ what, how }) => {
    const before = (await connection.list()).files.length;
    const source = ({ ...wrong, ...readOnce }[what]?.() ?? null) as Source;
    const stored = how === 'put' ? connection.put(source, { mode: 'plain' }) : connection.upload(source as Blob);
    await expect(stored).rejects.toThrow(TypeError);
    expect((await connection.list()).files).toHaveLength(before);
  });

  test('keep the name and the type of a File', async () => {
    const file = await connection.put(new File(['x'], 'a.csv', { type: 'text/csv' }));
    expect(file).toMatchObject({ filename: 'a.csv', contentType: 'text/csv' });
  });

  test.each([0, 1, mib, 3 * mib + 1])(
    'that are stored as they are have the blob ID of cidOf: %i bytes',
    async (size) => {
      const bytes = pattern(size);
      const file = await connection.put(bytes, { mode: 'plain' });
      expect(file).toMatchObject({ mode: 'plain', size, cid: await cidOf(bytes) });
      const blob = await fetchBlob(file.cid, { from: service.url });
      expect(blob.size).toBe(size);
      equal(await blob.bytes(), bytes);
    },
  );

  test('may be streams that are longer than what is buffered', async () => {
    const file = await connection.put(streamOf(34), { mode: 'plain' });
    expect(file).toMatchObject({ size: 34 * mib, cid: await cidOf(streamOf(34)) });
  });

  test('are listed a page at a time, and deleted with a receipt', async () => {
    const other = connect({ service: service.url, ...(await service.account()) });
    for (const name of ['a', 'b', 'c']) await other.put(name, { name });
    const first = await other.list({ limit: 2 });
    expect(first.files.map(({ filename }) => filename)).toEqual(['c', 'b']);
    const second = await other.list({ limit: 2, cursor: present(first.cursor) });
    expect(second.files.map(({ filename }) => filename)).toEqual(['a']);
    const { fileId } = itemOf(second.files, 0);
    expect(await other.delete(fileId)).toMatchObject({ fileId, key: 'destroyed' });
    await expect(other.get(fileId)).rejects.toMatchObject({ code: 'not_found' });
    expect((await other.list({ cid: itemOf(first.files, 0).cid })).files).toHaveLength(1);
  });

  test('are listed by what they are, and expire', async () => {
    const other = connect({ service: service.url, ...(await service.account()) });
    const expiresAt = new Date(Date.now() + 3_600_000);
    const plain = await other.put('plain', { name: 'report.txt', mode: 'plain', expiresAt });
    const sealed = await other.put('sealed', { name: 'report.txt' });
    expect(plain.expiresAt).toEqual(expiresAt.toISOString());
    expect(sealed.expiresAt).toBe(undefined);
    expect((await other.list({ order: 'asc' })).files).toEqual([plain, sealed]);
    expect((await other.list({ mode: 'plain', name: 'rep', maxSize: 5 })).files).toEqual([plain]);
  });

  test('are listed by every filter of the API', async () => {
    const own = await service.account();
    const other = connect({ service: service.url, apiKey: own.apiKey });
    await other.put('another', { name: 'a', mode: 'plain' });
    const { fileId } = await other.put('an invoice', { name: 'rent.txt', type: 'text/plain', mode: 'plain' });
    const file = await client(service.url, own.apiKey).changeFile({ fileId, tags: ['invoice'] });
    const filters: Required<Omit<ListOptions, 'signal' | 'cursor'>> = {
      limit: 1,
      order: 'desc',
      cid: file.cid,
      mode: 'plain',
      createdAfter: '2020-01-31T00:00:00Z',
      createdBefore: '2100-01-31T00:00:00Z',
      minSize: 10,
      maxSize: 10,
      createdBy: present(file.createdBy),
      name: 'rent',
      contentType: 'text/plain',
      tag: 'invoice',
    };
    expect([...Object.keys(filters), 'cursor'].sort()).toEqual(Object.keys(ListQuery.entries).sort());
    for (const [name, value] of Object.entries(filters))
      expect((await other.list({ mode: 'plain', [name]: value })).files, name).toContainEqual(file);
    expect((await other.list({ tag: 'invoice' })).files).toEqual([file]);
  });

  test('are sent in parts', async () => {
    const bytes = new Blob(Array.from({ length: 18 }, (_, index) => new Uint8Array(mib).fill(index)));
    const progress: number[] = [];
    const file = await connection.upload(bytes, { onProgress: (offset) => progress.push(offset) });
    expect(file.cid).toBe(await cidOf(bytes));
    expect(progress).toEqual([0, 16 * mib, 18 * mib]);
    const end = await connection.get(file.fileId, { start: 18 * mib - 3 });
    equal(await end.bytes(), new Uint8Array([17, 17, 17]));
  });

  test('of a seal can be sent as they are', async () => {
    const sealed = await seal(pattern(100_000), { to: { keys: (await service.account()).account.publicKey } });
    const file = await connection.put(sealed.stream, { mode: 'plain' });
    expect(file.cid).toBe(await sealed.cid);
  });
});

describe('ranges', () => {
  const bytes = pattern(2 * mib + 10);
  test.each([
    { start: 0, end: 10 },
    { start: mib - 5, end: mib + 5 },
    { start: 2 * mib },
    { end: 1 },
    { start: 2 * mib + 9, end: 2 * mib + 10 },
  ])('give what slice gives: %j', async (range) => {
    for (const mode of ['plain', 'encrypted'] as const) {
      const { fileId, cid } = await connection.put(bytes, { mode, name: 'a' });
      const part = await connection.get(fileId, range);
      const expected = bytes.slice(range.start, range.end);
      expect(part.size).toBe(expected.length);
      equal(await part.bytes(), expected);
      if (mode === 'plain') equal(await (await fetchBlob(cid, { from: service.url, ...range })).bytes(), expected);
    }
  });

  test.each([{ start: 5, end: 4 }, { start: -1 }, { end: 1.5 }, { end: 11 }, { start: 11 }])(
    'outside of the file are refused: %j',
    async (range) => {
      const { fileId, cid } = await connection.put(pattern(10), { mode: 'plain' });
      const code = 'range_not_satisfiable';
      await expect(connection.get(fileId, range)).rejects.toMatchObject({ code });
      await expect(fetchBlob(cid, { from: service.url, ...range })).rejects.toMatchObject({ code });
    },
  );
});

test('an ID that is empty or a path asks for nothing else', async () => {
  const asked: (string | undefined)[] = [];
  const server = await startLoopbackServer(({ url }, response) => {
    asked.push(url);
    response.writeHead(404).end();
  });
  onTestFinished(() => server.close());
  const there = connect({ service: server.url, apiKey });
  for (const id of ['', '.', '..', '../keys/9f2c0d6be1a74583', '../../metrics', 'a/b', 'a?b=c', '%2e%2e']) {
    for (const use of [
      () => there.get(id),
      () => there.delete(id),
      () => there.unshare(id),
      () => there.inbox.close(id),
      () => there.inbox.open(id, { keys: [] }),
    ])
      expect(await thrownBy(use)).toBeInstanceOf(SealpinError);
  }
  const isBelow = /^\/v1\/(?:storage|shares|keys)\/[^/?]+(?:\/content)?(?:\?|$)|^\/v1\/account$/;
  expect(asked.filter((url) => !isBelow.test(url ?? ''))).toEqual([]);
});

describe('what the service refuses', () => {
  test('has its code, its words and its hint', async () => {
    const stranger = connect({
      service: service.url,
      apiKey: `${apiKey.slice(0, -1)}${apiKey.endsWith('0') ? '1' : '0'}`,
    });
    const error = await thrownBy(() => stranger.list());
    expect(error).toBeInstanceOf(SealpinError);
    expect(error).toMatchObject({ code: 'unauthorized', hint: 'check the API key' });
    const empty = await thrownBy(() => connect({ service: service.url, apiKey: '' }).list());
    expect(empty).toMatchObject({ code: 'unauthorized', hint: expect.stringContaining('an API key is sp_') });
    await expect(connection.get(crypto.randomUUID())).rejects.toMatchObject({ code: 'not_found' });
    await expect(connection.list({ limit: 1000 })).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(connection.put('x')).rejects.toMatchObject({ code: 'invalid_filename' });
    await expect(connection.put('x', { name: 'a/b' })).rejects.toMatchObject({ code: 'invalid_filename' });
    await expect(fetchBlob(await cidOf('never stored'), { from: service.url })).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(fetchBlob('nonsense', { from: service.url })).rejects.toMatchObject({ code: 'invalid_cid' });
  });

  test('is JSON as a type, which the service would take apart', async () => {
    for (const source of [new File(['{}'], 'a.json', { type: 'application/json' }), '{}'])
      await expect(
        connection.put(source, { name: 'a.json', type: 'application/json; charset=utf-8' }),
      ).rejects.toMatchObject({
        code: 'unsupported_media_type',
      });
  });

  test('is a second upload under the key of another one', async () => {
    const o = { name: 'a', idempotencyKey: crypto.randomUUID() };
    const first = await connection.put('hello', o);
    expect(await connection.put('hello', o)).toEqual(first);
    await expect(connection.put('hello', { ...o, name: 'b' })).rejects.toMatchObject({ code: 'idempotency_mismatch' });
  });
});

describe('ended early', () => {
  test('every function throws the reason of its signal', async () => {
    const { fileId, cid } = await connection.put(pattern(mib), { mode: 'plain' });
    const signal = AbortSignal.abort(gone);
    const calls = [
      () => connection.put('x', { name: 'x', signal }),
      () => connection.get(fileId, { signal }),
      () => connection.list({ signal }),
      () => connection.delete(fileId, { signal }),
      () => connection.upload('x', { signal }),
      () => fetchBlob(cid, { from: service.url, signal }),
    ];
    for (const call of calls) expect(await thrownBy(call), call.toString()).toBe(gone);
    expect((await connection.get(fileId)).size).toBe(mib);
  });

  test('a stream whose request is answered before it was read is compared to its last byte', async () => {
    const chunks = Array.from({ length: 40 }, () => pattern(mib));
    const file = await connection.put(watched(chunks).stream, { mode: 'plain' });
    // A service that knows the idempotency key reads no body.
    const { url, close } = await startLoopbackServer((_, response) => {
      response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify(file));
    });
    onTestFinished(close);
    const early = connect({ service: url, apiKey });
    expect(await early.put(watched(chunks).stream, { mode: 'plain' })).toMatchObject({ cid: file.cid });
    const other = watched([...chunks, pattern(1)]);
    expect(await thrownBy(() => early.put(other.stream, { mode: 'plain' }))).toMatchObject({ code: 'cid_mismatch' });
  });

  test('an upload whose source fails throws the error of the source, and one that is aborted cancels it', async () => {
    const broken = () => {
      let left = 40;
      return new ReadableStream<Uint8Array>({
        pull: (controller) => (left-- > 0 ? controller.enqueue(new Uint8Array(mib)) : controller.error(gone)),
      });
    };
    expect(await thrownBy(() => connection.put(broken(), { mode: 'plain' }))).toBe(gone);
    const stop = new AbortController();
    const source = watched([pattern(100)], { stalls: true });
    const sending = thrownBy(() => connection.put(source.stream, { name: 'a', signal: stop.signal }));
    stop.abort(gone);
    expect(await sending).toBe(gone);
    expect(source.cancelled).toHaveLength(1);
  });
});

describe('events', () => {
  test('come in order over several pages, and after one that is known', async () => {
    const { apiKey: own } = await service.account();
    const mine = connect({ service: service.url, apiKey: own });
    const stored: string[] = [];
    for (let each = 0; each < 3; each += 1) stored.push((await mine.put(`${each}`, { mode: 'plain' })).fileId);
    const all = await Array.fromAsync(mine.events());
    expect(all.map(({ fileId }) => fileId)).toEqual([undefined, ...stored]);
    const rest = await Array.fromAsync(mine.events({ after: itemOf(all, 1).id }));
    expect(rest.map(({ fileId }) => fileId)).toEqual(stored.slice(1));
    expect(await thrownBy(() => mine.events({ after: 'zzz' }).next())).toMatchObject({ code: 'invalid_request' });
  });

  const event = { id: '1', time: '2030-01-01T00:00:00.000Z', action: 'file.stored' };
  test.each<[what: string, page: (count: number) => object]>([
    ['repeats a page', () => ({ events: [], cursor: '1' })],
    ['repeats several pages', (count) => ({ events: [event], cursor: `${1 + (count % 3)}` })],
    ['says that there is more, and not where', () => ({ events: [event] })],
    ['has no end of empty pages', (count) => ({ events: [], cursor: `${1 + count}` })],
  ])('of a service that %s are an error', async (_, page) => {
    let count = 0;
    const answer = () => Promise.resolve(Response.json({ ...page((count += 1)), more: true }));
    const endless = connect({ service: service.url, apiKey, fetch: answer });
    expect(await thrownBy(() => Array.fromAsync(endless.events()))).toMatchObject({ code: 'service_answer' });
  });
});

test('in a page, a service that cannot be reached may be one that admits no page of this origin', async () => {
  const failing = (cause: Error) =>
    connect({ service: 'https://sealpin.example', fetch: () => Promise.reject(cause) }).list();
  const before = Object.getOwnPropertyDescriptor(globalThis, 'location');
  const hintAt = async (origin: string, cause: Error): Promise<string | undefined> => {
    Object.defineProperty(globalThis, 'location', { value: { origin }, configurable: true });
    const error = await failing(cause).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'service_unreachable', message: 'sealpin.example cannot be reached' });
    return (error as SealpinError).hint;
  };
  try {
    expect(await hintAt('https://page.example', new TypeError('Failed to fetch'))).toBe(
      'check the address; or the service does not admit pages of https://page.example, ' +
        'which CORS_ORIGINS names (of a local one, --cors-origin)',
    );
    expect(await hintAt('https://sealpin.example', new TypeError('Failed to fetch'))).toBeUndefined();
    expect(await hintAt('https://page.example', new Error('other'))).toBeUndefined();
  } finally {
    if (before === undefined) Reflect.deleteProperty(globalThis, 'location');
    else Object.defineProperty(globalThis, 'location', before);
  }
  await expect(failing(new TypeError('Failed to fetch'))).rejects.toMatchObject({ hint: undefined });
});
