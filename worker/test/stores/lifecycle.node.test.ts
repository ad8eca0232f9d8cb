/**
 * Buckets whose own rules would take files away: health says so before it happens.
 * versitygw has no such rules, so that a fake answers as the S3 API documents it.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Health } from '../../../shared/api.ts';
import type { ProxyFault } from '../../../testkit/faulty-proxy.ts';
import { present } from '../../../testkit/present.ts';
import { adminToken } from '../../../testkit/service.ts';
import { ruleCheck } from '../../backends/s3/s3-rules.ts';
import { client } from '../../../testkit/api-client.ts';
import { describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';
import { inCi } from '../../../testkit/long-run.ts';

const expires = '<Expiration><Days>30</Days></Expiration>';
const rule = (does: string, o: { filter?: string; status?: string } = {}): string =>
  `<Rule><ID>tidy &amp; neat</ID>${o.filter ?? '<Filter/>'}<Status>${o.status ?? 'Enabled'}</Status>${does}</Rule>`;
const of = (prefix: string): { filter: string } => ({ filter: `<Filter><Prefix>${prefix}</Prefix></Filter>` });
const configuration = (...rules: string[]): string =>
  `<LifecycleConfiguration>${rules.join('')}</LifecycleConfiguration>`;

const harmful = {
  'that removes after days': rule(expires),
  'that removes on a day': rule('<Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>'),
  'that moves to an archive': rule('<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>'),
  'for a prefix that ours begins with': rule(expires, of('sealpin-')),
  'for a prefix below ours': rule(expires, of('sealpin-tested/data/')),
  'in the old form': rule(expires, { filter: '<Prefix></Prefix>' }),
  'for large objects': rule(expires, { filter: '<Filter><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan></Filter>' }),
  'beside a harmless one': `${rule(expires, of('logs/'))}${rule(expires)}`,
};
const harmless = {
  'that is switched off': rule(expires, { status: 'Disabled' }),
  'for another prefix': rule(expires, of('logs/')),
  'for tags, which no object of ours has': rule(expires, {
    filter: '<Filter><And><Prefix></Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter>',
  }),
  'for uploads that broke off': rule(
    '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>',
  ),
  'for older versions': rule(
    '<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>',
  ),
  'for delete markers': rule('<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>'),
};

describe('a rule', () => {
  const { signal } = new AbortController();
  const answering = (xml: string) => {
    const asked: unknown[] = [];
    const again = async (request: unknown) => (asked.push(request), { response: new Response(xml), xml });
    return { asked, check: ruleCheck('files', again) };
  };

  it.each(Object.entries(harmful))('%s is named, with what to do', async (_, rules) => {
    const { check, asked } = answering(configuration(rules));
    const warning = await check('sealpin-tested/', signal);
    expect(warning?.warning).toContain('files will be lost');
    expect(warning?.warning).toContain('tidy');
    expect(warning?.hint).toContain('the operator must remove');
    expect(await check('sealpin-tested/', signal)).toEqual(warning);
    expect(asked).toHaveLength(1);
  });

  it.each(Object.entries(harmless))('%s is none of ours', async (_, rules) => {
    expect(await answering(configuration(rules)).check('sealpin-tested/', signal)).toBeUndefined();
  });
});

describeStores('a bucket of S3', ['s3'], () => {
  let store: StoreUnderTest;
  beforeAll(async () => {
    store = await startStore('s3');
  });
  afterAll(() => store.close());
  const health = async (): Promise<Health> =>
    await (await client(store.service.url, adminToken)('/v1/health')).json<Health>();

  inCi('without rules is in order; with one that removes files, health is degraded and says what to do', async () => {
    const refused: ProxyFault = { kind: 'answer', status: 503 };
    const { hostile } = store;
    present(hostile).obey({ key: /^\?lifecycle/, fault: refused });
    // What could not be asked is asked again.
    expect(await health()).toMatchObject({ services: [{ id: 'store', status: 'failing' }] });
    const headers = { 'content-type': 'application/xml' };
    const body = configuration(rule(expires));
    present(hostile).obey({ key: /^\?lifecycle/, fault: { kind: 'answer', status: 200, headers, body } });
    const warning = expect.stringContaining('files will be lost') as string;
    const hint = expect.stringContaining('must remove') as string;
    await expect
      .poll(health)
      .toMatchObject({ status: 'degraded', services: [{ id: 'store', status: 'ok', warning, hint }] });
  });
});
