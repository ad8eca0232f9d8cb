/**
 * Health of a service that works, and of one that does not, for monitors, load balancers and
 * clients.
 */
import manifest from '../../../package.json' with { type: 'json' };
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import type { Health } from '../../../shared/api.ts';
import type { Bindings } from '../../http/app.ts';
import { tellRefusal, untoldRefusals } from '../../objects/metrics/seen-refusals.ts';
import { stateOf } from '../../routes/operator/health.ts';
import { client, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { inOneMinute } from '../one-minute.ts';
import { startPeer, type Peer } from '../peer.ts';
import {
  adminToken,
  rpcToken,
  sharedService,
  startService,
  withSettings,
  type Service,
} from '../../../testkit/service.ts';

const { version } = manifest;
/** A service shows the hash of its pages. */
const pages: unknown = expect.stringMatching(/^[0-9a-f]{64}$/);
const triedAgainst: unknown = expect.stringContaining('Kubo 0.43');
const limits = { maxUploadBytes: null, maxFileBytes: 32 * 2 ** 30, shares: { maxDays: 30, maxOpens: 100 } };
let service: Service;
let peer: Peer;
beforeAll(async () => {
  service = await startService({
    entry: 'worker/test/clock.ts',
    async through(url) {
      peer = await startPeer(url);
      return peer.url;
    },
  });
});
afterEach(() => {
  peer.onCommand = undefined;
});
afterAll(async () => {
  await service.close();
  await peer.close();
});

const health = (path = '/v1/health', token = ''): Promise<Response> =>
  client(service.url, token)(path, token === '' ? { headers: { Authorization: '' } } : {});
const status = async (): Promise<number> => {
  const response = await health();
  await response.arrayBuffer();
  return response.status;
};

it('is 200 while the service can store and read, and asks the pinning service once for many', async () => {
  await expect.poll(status).toBe(200);
  peer.seen.length = 0;
  // A result counts for 5 s.
  const one = () => jsonOf(fetch(`${service.url}/v1/health`, { headers: withSettings({}) }));
  const responses = await Promise.all(Array.from({ length: 30 }, one));
  for (const response of responses) expect(response).toEqual({ status: 'ok', version, pages, ...limits });
  expect(peer.seen.filter((command) => command === 'version').length).toBeLessThanOrEqual(1);
});

it('asks the pinning service again once a result is 5 s old', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const env = {
    BACKENDS: JSON.stringify([{ id: 'node', type: 'kubo', url: peer.url, tokenSecret: 'RPC_TOKEN' }]),
    RPC_TOKEN: rpcToken,
    SERVICE_ID: 'tested',
    METRICS: { getByName: () => ({ refusals: () => Promise.resolve({ ok: true, refusals: [] }) }) },
  } as unknown as Bindings;
  const statusAfter = async (ms: number): Promise<string | undefined> => {
    vi.setSystemTime(Date.now() + ms);
    return (await stateOf(env)).services[0]?.status;
  };
  expect(await statusAfter(0)).toBe('ok');
  peer.onCommand = (turn) => turn.cut();
  expect(await statusAfter(4_900)).toBe('ok');
  expect(await statusAfter(100)).toBe('failing');
  peer.onCommand = undefined;
  expect(await statusAfter(5_000)).toBe('ok');
});

it('begins a refusal that nobody could be told again after its end, or for another reason', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.spyOn(console, 'log').mockReturnValue();
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
  const refused = async () => await Promise.reject(new Error('its disk is full, too'));
  const env = { METRICS: { getByName: () => ({ refused, accepted: refused }) } } as unknown as Bindings;
  const began = Date.now();
  const since: (number | undefined)[] = [];
  for (const [minutes, code] of [
    [0, 'disk_full'],
    [5, 'disk_full'],
    [6, 'misconfigured'],
    [20, 'misconfigured'],
    [21, null],
  ] as const) {
    vi.setSystemTime(began + minutes * 60_000);
    await tellRefusal(env, 'kubo', code, 600_000);
    since.push(untoldRefusals().map((each) => (each.since - began) / 60_000)[0]);
  }
  expect(since).toEqual([0, 0, 6, 20, undefined]);
});

it('is 503 and degraded while a pinning service fails, and still alive', async () => {
  await expect.poll(status).toBe(200);
  peer.onCommand = (turn) => turn.cut();
  await expect.poll(status).toBe(503);
  const response = await health();
  expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
  expect(await jsonOf(response, 503)).toEqual({
    status: 'degraded',
    version,
    pages,
    ...limits,
  });
  for (const path of ['/v1/health?live', '/v1/health?live=true']) {
    peer.seen.length = 0;
    expect(await jsonOf(health(path))).toEqual({ status: 'ok', version, pages, ...limits });
    expect(peer.seen).toEqual([]);
  }
  expect(await jsonOf<Health>(health('/v1/health', adminToken), 503)).toMatchObject({
    storage: 'ok',
    services: [{ id: 'node', type: 'kubo', triedAgainst, status: 'failing', code: 'pinning_unavailable' }],
  });
  peer.onCommand = undefined;
  await expect.poll(status).toBe(200);
});

it('shows the operator more, and ignores any other Authorization', async () => {
  await expect.poll(status).toBe(200);
  expect(await jsonOf<Health>(health('/v1/health', adminToken))).toMatchObject({
    status: 'ok',
    storage: 'ok',
    services: [{ id: 'node', type: 'kubo', triedAgainst, status: 'ok', version: expect.any(String) as string }],
  });
  for (const Authorization of ['Bearer wrong', 'Basic bG9hZDpiYWxhbmNlcg==', 'Bearer sp_x', 'x']) {
    const response = await jsonOf<Health>(fetch(`${service.url}/v1/health`, { headers: { Authorization } }));
    expect(Object.keys(response)).toEqual(['status', 'version', 'pages', ...Object.keys(limits)]);
  }
});

it.each<[Record<string, string>, Health['shares']]>([
  [{ SHARE_MAX_DAYS: '3' }, { maxDays: 3, maxOpens: 100 }],
  [
    { SHARE_MAX_DAYS: '365', SHARE_MAX_OPENS: '2' },
    { maxDays: 365, maxOpens: 2 },
  ],
  [{ SHARE_MAX_DAYS: '3', PUBLIC_GATEWAY: 'off' }, null],
])('says what a share may be with %o', async (settings, shares) => {
  const { url } = await sharedService();
  for (const path of ['/v1/health', '/v1/health?live'])
    expect(await jsonOf<Health>(fetch(url + path, { headers: withSettings(settings) }))).toMatchObject({ shares });
});

it('takes no other parameters', async () => {
  for (const query of ['?live=no', '?ready', '?live&live'])
    expect(await problemOf(health(`/v1/health${query}`))).toBe('400 invalid_request');
});

it('S77: guesses of the operator’s token are counted, and past the limit the right one looks like a wrong one', () =>
  inOneMinute(async () => {
    const limited = await startService({
      ratelimits: { ADDRESS_LIMIT: { namespace_id: '9', simple: { limit: 3, period: 60 } } },
    });
    try {
      const ask = async (token: string): Promise<boolean> =>
        'services' in (await client(limited.url, token).getHealth());
      expect(await ask(adminToken)).toBe(true);
      for (let guess = 0; guess < 3; guess += 1) expect(await ask('wrong')).toBe(false);
      expect(await ask(adminToken)).toBe(false);
    } finally {
      await limited.close();
    }
  }));
