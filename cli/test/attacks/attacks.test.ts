/**
 * A service that lies, one lie at a time: what its clients notice. `docs/attacks.md` has a row for
 * each test, by its name.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { connect, generateKeys, open, seal } from '../../../client/index.ts';
import { encrypt, parseRecipients, passwordRecipient } from '../../../shared/crypto/index.ts';
import { encodeParcel, parseLink, sealedParcelType, sealParcelTo } from '../../../shared/link/index.ts';
import { faultyProxy, type Fault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { first, flip, itemOf, present } from '../../../testkit/present.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { localService } from '../local.ts';

const local = localService();
const password = 'violet-anchor-tundra-mosaic';
/** What the service does to a request; undefined passes it on. */
let lie: (request: Passed) => Fault | undefined;
/** The address of the service, as its users know it: who runs it answers there. */
let url: string;
let desk: string;
beforeEach(async () => {
  lie = () => undefined;
  desk = await temporaryDirectory();
  ({ url } = await faultyProxy(
    () => local.url,
    (request) => lie(request),
  ));
  await writeFile(join(desk, 'letter.txt'), 'Dear Ann\n');
  await sealpin(['keygen']);
});

/** A command of the user, whose home is `home` on the desk. */
const sealpin = (argv: readonly string[], home = 'home'): Promise<Ran> =>
  run([...argv, '--data-dir', home], desk, {
    env: { SEALPIN_SERVICE: `${url}/`, SEALPIN_API_KEY: local.apiKey, SEALPIN_PASSWORD: password },
  });

/** Output of a command that succeeds. */
async function printed(argv: readonly string[], home?: string): Promise<string> {
  const ran = await sealpin([...argv, '--quiet'], home);
  expect(ran, ran.stderr).toMatchObject({ exit: 0 });
  return ran.stdout.trim();
}

/** A share is opened with no password in the environment. */
const receive = (link: string, home = 'reader'): Promise<Ran> =>
  run(['receive', link, 'got', '--data-dir', home], desk, { env: {} });

type Json = Record<string, unknown>;
/** Rewrites the JSON of the answers to some requests. */
const rewriting =
  (isFor: (request: Passed) => boolean, rewrite: (value: Json) => unknown): typeof lie =>
  (request) =>
    isFor(request)
      ? {
          kind: 'rewrite',
          rewrite: (answer) => ({
            ...answer,
            body: Buffer.from(JSON.stringify(rewrite(JSON.parse(answer.body.toString()) as Json))),
          }),
        }
      : undefined;
const answering =
  (isFor: (request: Passed) => boolean, body: Uint8Array): typeof lie =>
  (request) =>
    isFor(request) ? { kind: 'rewrite', rewrite: (answer) => ({ ...answer, body: Buffer.from(body) }) } : undefined;
const got = (): Promise<string[]> => readdir(join(desk, 'got')).catch(() => []);

const security = (await readFile(new URL('../../../SECURITY.md', import.meta.url), 'utf8')).replaceAll(/\s+/g, ' ');
/** Asserts that SECURITY.md says what no client can notice. */
const isSaid = (sentence: string): void => expect(security).toContain(sentence);

describe('a lying service', () => {
  test('key substituted', async () => {
    const attacker = await generateKeys();
    const { fileId } = await connect({ service: local.url, apiKey: local.apiKey }).put('secret', { name: 'a' });
    lie = rewriting(
      ({ path }) => path === '/v1/account',
      (value) => ({ ...value, account: { ...(value['account'] as Json), publicKey: attacker.publicKey } }),
    );
    // The private key of the account is bound to its public key: nothing opens with another one.
    expect((await sealpin(['decrypt', fileId, 'got'])).exit).not.toBe(0);
    // An inbox is sealed to a key of this machine, and to none that the service names.
    const own = await sealpin(['inbox', 'create', 'tax']);
    const { link } = parseLink(own.stdout.trim());
    expect(await readFile(join(desk, 'home/public.key'), 'utf8')).toContain(
      link.kind === 'inbox' ? link.recipient : '',
    );
    const named = await sealpin(['inbox', 'create', 'tax', '--recipient', 'account']);
    expect(named).toMatchObject({ exit: 2, stdout: '' });
  });

  test('names swapped', async () => {
    const files = connect({ service: local.url, apiKey: local.apiKey });
    const [a, b] = [await files.put('first', { name: 'a.txt' }), await files.put('second', { name: 'b.txt' })];
    // A whole file behind the ID of another: its header is bound to its ID.
    lie = (request) =>
      request.path.startsWith(`/v1/storage/${a.fileId}`)
        ? { kind: 'rewrite', rewrite: async (answer) => ({ ...answer, body: await other(b.fileId, request) }) }
        : undefined;
    expect((await sealpin(['get', a.fileId, 'got'])).exit).not.toBe(0);
    expect(await readdir(desk)).not.toContain('got');
    // In a list the names are the service's word.
    lie = rewriting(
      ({ path }) => path.startsWith('/v1/storage?'),
      (value) => ({ ...value, files: swapped(value['files'] as Json[], a.fileId, b.fileId) }),
    );
    const { files: listed } = JSON.parse(await printed(['list', '--json'])) as { files: Json[] };
    expect(listed.find(({ fileId }) => fileId === a.fileId)).toMatchObject({ name: 'b.txt' });
    isSaid('A list is the word of the service');
  });

  const other = async (fileId: string, { headers, path }: Passed): Promise<Buffer> => {
    const { accept = '*/*', authorization = '' } = headers;
    const address = new URL(path.replace(/[0-9a-f-]{36}/, fileId), local.url);
    return Buffer.from(await (await fetch(address, { headers: { accept, authorization } })).arrayBuffer());
  };
  const swapped = (files: Json[], a: string, b: string): Json[] => {
    const nameOf = (id: string) => files.find(({ fileId }) => fileId === id)?.['filename'];
    return files.map((file) => {
      const from = file['fileId'] === a ? b : file['fileId'] === b ? a : undefined;
      return from === undefined ? file : { ...file, filename: nameOf(from) };
    });
  };

  test('list rolled back', async () => {
    await printed(['encrypt', 'letter.txt']);
    const before = await (
      await fetch(`${local.url}/v1/storage?limit=100`, { headers: { authorization: `Bearer ${local.apiKey}` } })
    ).text();
    await printed(['backup', 'copy']);
    const kept = await readdir(join(desk, 'copy/files'));
    const added = await printed(['encrypt', 'letter.txt']);
    await printed(['backup', 'copy']);
    lie = answering(({ path }) => path.startsWith('/v1/storage?'), Buffer.from(before));
    // The machine that stored it knows better; another one does not.
    expect(await printed(['list'])).toMatch(new RegExp(`^${added} .* gone `, 'm'));
    expect(await printed(['list'], 'another')).not.toContain(added);
    isSaid('A list is the word of the service');
    // What a backup has, it keeps, and it says what the list lacks.
    const again = await sealpin(['backup', 'copy']);
    expect(again.stderr).toContain('1 file deleted from the account since, which stay in the folder');
    expect(await readdir(join(desk, 'copy/files'))).toHaveLength(kept.length + 1);
  });

  test('share opened twice', async () => {
    const link = await printed(['send', 'letter.txt', '--opens', '1']);
    let record: Buffer | undefined;
    lie = ({ path }) => {
      if (path.endsWith('/open'))
        return { kind: 'rewrite', rewrite: (answer) => ({ ...answer, status: 200, body: (record ??= answer.body) }) };
      return path.startsWith('/v1/shares/')
        ? {
            kind: 'rewrite',
            rewrite: (answer) => ({
              ...answer,
              body: Buffer.from(answer.body.toString().replace('used_up', 'active')),
            }),
          }
        : undefined;
    };
    expect((await receive(link)).exit).toBe(0);
    expect((await receive(link, 'thief')).exit).toBe(0);
    isSaid('can hand the record of a share out as often as they like');
    lie = () => undefined;
    expect((await receive(link, 'third')).stderr).toContain('as often as its sender allowed');
  });

  test('record replaced', async () => {
    const [link, second] = [await printed(['send', 'letter.txt']), await printed(['send', 'letter.txt'])];
    const id = (text: string) => present((parseLink(text).link as { id?: string }).id);
    const { record } = (await (
      await fetch(`${local.url}/v1/shares/${id(second)}/open`, { method: 'POST' })
    ).json()) as { record: string };
    for (const forged of [
      record,
      changedAt(Buffer.from(record, 'base64'), 40).toString('base64'),
      Buffer.from(encodeParcel(parcelOf('x'))).toString('base64'),
    ]) {
      lie = rewriting(
        ({ path }) => path.endsWith('/open'),
        (value) => ({ ...value, record: forged }),
      );
      expect((await receive(link)).exit).not.toBe(0);
    }
    expect(await got()).toEqual([]);
  });

  test('page changed', async () => {
    lie = ({ path }) =>
      path === '/web/engine.js'
        ? { kind: 'answer', status: 200, headers: { 'content-type': 'text/javascript' }, body: 'steal()' }
        : undefined;
    const ran = await sealpin(['pages', 'verify', `${url}/`]);
    expect(ran.exit).not.toBe(0);
    expect(ran.stdout).toContain('/web/engine.js: the content');
    isSaid('A service that aims at one reader is not found');
  });

  test('inbox key changed', async () => {
    const attacker = await generateKeys();
    const link = await printed(['inbox', 'create', 'tax']);
    lie = rewriting(
      ({ path }) => path === '/v1/account',
      (value) => ({ ...value, account: { ...(value['account'] as Json), publicKey: attacker.publicKey } }),
    );
    await printed(['send', 'letter.txt', '--inbox', link], 'sender');
    lie = () => undefined;
    const { deliveries } = JSON.parse(await printed(['inbox', 'list', '--json'])) as { deliveries: { id: string }[] };
    await printed(['inbox', 'open', first(deliveries).id, 'got']);
    expect(await readFile(join(desk, 'got/letter.txt'), 'utf8')).toBe('Dear Ann\n');
    const sealed = await other(first(deliveries).id, {
      method: 'GET',
      path: `/v1/storage/${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}/content`,
      headers: { authorization: `Bearer ${local.apiKey}` },
    });
    await expect(open(sealed, { with: { keys: attacker.privateKey } })).rejects.toMatchObject({
      code: 'decrypt_failed',
    });
    // A letter of the recipient in the link is a mistyped key.
    expect(
      (
        await sealpin(
          ['send', 'letter.txt', '--inbox', `${link.slice(0, -1)}${link.endsWith('q') ? 'p' : 'q'}`],
          'sender',
        )
      ).exit,
    ).toBe(2);
  });

  test('recovery file replaced', async () => {
    const made = await run(
      ['account', 'create', 'a', '--recovery', 'home/public.key', '--json', '--data-dir', local.dataDir],
      desk,
    );
    const { account } = JSON.parse(made.stdout) as { account: { id: string; publicKey: string } };
    const right = await fetch(`${local.url}/v1/accounts/${account.id}/recovery`);
    expect(right.status).toBe(200);
    const forged = await seal('-----BEGIN PRIVATE KEY-----\n', {
      to: { keys: parseRecipientsOf(await readFile(join(desk, 'home/public.key'), 'utf8')) },
    });
    lie = answering(({ path }) => path.endsWith('/recovery'), await forged.bytes());
    const file = Buffer.from(await (await fetch(`${url}/v1/accounts/${account.id}/recovery`)).arrayBuffer());
    await writeFile(join(desk, 'recovery.age'), file);
    // It opens: it is sealed to the recovery key, as anybody can, and nobody signed it.
    expect(await printed(['ecc-decrypt', './recovery.age', '-', 'home/private.key'])).toContain('BEGIN PRIVATE KEY');
    isSaid('A recovery file is sealed to the recovery key, and not signed');
    // The service takes no other text than its own: the account is not lost to somebody else.
    const answer = await fetch(`${local.url}/v1/accounts/recovery`, { method: 'POST', body: 'forged' });
    expect(answer.ok).toBe(false);
  });

  const parseRecipientsOf = (text: string): string => present(first(parseRecipients(text)).text);

  test('blocks swapped', async () => {
    const [id, second] = [await printed(['encrypt', 'letter.txt']), await printed(['encrypt', 'letter.txt'])];
    const bytes = Buffer.from(await (await fetch(`${local.url}/ipfs/${second}`)).arrayBuffer());
    lie = answering(({ path }) => path.startsWith(`/ipfs/${id}`), bytes);
    expect((await sealpin(['decrypt', id, 'got'])).exit).not.toBe(0);
    expect((await sealpin(['verify', id])).exit).not.toBe(0);
    expect(await readdir(desk)).not.toContain('got');
  });

  test('migration to a lying backend', async () => {
    const id = await printed(['encrypt', 'letter.txt']);
    // The list goes on to call it pinned, and the new backend has other bytes, or none.
    for (const fault of [
      { kind: 'flip', atByte: 80 },
      { kind: 'answer', status: 404 },
    ] satisfies Fault[]) {
      lie = ({ path }) => (path.startsWith('/ipfs/') || path.endsWith('/content') ? fault : undefined);
      expect((await sealpin(['verify', id])).exit).not.toBe(0);
      expect((await sealpin(['verify', '--all'])).exit).not.toBe(0);
      expect((await sealpin(['decrypt', id, 'got'])).exit).not.toBe(0);
    }
    // Of bytes that may have another layout, it is said whose word it is that they are right.
    lie = ({ path }) =>
      path.startsWith('/ipfs/')
        ? { kind: 'answer', status: 404 }
        : path.endsWith('/content')
          ? { kind: 'flip', atByte: 80 }
          : undefined;
    expect((await sealpin(['verify', '--all'])).stderr).toContain('only the service itself has compared');
    expect(await printed(['list'])).toContain(id);
    isSaid('A list is the word of the service');
  });

  test('downgrade of format or cost', async () => {
    const id = await printed(['encrypt', 'letter.txt']);
    const bytes = Buffer.from(await (await fetch(`${local.url}/ipfs/${id}`)).arrayBuffer());
    const cheaper = Buffer.from(bytes.toString('latin1').replace(/^(-> scrypt \S+ )\d+$/m, '$11'), 'latin1');
    expect(cheaper.equals(bytes)).toBe(false);
    const plain = Buffer.from('Dear Ann, all is well');
    const { stream } = await encrypt(new Blob(['forged']).stream(), {
      format: 'age',
      recipients: [passwordRecipient(password, { name: 'scrypt', logN: 10 })],
    });
    const forged = Buffer.from(await new Response(stream).arrayBuffer());
    for (const body of [cheaper, plain, forged]) {
      lie = answering(({ path }) => path.startsWith('/ipfs/'), body);
      expect((await sealpin(['decrypt', id, 'got'])).exit).not.toBe(0);
    }
    // A record with a password is called one without: it does not open.
    const link = await printed(['send', 'letter.txt', '--password']);
    lie = rewriting(
      ({ path }) => path.startsWith('/v1/shares/'),
      (value) => (value['password'] === undefined ? value : { ...value, password: false }),
    );
    const ran = await sealpin(['receive', link, 'got'], 'reader');
    expect(ran).toMatchObject({ exit: 4, stderr: expect.stringContaining('it opens with a password') });
    expect(await got()).toEqual([]);
  });

  test('planted files', async () => {
    // Anyone who has the link of an inbox delivers in any name; a signature tells.
    const link = await printed(['inbox', 'create', 'tax']);
    await printed(['keygen'], 'ann');
    await printed(['contact', 'add', 'ann', 'ann/public.key']);
    await printed(['send', 'letter.txt', '--inbox', link, '--from', 'Ann', '--sign'], 'ann');
    const inbox = parseLink(link).link;
    if (inbox.kind !== 'inbox') throw new TypeError('not an inbox');
    const planted = await sealParcelTo(parcelOf('Ann'), { recipients: parseRecipients(inbox.recipient) });
    await connect({ service: local.url, apiKey: inbox.apiKey }).put(new Blob([planted], { type: sealedParcelType }), {
      mode: 'plain',
    });
    const { deliveries } = JSON.parse(await printed(['inbox', 'list', '--json'])) as {
      deliveries: { from: string; signed?: Json }[];
    };
    const newest = deliveries
      .slice(0, 2)
      .map(({ from, signed }) => ({ from, state: signed?.['state'], name: signed?.['name'] }));
    expect(newest).toEqual([
      { from: 'Ann', state: undefined, name: undefined },
      { from: 'Ann', state: 'valid', name: 'ann' },
    ]);
    // What the service adds to a list is shown like any other file.
    lie = rewriting(
      ({ path }) => path.startsWith('/v1/storage?'),
      (value) => ({
        ...value,
        files: [
          { ...itemOf(value['files'] as Json[], 0), filename: 'planted.txt', mode: 'encrypted' },
          ...(value['files'] as Json[]),
        ],
      }),
    );
    expect(await printed(['list'])).toContain('planted.txt');
    isSaid('A list is the word of the service');
  });

  const changedAt = (bytes: Buffer, at: number): Buffer => {
    flip(bytes, at);
    return bytes;
  };
  const parcelOf = (from: string) => ({
    files: [{ cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'x', type: 'text/plain', size: 1 }],
    from,
  });
});

test('the page of attacks has a row for each, with its command', async () => {
  const page = await readFile(new URL('../../../docs/attacks.md', import.meta.url), 'utf8');
  const source = await readFile(import.meta.filename, 'utf8');
  const names = [...source.matchAll(/^ {2}test\('([a-z ]+)', async/gm)].map(([, name]) => present(name)).slice(0, 12);
  const rows = [...page.matchAll(/^\| \*\*([a-z ]+)\*\* \|.*`npx vitest run cli\/test\/attacks -t '([a-z ]+)'`/gm)];
  expect(rows.map(([, name]) => name)).toEqual(names);
  expect(rows.map(([, , name]) => name)).toEqual(names);
});
