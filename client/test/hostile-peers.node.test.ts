/**
 * Services and gateways that redirect, lie, stop in the middle, or are not there; and what becomes
 * of the API key.
 */
import type { IncomingMessage, RequestListener } from 'node:http';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { equal } from '../../testkit/assertions.ts';
import { sharedService, type Service } from '../../testkit/service.ts';
import { cidOf, connect, fetchBlob, generateKeys, SealpinError, type Connection } from '../index.ts';
import { pattern, thrownBy } from './bytes.ts';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { flip } from '../../testkit/present.ts';

const mib = 1024 * 1024;

let service: Service;
let apiKey: string;
let inboxRecipient: string;
beforeAll(async () => {
  service = await sharedService();
  inboxRecipient = (await generateKeys()).recipient;
  ({ apiKey } = await service.account());
});

/** A peer that answers as it is told, until the test is over. */
async function peer(answer: RequestListener): Promise<{ url: string; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = [];
  const server = await startLoopbackServer((request, response) => {
    requests.push(request);
    request.resume();
    answer(request, response);
  });
  onTestFinished(() => server.close());
  return { url: server.url, requests };
}

/** Every function of a connection that sends the API key. */
function calls(connection: Connection): (() => Promise<unknown>)[] {
  const fileId = crypto.randomUUID();
  return [
    () => connection.put('x', { name: 'x' }),
    () => connection.put('x', { mode: 'plain' }),
    () => connection.get(fileId),
    () => connection.list(),
    () => connection.delete(fileId),
    () => connection.upload('x'),
    () => connection.send({ source: 'x', name: 'x' }),
    () => connection.share({ fileId }),
    () => connection.shares(),
    () => connection.unshare('0'.repeat(22)),
    () => connection.inbox.create({ label: 'x', recipient: inboxRecipient }),
    () => connection.inbox.list(),
    () => connection.inbox.open(fileId),
    () => connection.inbox.close('0'.repeat(16)),
  ];
}

describe('the API key', () => {
  test.each([301, 302, 303, 307, 308])('follows no redirect (%i)', async (status) => {
    const elsewhere = await peer((_, response) => response.end('{}'));
    const { url } = await peer((request, response) =>
      response.writeHead(status, { Location: `${elsewhere.url}${request.url ?? ''}` }).end(),
    );
    for (const call of calls(connect({ service: url, apiKey })))
      expect(await thrownBy(call)).toMatchObject({ code: 'service_answer', reason: 'redirected' });
    await expect(
      fetchBlob('bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku', { from: url }),
    ).rejects.toThrow();
    expect(elsewhere.requests).toEqual([]);
  });

  test('is in one header of a request, in no URL, and in no error', async () => {
    const urls: string[] = [];
    const headers: string[] = [];
    const errors: unknown[] = [];
    const watching = connect({
      service: service.url,
      apiKey,
      fetch: (url, init) => {
        urls.push(url.href);
        headers.push(
          ...Object.entries(init.headers as Record<string, string>).flatMap(([name, value]) =>
            value.includes(apiKey) ? [name] : [],
          ),
        );
        return fetch(url, init);
      },
    });
    for (const call of calls(watching)) errors.push(await thrownBy(call));
    const away = connect({ service: 'http://127.0.0.1:9', apiKey });
    for (const call of calls(away).slice(0, 5)) errors.push(await thrownBy(call));
    for (const text of [`${apiKey}\n`, `${apiKey}x`, apiKey.slice(1)])
      errors.push(await thrownBy(() => connect({ service: service.url, apiKey: text })));
    expect(new Set(headers)).toEqual(new Set(['Authorization']));
    expect(urls.join()).not.toContain(apiKey);
    const texts = errors.flatMap((error) => (error instanceof Error ? [describeFully(error)] : []));
    expect(texts.length).toBeGreaterThan(8);
    expect(texts.join()).not.toContain(apiKey.slice(10, 60));
  });

  test('is not sent unencrypted to another machine, nor to what is no service', () => {
    const code = 'invalid_request';
    for (const url of ['http://sealpin.example', 'http://10.0.0.1:7420', 'http://localhost.example'])
      expect(() => connect({ service: url, apiKey })).toThrow(expect.objectContaining({ code }));
    for (const url of [
      'nonsense',
      'ftp://sealpin.example',
      'https://a:b@sealpin.example',
      'https://sealpin.example/?x',
    ])
      expect(() => connect({ service: url })).toThrow(expect.objectContaining({ code }));
    for (const url of ['https://sealpin.example/below', 'http://localhost:7420', 'http://127.0.0.2', 'http://[::1]:1'])
      connect({ service: url, apiKey });
  });
});

function describeFully(error: Error): string {
  const { message, stack, cause } = error;
  const hint = error instanceof SealpinError ? error.hint : '';
  return `${message} ${hint} ${stack} ${cause instanceof Error ? describeFully(cause) : String(cause)}`;
}

describe('what is not a service', () => {
  test.each([
    ['an HTML page', 200, '<html>', 'service_answer'],
    ['JSON of another shape', 200, '{"files": 5}', 'service_answer'],
    ['a refusal without a reason', 500, 'oops', 'service_answer'],
    [
      'a code that is not known',
      400,
      JSON.stringify({ type: 'x', title: 'T', status: 400, code: 'new' }),
      'service_answer',
    ],
    ['a refusal of another kind', 404, '{}', 'service_answer'],
  ])('is recognized: %s', async (_, status, body, code) => {
    const { url } = await peer((_request, response) => response.writeHead(status).end(body));
    await expect(connect({ service: url, apiKey }).list()).rejects.toMatchObject({ code });
  });

  test('that is not there is unreachable, and says how long to wait when it says so', async () => {
    await expect(connect({ service: 'http://127.0.0.1:9' }).list()).rejects.toMatchObject({
      code: 'service_unreachable',
    });
    const problem = JSON.stringify({ type: 'x', title: 'T', status: 429, code: 'rate_limited', hint: 'wait' });
    const { url } = await peer((_, response) => response.writeHead(429, { 'Retry-After': '7' }).end(problem));
    await expect(connect({ service: url }).list()).rejects.toMatchObject({
      code: 'rate_limited',
      retryAfterSeconds: 7,
      hint: 'wait',
    });
  });

  test('that stores something else is found out', async () => {
    const file = await connect({ service: service.url, apiKey }).put('other', { mode: 'plain' });
    const { url } = await peer((_, response) => response.writeHead(201).end(JSON.stringify(file)));
    const liar = connect({ service: url, apiKey });
    await expect(liar.put('mine', { mode: 'plain' })).rejects.toMatchObject({ code: 'cid_mismatch' });
    await expect(liar.put(new Blob(['mine']).stream(), { mode: 'plain' })).rejects.toMatchObject({
      code: 'cid_mismatch',
    });
  });
});

describe('a body that is not whole', () => {
  test('fails, and is never taken for a file', async () => {
    const { url } = await peer((_, response) => {
      response.writeHead(200, { 'Content-Length': '100' });
      response.write('half', () => response.destroy());
    });
    const served = await connect({ service: url, apiKey }).get(crypto.randomUUID());
    await expect(served.bytes()).rejects.toMatchObject({ code: 'service_unreachable', reason: 'broken_off' });
  });

  test('is refused when it is not the part that was asked for', async () => {
    const { url } = await peer((_, response) => response.writeHead(200, { 'Content-Length': '9' }).end('all of it'));
    await expect(connect({ service: url, apiKey }).get(crypto.randomUUID(), { end: 2 })).rejects.toMatchObject({
      code: 'service_answer',
    });
  });
});

describe('gateways', () => {
  test('that send wrong blocks are found out, and another one continues', async () => {
    const bytes = pattern(3 * mib);
    const { cid } = await connect({ service: service.url, apiKey }).put(bytes, { mode: 'plain' });
    const liar = await peer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
      void fetch(`${service.url}${pathname}?${searchParams}`, {
        headers: { accept: request.headers.accept ?? '' },
      }).then(async (answer) => {
        const wrong = new Uint8Array(await answer.arrayBuffer());
        flip(wrong, wrong.length - 5);
        response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' }).end(wrong);
      });
    });
    const read = async (from: string[]) => (await fetchBlob(cid, { from })).bytes();
    await expect(read([liar.url])).rejects.toMatchObject({ code: 'content_mismatch' });
    equal(await read([liar.url, service.url]), bytes);
    equal(await read(['http://127.0.0.1:9', service.url]), bytes);
    await expect(fetchBlob(cid, { from: [] })).rejects.toBeInstanceOf(TypeError);
  });

  test.each([
    ['pinning_lost', 502],
    ['content_denied', 410],
    ['pinning_unavailable', 503],
  ] as const)('are believed when they say why they have no blob: %s', async (code, status) => {
    const problem = JSON.stringify({ type: 'about:blank', title: 'x', status, code, detail: 'said by the service' });
    const { url } = await peer((_, response) =>
      response.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(problem),
    );
    const cid = await cidOf('anything');
    const failure = await thrownBy(() => fetchBlob(cid, { from: url }));
    expect(failure).toMatchObject({ code, message: expect.stringContaining('said by the service') as string });
  });

  test('are let go when a stream is cancelled or its signal is aborted', async () => {
    const closed: Promise<unknown>[] = [];
    const { url } = await peer((request, response) => {
      closed.push(new Promise((resolve) => request.socket.once('close', resolve)));
      response.writeHead(200, { 'Content-Length': String(1000 * mib) }).write(pattern(mib));
    });
    const connection = connect({ service: url, apiKey });
    const first = await connection.get(crypto.randomUUID());
    const reader = first.stream.getReader();
    await reader.read();
    await reader.cancel();
    await closed[0];
    const stop = new AbortController();
    const reason = new Error('enough');
    const second = await connection.get(crypto.randomUUID(), { signal: stop.signal });
    const reading = thrownBy(() => second.bytes());
    stop.abort(reason);
    expect(await reading).toBe(reason);
    await closed[1];
  });
});
