/** The checks of `doctor` that ask a pinning service and the deployed service, both real. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { packageRoot } from '../../cli/local/package-root.ts';
import { kuboProgram, noKubo, startKubo, type RealKubo } from '../../testkit/programs/kubo.ts';
import { startLoopbackServer } from '../../testkit/loopback-server.ts';
import { adminToken, metricsToken, startService, type Service } from '../../testkit/service.ts';
import { checkPinning, checkService } from '../checks.ts';
import type { Configuration } from '../configuration.ts';
import { linesOf } from '../finding.ts';

const configurationOf = (vars: Record<string, string>): Configuration => ({
  name: 'sealpin',
  accountId: undefined,
  kvId: undefined,
  domain: undefined,
  vars,
  buckets: [],
});

describe.skipIf(kuboProgram() === undefined)('the pinning service', () => {
  let kubo: RealKubo;
  beforeAll(async () => {
    kubo = await startKubo({ setUp: join(packageRoot(), 'docs/kubo/allow-sealpin.sh') });
  });
  afterAll(() => kubo.close());
  const check = (token: string | undefined, url = kubo.url) =>
    checkPinning({
      configuration: configurationOf({
        PINNING_SERVICES: JSON.stringify([{ id: 'kubo', type: 'kubo', url, tokenSecret: 'KUBO_TOKEN' }]),
      }),
      secretOf: (name) => (name === 'KUBO_TOKEN' ? token : undefined),
    });

  test('stores, reads and removes a file, of which nothing stays', async () => {
    const [finding] = await check(kubo.token);
    expect(finding).toMatchObject({
      ok: true,
      what: expect.stringMatching(/^pinning service kubo \(0\.43\.1\): .* bafybei/),
    });
    const cid = /bafybei\w+/.exec(finding?.what ?? '')?.[0] ?? '';
    const block = await fetch(`${kubo.url}/api/v0/block/get?offline=true&arg=${cid}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${kubo.token}` },
    });
    expect(block.status).toBe(500);
    expect(await block.text()).toEqual(expect.stringContaining('not found'));
  });

  test('one that is not sent blocks is asked whether it responds, and nothing is stored there', async () => {
    const asked: (string | undefined)[] = [];
    const psa = await startLoopbackServer((request, response) => {
      asked.push(request.method);
      response.end('{"count":0,"results":[]}');
    });
    onTestFinished(psa.close);
    const services = [
      { id: 'kubo', type: 'kubo', url: kubo.url, tokenSecret: 'KUBO_TOKEN' },
      { id: 'copy', type: 'psa', url: psa.url },
    ];
    const [, finding] = await checkPinning({
      configuration: configurationOf({ PINNING_SERVICES: JSON.stringify(services) }),
      secretOf: () => kubo.token,
    });
    expect(finding).toMatchObject({ ok: true, what: expect.stringContaining('copy: responds') });
    expect(asked).toEqual(['GET']);
  });

  test('is not tried without its token', async () => {
    expect(await check(undefined)).toEqual([{ ok: undefined, what: expect.stringContaining('set KUBO_TOKEN') }]);
  });

  test('with another token, another port and no Kubo at all is told apart', async () => {
    const [wrong] = await check('another-token');
    expect(wrong).toMatchObject({
      ok: false,
      what: expect.stringContaining('kubo at'),
      todo: expect.stringContaining('token'),
    });
    const [gateway] = await check(kubo.token, kubo.gateway);
    expect(gateway).toMatchObject({ ok: false, todo: expect.stringContaining('5001') });
    const [nobody] = await check(kubo.token, 'http://127.0.0.1:9');
    expect(nobody).toMatchObject({ ok: false, what: expect.stringContaining('127.0.0.1:9') });
  });

  test('with a token that lacks a command is refused', async () => {
    const lacking = 'token-without-pin';
    const paths = ['version', 'dag/import', 'block/rm'].map((command) => `/api/v0/${command}`);
    const authorizations = { lacking: { AuthSecret: `bearer:${lacking}`, AllowedPaths: paths } };
    await kubo.stop();
    // The program configures a stopped node without its API.
    await kubo.ipfs('config', '--json', 'API.Authorizations', JSON.stringify(authorizations));
    await kubo.start();
    const [finding] = await check(lacking);
    expect(finding).toMatchObject({
      ok: false,
      what: expect.stringContaining('kubo at'),
      todo: expect.stringContaining('token'),
    });
  });
});
if (kuboProgram() === undefined) test.skip(noKubo);

test('a bucket that is bound to the Worker is not asked from here', async () => {
  const BACKENDS = '[{"id": "r2", "type": "r2", "binding": "FILES"}]';
  const configuration = { ...configurationOf({ BACKENDS }), buckets: [{ binding: 'FILES', bucket: 'files' }] };
  expect(await checkPinning({ configuration, secretOf: () => undefined })).toEqual([]);
});

describe('the deployed service', () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ vars: { CORS_ORIGINS: 'https://app.acme.org' } });
  });
  afterAll(() => service.close());
  const check = async (
    o: { url?: string; origins?: string; serviceId?: string; token?: string; metrics?: string } = {},
  ): Promise<string[]> => {
    const findings = await checkService({
      configuration: configurationOf({
        CORS_ORIGINS: o.origins ?? 'https://app.acme.org',
        SERVICE_ID: o.serviceId ?? '',
      }),
      wrangler: () => Promise.reject(new Error('it is not asked')),
      url: o.url ?? service.url,
      secretOf: (name) => (name === 'METRICS_TOKEN' ? (o.metrics ?? metricsToken) : (o.token ?? adminToken)),
    });
    return findings.flatMap((finding) => linesOf(finding));
  };

  test('is reached, and has this version, the operator’s token and the origins of the configuration', async () => {
    expect(await check()).toEqual([
      `✓ ${service.url} responds, and can store and read`,
      `✓ ${service.url} runs this version`,
      '✓ the operator’s token lists accounts, which are in KV',
      '✓ the token for metrics reads them',
      expect.stringMatching(/^– pins are named sealpin:([0-9a-f]{32}), .* write SERVICE_ID = "\1" into \[vars\]/),
      '✓ CORS: https://app.acme.org may call',
    ]);
  });

  test('with another token or other origins is reported', async () => {
    const lines = await check({ token: 'wrong', origins: 'https://other.acme.org' });
    expect(lines).toContain(`✗ the operator’s token: ${service.url} responds with 401`);
    expect(lines).toContain('✗ CORS: https://other.acme.org is refused, other than CORS_ORIGINS says');
    expect(await check({ metrics: adminToken })).toContain(`✗ the token for metrics: ${service.url} responds with 401`);
    expect((await check({ origins: '*' })).join()).toContain('doctor.invalid is refused');
    expect(lines.filter((line) => line.startsWith('✗')).length).toBe(
      lines.filter((line) => line.startsWith('  → ')).length,
    );
  });

  test('that names its pins otherwise than the configuration is reported', async () => {
    const [, used = ''] = /named sealpin:(\S+),/.exec((await check()).join('\n')) ?? [];
    expect(await check({ serviceId: used })).toContain(`✓ pins are named sealpin:${used}`);
    const lines = await check({ serviceId: 'another' });
    expect(lines).toContain(`✗ the deployed service names its pins sealpin:${used}, and SERVICE_ID is another`);
    expect(lines.join('\n')).toContain(`write SERVICE_ID = "${used}"`);
  });

  test('that is not there, is not Sealpin, is degraded or older is reported', async () => {
    expect(await check({ url: 'http://127.0.0.1:9' })).toEqual([
      expect.stringContaining('✗ http://127.0.0.1:9 does not respond'),
      expect.stringContaining('→'),
    ]);
    let health: object | string = '<html>';
    const other = await startLoopbackServer((request, response) => {
      const body = request.url === '/v1/health' ? health : '';
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
    onTestFinished(() => other.close());
    const { url } = other;
    expect((await check({ url }))[0]).toBe(`✗ ${url} responds, and is not Sealpin`);
    health = { status: 'degraded', version: '0.0.1' };
    const lines = await check({ url });
    expect(lines).toContain(`✗ ${url} responds, and is degraded`);
    expect(lines.join('\n')).toContain('runs Sealpin 0.0.1');
  });

  test('from before the operator’s routes had their own path is named, and what to deploy first', async () => {
    const before = await startLoopbackServer((request, response) => {
      const isMissing = request.url?.startsWith('/v1/operator/') === true;
      const asked = fetch(`${service.url}${isMissing ? '/v1/missing' : request.url}`);
      void asked.then(async (answer) => response.writeHead(answer.status).end(await answer.text()));
    });
    onTestFinished(() => before.close());
    const lines = await check({ url: before.url });
    const at = lines.indexOf(`✗ ${before.url} is older than this version: it has no routes below /v1/operator`);
    expect(lines[at + 1]).toBe('  → deploy this version first: npm run deploy');
    expect(lines.join('\n')).not.toContain('token');
  });
});
