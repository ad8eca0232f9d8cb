/** Keys of signatures, which are derived once for each day: a fresh signer gives the same. */
import { AwsV4Signer } from 'aws4fetch';
import { afterEach, expect, it, vi } from 'vitest';
import type { ObjectBody } from '../../backends/objects/bucket.ts';
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

const hourMs = 3_600_000;
const minutes15 = 900_000;
const stream = { stream: new ReadableStream(), bytes: 1 } as unknown as ObjectBody;

/** A bucket whose clock is right, and which takes only what was signed within 15 minutes of it. */
function bucketAt(clock: { ms: number }) {
  const fetch = (async (_url: string, { method, headers }: { method: string; headers: Headers }) => {
    const [date = ''] = [headers.get('x-amz-date')?.replace(/^(....)(..)(..T..)(..)/, '$1-$2-$3:$4:')];
    const isRight = Math.abs(Date.parse(date) - clock.ms) <= minutes15;
    const answer = { headers: { Date: new Date(clock.ms).toUTCString(), ETag: 'x' }, status: isRight ? 200 : 403 };
    const xml = isRight ? '' : '<Error><Code>RequestTimeTooSkewed</Code></Error>';
    return new Response(method === 'HEAD' ? null : xml, answer);
  }) as unknown as typeof globalThis.fetch;
  return s3Requests({ id: 's3', url: 'https://s3.test', bucket: 'files', ...credentials, fetch });
}

it.each(['GET', 'HEAD', 'PUT', 'DELETE'] as const)(
  'follows a clock that goes wrong, is set right, and goes wrong again: %s',
  async (method) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const clock = { ms: Date.UTC(2030, 0, 2, 12) };
    const { once } = bucketAt(clock);
    const ask = async (body?: ObjectBody) =>
      await once({ method, key: 'object', ...(body && { body }) }, new AbortController().signal);
    for (const ownMs of [0, hourMs, 0, -2 * hourMs, -hourMs, 0]) {
      vi.setSystemTime(clock.ms + ownMs);
      if (method === 'PUT' && ownMs !== 0) await expect(ask(stream)).rejects.toMatchObject({ retryAfterSeconds: 1 });
      expect((await ask(method === 'PUT' ? new Uint8Array(1) : undefined)).response.ok).toBe(true);
      if (method === 'PUT') expect((await ask(stream)).response.ok).toBe(true);
    }
  },
);

it.each([['held', new Uint8Array(1)] as const, ['streamed', stream] as const])(
  'measures the clock once for a request, and names it where that does not help: %s',
  async (_, body) => {
    let requests = 0;
    const fetch = (async () => {
      requests += 1;
      const headers = { Date: new Date().toUTCString() };
      return new Response('<Error><Code>RequestTimeTooSkewed</Code></Error>', { status: 403, headers });
    }) as unknown as typeof globalThis.fetch;
    const { once } = bucketOf({ fetch });
    for (let each = 1; each <= 2; each += 1) {
      const asked = once({ method: 'PUT', key: 'object', body }, new AbortController().signal);
      await expect(asked).rejects.toMatchObject({ code: 'misconfigured', hint: expect.stringContaining('clocks') });
    }
    expect(requests).toBe(body === stream ? 2 : 4);
  },
);
