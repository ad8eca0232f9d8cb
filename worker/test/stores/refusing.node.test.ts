/** Buckets that take no new files: what health says of them, which `doctor` explains. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { client } from '../../../testkit/api-client.ts';
import { refuses } from '../../../testkit/object-stores/hostile-store.ts';
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

  /** The code by which the bucket takes no new files, after an upload of this status. */
  async function codeAfter(status: number): Promise<string | undefined> {
    const init = { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body: 'a file' };
    expect((await store.owner.call('/v1/storage/plain', init)).status).toBe(status);
    const { services = [] } = await client(store.service.url, adminToken).getHealth();
    return services[0]?.refuses?.code;
  }

  test('that takes no more, and one that only gives, are told to the operator', async () => {
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
