/** Keys of signatures, which are derived once for each day: a fresh signer gives the same. */
import { AwsV4Signer } from 'aws4fetch';
import { afterEach, expect, it, vi } from 'vitest';
import { s3Requests, type S3Options } from '../../backends/s3/s3-requests.ts';

afterEach(() => void vi.useRealTimers());

const credentials = { accessKeyId: 'key', secretAccessKey: 'secret', region: 'us-east-1' };

/** A bucket, and the requests that it was sent. */
function bucketOf(own: Partial<S3Options> = {}) {
  const sent: { url: string; headers: Headers }[] = [];
  const fetch = (async (url: string, { headers }: { headers: Headers }) => {
    sent.push({ url, headers });
    return new Response('bytes');
  }) as unknown as typeof globalThis.fetch;
  return { sent, ...s3Requests({ id: 's3', url: 'https://s3.test', bucket: 'files', ...credentials, fetch, ...own }) };
}

it('signs each request of any day as a signer that keeps nothing would', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const [one, other] = [bucketOf(), bucketOf({ secretAccessKey: 'another' })];
  const midnight = Date.UTC(2030, 0, 2);
  // Requests that were dated before midnight may be signed after it.
  for (const ms of [-2, -1, 0, -1, 1, 86_400_000, -1, 3 * 86_400_000])
    for (const { once, sent } of [one, other]) {
      vi.setSystemTime(midnight + ms * 1_000);
      await once({ method: 'GET', key: `object ${sent.length}` }, new AbortController().signal);
    }
  for (const [bucket, secretAccessKey] of [[one, 'secret'] as const, [other, 'another'] as const])
    for (const { url, headers } of bucket.sent) {
      const datetime = headers.get('x-amz-date') ?? '';
      const own = new Headers({ 'x-amz-content-sha256': headers.get('x-amz-content-sha256') ?? '' });
      const signer = new AwsV4Signer({ url, headers: own, ...credentials, secretAccessKey, service: 's3', datetime });
      expect(headers.get('authorization')).toBe(await signer.authHeader());
    }
  expect(one.sent).toHaveLength(8);
});
