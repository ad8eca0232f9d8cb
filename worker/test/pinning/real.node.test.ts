/** The adapter suite before a real Kubo. */
import { describe, expect, test } from 'vitest';
import { kuboProgram, noKubo, startKubo } from '../../../testkit/kubo.ts';
import { runtimes } from './runtimes.ts';
import { contract } from './suite.ts';

if (kuboProgram() === undefined) {
  test.skip(noKubo);
} else {
  for (const [name, open] of Object.entries(runtimes)) {
    describe(`${name}: a real Kubo`, () => contract(open, () => startKubo()));
  }

  test('a Kubo that was stopped is not reachable, and that is worth another attempt', async () => {
    const kubo = await startKubo();
    try {
      const runtime = await runtimes['workerd']!();
      try {
        const scenario = { url: kubo.url, token: kubo.token } as const;
        expect((await runtime.play({ ...scenario, method: 'put', bytes: 1000 })).value).toMatchObject({
          cid: expect.any(String),
        });
        await kubo.stop();
        for (const method of ['put', 'ping'] as const)
          expect((await runtime.play({ ...scenario, method, bytes: 1000 })).error).toMatchObject({
            code: 'pinning_unavailable',
          });
      } finally {
        await runtime.close();
      }
    } finally {
      await kubo.close();
    }
  });
}
