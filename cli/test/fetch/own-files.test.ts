/** Files of an account at a service that gives blobs to nobody: they are read with its API key. */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { faultyProxy, type ProxyFault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { type Account, accountIn, jsonOf, password, sealpin } from '../backup-accounts.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { sharedLocalService } from '../local.ts';

const local = sharedLocalService();
/** Some leaves, below a node. */
const noise = randomBytes(2_500_000);

const absent: ProxyFault = {
  kind: 'answer',
  status: 404,
  headers: { 'content-type': 'application/problem+json' },
  body: JSON.stringify({ type: 'about:blank', title: 'Not found', status: 404, code: 'not_found' }),
};

/** An account behind such a service. @param fault what else happens to a request */
async function closed(fault: (request: Passed) => ProxyFault | undefined = () => undefined) {
  const open = await accountIn(local);
  const { url, passed } = await faultyProxy(
    () => open.url,
    (request) => (request.path.startsWith('/ipfs/') ? absent : fault(request)),
  );
  const account: Account = { ...open, url };
  return { account, open, passed, directory: await temporaryDirectory() };
}

test('a backup has every file, in both modes and of any number of leaves', async () => {
  const { account, open, directory } = await closed();
  for (const mode of ['plain', 'encrypted'] as const)
    for (const bytes of [Buffer.alloc(0), noise.subarray(0, 1000), noise])
      await open.files.put(bytes, { mode, name: 'x' });
  expect(await jsonOf(sealpin(account, ['backup', 'copy', '--json'], directory))).toMatchObject({ files: 6 });
  expect(await run(['backup', 'copy', '--check'], directory)).toMatchObject({ exit: 0 });
});

test('what was sealed here is decrypted, verified, exported, resealed, shared and copied', async () => {
  const { account, directory } = await closed();
  const done = async (...argv: string[]): Promise<string> => {
    const ran = await sealpin(account, argv, directory);
    expect(ran, ran.stderr).toMatchObject({ exit: 0 });
    return ran.stdout.trim();
  };
  await writeFile(join(directory, 'in'), noise);
  const blob = await done('encrypt', 'in', '--quiet');
  await done('decrypt', blob, 'out');
  expect((await readFile(join(directory, 'out'))).equals(noise)).toBe(true);
  await done('verify', blob);
  await done('export', blob, 'out.car');
  await done('decrypt', './out.car', 'again');
  await writeFile(join(directory, 'new'), `${password}-new`, { mode: 0o600 });
  expect(await done('reseal', blob, '--password-file', 'new', '--quiet')).toMatch(/^bafybei/);
  expect(await done('share', blob, '--quiet')).toMatch(/^http/);
  const other = await accountIn(local);
  const stdin = `${other.apiKey}\n`;
  await sealpin(account, ['login', other.url, '--name', 'other'], directory, { stdin });
  await done('copy', blob, '--to', 'other');
  expect((await other.files.list()).files.map(({ cid }) => cid)).toEqual([blob]);
});

test('a CAR has one root, and each block once, where a gateway breaks off and the account has the file', async () => {
  const { account, open, directory } = await closed();
  const { cid } = await open.files.put(noise, { mode: 'plain' });
  const whole = await sealpin(open, ['export', cid, 'whole.car'], directory);
  expect(whole, whole.stderr).toMatchObject({ exit: 0 });
  // It has the root, which is asked for first, and then some leaves.
  const gateway = await faultyProxy(
    () => open.url,
    (_, before) => (before.length < 2 ? { kind: 'cut', afterBytes: 1_500_000 } : absent),
  );
  await writeFile(join(account.home, 'config.json'), JSON.stringify({ v: 1, gateways: [gateway.url] }));
  const ran = await sealpin(account, ['export', cid, 'out.car'], directory);
  expect(ran, ran.stderr).toMatchObject({ exit: 0 });
  expect((await readFile(join(directory, 'out.car'))).equals(await readFile(join(directory, 'whole.car')))).toBe(true);
  expect((await readdir(directory)).toSorted()).toEqual(['out.car', 'whole.car']);
});

test('other bytes are refused, and the key goes to no service that only a flag names', async () => {
  const { account, open, passed, directory } = await closed(({ path }) =>
    path.endsWith('/content') ? { kind: 'flip', atByte: 2_000_000 } : undefined,
  );
  const { cid } = await open.files.put(noise, { mode: 'plain' });
  expect(await sealpin(account, ['export', cid, 'out.car'], directory)).toMatchObject({ exit: 3 });
  passed.length = 0;
  const env = { SEALPIN_API_KEY: account.apiKey };
  const ran = await run(['export', cid, 'out.car', '--service', account.url], directory, { env });
  expect(ran).toMatchObject({ exit: 3 });
  expect(passed.filter(({ headers }) => headers.authorization !== undefined)).toEqual([]);
  expect(await readdir(directory)).toEqual([]);
});
