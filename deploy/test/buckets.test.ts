/** R2 buckets, with the real wrangler and a Cloudflare in memory. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { inCi, long } from '../../testkit/long-run.ts';
import { checkBuckets, createBucket } from '../buckets.ts';
import { readConfiguration } from '../configuration.ts';
import { editConfiguration } from '../edit-configuration.ts';
import { wranglerWith } from '../wrangler.ts';
import { startCloudflare, type Cloudflare } from './cloudflare.ts';
import { newFolder, processWith, refusal } from './deployment.ts';

let cloudflare: Cloudflare;
beforeAll(async () => {
  cloudflare = await startCloudflare();
});
afterAll(() => cloudflare.close());

const backends = [{ id: 'r2', type: 'r2', binding: 'FILES' }];

async function deployment() {
  const folder = await newFolder();
  await editConfiguration(folder.config, { backends, bucket: { binding: 'FILES', bucket: 'ours' } });
  const wrangler = wranglerWith(folder.config, processWith(folder, cloudflare.env).env);
  const check = () => checkBuckets({ configuration: readConfiguration(folder.config), wrangler });
  return { folder, wrangler, check };
}

// A process of wrangler costs up to 2 s of CPU.
test.runIf(long)('a bucket is created once, and the rule that it begins with does no harm', async () => {
  const { folder, wrangler, check } = await deployment();
  expect(await check()).toEqual([
    { ok: false, what: 'the account has no R2 bucket ours', todo: 'run npm run setup: it creates it' },
  ]);
  const written = await folder.read();
  expect(await createBucket(wrangler, 'ours')).toBe(true);
  expect(await folder.read()).toBe(written);
  expect(await createBucket(wrangler, 'ours')).toBe(false);
  expect(await check()).toEqual([{ ok: true, what: 'R2 bucket ours, without rules' }]);
});

test('rules of a bucket that keep or remove objects are reported', async () => {
  const { check } = await deployment();
  const days = (count: number) => ({ type: 'Age', maxAgeSeconds: count * 86_400 });
  cloudflare.buckets.set('ours', {
    lock: [
      { id: 'keep', enabled: true, prefix: 'sealpin-', condition: days(7) },
      { id: 'off', enabled: false, prefix: '', condition: { type: 'Indefinite' } },
    ],
    lifecycle: [
      {
        id: 'tidy',
        enabled: true,
        conditions: { prefix: '' },
        deleteObjectsTransition: { condition: { type: 'Age', maxAge: 2_592_000 } },
      },
    ],
  });
  expect(await check()).toEqual([
    {
      ok: false,
      what: 'R2 bucket ours: the lock rule "keep" (sealpin-, after 7 days) keeps what is deleted',
      todo: expect.stringContaining('npx wrangler r2 bucket lock remove ours --name "keep"'),
    },
    {
      ok: false,
      what: expect.stringMatching(/^R2 bucket ours: the lifecycle rule "tidy" \(\(all prefixes\), Expire objects/),
      todo: expect.stringContaining('npx wrangler r2 bucket lifecycle remove ours --name "tidy"'),
    },
  ]);
});

inCi('an account without R2 is told to enable it, before anything is created', async () => {
  const folder = await newFolder();
  const wrangler = wranglerWith(folder.config, processWith(folder, cloudflare.env).env);
  cloudflare.refusals.set('GET /r2/buckets/nowhere/lock', {
    code: 10_042,
    message: 'Please enable R2 through the Cloudflare Dashboard.',
  });
  expect(await refusal(createBucket(wrangler, 'nowhere'))).toEqual([
    'misconfigured',
    expect.stringContaining('R2 is not enabled'),
    'enable R2 in the dashboard of the Cloudflare account first',
  ]);
  expect(cloudflare.buckets.has('nowhere')).toBe(false);
  cloudflare.refusals.clear();
});
