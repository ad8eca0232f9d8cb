/** The exit code of each failure, in every command that asks a service. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Code, codes, describe as about, exitOf, isCode } from '../../../shared/errors.ts';
import { carOf } from '../../../shared/ipfs/index.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { inCi } from '../../../testkit/long-run.ts';
import { present } from '../../../testkit/present.ts';
import { loadCommands } from '../../commands/index.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { account, health, hostile, json, someApiKey } from '../hostile.ts';

const file = '3e9a1b1c-3c44-4f5a-9c52-0a3c4e9f2b11';
const bytes = new TextEncoder().encode('Dear Ann');
const cid = await cidOfBytes(bytes);
const accountId = '0'.repeat(22);
const key = '1111111111111111';
const share = '1'.repeat(22);

/** The arguments of each command that uses a service, so that it asks it. */
const lines: Readonly<Record<string, string>> = {
  status: '',
  doctor: '',
  encrypt: 'letter',
  'chacha-encrypt': 'letter',
  'ecc-encrypt': 'letter pair/public.key',
  decrypt: `${file} out`,
  'ecc-decrypt': `${cid} out pair/private.key`,
  send: 'letter notes',
  share: file,
  shares: '',
  'shares change': `${share} --opens 9`,
  unshare: share,
  'inbox create': 'receipts --recipient pair/public.key',
  'inbox list': '',
  'inbox open': `${file} new`,
  'inbox revoke': key,
  'invite create': '--name ann',
  'invite list': '',
  'invite revoke': key,
  list: '',
  set: `${file} --name other`,
  delete: `${file} --yes`,
  verify: `${file} --open`,
  reseal: `${cid} --to pair/public.key`,
  export: `${cid} out.car`,
  import: 'letter.car',
  pin: `${cid} --from @`,
  events: '',
  copy: `${file} --to other`,
  backup: 'backup',
  restore: 'backup',
  'key create': 'backups --scopes read',
  'key list': '',
  'key revoke': key,
  'key export': 'out.key',
  'account create': 'press',
  'account list': '',
  'account quota': `${accountId} 1GiB`,
  'account disable': accountId,
  'account enable': accountId,
  'account delete': `${accountId} --destroy`,
  'account rotate': '--yes',
  migrate: 'one two',
  repair: '',
};

/** They ask for a blob, which others have, too: a refusal says that it is no Sealpin service. */
const fetching = ['ecc-decrypt', 'export'];
const env = {
  SEALPIN_API_KEY: someApiKey,
  SEALPIN_ADMIN_TOKEN: 'the-token-of-the-operator',
  SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic',
};

/** A directory with what the lines name. */
async function prepared(): Promise<string> {
  const directory = await temporaryDirectory();
  for (const name of ['letter', 'notes']) await writeFile(join(directory, name), bytes);
  const car = await new Response(carOf(cid, [{ id: 'memory', block: async () => bytes }])).bytes();
  await writeFile(join(directory, 'letter.car'), car);
  await mkdir(join(directory, 'backup/files'), { recursive: true });
  const manifest = { v: 1, service: 'https://sealpin.example.com', account: accountId, publicKey: 'AA==' };
  await writeFile(join(directory, 'backup/backup.json'), JSON.stringify(manifest));
  const { url } = await hostile({ 'GET /v1/health': health() });
  for (const words of [
    ['keygen', '--output', 'pair', '--quiet'],
    ['login', url, '--name', 'other'],
  ])
    await run([...words, '--data-dir', 'home'], directory, { stdin: someApiKey });
  return directory;
}

/** A link to a share of a service. */
const linkTo = (url: string): string =>
  `${url}/s#1000SYW7RiJxkEgOGusQGwp003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf2IXq88`;

/** A service whose answer to everything is one problem. */
async function serviceThatSays(code: Code): Promise<string> {
  const { status } = about(code);
  const { url } = await hostile({
    '': (request, response) => {
      request.resume();
      json(response, status, { type: 'about:blank', title: 'x', status, code, detail: 'because' });
    },
  });
  return url;
}

const commands = (await loadCommands()).filter(({ args }) => 'service' in args).map(({ name }) => name);
/** The first code of each exit code that a service may answer with. */
const oneOfEach = [...new Map(codes.toReversed().map((code) => [exitOf({ code }), code])).values()].filter(
  (code) => code !== 'interrupted',
);

test('every command that asks a service is here', () => {
  expect(Object.keys(lines).toSorted()).toEqual(commands.toSorted());
  expect(new Set(oneOfEach.map((code) => exitOf({ code })))).toEqual(new Set([1, 2, 3, 4, 5, 6, 7]));
});

test('what a service answers decides the exit code, in every command, and a refusal leaves nothing new', async () => {
  const directory = await prepared();
  const before = await readdir(directory);
  for (const code of oneOfEach) {
    const url = await serviceThatSays(code);
    for (const name of commands) {
      const words = `${name} ${present(lines[name])}`.replace('@', url).trim().split(' ');
      const ran = await run([...words, '--service', url, '--data-dir', 'home'], directory, { env });
      const isOfSource = fetching.includes(name) && code !== 'not_found';
      expect({ words, code, exit: ran.exit }, ran.stderr).toEqual({
        words,
        code,
        exit: isOfSource ? 6 : exitOf({ code }),
      });
      expect(ran.stdout === '' || name === 'doctor', ran.stdout).toBe(true);
      expect(await readdir(directory), name).toEqual(before);
    }
    const received = await run(['receive', linkTo(url), 'new/below', '--data-dir', 'home'], directory);
    expect({ code, exit: received.exit }, received.stderr).toEqual({ code, exit: exitOf({ code }) });
    expect(await readdir(directory), code).toEqual(before);
  }
});

/** They read what others have, too, or say what is missing. */
const needNoKey = ['status', 'doctor', 'ecc-decrypt', 'export'];

test('a secret that is missing is misuse, in every command', async () => {
  const directory = await prepared();
  const { url } = await hostile({ 'GET /v1/health': health(), 'GET /v1/account': account(['write', 'share']) });
  const fresh = ['--data-dir', 'fresh'];
  const withKey = { SEALPIN_API_KEY: someApiKey };
  const runs = [
    ...commands
      .filter((name) => !needNoKey.includes(name))
      .map((name) => ({ words: `${name} ${present(lines[name])}`.replace('@', url).trim().split(' '), env: {} })),
    ...['encrypt letter', 'chacha-encrypt letter', 'send letter --password'].map((line) => ({
      words: line.split(' '),
      env: withKey,
    })),
  ].map(({ words, env }) => ({ words: [...words, '--service', url], env }));
  const alone = ['encrypt letter --output out', 'keygen --protect', 'key restore', `login ${url}`];
  for (const { words, env } of [...runs, ...alone.map((line) => ({ words: line.split(' '), env: {} }))]) {
    const ran = await run([...words, ...fresh], directory, { env });
    expect({ words, exit: ran.exit, stdout: ran.stdout }, ran.stderr).toEqual({ words, exit: 2, stdout: '' });
    expect(ran.stderr).toMatch(
      /^sealpin: error: (?:there is no (?:API key|operator's token)|no API key|(?:a|the) .* required)/m,
    );
  }
  expect(await readdir(directory)).not.toContain('fresh');
});

test('every code that a service may answer with has its exit code', async () => {
  for (const code of codes) {
    const ran = await run(['list', '--service', await serviceThatSays(code)], '/', { env });
    expect({ code, exit: ran.exit }, ran.stderr).toEqual({ code, exit: exitOf({ code }) });
  }
});

/** What each status means that comes without a problem, as from a proxy; any other is exit 6. */
const bare: Readonly<Record<number, number>> = { 401: 4, 403: 4, 407: 4, 413: 7 };

inCi('a status without a reason has its exit code, in every way to ask', async () => {
  const directory = await prepared();
  let status = 0;
  const { url } = await hostile({
    '': (request, response) => {
      request.resume();
      response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>No</h1>');
    },
  });
  // The API and the SDK have a client each.
  for (const argv of [
    ['list', '--service', url],
    ['receive', linkTo(url), 'new/below'],
  ]) {
    for (status = 400; status < 600; status += argv[0] === 'list' || status < 420 ? 1 : 9) {
      const ran = await run([...argv, '--data-dir', 'home'], directory, { env });
      expect({ argv, status, exit: ran.exit }, ran.stderr).toEqual({ argv, status, exit: bare[status] ?? 6 });
      expect(await readdir(directory), argv[0]).not.toContain('new');
    }
  }
});

/** Scripts branch by them: a code keeps its exit code. Those that are not here exit with 1. */
const exits: Readonly<Record<number, string>> = {
  2: 'invalid_request invalid_filename invalid_cid link_invalid key_invalid password_invalid no_recipients usage',
  3: 'not_found gone content_denied pinning_lost file_not_found',
  4: 'unauthorized insufficient_scope forbidden account_disabled decrypt_failed not_encrypted wrong_kind',
  5: 'cid_mismatch digest_mismatch content_mismatch header_invalid container_invalid archive_invalid parcel_invalid',
  6:
    'body_incomplete body_timeout idempotency_running finishing offset_mismatch upload_busy rate_limited internal ' +
    'misconfigured backend_changed pinning_failed overloaded pinning_unavailable pinning_timeout service_unreachable ' +
    'service_answer not_running',
  7: 'too_many_uploads too_large quota_exceeded disk_full',
  130: 'interrupted',
};

test('a code keeps its exit code', () => {
  for (const code of codes) {
    const exit = Object.keys(exits).find((each) => exits[Number(each)]?.split(' ').includes(code)) ?? 1;
    expect({ code, exit: exitOf({ code }) }).toEqual({ code, exit: Number(exit) });
  }
});

test('a password or key that does not fit is told from damage, and both from a bug', () => {
  const found = (['wrong_password', 'no_key', 'header', 'payload'] as const).map((reason) =>
    exitOf({ code: 'decrypt_failed', reason }),
  );
  expect(found).toEqual([4, 4, 5, 5]);
  expect(exitOf({ code: 'internal', reason: 'bug' })).toBe(1);
});

test('the transcript of an error ends with its exit code, and the manual has them all', () => {
  const scripts = join(import.meta.dirname, '../scripts');
  for (const name of readdirSync(scripts)) {
    const code = /^error-(.*)\.txt$/.exec(name)?.[1];
    if (isCode(code)) expect(readFileSync(join(scripts, name), 'utf8')).toContain(`\nexit ${exitOf({ code })}\n`);
  }
  const manual = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');
  const rows = Array.from(present(manual.split('| exit | means |')[1]).matchAll(/^\| (\d+) \|/gm), ([, exit]) => exit);
  const all = [0, ...new Set(codes.map((code) => exitOf({ code })))];
  expect(rows).toEqual(all.toSorted((one, other) => one - other).map(String));
});
