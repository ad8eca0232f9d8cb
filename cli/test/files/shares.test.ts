/** The list of shares: for other programs, and at terminals of some width. */
import { expect, test } from 'vitest';
import { Collector, run, temporaryDirectory } from '../environment.ts';
import { hostile, json, someApiKey, someShare } from '../hostile.ts';

const labelled = { ...someShare, label: `${'very '.repeat(20)}long`, password: true };
const unnamed = { ...someShare, id: 'a'.repeat(22), state: 'used_up' };

/** The lines of `shares` at a terminal of some width, or elsewhere. */
async function listed(columns?: number): Promise<string[]> {
  const service = await hostile({
    'GET /v1/shares': (_request, response) => json(response, 200, { shares: [labelled, unnamed] }),
  });
  const stdout = new Collector();
  if (columns !== undefined) Object.assign(stdout, { isTTY: true, columns });
  const env = { SEALPIN_API_KEY: someApiKey };
  const ran = await run(['shares', '--service', service.url], await temporaryDirectory(), { env, stdout });
  expect(ran.exit, ran.stderr).toBe(0);
  return ran.stdout.trimEnd().split('\n');
}

test.each([40, 80])('shares fit a terminal of %i columns, and their IDs are whole', async (columns) => {
  const lines = await listed(columns);
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
  for (const { id } of [labelled, unnamed]) expect(lines).toContain(`  ${id}`);
  expect(lines.join('\n')).toMatch(/^(?:what.*\n +)?state +left +until/);
  expect(lines.join('\n')).toMatch(/active +99\/100 +2026-01-31/);
  expect(lines.join('\n')).toMatch(/very very.*…$/m);
});

test('shares have one line each for other programs', async () => {
  expect(await listed()).toEqual([
    `${labelled.id}  active   99/100  2026-01-31  ${labelled.label}  (password)`,
    `${unnamed.id}  used up  99/100  2026-01-31  1 file`,
  ]);
});
