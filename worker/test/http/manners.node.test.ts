/**
 * Headers of every response: an ID, what caches may do with it, and the limit that it counts for.
 */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { StoredFile } from '../../../shared/api.ts';
import { guarded, sharedService, startService, withSettings, type Service } from '../../../testkit/service.ts';
import { routes } from '../../routes/table.ts';
import { bytesOf, client, jsonOf, problemOf, signedPath, type Client, pathOf } from '../../../testkit/api-client.ts';
import { inOneMinute } from '../one-minute.ts';
import { present } from '../../../testkit/present.ts';

const origin = 'https://app.example.com';

describe('a response', () => {
  let service: Service;
  let call: Client;
  let file: StoredFile;
  beforeAll(async () => {
    service = await startService({ vars: { CORS_ORIGINS: origin } });
    call = client(service.url, (await service.account()).apiKey);
    file = await call.store('plain', 'hello');
  });
  afterAll(() => service.close());

  const filled = (path: string): string =>
    path.replace(':fileId', file.fileId).replace(':cid', file.cid).replaceAll(/:\w+/g, 'x');
  const ask = (path: string, init: RequestInit = {}): Promise<Response> => fetch(`${service.url}${path}`, init);
  const vary = ({ headers }: Response): string[] => (headers.get('Vary') ?? '').split(/, */).sort();

  it('has an ID of ours, whatever it is', async () => {
    const asked = [
      ...routes.map(({ method, path }) => ask(filled(path), { method: method.toUpperCase() })),
      ask('/nowhere'),
      ask('/v1/health', { method: 'PUT' }),
      ask('/v1/health', { headers: { 'X-Request-Id': 'mine' } }),
      ask('/v1/storage', { method: 'OPTIONS', headers: { Origin: origin, 'Access-Control-Request-Method': 'GET' } }),
      ask('/v1/storage', { method: 'OPTIONS', headers: { Origin: 'x', 'Access-Control-Request-Method': 'GET' } }),
    ];
    const ids = new Set<string>();
    for (const response of await Promise.all(asked)) {
      const id = response.headers.get('X-Request-Id') ?? '';
      expect(id, response.url).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      ids.add(id);
      await response.body?.cancel();
    }
    expect(ids.size).toBe(asked.length);
  });

  it('to HEAD says how long that to GET would be', async () => {
    const lists = routes.filter(
      ({ method, path, who }) => method === 'get' && !path.includes(':') && who !== 'operator',
    );
    const paths = [...lists.map(({ path }) => path), '/v1/health?live', '/v1/nothing', `/v1/storage/${file.fileId}`];
    for (const path of paths) {
      const headers = { 'Tus-Resumable': '1.0.0' };
      const [head, get] = [await call(path, { method: 'HEAD', headers }), await call(path, { headers })];
      const { length } = await bytesOf(get);
      expect({ path, status: head.status, 'Content-Length': Number(head.headers.get('Content-Length')) }).toEqual({
        path,
        status: get.status,
        'Content-Length': length,
      });
    }
  });

  it('with bytes of a file is neither code nor style of a page, whatever its type', async () => {
    const script = await call.store('plain', 'alert(1)', { filename: 'x.js', type: 'text/javascript' });
    const signed = await signedPath(call.apiKey, { method: 'GET', file: script.fileId });
    const style = ['manifest', 'style', 'xslt'];
    const code = ['script', 'worker', 'sharedworker', 'serviceworker', 'audioworklet', 'paintworklet', 'Script'];
    for (const path of [`/ipfs/${script.cid}`, signed]) {
      for (const dest of [...code, ...style])
        expect(await problemOf(ask(path, { headers: { 'Sec-Fetch-Dest': dest } }))).toBe('403 forbidden');
      for (const dest of ['empty', 'document', 'image', 'video', 'audio', 'track', 'font'])
        expect((await ask(path, { headers: { 'Sec-Fetch-Dest': dest } })).status, dest).toBe(200);
    }
  });

  it.skipIf(guarded)('of an address that every page may read is so however the address is spelled', async () => {
    for (const path of [`/%69pfs/${file.cid}`, `/ipf%73/%62${file.cid.slice(1)}`, `/x/../ipfs/${file.cid}`]) {
      const { status, headers } = await ask(path, { headers: { Origin: 'https://other.example.com' } });
      expect({ path, status, 'Access-Control-Allow-Origin': headers.get('Access-Control-Allow-Origin') }).toEqual({
        path,
        status: 200,
        'Access-Control-Allow-Origin': '*',
      });
      expect((await ask(path, { headers: { 'Sec-Fetch-Dest': 'worker' } })).status).toBe(403);
    }
  });

  it.skipIf(guarded)('that depends on the page that asks, or on what it accepts, says so', async () => {
    const headers = { Authorization: `Bearer ${call.apiKey}` };
    for (const from of [undefined, origin, 'https://other.example.com']) {
      const by = { headers: { ...headers, ...(from === undefined ? {} : { Origin: from }) } };
      expect(vary(await ask('/v1/storage', by))).toEqual(['Origin']);
      expect(vary(await ask(`/v1/storage/${file.fileId}`, by))).toEqual(['Accept', 'Origin']);
      expect(vary(await ask('/v1/nowhere', by))).toEqual(['Origin']);
      // The same for every page, so a cache may give one what another one asked for.
      const gateway = await ask(`/ipfs/${file.cid}`, by);
      expect(gateway.headers.get('Access-Control-Allow-Origin')).toBe('*');
      expect(vary(gateway)).toEqual(['Accept']);
    }
  });

  it('of the gateway may be kept, in shared caches for a minute; who asks again learns of a deletion', async () => {
    const { fileId, cid } = await call.store('plain', 'for a minute');
    const kept = 'public, max-age=29030400, immutable, s-maxage=60, proxy-revalidate, no-transform';
    const path = `/ipfs/${cid}`;
    const first = await ask(path);
    const etag = first.headers.get('ETag') ?? '';
    for (const response of [
      first,
      await ask(path, { method: 'HEAD' }),
      await ask(path, { headers: { Range: 'bytes=0-1' } }),
      await ask(path, { headers: { 'If-None-Match': etag } }),
      await ask(`${path}?format=raw`),
      await ask(`${path}?format=car`),
    ])
      expect(response.headers.get('Cache-Control'), JSON.stringify(response.status)).toEqual(kept);
    await jsonOf(call(`/v1/storage/${fileId}`, { method: 'DELETE' }));
    const gone = await ask(path, { headers: { 'If-None-Match': etag } });
    expect(gone.status).toBe(404);
    expect(gone.headers.get('Cache-Control')).toBe('no-store');
  });

  it('is logged with the trace that its request belongs to, if that is one', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const line = async (traceparent: string): Promise<Record<string, unknown>> => {
      const id = (await ask('/v1/health?live', { headers: { traceparent } })).headers.get('X-Request-Id');
      await expect.poll(() => service.log.some((each) => each.includes(`"${id}"`))).toBe(true);
      const lines = service.log.map((each) => JSON.parse(each) as Record<string, unknown>);
      return present(lines.find(({ requestId }) => requestId === id));
    };
    expect(await line(`00-${trace}-00f067aa0ba902b7-01`)).toMatchObject({ event: 'request', trace });
    expect(await line(`00-${trace}-canary`)).not.toHaveProperty('trace');
    expect(service.log.join('')).not.toContain('canary');
  });

  it('repeats nothing where a CID belongs', async () => {
    const secret = call.apiKey;
    for (const path of [`/ipfs/${secret}`, `/v1/storage?cid=${secret}`]) {
      const response = await call(path);
      expect(await response.clone().text()).not.toContain(secret.slice(3, 20));
      expect(await problemOf(response)).toBe('400 invalid_cid');
    }
  });
});

describe('a rate limit', () => {
  const ratelimits = {
    KEY_LIMIT: { namespace_id: '71', simple: { limit: 3, period: 60 as const } },
    ADDRESS_LIMIT: { namespace_id: '72', simple: { limit: 4, period: 60 as const } },
  };
  const fields = ({ status, headers }: Response) => [
    status,
    headers.get('RateLimit-Policy'),
    headers.get('RateLimit'),
    headers.get('Retry-After'),
  ];

  it('is named in responses, and what is left of it once that is known: nothing', () =>
    inOneMinute(async () => {
      const vars = { KEY_LIMIT_POLICY: '3/60', ADDRESS_LIMIT_POLICY: '4/60' };
      const service = await startService({ ratelimits, vars });
      try {
        const call = client(service.url, (await service.account()).apiKey);
        for (let count = 0; count < 3; count += 1)
          expect(fields(await call('/v1/storage'))).toEqual([200, '"account";q=3;w=60', null, null]);
        expect(fields(await call('/v1/storage'))).toEqual([429, '"account";q=3;w=60', '"account";r=0;t=60', '60']);
        const recovery = `${service.url}${pathOf('getRecoveryFile', { id: '0'.repeat(22) })}`;
        for (let count = 0; count < 3; count += 1)
          expect(fields(await fetch(recovery))).toEqual([404, '"address";q=4;w=60', null, null]);
        expect(fields(await fetch(recovery))).toEqual([429, '"address";q=4;w=60', '"address";r=0;t=60', '60']);
        // Nothing counts these.
        expect(fields(await fetch(`${service.url}/v1/health?live`))).toEqual([200, null, null, null]);
      } finally {
        await service.close();
      }
    }));

  it('that the operator does not tell, or that does not exist, is not named', async () => {
    const told = await sharedService();
    const silent = await startService({ ratelimits });
    onTestFinished(() => silent.close());
    for (const service of [told, silent]) {
      const { apiKey } = await service.account();
      const headers = service === told ? withSettings({ KEY_LIMIT_POLICY: '3/60' }) : {};
      const response = await client(service.url, apiKey, headers)('/v1/storage');
      expect(fields(response)).toEqual([200, null, null, null]);
    }
  });

  it('that is told in a wrong form is a fault of the configuration', async () => {
    const headers = withSettings({ ADDRESS_LIMIT: 'any', ADDRESS_LIMIT_POLICY: 'plenty' });
    expect(await problemOf(fetch(`${(await sharedService()).url}/v1/health?live`, { headers }))).toBe(
      '500 misconfigured',
    );
  });

  it('is told as wrangler.toml sets it', async () => {
    const toml = await readFile('wrangler.toml', 'utf8');
    for (const name of ['KEY_LIMIT', 'ADDRESS_LIMIT']) {
      const [, limit, period] = present(
        new RegExp(`name = "${name}"\n.*\nsimple = \\{ limit = (\\d+), period = (\\d+) \\}`).exec(toml),
      );
      expect(toml).toContain(`\n${name}_POLICY = "${limit}/${period}"\n`);
    }
  });
});
