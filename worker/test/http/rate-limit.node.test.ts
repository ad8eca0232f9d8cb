/** Limits: of bodies, of requests in a time, of who may read from a browser. */
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newAccountId, newApiKey } from '../../../shared/crypto/index.ts';
import { networkOf } from '../../auth/rate-limit.ts';
import { client, jsonOf, problemOf, type Client } from '../../../testkit/api-client.ts';
import { inOneMinute } from '../one-minute.ts';
import {
  adminToken,
  guarded,
  sharedService,
  startService,
  withSettings,
  type Service,
} from '../../../testkit/service.ts';

describe('a body', () => {
  const limit = 1000;
  const limited = withSettings({ MAX_UPLOAD_BYTES: String(limit) });
  let service: Service;
  let call: Client;
  beforeAll(async () => {
    service = await sharedService();
    call = client(service.url, (await service.account()).apiKey, limited);
  });

  /**
   * Sends bytes by hand and gives what comes back until the connection ends or enough has come.
   * @param settings of the request
   */
  function exchange(
    head: string[],
    body: (write: (bytes: string) => void) => void,
    settings: Record<string, string> = limited,
  ): Promise<string> {
    const { hostname, port } = new URL(service.url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname);
      let text = '';
      socket.setTimeout(20_000, () => socket.destroy(new Error('no response')));
      socket.on('error', reject).on('close', () => resolve(text));
      socket.on('data', (chunk) => {
        text += chunk.toString();
        if (text.includes('"requestId"')) {
          resolve(text);
          socket.destroy();
        }
      });
      const fields = { Host: `${hostname}:${port}`, Authorization: `Bearer ${call.apiKey}`, ...settings };
      const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
      socket.write([...head, ...lines, '', ''].join('\r\n'));
      body((bytes) => socket.write(bytes));
    });
  }

  it('may be as long as the limit and no longer, which health shows', async () => {
    expect(await call.getHealth()).toMatchObject({ maxUploadBytes: limit });
    await call.storePlain({}, { body: 'x'.repeat(limit) });
    expect(await problemOf(call.ask('storePlain', {}, { body: 'x'.repeat(limit + 1) }))).toBe('413 too_large');
    const data = Buffer.alloc(900).toString('base64');
    expect(await problemOf(call.json('/v1/storage/plain', { data }))).toBe('413 too_large');
  });

  it('S79: that announces too much is refused before a byte of it has come', async () => {
    const response = await exchange(
      ['POST /v1/storage/plain HTTP/1.1', `Content-Length: ${limit + 1}`],
      () => undefined,
    );
    expect(response).toMatch(/^HTTP\/1.1 413 /);
    expect(response).toContain('"code":"too_large"');
  });

  it('that announces more than any file can have is refused where there is no limit, too', async () => {
    for (const mode of ['plain', 'encrypted']) {
      const head = [`POST /v1/storage/${mode} HTTP/1.1`, 'Content-Disposition: inline; filename=x'];
      const response = await exchange([...head, `Content-Length: ${Number.MAX_SAFE_INTEGER}`], () => undefined, {});
      expect(response).toMatch(/^HTTP\/1.1 413 /);
      expect(response).toContain('"code":"too_large"');
    }
  });

  it('S79: that never ends is refused at the first byte too many', async () => {
    const response = await exchange(['POST /v1/storage/plain HTTP/1.1', 'Transfer-Encoding: chunked'], (write) => {
      write(`${limit.toString(16)}\r\n${'x'.repeat(limit)}\r\n`);
      write('1\r\nx\r\n');
    });
    expect(response).toMatch(/^HTTP\/1.1 413 /);
    const list = await call.listFiles();
    expect(list.files.every((file) => file.size <= limit)).toBe(true);
  });

  it('S83: in JSON is bounded in size and depth, data apart', async () => {
    const operator = client(service.url, adminToken);
    const post = (body: string): Promise<Response> => operator.ask('createAccount', {}, { body });
    expect(await problemOf(post(`{"label":${'['.repeat(1000)}${']'.repeat(1000)}}`))).toBe('400 invalid_json');
    expect(await problemOf(post(`{"label":"${'x'.repeat(70_000)}"}`))).toBe('413 too_large');
    for (const body of [
      '',
      'null',
      '[]',
      '"x"',
      '{"label":1}',
      '{"label":"x","__proto__":{}}',
      '{"label":"x","admin":true}',
      `{"label":"${'x'.repeat(101)}"}`,
    ]) {
      expect(await problemOf(post(body)), body).toMatch(/^400 /);
    }
    expect(await problemOf(post('{"label":NaN}'))).toBe('400 invalid_json');
  });
});

it('a limit that is no number is reported as a fault of the configuration, without its value', async () => {
  const headers = withSettings({ MAX_UPLOAD_BYTES: 'lots-of-canaries' });
  const response = await fetch(`${(await sharedService()).url}/v1/health`, { headers });
  const text = await response.text();
  expect(response.status).toBe(500);
  expect(text.includes('misconfigured')).toBe(true);
  expect(text.includes('canaries')).toBe(false);
});

describe('S77: requests', () => {
  const limits = {
    KEY_LIMIT: { namespace_id: '1', simple: { limit: 5, period: 60 as const } },
    ADDRESS_LIMIT: { namespace_id: '2', simple: { limit: 8, period: 60 as const } },
  };

  async function until429(ask: () => Promise<Response>): Promise<number> {
    for (let count = 0; count < 30; count += 1) {
      const response = await ask();
      if (response.status === 429) {
        expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
        expect(await problemOf(response)).toBe('429 rate_limited');
        return count;
      }
      await response.arrayBuffer();
    }
    return Number.POSITIVE_INFINITY;
  }

  it('that a key uses up which can only store leave the other keys of its account theirs', () =>
    inOneMinute(async () => {
      const service = await startService({ ratelimits: limits });
      try {
        const owner = client(service.url, (await service.account()).apiKey);
        const [guest, other] = [await owner.withKey(['write']), await owner.withKey(['write'])];
        expect(await until429(() => guest('/v1/account'))).toBe(5);
        expect((await other.ask('getAccount')).status).toBe(429);
        expect((await owner.ask('getAccount')).status).toBe(200);
      } finally {
        await service.close();
      }
    }));

  it('are counted by account, and by address without a known key', () =>
    inOneMinute(async () => {
      const service = await startService({ ratelimits: limits });
      try {
        const one = client(service.url, (await service.account()).apiKey);
        const other = client(service.url, (await service.account()).apiKey);
        const { apiKey } = await jsonOf<{ apiKey: string }>(
          one.json('/v1/keys', { label: 'x', scopes: ['read'] }),
          201,
        );
        expect(await until429(() => one('/v1/storage'))).toBe(4);
        // Another key of the account has no count of its own.
        expect(await problemOf(client(service.url, apiKey).ask('listFiles'))).toBe('429 rate_limited');
        expect((await other.ask('listFiles')).status).toBe(200);
        // Two of the eight went into the accounts.
        expect(
          await until429(async () => client(service.url, (await newApiKey(newAccountId())).text).ask('listFiles')),
        ).toBe(6);
        expect(await problemOf(client(service.url, adminToken).ask('createAccount', { label: 'x' }))).toBe(
          '429 rate_limited',
        );
        expect(await problemOf(client(service.url).ask('getRecoveryFile', { id: '0'.repeat(22) }))).toBe(
          '429 rate_limited',
        );
        expect(
          await problemOf(fetch(`${service.url}/ipfs/bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e`)),
        ).toBe('429 rate_limited');
      } finally {
        await service.close();
      }
    }));

  it('with unknown keys are refused without a look into KV once there were too many, those with known keys never', () =>
    inOneMinute(async () => {
      const service = await startService({ entry: 'worker/test/lookups.ts', ratelimits: limits });
      try {
        const call = client(service.url, (await service.account()).apiKey);
        const later = client(service.url, (await service.account()).apiKey);
        const from = (address: string, by: Client): Promise<Response> =>
          by.ask('getAccount', {}, { headers: { 'CF-Connecting-IP': address } });
        const unknown = async (): Promise<Client> => client(service.url, (await newApiKey(newAccountId())).text);
        const lookups = async (): Promise<number> => Number(await (await fetch(`${service.url}/test/lookups`)).text());
        expect((await from('2001:db8:0:1::1', call)).status).toBe(200);
        // Every address of a /64 counts as one.
        let host = 2;
        const flood = async (): Promise<Response> => from(`2001:db8:0:1::${(host++).toString(16)}`, await unknown());
        expect(await until429(flood)).toBe(limits.ADDRESS_LIMIT.simple.limit);
        const before = await lookups();
        for (let count = 0; count < 20; count += 1) expect((await flood()).status).toBe(429);
        expect(await lookups()).toBe(before);
        expect((await from('2001:db8:0:1::1', call)).status).toBe(200);
        expect(await problemOf(from('2001:db8:0:1::1', later))).toBe('429 rate_limited');
        expect((await from('2001:db8:0:2::1', later)).status).toBe(200);
        expect((await from('2001:db8:0:1::1', later)).status).toBe(200);
      } finally {
        await service.close();
      }
    }));

  it('of one key look into KV once in a minute', async () => {
    const service = await startService({ entry: 'worker/test/lookups.ts' });
    try {
      const call = client(service.url, (await service.account()).apiKey);
      const lookups = async (): Promise<number> => Number(await (await fetch(`${service.url}/test/lookups`)).text());
      const after = async (ms: number): Promise<number> => {
        await fetch(`${service.url}/test/later?ms=${ms}`, { method: 'POST' });
        const before = await lookups();
        expect((await call.ask('getAccount')).status).toBe(200);
        return (await lookups()) - before;
      };
      expect(await after(0)).toBe(1);
      expect(await after(0)).toBe(0);
      expect(await after(50_000)).toBe(0);
      expect(await after(10_001)).toBe(1);
    } finally {
      await service.close();
    }
  });

  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:1::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['', ''],
  ])('from %s are counted under %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });

  it('that change something are refused while nobody can count them', async () => {
    // A string has no limit(): every count fails.
    const { url, account } = await sharedService();
    const call = client(url, (await account()).apiKey, withSettings({ KEY_LIMIT: 'broken' }));
    expect((await call.ask('listFiles')).status).toBe(200);
    expect(await problemOf(call.ask('storePlain', {}, { body: 'x' }))).toBe('503 overloaded');
    expect(await problemOf(call.ask('deleteFile', { fileId: crypto.randomUUID() }))).toBe('503 overloaded');
  });
});

describe('S86: a page in a browser', () => {
  let service: Service;
  let call: Client;
  beforeAll(async () => {
    service = await startService({ vars: { CORS_ORIGINS: 'https://a.example, https://b.example' } });
    call = client(service.url, (await service.account()).apiKey);
  });
  afterAll(() => service.close());

  it('of a listed origin may ask and read', async () => {
    const file = await call.store('plain', 'x');
    for (const Origin of ['https://a.example', 'https://b.example']) {
      const preflight = await fetch(`${service.url}/v1/storage/plain`, {
        method: 'OPTIONS',
        headers: { Origin, 'Access-Control-Request-Method': 'POST' },
      });
      expect(preflight.status).toBe(204);
      expect(preflight.headers.get('Access-Control-Allow-Origin')).toEqual(Origin);
      expect(preflight.headers.get('Access-Control-Allow-Headers')).toContain('Authorization');
      expect(preflight.headers.get('Access-Control-Allow-Methods')?.split(/, ?/)).toEqual([
        'GET',
        'HEAD',
        'POST',
        'PUT',
        'PATCH',
        'DELETE',
      ]);
      expect(preflight.headers.get('Access-Control-Max-Age')).toBe('600');
      expect(preflight.headers.get('Vary')).toContain('Origin');
      const response = await call.ask('getFile', { fileId: file.fileId }, { headers: { Origin } });
      const shown = await response.arrayBuffer();
      expect(response.headers.get('Access-Control-Allow-Origin')).toBe(Origin);
      expect(response.headers.get('Access-Control-Allow-Credentials')).toBeNull();
      expect(response.headers.get('Access-Control-Expose-Headers')).toContain('Content-Disposition');
      expect(response.headers.get('Vary')).toMatch(/Accept.*Origin/);
      expect(response.headers.get('Content-Length')).toBe(String(shown.byteLength));
      const problem = await fetch(`${service.url}/v1/storage`, { headers: { Origin } });
      expect(problem.status).toBe(401);
      expect(problem.headers.get('Access-Control-Allow-Origin')).toEqual(Origin);
    }
  });

  it('may read as well that a route does not exist, or takes no such method', async () => {
    const headers = { Origin: 'https://a.example' };
    for (const [path, method] of [
      ['/v1/nothing', 'GET'],
      ['/nothing', 'GET'],
      ['/v1/health', 'DELETE'],
    ] as const) {
      const response = await fetch(`${service.url}${path}`, { method, headers });
      expect(response.headers.get('Access-Control-Allow-Origin')).toBe('https://a.example');
      expect(response.headers.get('Vary')).toContain('Origin');
    }
  });

  it.skipIf(guarded)('of every origin may ask and read where the operator says *', async () => {
    const { url } = await sharedService();
    const headers = {
      Origin: 'https://anybody.example',
      'Access-Control-Request-Method': 'POST',
      ...withSettings({ CORS_ORIGINS: '*' }),
    };
    const preflight = await fetch(`${url}/v1/storage/plain`, { method: 'OPTIONS', headers });
    const response = await fetch(`${url}/v1/storage`, { headers });
    for (const each of [preflight, response]) {
      expect(each.headers.get('Access-Control-Allow-Origin')).toBe('*');
      expect(each.headers.get('Access-Control-Allow-Credentials')).toBeNull();
    }
  });

  it('gets no preflight from OPTIONS alone, which no route takes', async () => {
    const response = await fetch(`${service.url}/v1/storage`, {
      method: 'OPTIONS',
      headers: { Origin: 'https://a.example' },
    });
    expect(response.headers.get('Allow')).toBe('GET, HEAD');
    expect(await problemOf(response)).toBe('405 method_not_allowed');
  });

  it.skipIf(guarded)('of any other origin may not', async () => {
    for (const Origin of ['https://evil.example', 'https://a.example.evil', 'null', 'http://a.example']) {
      const preflight = await fetch(`${service.url}/v1/storage/plain`, {
        method: 'OPTIONS',
        headers: { Origin, 'Access-Control-Request-Method': 'POST' },
      });
      expect([...preflight.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
      expect(preflight.status).toBe(204);
      expect(preflight.headers.get('Vary')).toBe('Origin');
      const response = await fetch(`${service.url}/v1/storage`, { headers: { Origin } });
      expect([...response.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });
});
