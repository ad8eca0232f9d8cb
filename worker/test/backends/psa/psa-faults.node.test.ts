/**
 * The adapter for the Pinning Service API before services that fail, contradict themselves, or
 * forget.
 */
import { expect, onTestFinished, test } from 'vitest';
import { psa } from '../../../backends/psa/psa.ts';
import { fake } from '../runtimes.ts';

const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e';
const ours = 'sealpin:tested';
const origins = ['/dns4/kubo.example.com/tcp/4001/p2p/12D3KooW'];
const file = { cid, sources: [], onMismatch: () => undefined };
const { signal } = new AbortController();

type Answer = { status: number; body?: unknown; headers?: Record<string, string> };
type Pin = { status: string; name?: string | undefined; requestid?: string; cid?: string; created?: string };

const pinOf = ({ status, name = ours, requestid = 'r1', cid: of = cid, created = '2026-01-01T00:00:00Z' }: Pin) => ({
  requestid,
  status,
  created,
  pin: { cid: of, name },
  delegates: [],
  extra: 'a member that is not known',
  info: { status_details: 'the details' },
});
const listOf = (...pins: Pin[]): Answer => ({ status: 200, body: { count: pins.length, results: pins.map(pinOf) } });
const error = (status: number, reason: string): Answer => ({ status, body: { error: { reason, details: 'why' } } });

/** A service that gives its answers in order, and what it was asked. */
async function service(...answers: Answer[]) {
  const asked: { request: string; json: unknown; authorization: string | undefined }[] = [];
  const { url, close } = await fake((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const { authorization } = request.headers;
      asked.push({
        request: `${request.method} ${request.url}`,
        json: text === '' ? undefined : JSON.parse(text),
        authorization,
      });
      const answer = answers.shift();
      if (answer === undefined) return;
      const { status, body, headers } = answer;
      response
        .writeHead(status, headers)
        .end(typeof body === 'string' ? body : body && JSON.stringify(body, undefined, 2));
    });
  });
  onTestFinished(close);
  const headers = { authorization: 'Bearer t' };
  // Only one that never answers is waited for in vain.
  const limits = answers.length === 0 ? { responseMs: 50 } : {};
  return { hosted: psa({ id: 'tested', url: `${url}/psa`, headers, origins, pinName: ours, fetch, ...limits }), asked };
}

test('a file is requested under our name, with the addresses that it can be fetched from', async () => {
  const { hosted, asked } = await service(listOf(), { status: 202, body: pinOf({ status: 'queued' }) });
  expect(await hosted.hold(file, signal)).toBe('requested');
  expect(asked).toEqual([
    {
      request: `GET /psa/pins?cid=${cid}&status=queued%2Cpinning%2Cpinned%2Cfailed&limit=100`,
      json: undefined,
      authorization: 'Bearer t',
    },
    { request: 'POST /psa/pins?', json: { cid, name: ours, origins }, authorization: 'Bearer t' },
  ]);
});

test('a service that calls a request pinned at once, and lists nothing, holds nothing', async () => {
  const { hosted } = await service(listOf(), { status: 202, body: pinOf({ status: 'pinned' }) }, listOf());
  expect(await hosted.hold(file, signal)).toBe('requested');
  expect(await hosted.stat(cid, signal)).toBe('absent');
});

test('a service that invents other pins for every page is not asked for ever', async () => {
  const page = (_: unknown, index: number): Answer => ({
    status: 200,
    body: { count: 1_000_000, results: [pinOf({ status: 'pinned', name: 'theirs', requestid: `r${index}` })] },
  });
  const { hosted, asked } = await service(...Array.from({ length: 1_000 }, page));
  const hint = expect.stringContaining('filter') as string;
  await expect(hosted.hold(file, signal)).rejects.toMatchObject({ code: 'misconfigured', hint });
  expect(asked).toHaveLength(100);
});

test.each<[string, Pin, string[]]>([
  ['pinned', { status: 'pinned' }, ['held', 'held', 'removal']],
  ['queued', { status: 'queued' }, ['pending', 'pending', 'removal']],
  ['failed', { status: 'failed' }, ['misconfigured', 'misconfigured', 'removal']],
])('a service that lists the pins of every CID is read up to ours, which is %s', async (_, pin, expected) => {
  const others = (index: number): Answer => ({
    status: 200,
    body: { count: 1_000_000, results: [pinOf({ status: 'pinned', name: 'theirs', requestid: `other ${index}` })] },
  });
  const page: Answer = { status: 200, body: { count: 1_000_000, results: [pinOf(pin)] } };
  const answers = [others(0), page, ...Array.from({ length: 98 }, (_each, index) => others(index + 1))];
  const outcomes: string[] = [];
  for (const call of ['stat', 'hold'] as const) {
    const { hosted } = await service(...answers);
    const asked = call === 'stat' ? hosted.stat(cid, signal) : hosted.hold(file, signal);
    outcomes.push(await asked.catch((error: { code: string }) => error.code));
  }
  const { hosted, asked } = await service(
    others(0),
    page,
    { status: 202 },
    ...answers.slice(2),
    others(99),
    others(100),
  );
  await expect(hosted.unpin(cid, signal)).rejects.toMatchObject({ code: 'misconfigured' });
  if (asked.some(({ request }) => request.startsWith('DELETE'))) outcomes.push('removal');
  expect(outcomes).toEqual(expected);
});

test.each<[string, Pin[], string]>([
  ['queued', [{ status: 'queued' }], 'pending'],
  ['pinning', [{ status: 'pinning' }], 'pending'],
  ['pinned', [{ status: 'pinned' }], 'held'],
  ['requested twice, and pinned once', [{ status: 'queued' }, { status: 'pinned', requestid: 'r2' }], 'held'],
  ['of a status that is not known', [{ status: 'resting' }], 'pending'],
])('a file that is %s is not requested again', async (_, pins, state) => {
  const { hosted, asked } = await service(listOf(...pins));
  expect(await hosted.hold(file, signal)).toBe(state);
  expect(asked).toHaveLength(1);
});

test('a request that failed is removed, and its reason told; the next attempt makes another one', async () => {
  const { hosted, asked } = await service(listOf({ status: 'failed' }), { status: 202 });
  await expect(hosted.hold(file, signal)).rejects.toMatchObject({
    code: 'pinning_failed',
    message: expect.stringContaining('the details') as string,
  });
  expect(asked.map(({ request }) => request.split('?')[0])).toEqual(['GET /psa/pins', 'DELETE /psa/pins/r1']);
});

test.each<[string, Pin[], string]>([
  ['nothing', [], 'absent'],
  ['the pin of somebody else', [{ status: 'pinned', name: 'theirs' }], 'absent'],
  ['the pin of another CID', [{ status: 'pinned', cid: 'bafkqaaa' }], 'absent'],
  ['a request that failed', [{ status: 'failed' }], 'absent'],
  ['a request', [{ status: 'queued' }], 'pending'],
  [
    'our pin',
    [
      { status: 'pinned', name: 'theirs' },
      { status: 'pinned', requestid: 'r2' },
    ],
    'held',
  ],
])('a service that lists %s', async (_, pins, state) => {
  expect(await (await service(listOf(...pins))).hosted.stat(cid, signal)).toBe(state);
});

test('every request of ours is removed, and it counts once the service lists none', async () => {
  const both = listOf(
    { status: 'pinned' },
    { status: 'queued', requestid: 'r/2' },
    { status: 'pinned', name: 'b', requestid: 'r3' },
  );
  const { hosted, asked } = await service(both, { status: 202 }, error(404, 'NOT_FOUND'), both, listOf());
  expect(await hosted.unpin(cid, signal)).toBe('removed');
  expect(asked.map(({ request }) => request.split('?')[0])).toEqual([
    'GET /psa/pins',
    'DELETE /psa/pins/r1',
    'DELETE /psa/pins/r%2F2',
    'GET /psa/pins',
    'GET /psa/pins',
  ]);
});

test('a service that also lists other CIDs is asked page by page', async () => {
  const other = (requestid: string, created: string): Pin => ({
    status: 'pinned',
    cid: 'bafkqaaa',
    requestid,
    created,
  });
  const page = (count: number, ...pins: Pin[]): Answer => ({ status: 200, body: { count, results: pins.map(pinOf) } });
  const newest = other('r3', '2026-01-03T00:00:00.500Z');
  const older = other('r2', '2026-01-02T00:00:00Z');
  const { hosted, asked } = await service(page(3, newest), page(3, newest, older), page(1, { status: 'pinned' }));
  expect(await hosted.stat(cid, signal)).toBe('held');
  const query = `GET /psa/pins?cid=${cid}&status=queued%2Cpinning%2Cpinned%2Cfailed&limit=100`;
  expect(asked.map(({ request }) => request)).toEqual([
    query,
    `${query}&before=2026-01-03T00%3A00%3A00.501Z`,
    `${query}&before=2026-01-02T00%3A00%3A00.001Z`,
  ]);
});

test.each<[string, (page: number) => string]>([
  ['repeats itself', () => '2026-01-03T00:00:00Z'],
  ['says a time that is none', () => '2026-01-03 00:00:00 +0000 UTC m=+0.1'],
])('a service that lists other CIDs and %s is not believed', async (_, createdAt) => {
  const page = (_each: unknown, index: number): Answer => ({
    status: 200,
    body: { count: 3, results: [pinOf({ status: 'pinned', cid: 'bafkqaaa', created: createdAt(index) })] },
  });
  for (const ask of ['hold', 'stat', 'unpin'] as const) {
    const { hosted } = await service(...Array.from({ length: 9 }, page));
    const hint = expect.stringContaining('filter') as string;
    const asking = ask === 'hold' ? hosted.hold(file, signal) : hosted[ask](cid, signal);
    await expect(asking).rejects.toMatchObject({ code: 'misconfigured', hint });
  }
});

test('of a file that has more requests than the service counts in a page, those that it lists are ours', async () => {
  const page: Answer = { status: 200, body: { count: 3, results: [pinOf({ status: 'failed' })] } };
  const { hosted } = await service(page, page);
  expect(await hosted.stat(cid, signal)).toBe('absent');
});

test('a page of a hundred pins is read, with all the addresses that one may have', async () => {
  const origins = Array.from({ length: 40 }, (_, n) => `/dns4/${'kubo'.repeat(20)}.example.com/tcp/${n}/p2p/12D3KooW`);
  const many = Array.from({ length: 100 }, (_, n) => ({ ...pinOf({ status: 'pinned', requestid: `r${n}` }), origins }));
  const { hosted } = await service({ status: 200, body: { count: many.length, results: many } });
  expect(await hosted.stat(cid, signal)).toBe('held');
});

test('one that still lists it has not removed it', async () => {
  const { hosted } = await service(
    listOf({ status: 'pinned' }),
    { status: 202 },
    ...Array.from({ length: 8 }, () => listOf({ status: 'pinned' })),
  );
  await expect(hosted.unpin(cid, signal)).rejects.toMatchObject({ code: 'pinning_timeout' });
});

test.each<[string, Answer | undefined, object]>([
  ['no token', error(401, 'UNAUTHORIZED'), { code: 'misconfigured' }],
  [
    'no money',
    error(409, 'INSUFFICIENT_FUNDS'),
    { code: 'disk_full', hint: expect.stringContaining('its bills') as string },
  ],
  ['no plan', { status: 402 }, { code: 'disk_full' }],
  [
    'too often',
    { status: 429, headers: { 'retry-after': '9' } },
    { code: 'pinning_unavailable', retryAfterSeconds: 9 },
  ],
  ['its own fault', { status: 503 }, { code: 'pinning_unavailable' }],
  ['a bad request', error(400, 'BAD_REQUEST'), { code: 'pinning_failed', message: 'tested: 400 BAD_REQUEST: why' }],
  ['another API', { status: 404, body: {} }, { code: 'misconfigured' }],
  ['a page', { status: 200, body: '<p>', headers: { 'content-type': 'text/html' } }, { code: 'misconfigured' }],
  ['no JSON', { status: 200, body: 'yes' }, { code: 'pinning_failed' }],
  ['no list', { status: 200, body: {} }, { code: 'pinning_failed' }],
  [
    'no request id',
    { status: 200, body: { results: [{ status: 'pinned', pin: { cid } }] } },
    { code: 'pinning_failed' },
  ],
  ['nothing', undefined, { code: 'pinning_timeout' }],
])('a service that answers %s', async (_, answer, thrown) => {
  const answers = answer === undefined ? [] : [answer];
  await expect((await service(...answers)).hosted.stat(cid, signal)).rejects.toMatchObject(thrown);
});

const unnamed = (status: string): object => ({ ...pinOf({ status }), pin: { cid } });

test.each<[string, object, Answer[]]>([
  ['another CID', pinOf({ status: 'pinned', cid: 'bafkqaaa' }), []],
  ['its own spelling of the CID', pinOf({ status: 'pinned', cid: cid.toUpperCase() }), []],
  ['another name', pinOf({ status: 'pinned', name: 'sealpin' }), []],
  ['no name', unnamed('pinned'), [{ status: 200, body: { count: 1, results: [unnamed('pinned')] } }]],
])('what a service pins under %s is removed again, since nobody would find it', async (_, body, lists) => {
  const { hosted, asked } = await service(listOf(), { status: 202, body }, ...lists, { status: 202 });
  await expect(hosted.hold(file, signal)).rejects.toMatchObject({ code: 'misconfigured' });
  expect(asked.at(-1)?.request).toBe('DELETE /psa/pins/r1?');
});

test.each([
  ['lists it under our name', listOf({ status: 'queued' })],
  ['does not list it yet', listOf()],
])('a service that leaves the name out of its answer and %s has taken the request', async (_, list) => {
  const { hosted } = await service(listOf(), { status: 202, body: unnamed('queued') }, list);
  expect(await hosted.hold(file, signal)).toBe('requested');
});

test('the words of a service are shortened and escaped', async () => {
  const details = 'y\u001B[31m'.repeat(60_000);
  const { hosted } = await service({ status: 400, body: { error: { reason: 'X', details } } });
  const failure = await hosted.stat(cid, signal).then(() => '', String);
  expect(failure.length).toBeLessThan(400);
  expect(failure).not.toContain('\u001B');
});
