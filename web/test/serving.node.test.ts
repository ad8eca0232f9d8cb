/** The pages over HTTP, as every deployment serves them. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startService, type Service } from '../../testkit/service.ts';
import { present } from '../../testkit/present.ts';

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());

const get = (path: string, init: RequestInit = {}): Promise<Response> => fetch(service.url + path, init);

test('a document has one policy, which admits its script by its hash', async () => {
  for (const path of [
    '/',
    '/s',
    '/b',
    '/open',
    '/inbox',
    '/send',
    '/drop',
    '/files',
    '/s%231abc',
    '/b%23bafk?utm_source=mail',
  ]) {
    const response = await get(path);
    expect(response.status).toBe(200);
    const { headers } = response;
    expect(headers.get('Content-Type')).toBe('text/html; charset=utf-8');
    expect(headers.get('Referrer-Policy')).toBe('no-referrer');
    expect(headers.get('Cache-Control')).toBe('no-cache, no-transform');
    expect(headers.get('Cross-Origin-Opener-Policy')).toBe('same-origin');
    expect(headers.get('Cross-Origin-Resource-Policy')).toBe('same-origin');
    expect(headers.get('X-Content-Type-Options')).toBe('nosniff');
    expect(headers.get('X-Robots-Tag')).toBe('noindex');
    expect(headers.get('Set-Cookie')).toBeNull();
    const html = await response.text();
    const [, script = '', integrity = ''] = /<script src="([^"]+)" integrity="([^"]+)" defer>/.exec(html) ?? [];
    const sha256 = createHash('sha256').update(await (await get(`/${script}`)).text());
    expect(integrity).toBe(`sha256-${sha256.digest('base64')}`);
    const policy = present(headers.get('Content-Security-Policy'));
    expect(policy).toContain(`default-src 'none'; script-src '${integrity}';`);
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
  }
});

test('the parts have policies of their own, and an old one is asked for again', async () => {
  for (const path of ['/web/engine.js', '/web/sealing-engine.js', '/dl/sw.js']) {
    const response = await get(path);
    expect(response.headers.get('Content-Type')).toBe('text/javascript; charset=utf-8');
    const policy = present(response.headers.get('Content-Security-Policy'));
    const loads = path !== '/dl/sw.js';
    expect(policy).toContain(`default-src 'none'; ${loads ? "script-src 'self'; " : ''}connect-src 'self'`);
    expect(policy).toContain(`trusted-types ${loads ? 'sealpin' : "'none'"}; require-trusted-types-for 'script'`);
    const again = await get(path, { headers: { 'If-None-Match': present(response.headers.get('ETag')) } });
    expect(again.status).toBe(304);
  }
});

test('a part is compressed for who takes that, and its address with its version may be kept', async () => {
  const html = await (await get('/s')).text();
  for (const [, address = ''] of html.matchAll(/(?:src|href)="(web\/[^"]+)"/g)) {
    const [path = ''] = address.split('?');
    const packed = await get(`/${address}`, { headers: { 'Accept-Encoding': 'br, gzip' } });
    expect(packed.headers.get('Content-Encoding')).toBe('gzip');
    expect(packed.headers.get('Vary')).toContain('Accept-Encoding');
    expect(packed.headers.get('Cache-Control')).toBe('public, max-age=31536000, immutable, no-transform');
    for (const accepted of ['identity', 'gzip;q=0', 'gzip;q=0.000, br']) {
      const whole = await get(`/${path}?0123456789abcdef`, { headers: { 'Accept-Encoding': accepted } });
      expect(whole.headers.get('Content-Encoding')).toBeNull();
      expect(whole.headers.get('Cache-Control')).toBe('no-cache, no-transform');
      expect(whole.headers.get('ETag')).not.toBe(packed.headers.get('ETag'));
      expect(Number(packed.headers.get('Content-Length'))).toBeLessThan(
        Number(whole.headers.get('Content-Length')) / 2,
      );
      if (accepted === 'identity') expect(await packed.text()).toBe(await whole.text());
    }
  }
});

test('a download without its service worker leaves the page where it is', async () => {
  expect((await get('/dl/0123')).status).toBe(204);
});

test('pages are read, and nothing else', async () => {
  const response = await get('/s', { method: 'POST' });
  expect(response.status).toBe(405);
  expect(response.headers.get('Allow')).toBe('GET, HEAD');
  expect((await get('/sx')).status).toBe(404);
  expect((await get('/web/')).status).toBe(404);
});

test('health and footer show the same hash', async () => {
  const { pages } = (await (await get('/v1/health?live')).json()) as { pages: string };
  expect(await (await get('/')).text()).toContain(pages);
});

test('a key that a mail filter put into the path is in no line of the log', async () => {
  await get('/s%231canary0SYW7RiJxkEgOGusQGwp');
  expect(service.log.filter((line) => line.includes('canary'))).toEqual([]);
  expect(service.log.at(-1)).toContain('"route":"/:page{s%23.*}"');
});
