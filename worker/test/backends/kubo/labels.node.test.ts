/** Labels of what adapters were tried against, as operators read them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { pinningServices } from '../../../backends/services.ts';

const url = 'https://kubo.example.com';
const entries = [
  { id: 'a', type: 'kubo', url },
  { id: 'b', type: 'cluster', peers: [{ url, ipfs: url }] },
  { id: 'd', type: 'psa', url },
  { id: 'e', type: 'pinata', tokenSecret: 'T' },
];

test('the table in the manual says of each type what its label says', () => {
  const readme = readFileSync(join(import.meta.dirname, '../../../README.md'), 'utf8').replaceAll('**', '');
  const context = { secretOf: () => 'jwt', pinName: 'sealpin:x', fetch };
  for (const { type, triedAgainst } of pinningServices(JSON.stringify(entries), context)) {
    const row = readme.split('\n').find((line) => line.trim().startsWith(`| \`${type}\` |`));
    expect(row, type).toContain(`| ${triedAgainst}`);
  }
});
