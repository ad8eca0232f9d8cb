/**
 * The operator's commands for accounts, where a real service would take a minute to list what was
 * made.
 */
import { expect, test } from 'vitest';
import { run } from '../environment.ts';
import { hostile, json, someApiKey } from '../hostile.ts';
import { temporaryDirectory } from '../../../testkit/temporary-directory.ts';

const createdAt = '2026-01-02T03:04:05.000Z';
const accountOf = (id: string) => ({ id: id.repeat(22), label: 'team', publicKey: 'AA==', createdAt });

test.each([
  { label: 'team', says: `another account is called "team", too: tell them apart by ID (${'1'.repeat(22)})` },
  { label: 'teams', says: undefined },
])('an account called $label beside one called team is made, with a word about it where they are alike', async (o) => {
  const made = { ...accountOf('2'), label: o.label };
  const key = {
    id: '00112233aabbccdd',
    account: made.id,
    label: o.label,
    scopes: ['read'],
    createdAt,
    createdBy: null,
  };
  const service = await hostile({
    'GET /v1/operator/accounts': (_, response) =>
      json(response, 200, { accounts: [{ ...accountOf('1'), usage: { files: 0, bytes: 0 }, disabled: false }] }),
    'POST /v1/operator/accounts': (_, response) => json(response, 201, { account: made, apiKey: someApiKey, key }),
  });
  const env = { SEALPIN_ADMIN_TOKEN: 'the-token' };
  const argv = ['account', 'create', o.label, '--service', service.url];
  const ran = await run(argv, await temporaryDirectory(), { env });
  expect(ran).toMatchObject({ exit: 0, stdout: `${someApiKey}\n` });
  if (o.says === undefined) expect(ran.stderr).not.toContain('another account');
  else expect(ran.stderr).toContain(o.says);
});
