/** What a backend says of a failure: it may be long, and anything. */
import { expect, it } from 'vitest';
import { kubo } from '../../backends/kubo/kubo.ts';
import { psa } from '../../backends/psa/psa.ts';
import { s3Requests } from '../../backends/s3/s3-requests.ts';
import { errorText } from '../../log.ts';

const { signal } = new AbortController();
const words = 'no \u001B[31m'.repeat(7_000);
const o = { id: 'b', url: 'https://b', headers: {}, pinName: 'p', origins: [] };
const saying = (status: number, body: string) => ({
  fetch: (async () => new Response(body, { status })) as typeof fetch,
});
const ofPsa = JSON.stringify({ error: { reason: 'X', details: words.slice(0, 60_000) } });
const ofKubo = JSON.stringify({ Message: words.slice(0, 30_000), Code: 0, Type: 'error' });
const xml = `<Error><Code>X</Code><Message>${words.replaceAll('\u001B', '\u0085')}</Message></Error>`;
const keys = { accessKeyId: 'key', secretAccessKey: 'secret', region: 'a', bucket: 'b' };

it.each<[string, () => Promise<unknown>]>([
  ['a PSA that refuses', () => psa({ ...o, ...saying(400, ofPsa) }).stat('bafk', signal)],
  ['a PSA without money', () => psa({ ...o, ...saying(409, ofPsa) }).stat('bafk', signal)],
  ['a Kubo', () => kubo({ ...o, ...saying(500, ofKubo) }).stat('bafk', signal)],
  ['an object store', () => s3Requests({ ...o, ...keys, ...saying(400, xml) }).once({ method: 'GET' }, signal)],
])('of %s the beginning is kept, in printable characters', async (_, ask) => {
  const { message } = (await ask().catch((error: unknown) => error)) as Error;
  expect(message).toMatch(/no \\u\{/);
  expect(message).not.toMatch(/\p{C}/u);
  expect(message.length).toBeLessThan(400);
});

it('the log has the beginning of any error', () => {
  expect(errorText(new Error(words))).toHaveLength(1_000);
});
