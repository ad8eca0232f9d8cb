/**
 * Deletion in buckets that keep versions, or lock them: nothing is left, and a receipt says no more
 * than that.
 */
import { randomBytes } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import type { Receipt } from '../../../shared/api.ts';
import { refuses } from '../../../testkit/object-stores/hostile-store.ts';
import { sendS3, versionsOf } from '../../../testkit/object-stores/s3-requests.ts';
import { keepVersions, startVersitygw, type Versitygw } from '../../../testkit/object-stores/versitygw.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { bytesOf, jsonOf, problemOf } from '../../../testkit/api-client.ts';
import { s3Bucket } from '../../backends/s3/s3.ts';
import { describeStores, startStore, type StoreUnderTest } from './store-under-test.ts';

const day = 86_400_000;
describeStores('a bucket of S3', ['s3'], () => {
  async function start(
    keeps: 'versions' | 'locked' | 'versions later',
  ): Promise<{ store: StoreUnderTest; gateway: Versitygw }> {
    const gateway = await startVersitygw({ keeps });
    onTestFinished(() => gateway.close());
    const store = await startStore('s3', { gateway });
    onTestFinished(() => store.close());
    return { store, gateway };
  }
  const versions = async (gateway: Versitygw): Promise<string[]> =>
    (await versionsOf(gateway)).map(({ key }) => key).filter((key) => !key.endsWith('/service'));
  const remove = async ({ owner }: StoreUnderTest, fileId: string): Promise<string | undefined> =>
    (await jsonOf<Receipt>(await owner.call(`/v1/storage/${fileId}`, { method: 'DELETE' }))).pins[0]?.status;
  const receipt = async ({ owner }: StoreUnderTest, fileId: string): Promise<string | undefined> =>
    (await jsonOf<Receipt>(await owner.call(`/v1/storage/${fileId}/receipt`))).pins[0]?.status;

  it('that keeps versions has none of a file that was deleted, and no delete marker', async () => {
    const { store, gateway } = await start('versions');
    const file = await store.owner.call.store('plain', randomBytes(2_500_000));
    // Somebody has removed an object by hand, and what it was is there still.
    const [key = ''] = (await store.keys()).filter((each) => each.startsWith('data/'));
    const before = (await versions(gateway)).length;
    await sendS3(gateway, 'DELETE', `sealpin-tested/${key}`);
    expect((await versions(gateway)).length).toBe(before + 1);
    expect(await remove(store, file.fileId)).toBe('unpinned');
    expect(await versions(gateway)).toEqual([]);
  });

  inCi('whose versions are suspended has none of what is deleted, of whatever time', async () => {
    const { store, gateway } = await start('versions');
    const before = await store.owner.call.store('plain', randomBytes(1000));
    await keepVersions(gateway, 'Suspended');
    const after = await store.owner.call.store('plain', randomBytes(1000));
    for (const { fileId } of [before, after]) expect(await remove(store, fileId)).toBe('unpinned');
    expect(await versions(gateway)).toEqual([]);
  });

  const answers = [
    ['AccessDenied', /^\?(versioning|object-lock)/],
    ['InternalError', /^\?versions/],
    ['AccessDenied', /^\?versions/],
  ] as const;
  it.each(answers.slice(ci ? 0 : 2))(
    'that answers %s to %s is not said to have erased what it keeps',
    async (code, key) => {
      const { store, gateway } = await start('versions');
      const { fileId } = await store.owner.call.store('plain', randomBytes(1000));
      present(store.hostile).obey({ method: 'GET', key, fault: refuses(code) });
      const status = await remove(store, fileId);
      expect(status === 'unpinned').toBe((await versions(gateway)).length === 0);
      present(store.hostile).obey();
      await store.pass(day, { rounds: 3 });
      expect(await receipt(store, fileId)).toBe('unpinned');
      expect(await versions(gateway)).toEqual([]);
    },
  );

  inCi('that begins to keep versions has none of what is deleted from then on', async () => {
    const { store, gateway } = await start('versions later');
    const first = await store.owner.call.store('plain', randomBytes(1000));
    expect(await remove(store, first.fileId)).toBe('unpinned');
    await keepVersions(gateway);
    const second = await store.owner.call.store('plain', randomBytes(1000));
    expect(await remove(store, second.fileId)).toBe('unpinned');
    expect(await versions(gateway)).toEqual([]);
  });

  it('that locks versions keeps a removal open, and the receipt says so', async () => {
    const { store, gateway } = await start('locked');
    const { fileId } = await store.owner.call.store('plain', randomBytes(70_000));
    const locked = await versions(gateway);
    expect(locked.length).toBe(2);
    expect(await remove(store, fileId)).toBe('scheduled');
    expect(await problemOf(store.owner.call(`/v1/storage/${fileId}/content`))).toBe('404 not_found');
    await store.pass(day / 2, { rounds: 3 });
    expect(await receipt(store, fileId)).toBe('scheduled');
    expect(await versions(gateway)).toEqual(locked);
    expect(store.service.log.some((line) => line.includes('whether it locks objects'))).toBe(true);
    const bytes = randomBytes(1000);
    const other = await store.owner.call.store('plain', bytes);
    expect(Buffer.compare(await bytesOf(store.owner.call(`/v1/storage/${other.fileId}/content`)), bytes)).toBe(0);
  });
});

const contents = (key: string): string => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`;
const versionOf = (key: string): string => `<Version><Key>${key}</Key><VersionId>1</VersionId></Version>`;
const page = (inner: string): string => `<ListBucketResult><IsTruncated>false</IsTruncated>${inner}</ListBucketResult>`;
const ofVersions = (inner: string): string => `<ListVersionsResult>${inner}</ListVersionsResult>`;

it.each<[what: string, damage: (listing: string) => string]>([
  ['has no end', (listing) => listing.slice(0, -3)],
  ['ends within an entry', (listing) => listing.slice(0, listing.indexOf('<Key>'))],
  ['has a key that is not URL-encoded', (listing) => listing.replace('ours', '%')],
  ['has no key', (listing) => listing.replace(/<Key>.*<.Key>/, '')],
  ['is of another prefix', (listing) => listing.replace('ours', 'theirs')],
])('a listing that %s is not believed: nothing is removed by it, and nothing counts as gone', async (_, damage) => {
  const asked: string[] = [];
  const answer = async (address: string | URL | Request, init?: RequestInit): Promise<Response> => {
    asked.push(init?.method ?? '');
    const isOfVersions = new Request(address).url.includes('versions=');
    return new Response(damage(isOfVersions ? ofVersions(versionOf('ours/1')) : page(contents('ours/1'))));
  };
  const access = { region: 'auto', accessKeyId: 'key', secretAccessKey: 'secret' };
  const bucket = s3Bucket({ id: 'store', url: 'http://store', bucket: 'files', ...access, fetch: answer });
  const { signal } = new AbortController();
  const refusal = { code: 'pinning_unavailable' };
  await expect(bucket.removeAll('ours/', signal)).rejects.toMatchObject(refusal);
  await expect(bucket.list('ours/', undefined, signal)).rejects.toMatchObject(refusal);
  expect(new Set(asked)).toEqual(new Set(['GET']));
});
