/** Statuses by which a proxy, or Cloudflare, says that a backend is not reached, and how long. */
import { expect, it } from 'vitest';
import { kubo } from '../../backends/kubo/kubo.ts';
import { s3Requests } from '../../backends/s3/s3-requests.ts';

const { signal } = new AbortController();
const serverErrors = Array.from({ length: 100 }, (_, index) => 500 + index);
const ofGateways = serverErrors.filter((status) => [502, 503, 504].includes(status) || (status >= 520 && status < 531));

/** Values of `Retry-After`, and what is kept of them. */
const waits = [
  ...['3601', '1764421200', `${Number.MAX_SAFE_INTEGER}`, '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT'].map(
    (text) => [text, 3600] as const,
  ),
  ['3600', 3600],
  ['17', 17],
  ['0', 0],
] as const;

const answering = (status: number, headers: HeadersInit = {}) =>
  (async () => new Response('error code: 1016', { status, headers })) as typeof fetch;
const asked: Record<string, (status: number, headers?: HeadersInit) => Promise<unknown>> = {
  'a Kubo': async (...answer) => {
    const service = kubo({ id: 'k', url: 'https://k', headers: {}, pinName: 'p', fetch: answering(...answer) });
    return await service.stat('bafk', signal);
  },
  'an object store': async (...answer) => {
    const keys = { accessKeyId: 'key', secretAccessKey: 'secret', region: 'a' };
    const store = s3Requests({ id: 's', url: 'https://s', bucket: 'b', ...keys, fetch: answering(...answer) });
    return await store.once({ method: 'GET', key: 'object' }, signal);
  },
};

it.each(Object.entries(asked))(
  '%s is unavailable by each of them, and by no status that is no such',
  async (_, ask) => {
    const codes = await Promise.all(
      serverErrors.map(async (status) => {
        const code = await ask(status).catch((error: { code: string }) => error.code);
        return { status, isAway: code === 'pinning_unavailable' };
      }),
    );
    // A store that says 500 asks for another attempt.
    const away = codes.filter(({ isAway, status }) => isAway && status !== 500).map(({ status }) => status);
    expect(away).toEqual(ofGateways);
  },
);

it.each(Object.entries(asked))('%s is asked again after an hour, for however long it asks to wait', async (_, ask) => {
  for (const [text, retryAfterSeconds] of waits)
    await expect(ask(429, { 'retry-after': text })).rejects.toMatchObject({ retryAfterSeconds });
});
