/** Tests of files at a pinning service of a type that was removed. */
import { expect, onTestFinished } from 'vitest';
import type { Problem } from '../../shared/api.ts';
import { client } from '../../testkit/api-client.ts';
import { inCi } from '../../testkit/long-run.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { adminToken, startService, type ServiceOptions } from '../../testkit/service.ts';
import { linesOf } from '../finding.ts';
import { checkRemovedTypes } from '../removed-types.ts';

inCi('an entry of the type car is misconfigured, doctor names its pins, and the rows of its files stay', async () => {
  const dir = await temporaryDirectory();
  const start = async (o: ServiceOptions = {}) => {
    const service = await startService({ dir, ...o });
    onTestFinished(() => service.close().catch(() => undefined));
    return service;
  };
  const first = await start();
  const { apiKey } = await first.account();
  const { cid, fileId } = await client(first.url, apiKey).store('plain', 'kept');
  await first.close();

  // Its id is that of the rows.
  const entries = JSON.stringify([{ id: 'node', type: 'car', url: 'https://rpc.example.com' }]);
  const second = await start({ vars: { PINNING_SERVICES: entries } });
  const refused = await client(second.url, apiKey).ask('storePlain', {}, { body: 'kept' });
  expect(refused.status).toBe(500);
  expect((await refused.json<Problem>()).hint).toEqual(expect.stringContaining('psa'));
  const configuration = { name: 's', accountId: undefined, kvId: undefined, domain: undefined, buckets: [] };
  const check = async (token?: string, url?: string, list = entries) => {
    const vars = { PINNING_SERVICES: list };
    const findings = await checkRemovedTypes({ configuration: { ...configuration, vars }, url, secretOf: () => token });
    return findings.flatMap(linesOf).join('\n');
  };
  expect(await check(adminToken, second.url)).toContain(`✗ node holds 1 pin: ${cid}`);
  expect(await check(adminToken)).toContain('– files at node: not listed without --url and ADMIN_TOKEN');
  expect(await check('wrong', second.url)).toContain('✗ the pins of');
  expect(await check(adminToken, second.url, entries.replace('"node"', '"new"'))).toBe(
    '✓ new holds no file of this service',
  );
  expect(await check(adminToken, second.url, entries.replace('"car"', '"kubo"'))).toBe('');
  await second.close();

  const third = await start({
    vars: {
      PINNING_SERVICES: '[{"id": "other", "type": "kubo", "url": "http://127.0.0.1:9", "tokenSecret": "KUBO_TOKEN"}]',
    },
  });
  const { files } = await client(third.url, apiKey).listFiles();
  expect(files).toMatchObject([{ fileId, cid, pins: [{ service: 'node' }] }]);
});
