/** Buckets that take no new files: what `doctor` makes of what the running service says. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Finding } from '../../../deploy/finding.ts';
import { backendFindings } from '../../../deploy/store-checks.ts';
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

  /** What doctor says after an upload of this status. */
  async function saidAfter(status: number): Promise<() => Promise<Finding[]>> {
    const init = { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body: 'a file' };
    expect((await store.owner.call('/v1/storage/plain', init)).status).toBe(status);
    return async () => backendFindings(await client(store.service.url, adminToken).getHealth());
  }

  test('that takes no more, and one that only gives, are named with what to do', async () => {
    const hostile = present(store.hostile);
    hostile.obey({ method: 'PUT', key: /\/data\//, fault: refuses('QuotaExceeded') });
    const full = { what: 'backend store: it takes no new files (disk_full)', todo: expect.stringContaining('quota') };
    await expect.poll(await saidAfter(507)).toMatchObject([full]);
    hostile.obey();
    await gateway.kill();
    await gateway.start({ isReadOnly: true });
    // An isolate tells of refusals every 10 seconds.
    const only = { what: 'backend store: it takes no new files (misconfigured)' };
    const todo = expect.stringContaining('allowed to write') as string;
    await expect
      .poll(async () => await (await saidAfter(500))(), { timeout: 30_000 })
      .toMatchObject([{ ...only, todo }]);
  });
});
if (!hasVersitygw()) test.skip(noVersitygw);
