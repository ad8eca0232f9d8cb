import { describe, expect, it } from 'vitest';
import type { Code, SealpinError } from '../../errors.ts';
import { carOf, gateway, leafBytes, openFile, type BlockSource } from '../../ipfs/index.ts';
import { bytesOf, identical, randomBytes, stored } from './source.ts';
import { flip, itemOf, present } from '../../../testkit/present.ts';

const big = await stored(randomBytes(3 * leafBytes + 1234));
const url = 'https://gateway.example';

type Handler = (request: { url: URL; init: RequestInit }) => Response | Promise<Response>;

function at(handler: Handler): { source: BlockSource; asked: URL[] } {
  const asked: URL[] = [];
  const fetch = async (address: string | URL | Request, init: RequestInit = {}) => {
    const url = new URL(address as string);
    asked.push(url);
    return handler({ url, init });
  };
  return { source: gateway({ url: `${url}/`, fetch }), asked };
}

function carResponse(asked: URL, knowsRanges = true): Response {
  const [from, to] = (asked.searchParams.get('entity-bytes') ?? '0:*').split(':');
  const entityBytes = { from: Number(from), ...(to !== '*' && { to: Number(to) }) };
  const stream = carOf(big.cid, [big.single], knowsRanges ? { entityBytes } : {});
  return new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>, {
    headers: { 'content-type': 'application/vnd.ipld.car; version=1' },
  });
}

const read = async (sources: BlockSource[], start?: number, end?: number) =>
  bytesOf((await openFile(big.cid, sources, { limits: { idleMs: 1000 } })).read(start, end));

describe('gateway', () => {
  it('reads a file as one CAR, with the query and headers of the specification', async () => {
    const { source, asked } = at(({ url, init }) => {
      expect(new Headers(init.headers).get('accept')).toBe('application/vnd.ipld.car;version=1;order=dfs;dups=y');
      expect(init.redirect).toBe('manual');
      return carResponse(url);
    });
    expect(identical(await read([source]), big.file)).toBe(true);
    expect(asked.map(String)).toEqual([`${url}/ipfs/${big.cid}?format=car&dag-scope=entity&car-dups=y`]);
  });

  it('asks for the bytes of a range only', async () => {
    const { source, asked } = at(({ url }) => carResponse(url));
    expect(
      identical(
        await read([source], 2 * leafBytes + 5, 2 * leafBytes + 10),
        big.file.subarray(2 * leafBytes + 5, 2 * leafBytes + 10),
      ),
    ).toBe(true);
    expect(itemOf(asked, -1).searchParams.get('entity-bytes')).toBe(`${2 * leafBytes}:${2 * leafBytes + 9}`);
  });

  it('gives single blocks', async () => {
    const { source } = at(
      () => new Response(big.file.slice(0, 10), { headers: { 'content-type': 'application/vnd.ipld.raw' } }),
    );
    expect(await source.block(big.cid, new AbortController().signal)).toEqual(big.file.slice(0, 10));
  });

  for (const knowsRanges of [true, false]) {
    it(`S63: continues a stream that a gateway cut, ${knowsRanges ? 'with' : 'also without'} ranges`, async () => {
      const first = at(async ({ url }) => {
        const bytes = await bytesOf(present(carResponse(url).body));
        return new Response(bytes.slice(0, 2 * leafBytes + 1000), {
          headers: { 'content-type': 'application/vnd.ipld.car' },
        });
      });
      const second = at(({ url }) => carResponse(url, knowsRanges));
      expect(identical(await read([first.source, second.source]), big.file)).toBe(true);
      expect(second.asked.map((url) => url.searchParams.get('entity-bytes'))).toEqual([`${2 * leafBytes}:*`]);
    });
  }

  it.each([400, 406, 415, 501])(
    'reads block by block where CARs are refused with %i, and asks for them once',
    async (status) => {
      const { source, asked } = at(async ({ url }) =>
        url.searchParams.get('format') === 'raw'
          ? new Response((await big.single.block(url.pathname.slice(6), new AbortController().signal)).slice(), {
              headers: { 'content-type': 'application/vnd.ipld.raw' },
            })
          : new Response(null, { status }),
      );
      const file = await openFile(big.cid, [source]);
      expect(identical(await bytesOf(file.read()), big.file)).toBe(true);
      expect(identical(await bytesOf(file.read(5, leafBytes + 5)), big.file.subarray(5, leafBytes + 5))).toBe(true);
      expect(asked.filter((each) => each.searchParams.get('format') === 'car')).toHaveLength(1);
    },
  );

  const page = (status: number, headers: Record<string, string> = {}) =>
    new Response('<html>no</html>', { status, headers: { 'content-type': 'text/html', ...headers } });
  it.each<[string, Handler, string]>([
    ['S62: an HTML page with status 200', () => page(200), 'service_answer'],
    [
      'S62: a page that calls itself a CAR',
      () => page(200, { 'content-type': 'application/vnd.ipld.car' }),
      'service_unreachable',
    ],
    [
      'S62: an empty body',
      () => new Response(null, { status: 200, headers: { 'content-type': 'application/vnd.ipld.car' } }),
      'service_answer',
    ],
    [
      'S65: a redirect to the metadata address',
      () => page(302, { location: 'http://169.254.169.254/latest/meta-data' }),
      'service_answer',
    ],
    ['S65: a redirect to http:', () => page(301, { location: 'http://gateway.example/' }), 'service_answer'],
    ['S65: a redirect to localhost', () => page(307, { location: 'https://localhost:5001/' }), 'service_answer'],
    ['404', () => page(404), 'not_found'],
    ['410', () => page(410), 'not_found'],
    ['429', () => page(429, { 'retry-after': '9' }), 'rate_limited'],
    ['429 for decades', () => page(429, { 'retry-after': '1764421200' }), 'rate_limited'],
    ['503', () => page(503), 'service_answer'],
    ['406, which means that it has no CARs', () => page(406), 'service_answer'],
    ['no connection', () => Promise.reject(new TypeError('fetch failed')), 'service_unreachable'],
  ])('%s is skipped, and reported when no other source is left', async (name, handler, code) => {
    const { source, asked } = at(handler);
    const honest = at(({ url }) => carResponse(url));
    expect(identical(await read([source, honest.source]), big.file)).toBe(true);
    await expect(read([source])).rejects.toMatchObject({
      code,
      ...(code === 'rate_limited' && { retryAfterSeconds: name === '429' ? 9 : 3600 }),
    });
    expect(new Set(asked.map((url) => url.host))).toEqual(new Set(['gateway.example']));
  });

  /** What is said where a CAR is this at first, and 503 when it is asked for again. */
  async function failureAfter(car: Uint8Array<ArrayBuffer>) {
    let cars = 0;
    const { source } = at(({ url: asked }) =>
      asked.searchParams.get('format') === 'car' && (cars += 1) === 1
        ? new Response(car, { headers: { 'content-type': 'application/vnd.ipld.car' } })
        : page(503),
    );
    const failure = await read([source]).catch((error: unknown) => error as SealpinError);
    return { failure, isAskedAgain: cars > 1 };
  }

  it('S63: takes a CAR that ends too early for a broken connection, wherever, and hides no later refusal', async () => {
    const whole = new Uint8Array(await carResponse(new URL(url)).arrayBuffer());
    const ends = Array.from({ length: 40 }, (_, index) => Math.round((whole.length / 40) * index));
    for (const end of [...ends, 1, 59, 60, 70, 300, whole.length - 1]) {
      const { failure, isAskedAgain } = await failureAfter(whole.slice(0, end));
      const expected = isAskedAgain
        ? { reason: 'server_error' }
        : { code: 'service_unreachable', reason: 'broken_off' };
      expect(failure, `cut at ${end}`).toMatchObject(expected);
    }
    for (const index of [100, leafBytes, whole.length - 1]) {
      const wrong = whole.slice();
      flip(wrong, index);
      expect((await failureAfter(wrong)).failure, `wrong at ${index}`).toMatchObject({ code: 'content_mismatch' });
    }
  });

  it('says by a reason what kind of refusal it is, and repeats nothing of a page', async () => {
    const reasons = new Map([
      [page(404), 'blob_absent'],
      [page(503), 'server_error'],
      [page(302, { location: 'http://elsewhere.example/' }), 'redirected'],
      [page(406), 'not_a_gateway'],
      [page(200), 'not_a_gateway'],
    ]);
    for (const [response, reason] of reasons) {
      const failure = read([at(() => response).source]);
      await expect(failure).rejects.toMatchObject({ reason, message: expect.not.stringContaining('html') });
    }
  });

  it('passes on what a Sealpin service says, if it is given a reader for that', async () => {
    const source = (code: Code, status: number) =>
      gateway({
        url,
        id: 'service',
        fetch: async () => page(status),
        readProblem: async () => ({ code, detail: 'the node is down' }),
      });
    await expect(read([source('pinning_timeout', 504)])).rejects.toMatchObject({
      code: 'pinning_unavailable',
      reason: 'blob_unavailable',
      message: 'service: the node is down',
    });
    await expect(read([source('content_mismatch', 502)])).rejects.toMatchObject({
      code: 'content_mismatch',
      message: 'service: it answered with status 502: the node is down',
    });
    await expect(read([source('internal', 500)])).rejects.toMatchObject({
      code: 'service_answer',
      message: 'service: it answered with status 500: the node is down',
    });
    await expect(read([source('internal', 404)])).rejects.toMatchObject({ code: 'not_found' });
    for (const [code, status] of [
      ['pinning_lost', 502],
      ['content_denied', 410],
    ] as const)
      await expect(read([source(code, status)])).rejects.toMatchObject({ code, message: 'service: the node is down' });
  });

  it('S64: takes no more than a block from a source that gives one without end', async () => {
    let sent = 0;
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536));
      },
      cancel: () => void (cancelled = true),
    });
    const { source } = at(() => new Response(endless, { headers: { 'content-type': 'application/vnd.ipld.raw' } }));
    expect((await source.block(big.cid, new AbortController().signal)).length).toBe(2 * leafBytes + 1);
    expect(cancelled).toBe(true);
    expect(sent).toBeLessThan(3 * leafBytes);
  });
});
