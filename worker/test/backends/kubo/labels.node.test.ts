/** Labels of what adapters were tried against, as operators read them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { configuredBackends } from '../../../backends/backend-types.ts';

const url = 'https://kubo.example.com';
const entries = [
  { id: 'a', type: 'kubo', url },
  { id: 'b', type: 'cluster', peers: [{ url: 'https://rest.example.com', ipfs: 'https://ipfs.example.com' }] },
  { id: 'd', type: 'psa', url },
  { id: 'e', type: 'pinata', tokenSecret: 'T' },
  { id: 'f', type: 'r2', binding: 'BUCKET' },
  { id: 'g', type: 's3', url, bucket: 'files', keySecret: 'K', secretSecret: 'S' },
];

test('the table in the manual says of each type what its label says', () => {
  const readme = readFileSync(join(import.meta.dirname, '../../../../docs/operating.md'), 'utf8').replaceAll('**', '');
  const bucket = { createMultipartUpload: null };
  const context = { secretOf: () => 'jwt', bindingOf: () => bucket, serviceId: 'x', fetch };
  for (const { type, triedAgainst } of configuredBackends(JSON.stringify(entries), 'BACKENDS', context)) {
    const row = readme.split('\n').find((line) => line.trim().startsWith(`| \`${type}\` |`));
    expect(row, type).toContain(`| ${triedAgainst}`);
  }
});
