/**
 * Lists at terminals of 40 and 80 columns: what is to be copied stays whole, and everything else
 * fits.
 */
import { describe, expect, test } from 'vitest';
import { generateKeys } from '../../../client/index.ts';
import { hostile, json, someApiKey } from '../hostile.ts';
import { Collector, run, temporaryDirectory } from '../environment.ts';

const day = '2026-01-31T23:30:00.000Z';
const label = `${'very '.repeat(20)}long`;
const [keyId, accountId] = ['9f2c0d6be1a74583', '7Xy0aaaaaaaaaaaaaaaaaa'];
const scopes = ['read', 'write', 'delete', 'keys', 'share'];
const key = {
  id: keyId,
  account: accountId,
  label,
  scopes,
  createdAt: day,
  expiresAt: day,
  createdBy: keyId,
  current: true,
};
const account = {
  id: accountId,
  label,
  createdAt: day,
  usage: { files: 3, bytes: 3e9 },
  quotaBytes: 5e10,
  disabled: true,
};

async function linesOf(argv: readonly string[], columns: number | undefined): Promise<string[]> {
  const stdout = Object.assign(new Collector(), columns === undefined ? {} : { isTTY: true, columns });
  const directory = await temporaryDirectory();
  const service = await hostile({
    'GET /v1/keys': (_request, response) => json(response, 200, { keys: [key] }),
    'GET /v1/operator/accounts': (_request, response) => json(response, 200, { accounts: [account] }),
  });
  const env = { SEALPIN_SERVICE: service.url, SEALPIN_API_KEY: someApiKey, SEALPIN_ADMIN_TOKEN: 'secret' };
  if (argv[0] === 'contact') {
    const { recipient } = await generateKeys();
    await run(['contact', 'add', 'ann', recipient, '--data-dir', directory], directory);
  }
  const ran = await run([...argv, '--data-dir', directory], directory, { env, stdout });
  expect(ran.exit, ran.stderr).toBe(0);
  return ran.stdout.trimEnd().split('\n');
}

describe.each([
  { argv: ['key', 'list'], whole: keyId, lines: 3, narrow: 4 },
  { argv: ['account', 'list'], whole: accountId, lines: 2, narrow: 3 },
])('$argv', ({ argv, whole, lines, narrow }) => {
  test.each([40, 80])('fits %i columns, with the ID in one piece', async (columns) => {
    const shown = await linesOf(argv, columns);
    expect(shown).toHaveLength(columns === 40 ? narrow : lines);
    for (const line of shown) expect(line.length, line).toBeLessThanOrEqual(columns);
    expect(shown.filter((line) => line.includes(whole))).toHaveLength(1);
    expect(shown.join()).toContain('…');
  });

  test('has one line for other programs', async () => {
    const shown = await linesOf(argv, undefined);
    expect(shown).toHaveLength(1);
    expect(shown[0]).toContain(label);
  });
});

test('contact list has the words of a fingerprint in a line of their own where they do not fit', async () => {
  expect(await linesOf(['contact', 'list'], 40)).toEqual(['ann', expect.stringMatching(/^ {2}(?:\w+-){5}\w+$/)]);
  expect(await linesOf(['contact', 'list'], 80)).toEqual([expect.stringMatching(/^ann {2}(?:\w+-){5}\w+$/)]);
});
