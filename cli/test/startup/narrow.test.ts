/**
 * What commands print at terminals of 40 and 80 columns: what is to be copied stays whole, and
 * everything else fits.
 */
import { describe, expect, test } from 'vitest';
import { generateKeys } from '../../../client/index.ts';
import { headings } from '../../commands/index.ts';
import { health, hostile, json, someApiKey, someShare, storedFile } from '../hostile.ts';
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

const fileId = '3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11';
const share = { ...someShare, label };
const limits = { files: 200, bytes: 1e12, fileBytes: 1e11 };
const migration = { from: 'pinata-eu', to: 'kubo-home', state: 'running', startedAt: day, total: 1e5, left: 9e4 };
const stored = storedFile(`bafkrei${'a'.repeat(52)}`, 5);
const invitation = { ...key, expiresAt: '2099-01-31T00:00:00.000Z', current: false, scopes: ['send'], limits };
const answers: Record<string, object> = {
  'GET /v1/operator/accounts': { accounts: [account] },
  'PATCH /v1/operator/accounts/': account,
  'GET /v1/operator/migrations': { migrations: [{ ...migration, failed: 12 }] },
  'GET /v1/operator/pins': { pins: [] },
  'GET /v1/events': {
    events: [{ id: '1', time: day, action: 'account.recovered', by: keyId, fileId }],
    cursor: '1',
    more: false,
  },
  'GET /v1/shares': { shares: [share] },
  'GET /v1/storage': { files: [stored, { ...stored, contentType: 'application/vnd.sealpin.parcel' }] },
};

async function linesOf(argv: readonly string[], columns: number | undefined): Promise<string[]> {
  const stdout = Object.assign(new Collector(), columns === undefined ? {} : { isTTY: true, columns });
  const directory = await temporaryDirectory();
  const service = await hostile({
    ...Object.fromEntries(
      Object.entries(answers).map(([route, body]) => [route, (_request, response) => json(response, 200, body)]),
    ),
    'GET /v1/keys': (_request, response) => json(response, 200, { keys: [argv[0] === 'invite' ? invitation : key] }),
    'GET /v1/health': health(),
  });
  const env = { SEALPIN_SERVICE: service.url, SEALPIN_API_KEY: someApiKey, SEALPIN_ADMIN_TOKEN: 'secret' };
  if (argv[0] === 'contact') {
    const { recipient } = await generateKeys();
    await run(['contact', 'add', 'ann', recipient, '--data-dir', directory], directory);
  }
  if (argv[0] === 'profile')
    await run(['login', service.url, '--data-dir', directory], directory, { stdin: someApiKey });
  const ran = await run([...argv, '--data-dir', directory], directory, { env, stdout });
  // That something is wrong is what doctor is for.
  if (argv[0] !== 'doctor') expect(ran.exit, ran.stderr).toBe(0);
  return ran.stdout.trimEnd().split('\n');
}

/** Commands that print sentences or rows, each with arguments with which it does. */
const shown: Readonly<Record<string, readonly string[][]>> = {
  'account disable': [[accountId]],
  'account enable': [[accountId]],
  'account list': [[]],
  'account quota': [[accountId, '50GB']],
  'contact list': [[]],
  doctor: [[]],
  events: [[]],
  'invite list': [[]],
  'key list': [[]],
  list: [[], ['--long']],
  migrate: [['--status']],
  'profile list': [[]],
  shares: [[]],
  status: [[]],
};

/**
 * Those that print nothing on standard output, or what is to be copied, or the lines of another
 * program. `inbox list` has a test of its own; `pages verify` compares a whole release.
 */
const others =
  'start, stop, rebuild, keygen, contact add, contact remove, login, profile use, profile remove, encrypt, ' +
  'chacha-encrypt, ecc-encrypt, decrypt, ecc-decrypt, send, receive, share, shares change, unshare, inbox ' +
  'create, inbox list, inbox open, inbox revoke, invite create, invite revoke, set, delete, verify, pages ' +
  'verify, reseal, export, import, pin, copy, backup, restore, service backup, service restore, key create, ' +
  'key revoke, key export, key restore, key rotate, account create, account delete, account rotate, repair, ' +
  'completions';

test('every command is looked at, or known to print nothing to be wrapped', () => {
  const names = [...Object.keys(shown), ...others.split(', ')];
  expect(names.toSorted()).toEqual(headings.map(({ name }) => name).toSorted());
});

const cases = Object.entries(shown).flatMap(([name, all]) =>
  all.map((rest) => ({ argv: [...name.split(' '), ...rest] })),
);

describe.each(cases)('$argv', ({ argv }) => {
  test.each([40, 80])('fits %i columns, but for a word or a command that is to be copied', async (columns) => {
    const lines = await linesOf(argv, columns);
    expect(lines.join('')).not.toBe('');
    const tooLong = lines.filter((line) => line.length > columns && !/^ *(?:\S+|sealpin .*)$/.test(line));
    expect(tooLong).toEqual([]);
  });
});

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

test('events have the time of this machine at a terminal, and for other programs what the service says', async () => {
  expect(await linesOf(['events'], undefined)).toEqual([`${day}  account.recovered  ${fileId}  by ${keyId}`]);
  const local = /^\d{4}-\d{2}-\d{2} \d{2}:\d{2}  account\.recovered  by 9f2c0d6be1a74583$/;
  expect(await linesOf(['events'], 80)).toEqual([expect.stringMatching(local), `  ${fileId}`]);
});
