/** The first account of a service that was set up, against the service itself. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { client } from '../../testkit/api-client.ts';
import { adminToken, startService, type Service } from '../../testkit/service.ts';
import { onSmallDisk } from '../../testkit/small-disk.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import { firstAccount, firstLink } from '../first-account.ts';
import { operatorApi, type OperatorApi } from '../operator-api.ts';
import { refusal } from './deployment.ts';

let service: Service;
let api: OperatorApi;
beforeAll(async () => {
  service = await startService();
  api = operatorApi(service.url, adminToken);
});
afterAll(() => service.close());

/** Makes the first account, and returns what is printed. */
async function made(apiKeyFile: string, account: string): Promise<string[]> {
  const lines: string[] = [];
  await firstAccount(api, { account, apiKeyFile }, { print: (line) => void lines.push(line) });
  return lines;
}

const imported = (path: string): string => JSON.stringify(fileURLToPath(new URL(path, import.meta.url)));

/**
 * Program that makes an account when there is no room for the key, before and after the request,
 * and when the file cannot be written any more.
 */
const program = `
  import { execFileSync } from 'node:child_process';
  import { appendFileSync, readdirSync, readFileSync, rmSync } from 'node:fs';
  import { firstAccount } from ${imported('../first-account.ts')};
  import { operatorApi } from ${imported('../operator-api.ts')};
  import { AccountList } from ${imported('../../shared/api.ts')};
  const { DISK, SERVICE, TOKEN } = process.env;
  const api = operatorApi(SERVICE, TOKEN);
  const accounts = async () => (await api.get('/v1/operator/accounts', AccountList)).accounts.map(({ id }) => id);
  const headers = { authorization: 'Bearer ' + TOKEN };
  const remove = (id) => fetch(SERVICE + '/v1/operator/accounts/' + id, { method: 'DELETE', headers });
  const fill = () => {
    for (let bytes = 65_536; bytes >= 1;) {
      try { appendFileSync(DISK + '/filler', Buffer.alloc(bytes)); } catch { bytes >>= 1; }
    }
  };
  const limitFiles = (to) => execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=' + to + ':unlimited']);
  const attempt = async (afterwards = () => {}) => {
    const post = async (...args) => { const reply = await api.post(...args); afterwards(); return reply; };
    const made = { ...api, post };
    const options = { account: 'research', apiKeyFile: DISK + '/key.txt' };
    const failure = await firstAccount(made, options, { print() {} }).catch((error) => error);
    const { code, message, hint } = failure ?? {};
    return { code, message, hint, files: readdirSync(DISK), accounts: await accounts() };
  };
  fill();
  const before = await attempt();
  rmSync(DISK + '/filler');
  const limited = await attempt(() => limitFiles(0));
  limitFiles('unlimited');
  await remove(limited.accounts[0]);
  const after = await attempt(fill);
  const text = readFileSync(DISK + '/key.txt', 'utf8');
  const about = await fetch(SERVICE + '/v1/account', { headers: { authorization: 'Bearer ' + text.trim() } });
  await remove(after.accounts[0]);
  console.log(JSON.stringify({ before, limited, after, text, about: await about.json() }));
`;

test('on a full disk no account is made, and one that was made has its key in the file', async (context) => {
  const disk = await temporaryDirectory();
  const ran = await onSmallDisk(context, {
    disk,
    mebibytes: 1,
    // The signal that comes with the limit would end the process.
    script: `trap '' XFSZ; exec "$NODE" --disable-warning=ExperimentalWarning --input-type=module -e "$PROGRAM"`,
    env: { PROGRAM: program, SERVICE: service.url, TOKEN: adminToken },
  });
  expect(ran.stderr).toBe('');
  const path = join(disk, 'key.txt');
  type Attempt = { accounts: string[] };
  const { before, limited, after, text, about } = JSON.parse(ran.stdout) as Record<
    'before' | 'limited' | 'after',
    Attempt
  > & { text: string; about: unknown };
  expect(before).toEqual({
    code: 'disk_full',
    message: `${path} cannot be written: the disk is full`,
    hint: 'name another file with --api-key-file',
    files: ['filler'],
    accounts: [],
  });
  const [lost] = limited.accounts;
  expect(limited).toEqual({
    code: 'file_unwritable',
    message:
      `the account ${lost} was made, and its API key is lost: ${path} cannot be written: ` +
      'larger than the disk or the limit of the process allows',
    hint: expect.stringContaining(`sealpin account delete ${lost} --destroy`) as string,
    files: [],
    accounts: [lost],
  });
  const [id] = after.accounts;
  expect(after).toEqual({ files: ['filler', 'key.txt'], accounts: [id] });
  expect(text).toMatch(/^sp_\w+\n$/);
  expect(about).toMatchObject({ account: { id, label: 'research' } });
});

test('the first account is made once, with its key in a file that only its owner reads', async () => {
  const path = join(await temporaryDirectory(), 'key.txt');
  await writeFile(path, 'something else');
  expect(await refusal(made(path, 'research'))).toEqual([
    'usage',
    `${path} exists, and stays as it is`,
    'name another file with --api-key-file',
  ]);
  const nowhere = join(path, 'below');
  expect(await refusal(made(nowhere, 'research'))).toEqual([
    'usage',
    `${nowhere} cannot be made (ENOTDIR)`,
    'name another file with --api-key-file',
  ]);
  // A label that the service refuses leaves no file behind.
  const key = `${path}.2`;
  expect((await refusal(made(key, 'x'.repeat(101))))[0]).toBe('invalid_request');

  const [line] = await made(key, 'research');
  const apiKey = (await readFile(key, 'utf8')).trim();
  expect(line?.includes(key)).toBe(true);
  expect(line?.includes(apiKey)).toBe(false);
  expect((await stat(key)).mode & 0o777).toBe(0o600);
  const about = await fetch(`${service.url}/v1/account`, { headers: { Authorization: `Bearer ${apiKey}` } });
  expect(await about.json()).toMatchObject({ account: { label: 'research' } });

  expect(await made(`${path}.3`, 'press')).toEqual([expect.stringContaining('sealpin account create makes more')]);
});

test('no link is sent with a first key that was revoked, and that is no failure', async () => {
  const { apiKey } = await service.account();
  const finding = await firstLink(service.url, apiKey);
  expect(finding).toMatchObject({ ok: true, what: expect.stringContaining('received by its link') });
  const api = client(service.url, apiKey);
  const { key } = await api.getAccount();
  await api.createKey({ label: 'own', scopes: ['read', 'keys'] });
  await api.revokeKey({ id: key.id, self: true });
  const revoked = await firstLink(service.url, apiKey);
  expect(revoked).toMatchObject({ ok: true, what: expect.stringContaining('no link was sent') });
});
