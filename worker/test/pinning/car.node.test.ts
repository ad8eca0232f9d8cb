/** The adapter for hosted services, before a real Kubo that has no more than such a service documents. */
import { describe, expect, test } from 'vitest';
import { kuboProgram, noKubo } from '../../../testkit/kubo.ts';
import { startHostedKubo, type HostedKubo } from './documented/hosted-kubo.ts';
import { runtimes } from './runtimes.ts';
import { contractWith, type Others } from './suite.ts';

const long = process.env['SEALPIN_LONG'] === '1';

/** Others, in the same account. */
const others: Others<HostedKubo> = {
  collect: ({ kubo }) => kubo.ipfs('repo', 'gc'),
  pin: ({ kubo }, cid) => kubo.ipfs('pin', 'add', cid),
  unpin: ({ kubo }, cid) => kubo.ipfs('pin', 'rm', cid),
};

async function start(): Promise<HostedKubo> {
  const hosted = await startHostedKubo();
  return {
    ...hosted,
    async close() {
      await hosted.close();
      expect(hosted.refused).toEqual([]);
    },
  };
}

if (kuboProgram() === undefined) test.skip(noKubo);
else
  for (const [name, open] of Object.entries(runtimes).filter(([runtime]) => long || runtime === 'workerd'))
    describe(`${name}: what is documented of Kubo's RPC`, () =>
      contractWith(open, start, others, { isNameless: true }));
