/** Damage that a slip of the hand, or a hostile service, must not do. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { carOf } from '../../../shared/ipfs/index.ts';
import { cidOfBytes } from '../../../testkit/cid.ts';
import { encodeNode } from '../../../shared/ipfs/unixfs.ts';
import { cidOf } from '../../../shared/ipfs/cid.ts';
import { positionalsOf } from '../../command.ts';
import { loadCommands } from '../../commands/index.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { remember } from '../../files/history.ts';
import { createOutput } from '../../terminal/output.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { drain, hostile, json, someApiKey, storedFile } from '../hostile.ts';
import { Collector, run, temporaryDirectory } from '../environment.ts';
import { first, itemOf, present } from '../../../testkit/present.ts';

const env = { SEALPIN_API_KEY: someApiKey };
const own = '00112233aabbccdd';
const parent = '1111111111111111';
const other = '2222222222222222';
const createdAt = '2026-01-02T03:04:05.000Z';

const keyOf = (id: string, createdBy: string | null, more: object = {}) => ({
  id,
  account: '0'.repeat(22),
  label: `key ${id[0]}`,
  scopes: ['read', 'write', 'delete', 'keys'],
  createdAt,
  createdBy,
  ...more,
});

/** A service with three keys, of which `parent` made our own. */
async function keyService(more: object = {}) {
  return hostile({
    'GET /v1/keys': (_request, response) =>
      json(response, 200, { keys: [keyOf(parent, null), keyOf(own, parent, more), keyOf(other, null)] }),
    'DELETE /v1/keys': (request, response) =>
      json(response, 200, { revoked: [new URL(present(request.url), 'http://h').pathname.split('/').at(-1)] }),
  });
}

describe('- is no folder', async () => {
  const folders = (await loadCommands()).flatMap((command) =>
    Object.entries(command.args)
      .filter(([name, arg]) => ['dir', 'folder'].includes(arg.type === 'string' ? arg.valueHint : name))
      .map(([arg]) => ({ command, arg })),
  );

  test('wherever a command takes one', async () => {
    expect(folders.length).toBeGreaterThan(60);
    for (const { command, arg } of folders) {
      const words = positionalsOf(command.args).map(({ name }) => (name === arg ? '-' : 'x'));
      const argv = words.includes('-') ? words : [...words, `--${arg}`, '-'];
      expect(() => command.parse(argv), `${command.name} ${argv.join(' ')}`).toThrow('is a folder, and - is none');
    }
  });

  test('and none of that name is made, unless it is written as a path', async () => {
    const directory = await temporaryDirectory();
    const home = ['--data-dir', 'home', '--quiet'];
    expect(await run(['keygen', '--output', '-', ...home], directory)).toMatchObject({ exit: 2, stdout: '' });
    expect(await readdir(directory)).toEqual([]);
    expect(await run(['keygen', '--output', './-', ...home], directory)).toMatchObject({ exit: 0 });
    expect(await readdir(join(directory, '-'))).toEqual(['private.key', 'public.key']);
  });
});

describe('the name of a second file is no password', () => {
  test.each([
    {
      argv: ['encrypt', 'a.pdf', 'b.pdf'],
      hint: 'one file is encrypted at a time: name a folder, or send several with sealpin send',
    },
    {
      argv: ['chacha-encrypt', 'a.pdf', 'b.pdf'],
      hint: 'one file is encrypted at a time: name a folder, or send several with sealpin send',
    },
    {
      argv: ['encrypt', 'a.pdf', 'photos'],
      hint: 'one file is encrypted at a time: name a folder, or send several with sealpin send',
    },
    { argv: ['decrypt', './a.pdf', 'out', 'b.pdf'], hint: 'to read the password from it use --password-file' },
  ])('$argv', async ({ argv, hint }) => {
    const directory = await temporaryDirectory();
    for (const name of ['a.pdf', 'b.pdf']) await writeFile(join(directory, name), name);
    await mkdir(join(directory, 'photos'));
    const service = await hostile({});
    const ran = await run([...argv, '--service', service.url], directory, { env });
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(`${argv.at(-1)} is a ${argv.at(-1) === 'photos' ? 'directory' : 'file'}`);
    expect(ran.stderr).toContain(`hint: ${hint}; for a password of that text use --password-file`);
    expect(service.seen).toEqual([]);
    expect((await readdir(directory)).toSorted()).toEqual(['a.pdf', 'b.pdf', 'photos']);
  });
});

describe('key revoke', () => {
  test.each([
    { title: 'the key in use', argv: [own] },
    { title: 'with --cascade, a key that made the one in use', argv: [parent, '--cascade'] },
  ])('does not take away $title, unless told to', async ({ argv }) => {
    const service = await keyService();
    const revoke = ['key', 'revoke', ...argv, '--service', service.url];
    const refused = await run(revoke, '/', { env });
    expect(refused).toMatchObject({ exit: 1, stdout: '' });
    expect(refused.stderr).toContain('the API key in use here\nsealpin: hint: without another key you are locked out');
    expect(service.seen.filter(({ method }) => method === 'DELETE')).toEqual([]);
    expect(await run([...revoke, '--self'], '/', { env })).toMatchObject({ exit: 0 });
    expect(itemOf(service.seen, -1).url).toContain('self=true');
  });

  test('of another key needs no flag', async () => {
    const service = await keyService();
    expect(await run(['key', 'revoke', parent, '--service', service.url], '/', { env })).toMatchObject({ exit: 0 });
    expect(itemOf(service.seen, -1).url).toBe(`/v1/keys/${parent}`);
  });

  test('of one that is not there says so', async () => {
    const ran = await run(['key', 'revoke', 'team-a', '--service', (await keyService()).url], '/', { env });
    expect(ran.stderr).toBe(
      'sealpin: error: the account has no API key with this ID\nsealpin: hint: see: sealpin key list\n',
    );
  });

  test('that the service refuses names the flags that overrule it', async () => {
    const service = await hostile({
      'GET /v1/keys': (_request, response) => json(response, 200, { keys: [keyOf(other, null)] }),
      'DELETE /v1/keys': (_request, response) =>
        json(response, 409, { type: 'about:blank', title: 'x', status: 409, code: 'conflict', detail: 'the last key' }),
    });
    const ran = await run(['key', 'revoke', other, '--service', service.url], '/', { env });
    expect(ran).toMatchObject({ exit: 1 });
    expect(ran.stderr).toContain('the last key\nsealpin: hint: to revoke it anyway add --destroy');
  });
});

describe('key list marks the key in use', () => {
  test.each([
    { title: 'by the word of the service', more: { current: true }, requests: ['/v1/keys'] },
    { title: 'by its own ID where the service says nothing', more: {}, requests: ['/v1/keys', '/v1/account'] },
  ])('$title', async ({ more, requests }) => {
    const service = await keyService(more);
    const ran = await run(['key', 'list', '--service', service.url], '/', { env });
    const marked = ran.stdout.split('\n').filter((line) => line.includes('(in use here)'));
    expect(marked).toEqual([expect.stringContaining(own)]);
    expect(service.seen.map(({ url }) => url)).toEqual(requests);
  });
});

test('a key of the local service that is refused says how to come back', async () => {
  const { call } = await import('../../remote/client.ts');
  const service = await hostile({
    'GET /v1/keys': (_request, response) =>
      json(response, 401, { type: 'about:blank', title: 'refused', status: 401, code: 'unauthorized' }),
  });
  const { timeouts, signal } = {
    timeouts: { stallMs: 9e3, bytes: 1, responseMs: 9e3 },
    signal: new AbortController().signal,
  };
  const target = { url: new URL(`${service.url}/`), apiKey: someApiKey, keyFrom: 'local/secrets.json' as const };
  await expect(call(target, 'v1/keys', { method: 'GET', timeouts, signal })).rejects.toMatchObject({
    hint: expect.stringContaining('for a new account, stop the service, remove "account" and "apiKey"') as unknown,
  });
});

describe('what a service says cannot reach the terminal as a command', () => {
  const evil = 'a\nsealpin: error: b\r\u001B]0;owned\u0007\u001B[2J\u009B31m\u202E';
  const answers: Record<string, (request: IncomingMessage, response: ServerResponse) => void> = {
    'GET /v1/keys': (_request, response) => json(response, 200, { keys: [keyOf(evil, null)] }),
    'POST /v1/keys': (_request, response) => json(response, 201, { key: keyOf(own, null), apiKey: `sp_${evil}` }),
    'GET /v1/storage': (_request, response) =>
      json(response, 200, { files: [storedFile(`bafkrei${'a'.repeat(52)}`, 1)] }),
    'DELETE /v1/storage': (_request, response) =>
      json(response, 200, {
        fileId: storedFile('', 1).fileId,
        key: 'in-container',
        pins: [{ service: evil, status: 'unpinned' }],
      }),
  };

  test.each([
    { argv: ['key', 'list'] },
    { argv: ['key', 'create', 'x'] },
    { argv: ['delete', storedFile('', 1).fileId] },
  ])('$argv', async ({ argv }) => {
    const service = await hostile({
      ...answers,
      'POST /v1/keys': async (request, response, seen) => {
        await drain(request, seen);
        present(answers['POST /v1/keys'])(request, response);
      },
    });
    const directory = await temporaryDirectory();
    const ran = await run([...argv, '--service', service.url, '--data-dir', directory], directory, { env });
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain('is not a Sealpin service');
    expect(ran.stderr).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
  });

  test('whatever a command hands to the output is escaped, in JSON as JSON', async () => {
    const voice = (isJson: boolean) => {
      const [stdout, stderr] = [new Collector(), new Collector()];
      const said = createOutput({ stdout, stderr, env: {}, json: isJson, quiet: false, now: Date.now, dataDir: evil });
      return { stdout, stderr, said };
    };
    const plain = voice(false);
    plain.said.note(evil);
    plain.said.warn(`${evil}: sealpin stop`);
    plain.said.failure(new Error(evil));
    plain.said.failure(new SealpinError('file_exists', `${evil} exists`, { hint: `rename ${evil}` }));
    await plain.said.result({}, [evil]);
    expect(plain.stdout.text + plain.stderr.text).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
    expect(plain.stderr.text.split('\n')).toHaveLength(7);
    const terminal = voice(false);
    terminal.stderr.isTTY = true;
    terminal.said.progress(evil);
    expect(terminal.stderr.text).toContain('a\\u{a}sealpin: error: b\\u{d}');
    expect(terminal.stderr.text).not.toContain(evil);
    const asJson = voice(true);
    await asJson.said.result({ evil: `${evil}\u{E0001}` }, []);
    expect(asJson.stdout.text).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
    expect(JSON.parse(asJson.stdout.text)).toEqual({ evil: `${evil}\u{E0001}` });
  });
});

test.each([['decrypt'], ['export']])(
  '%s of a blob that is larger than the disk says so before it writes',
  async (name) => {
    const leaf = cidOf('raw', new Uint8Array(32));
    // 1 PiB, by the word of its root.
    const root = encodeNode(Array.from({ length: 1024 }, () => ({ cid: leaf, fileBytes: 2 ** 40, dagBytes: 2 ** 40 })));
    const { text } = cidOf('dag-pb', nodeProvider.sha256(root));
    const source = { id: 'memory', block: async () => root };
    const car = Buffer.from(await new Response(carOf(text, [source], { scope: 'block' })).arrayBuffer());
    const service = await hostile({
      'GET /ipfs/': (_request, response) =>
        response.writeHead(200, { 'content-type': 'application/vnd.ipld.car; version=1; order=dfs; dups=y' }).end(car),
    });
    const directory = await temporaryDirectory();
    const ran = await run([name, text, 'out', '--service', service.url], directory);
    expect(ran).toMatchObject({ exit: 7, stdout: '' });
    expect(ran.stderr).toMatch(/error: out needs up to 1024 TiB, and \S+ \S+ are free there\n/);
    expect(await readdir(directory)).toEqual([]);
  },
);

test('a CAR in a pipe is told as such, with a password or without', async () => {
  const directory = await temporaryDirectory();
  const bytes = Buffer.from('content');
  const cid = await cidOfBytes(bytes);
  const car = carOf(cid, [{ id: 'memory', block: async () => bytes }]);
  const stdin = new Uint8Array(await new Response(car).arrayBuffer());
  for (const password of [{}, { SEALPIN_PASSWORD: 'some long password' }]) {
    const ran = await run(['decrypt', '-', 'out'], directory, { env: password, stdin });
    expect(ran).toMatchObject({ exit: 4, stdout: '' });
    expect(ran.stderr).toContain('a CAR file cannot be read from a pipe\nsealpin: hint: write it');
    expect(await readdir(directory)).toEqual([]);
  }
});

describe('a hint does not lead in a circle', () => {
  test.each([
    { argv: ['export', `bafkrei${'a'.repeat(52)}`, '/dev/null'], says: 'hint: name a new file\n' },
    { argv: ['export', `bafkrei${'a'.repeat(52)}`, '-'], says: 'hint: name a new file, such as letter.car\n' },
    {
      argv: ['decrypt', './in', 'out', '--password-file', '/dev/null'],
      says: 'hint: name a file with a password in it, or - for standard input\n',
    },
    { argv: ['decrypt', './in', '/dev/null'], says: 'hint: name - for the standard output\n' },
    {
      argv: ['ecc-encrypt', 'in', 'bob'],
      says: 'hint: name a public key file, a contact, or a recipient itself: age1',
    },
  ])('$argv', async ({ argv, says }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    const service = await hostile({
      'GET /v1/health': (_request, response) =>
        json(response, 200, { status: 'ok', version: '0.1.0', maxUploadBytes: null }),
    });
    const ran = await run([...argv, '--service', service.url, '--data-dir', directory], directory, { env });
    expect(ran.exit).not.toBe(0);
    expect(ran.stderr).toContain(says);
  });
});

test('an empty variable counts as unset', async () => {
  const directory = await temporaryDirectory();
  const empty = {
    SEALPIN_SERVICE: '',
    SEALPIN_API_KEY: '',
    SEALPIN_PASSWORD: '',
    SEALPIN_HOME: '',
    XDG_DATA_HOME: directory,
  };
  const ran = await run(['list'], directory, { env: empty });
  expect(ran).toMatchObject({ exit: 0, stdout: '' });
  expect(ran.stderr).toContain('showing the local history only');
  await writeFile(join(directory, 'in'), 'just text');
  expect(await run(['decrypt', './in', '-'], directory, { env: empty })).toMatchObject({
    exit: 0,
    stdout: 'just text',
  });
});

describe('a public key that cannot be used is named', () => {
  const good = 'age1tag1q00uq0syq39985lxzsh82jskrkyuehly57agmvd3aamtct685x987zzl47g';
  test.each([
    {
      title: 'among several recipients',
      key: `${good.slice(0, -1)}x`,
      says: `${good.slice(0, 20)}…: a key is not valid`,
    },
    { title: 'of ssh', key: 'ssh.pub', says: 'ssh.pub: line 1 is an ssh key, and ssh keys are not supported' },
  ])('$title', async ({ key, says }) => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'x');
    await writeFile(join(directory, 'ssh.pub'), 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk ann@example.com\n');
    const service = await hostile({
      'GET /v1/health': (_request, response) =>
        json(response, 200, { status: 'ok', version: '0.1.0', maxUploadBytes: null }),
    });
    const argv = ['ecc-encrypt', 'in', good, key, '--service', service.url, '--data-dir', directory];
    const ran = await run(argv, directory, { env });
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(`error: ${says}`);
  });
});

describe('a service that cannot be reached', () => {
  test('over https where http answers: says so', async () => {
    const service = await hostile({});
    const ran = await run(['list', '--service', service.url.replace('http:', 'https:')], await temporaryDirectory(), {
      env,
    });
    expect(ran).toMatchObject({ exit: 6, stdout: '' });
    expect(ran.stderr).toContain(
      'the server does not speak HTTPS\nsealpin: hint: check the port and whether the address begins with https:\n',
    );
  });

  test('on another machine: no word of the local service', async () => {
    const { sendRequest } = await import('../../io/http.ts');
    // A label of 64 characters is no name, so that nobody is asked for it.
    const failed = sendRequest(new URL(`http://${'a'.repeat(64)}.invalid/`), {
      method: 'GET',
      timeouts: { stallMs: 9e3, bytes: 1, responseMs: 9e3 },
      signal: new AbortController().signal,
    });
    await expect(failed).rejects.toMatchObject({ hint: 'check the address and your connection, and try again' });
  });
});

test('--scopes takes spaces, and --limit 0 is refused in plain words', async () => {
  const service = await hostile({
    'POST /v1/keys': async (request, response, seen) => {
      await drain(request, seen);
      json(response, 201, { key: keyOf(own, null), apiKey: someApiKey });
    },
  });
  const argv = ['key', 'create', 'x', '--scopes', 'read, write', '--service', service.url];
  expect(await run(argv, '/', { env })).toMatchObject({ exit: 0, stdout: `${someApiKey}\n` });
  expect(JSON.parse(first(service.seen).body.toString())).toMatchObject({ scopes: ['read', 'write'] });
  expect((await run(['list', '--limit', '0'], '/')).stderr).toContain('--limit must be 1 or more');
});

test('delete names what it deleted as people know it', async () => {
  const directory = await temporaryDirectory();
  const cid = `bafkrei${'a'.repeat(52)}`;
  const stored = storedFile(cid, 7);
  const service = await hostile({
    'GET /v1/storage': (_request, response) => json(response, 200, { files: [stored] }),
    'DELETE /v1/storage': (_request, response) =>
      json(response, 200, { fileId: stored.fileId, key: 'none', pins: [{ service: 'local', status: 'unpinned' }] }),
  });
  const entry = { cid, fileId: stored.fileId, service: `${service.url}/`, name: 'letter.pdf', bytes: 7, at: createdAt };
  await remember(directory, { v: 1, ...entry });
  const ran = await run(['delete', cid, '--service', service.url, '--data-dir', directory], directory, { env });
  expect(ran).toMatchObject({
    exit: 0,
    stderr:
      `sealpin: deleted letter.pdf (${cid}): anyone who already has a copy can still read it as before\n` +
      'sealpin: unpinned at: local\n',
  });
  expect(await readFile(join(directory, 'history'), 'utf8')).toContain(`"deleted":"${stored.fileId}"`);
});
