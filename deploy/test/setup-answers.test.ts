/** What setup makes of its flags, for a new service and for one that has files already. */
import { describe, expect, test } from 'vitest';
import type { Configuration } from '../configuration.ts';
import { parseOptions } from '../options.ts';
import { changesFor, secretsFor } from '../setup-answers.ts';
import { refusal } from './deployment.ts';

const context = { env: {}, print: () => undefined, signal: new AbortController().signal, interactive: false };

const r2 = { id: 'r2', type: 'r2', binding: 'FILES' };
const s3 = {
  id: 's3',
  type: 's3',
  url: 'https://s3.acme.org/',
  bucket: 'ours',
  region: 'us-east-1',
  keySecret: 'S3_KEY',
  secretSecret: 'S3_SECRET',
};
const kubo = { id: 'kubo', type: 'kubo', url: 'https://kubo.acme.org/', tokenSecret: 'KUBO_TOKEN' };
const placeholder = { ...kubo, url: 'https://kubo.example.com' };

const configurationOf = (backends: readonly object[], buckets: Configuration['buckets'] = []): Configuration => ({
  name: 'sealpin',
  accountId: undefined,
  kvId: undefined,
  domain: undefined,
  vars: { BACKENDS: JSON.stringify(backends) },
  buckets,
});
const changes = (before: Configuration, ...flags: string[]) =>
  changesFor(parseOptions('setup', flags, '/'), before, context);

const flagsOf = {
  r2: ['--backend', 'r2'],
  s3: ['--s3-url', s3.url, '--bucket', 'ours'],
  kubo: ['--kubo-url', kubo.url],
};
const entries = { r2, s3, kubo };
const kinds = ['r2', 's3', 'kubo'] as const;
const bound = [{ binding: 'FILES', bucket: 'sealpin-files' }];

describe.each(kinds)('a new service at %s', (kind) => {
  test('has this backend alone', async () => {
    const { backends, bucket } = await changes(configurationOf([placeholder]), ...flagsOf[kind]);
    expect(backends).toEqual([entries[kind]]);
    expect(bucket).toEqual(kind === 'r2' ? { binding: 'FILES', bucket: 'sealpin-files' } : undefined);
  });
});

describe.each(kinds)('a service at %s', (present) => {
  const before = configurationOf([entries[present]], present === 'r2' ? bound : []);

  test('keeps it where nothing is said', async () => {
    expect(await changes(before)).toEqual({});
  });

  test.each(kinds.filter((kind) => kind !== present))('stays readable when %s takes new files', async (kind) => {
    expect((await changes(before, ...flagsOf[kind])).backends).toEqual([entries[kind], entries[present]]);
  });

  test('keeps it when it is named again', async () => {
    const { backends = [entries[present]], bucket } = await changes(before, ...flagsOf[present]);
    expect({ backends, bucket }).toEqual({ backends: [entries[present]], bucket: undefined });
  });
});

test('a Kubo that has moved gets its new address, and a bucket does not', async () => {
  const moved = await changes(configurationOf([r2, kubo], bound), '--kubo-url', 'https://second.acme.org');
  expect(moved.backends).toEqual([r2, { ...kubo, url: 'https://second.acme.org/' }]);
  expect(await refusal(changes(configurationOf([s3]), '--s3-url', s3.url, '--bucket', 'another'))).toEqual([
    'misconfigured',
    'the backend s3 has another bucket, where its files are',
    expect.stringContaining('move the files'),
  ]);
  expect((await refusal(changes(configurationOf([kubo, { ...kubo, id: 'second' }]), ...flagsOf.kubo)))[1]).toBe(
    'BACKENDS has several backends of the type kubo',
  );
});

test.each([
  [['--backend', 'r2', '--kubo-url', kubo.url]],
  [['--backend', 'kubo', '--bucket', 'ours']],
  [['--s3-url', s3.url, '--kubo-url', kubo.url]],
  [['--backend', 'r2', '--region', 'auto']],
])('flags that contradict each other are refused: %o', async (flags) => {
  expect((await refusal(changes(configurationOf([placeholder]), ...flags)))[1]).toBe(
    'the flags name several places for bytes',
  );
});

test('a secret that nobody gave is named with what to do', async () => {
  expect(await refusal(secretsFor(configurationOf([s3]), ['S3_KEY'], context))).toEqual([
    'usage',
    'the secret S3_SECRET is missing, and there is no terminal to ask at',
    'set S3_SECRET in the environment',
  ]);
  const env = { S3_SECRET: 'hidden' };
  expect(await secretsFor(configurationOf([s3]), ['S3_KEY'], { ...context, env })).toEqual(env);
});
