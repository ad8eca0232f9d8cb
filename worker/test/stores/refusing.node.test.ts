/** Buckets that take no new files: what health says of them, which `doctor` explains. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { client } from '../../../testkit/api-client.ts';
import type { ProxyFault } from '../../../testkit/faulty-proxy.ts';
import { refuses } from '../../../testkit/object-stores/hostile-store.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { hasVersitygw, noVersitygw, startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { present } from '../../../testkit/present.ts';
import { adminToken } from '../../../testkit/service.ts';
import { startStore, type StoreUnderTest } from './store-under-test.ts';

describe.skipIf(!hasVersitygw())('a bucket', () => {
  let gateway: Versitygw;
  let store: StoreUnderTest;
  beforeAll(async () => {
    gateway = await startVersitygw();
    store = await startStore('s3', { gateway });
  });
  afterAll(async () => {
    await store.close();
    await gateway.close();
  });

  test('that takes bytes and no index of a copy: each attempt waits for its time', async () => {
    const copies = await startStore('s3', { gateway, twin: 'twin/', vars: { REPLICAS: '2' } });
    try {
      let refused = 0;
      // An unknown answer does not say that the store is away, which would hold attempts back.
      const refuse: ProxyFault = { kind: 'answer', status: 418, body: 'not for tea' };
      const fault = (): ProxyFault => {
        refused += 1;
        return refuse;
      };
      present(copies.hostile).obey({ method: 'PUT', key: /^twin\/cid\//, fault });
      const init = { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body: 'a file' };
      expect((await copies.owner.call('/v1/storage/plain', init)).status).toBe(201);
      await copies.keys();
      for (let rings = 0; rings < 3; rings += 1) await copies.pass(10_000);
      // The alarm may have rung by itself, too.
      expect(refused).toBeGreaterThan(0);
      expect(refused).toBeLessThan(20);
    } finally {
      await copies.close();
    }
  });

  /** The code by which the bucket takes no new files, after an upload of this status. */
  async function codeAfter(status: number): Promise<string | undefined> {
    const init = { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body: 'a file' };
    expect((await store.owner.call('/v1/storage/plain', init)).status).toBe(status);
    const { services = [] } = await client(store.service.url, adminToken).getHealth();
    return services[0]?.refuses?.code;
  }

  inCi('that takes no more, and one that only gives, are told to the operator', async () => {
    const hostile = present(store.hostile);
    // An isolate tells of refusals every 10 seconds.
    const soon = { timeout: 30_000 };
    hostile.obey({ method: 'PUT', key: /\/data\//, fault: refuses('QuotaExceeded') });
    await expect.poll(() => codeAfter(507), soon).toBe('disk_full');
    hostile.obey();
    await gateway.kill();
    await gateway.start({ isReadOnly: true });
    await expect.poll(() => codeAfter(500), soon).toBe('misconfigured');
  });
});
if (!hasVersitygw()) test.skip(noVersitygw);
