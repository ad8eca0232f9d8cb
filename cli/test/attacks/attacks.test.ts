/**
 * A service that lies about keys, lists, links and inboxes: what its clients notice.
 * `docs/attacks.md` has a row for each test, by its name.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { connect, generateKeys, open } from '../../../client/index.ts';
import { encrypt, parcelSigner, parseRecipients } from '../../../shared/crypto/index.ts';
import { signersIn } from '../../../shared/crypto/keys/parcel-signer.ts';
import { encodeParcel, parseLink, sealedParcelType } from '../../../shared/link/index.ts';
import type { Passed } from '../../../testkit/faulty-proxy.ts';
import { first, flip, itemOf, present } from '../../../testkit/present.ts';
import { manifestText } from '../../local/code/pages-manifest.ts';
import { manifestOfRun } from '../pages-of-run.ts';
import { answering, codeOf, isSaid, type Json, rewriting, victim } from './victim.ts';

const user = victim();
const { local, sealpin, printed, refusal, receive } = user;
const got = (): Promise<string[]> => readdir(join(user.desk, 'got')).catch(() => []);
const files = () => connect({ service: local.url, apiKey: local.apiKey });

/** Names another key for the account. */
const anotherKey = (publicKey: string) =>
  rewriting(
    ({ path }) => path === '/v1/account',
    (value) => ({ ...value, account: { ...(value['account'] as Json), publicKey } }),
  );

describe('a lying service', () => {
  test('key substituted', async () => {
    const attacker = await generateKeys();
    const { fileId } = await files().put('secret', { name: 'a' });
    user.lie = anotherKey(attacker.publicKey);
    // The private key of the account is bound to its public key: nothing opens with another one.
    expect(await refusal(['decrypt', fileId, 'got'])).toBe('decrypt_failed');
    // An inbox is sealed to a key of this machine, and to none that the service names.
    const inbox = parseLink(await printed(['inbox', 'create', 'tax'])).link;
    const own = await readFile(join(user.desk, 'home/public.key'), 'utf8');
    expect(own).toContain(inbox.kind === 'inbox' ? inbox.recipient : 'the link of an inbox');
    expect(await refusal(['inbox', 'create', 'tax', '--recipient', 'account'])).toBe('usage');
    user.lie = undefined;
    await printed(['decrypt', fileId, 'got']);
  });

  test('names swapped', async () => {
    const [a, b] = [await files().put('first', { name: 'a.txt' }), await files().put('second', { name: 'b.txt' })];
    // A whole file behind the ID of another: its header is bound to its ID.
    user.lie = (request) =>
      request.path.startsWith(`/v1/storage/${a.fileId}`)
        ? { kind: 'rewrite', rewrite: async (answer) => ({ ...answer, body: await other(b.fileId, request) }) }
        : undefined;
    expect(await refusal(['decrypt', a.fileId, 'got'])).toBe('decrypt_failed');
    expect(await readdir(user.desk)).not.toContain('got');
    // In a list the names are the service's word.
    user.lie = rewriting(
      ({ path }) => path.startsWith('/v1/storage?'),
      (value) => ({ ...value, files: swapped(value['files'] as Json[], a.fileId, b.fileId) }),
    );
    const { files: listed } = JSON.parse(await printed(['list', '--json'])) as { files: Json[] };
    expect(listed.find(({ fileId }) => fileId === a.fileId)).toMatchObject({ name: 'b.txt' });
    isSaid('A list is the word of the service');
    user.lie = undefined;
    await printed(['decrypt', a.fileId, 'got']);
  });

  const other = async (fileId: string, { headers, path }: Passed): Promise<Buffer> => {
    const { accept = '*/*', authorization = '' } = headers;
    const address = new URL(path.replace(/[0-9a-f-]{36}/, fileId), local.url);
    return Buffer.from(await (await fetch(address, { headers: { accept, authorization } })).arrayBuffer());
  };
  const swapped = (all: Json[], a: string, b: string): Json[] => {
    const nameOf = (id: string) => all.find(({ fileId }) => fileId === id)?.['filename'];
    return all.map((file) => {
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
    const kept = await readdir(join(user.desk, 'copy/files'));
    const added = await printed(['encrypt', 'letter.txt']);
    await printed(['backup', 'copy']);
    user.lie = answering(({ path }) => path.startsWith('/v1/storage?'), Buffer.from(before));
    // The machine that stored it knows better; another one does not.
    expect(await printed(['list'])).toMatch(new RegExp(`^${added} .* gone `, 'm'));
    expect(await printed(['list'], 'another')).not.toContain(added);
    isSaid('A list is the word of the service');
    // What a backup has, it keeps, and it says what the list lacks.
    const again = await sealpin(['backup', 'copy']);
    expect(again.stderr).toContain('1 file deleted from the account since, which stay in the folder');
    expect(await readdir(join(user.desk, 'copy/files'))).toHaveLength(kept.length + 1);
  });

  test('share opened twice', async () => {
    const link = await printed(['send', 'letter.txt', '--opens', '1']);
    let record: Buffer | undefined;
    user.lie = ({ path }) => {
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
    user.lie = undefined;
    expect((await receive(link, 'third')).stderr).toContain('as often as its sender allowed');
  });

  test('record replaced', async () => {
    const [link, second] = [await printed(['send', 'letter.txt']), await printed(['send', 'letter.txt'])];
    const record = await recordOf(second);
    // What the service would like to be read, and can store itself.
    const { link: blob } = await files()
      .put('Dear Eve', { mode: 'plain' })
      .then(({ cid }) => ({ link: cid }));
    const file = { cid: blob, fileKey: new Uint8Array(32), name: 'x', type: 'text/plain', size: 8 };
    const unsealed = encodeParcel({ files: [file] });
    for (const [forged, code] of [
      [record, 'decrypt_failed'],
      [changedAt(Buffer.from(record, 'base64'), 40).toString('base64'), 'decrypt_failed'],
      [Buffer.from(unsealed).toString('base64'), 'parcel_invalid'],
    ]) {
      user.lie = rewriting(
        ({ path }) => path.endsWith('/open'),
        (value) => ({ ...value, record: forged }),
      );
      expect(codeOf(await receive(link, 'reader', ['--json']))).toBe(code);
    }
    expect(await got()).toEqual([]);
    user.lie = undefined;
    expect((await receive(link)).exit).toBe(0);
  });

  const recordOf = async (link: string): Promise<string> => {
    const { id } = parseLink(link).link as { id: string };
    const opened = await fetch(`${local.url}/v1/shares/${id}/open`, { method: 'POST' });
    return ((await opened.json()) as { record: string }).record;
  };
  const changedAt = (bytes: Buffer, at: number): Buffer => {
    flip(bytes, at);
    return bytes;
  };

  test('secret of a link collected', async () => {
    const seen: string[] = [];
    user.lie = ({ path, headers }) => void seen.push(path, ...Object.values(headers).map(String));
    const link = await printed(['send', 'letter.txt']);
    const secret = link.slice(-49, -6);
    expect((await receive(link)).exit).toBe(0);
    // A mail filter wrote %23 for the #, and anyone who opened that in a browser sent all of it.
    const filtered = await receive(link.replace('#', '%23'), 'reader', ['--force']);
    expect(filtered.stderr).toContain('%23');
    expect(seen.length).toBeGreaterThan(10);
    expect(seen.filter((each) => each.includes(secret.slice(0, 20)) || each.includes(secret.slice(-20)))).toEqual([]);
  });

  test('page changed', async () => {
    user.lie = ({ path }) =>
      path === '/web/engine.js'
        ? { kind: 'answer', status: 200, headers: { 'content-type': 'text/javascript' }, body: 'steal()' }
        : undefined;
    const { pages, ...about } = await manifestOfRun();
    const few = pages.filter(({ path }) => ['s', 'web/engine.js'].includes(path));
    await writeFile(join(user.desk, 'pages.json'), manifestText({ ...about, pages: few }));
    const verify = ['pages', 'verify', `${user.url}/`, '--pages', 'pages.json'];
    const ran = await sealpin(verify);
    expect(ran.exit).toBe(5);
    expect(ran.stdout).toContain('/web/engine.js: the content');
    isSaid('A service that aims at one reader is not found');
    user.lie = undefined;
    await printed(verify);
  });

  test('inbox key changed', async () => {
    const attacker = await generateKeys();
    const link = await printed(['inbox', 'create', 'tax']);
    // It also says that the link is that of another inbox, for which the sender would sign.
    user.lie = rewriting(
      ({ path }) => path === '/v1/account',
      (value) => ({
        account: { ...(value['account'] as Json), publicKey: attacker.publicKey },
        key: { ...(value['key'] as Json), id: '0'.repeat(16) },
      }),
    );
    await printed(['keygen'], 'sender');
    await printed(['send', 'letter.txt', '--inbox', link, '--sign'], 'sender');
    user.lie = undefined;
    const { deliveries } = JSON.parse(await printed(['inbox', 'list', '--json'])) as {
      deliveries: { id: string; signed: Json }[];
    };
    expect(first(deliveries).signed['state']).toBe('valid');
    await printed(['inbox', 'open', first(deliveries).id, 'got']);
    expect(await readFile(join(user.desk, 'got/letter.txt'), 'utf8')).toBe('Dear Ann\n');
    const sealed = await other(first(deliveries).id, {
      method: 'GET',
      path: `/v1/storage/${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}/content`,
      headers: { authorization: `Bearer ${local.apiKey}` },
    });
    await expect(open(sealed, { with: { keys: attacker.privateKey } })).rejects.toMatchObject({
      code: 'decrypt_failed',
    });
    // A letter of the recipient in the link is a mistyped key.
    const mistyped = `${link.slice(0, -1)}${link.endsWith('q') ? 'p' : 'q'}`;
    expect(await refusal(['send', 'letter.txt', '--inbox', mistyped], 'sender')).toBe('link_invalid');
  });

  test('planted files', async () => {
    // Anyone who has the link of an inbox delivers in any name; a signature tells.
    const link = await printed(['inbox', 'create', 'tax']);
    await printed(['keygen'], 'ann');
    await printed(['contact', 'add', 'ann', 'ann/public.key']);
    await printed(['send', 'letter.txt', '--inbox', link, '--from', 'Ann', '--sign'], 'ann');
    const inbox = parseLink(link).link;
    if (inbox.kind !== 'inbox') throw new TypeError('not an inbox');
    const recipients = parseRecipients(inbox.recipient);
    // One without a signature, and one that says that Ann signed it.
    const signer = parcelSigner(new Uint8Array(32).fill(7));
    const place = { service: user.url, id: await keyOf(inbox.apiKey), recipients: [inbox.recipient] };
    const annsText = first(signersIn(await readFile(join(user.desk, 'ann/public.key'), 'utf8')));
    const claimed = Buffer.from(encodeParcel(parcelOf('Ann'), { ...place, signer })).toString('latin1');
    for (const parcel of [
      encodeParcel(parcelOf('Ann')),
      Buffer.from(claimed.replaceAll(signer.text, annsText), 'latin1'),
    ]) {
      const { stream } = await encrypt(new Blob([Buffer.from(parcel)]).stream(), { format: 'age', recipients });
      const sealed = new Blob([await new Response(stream).arrayBuffer()], { type: sealedParcelType });
      await connect({ service: local.url, apiKey: inbox.apiKey }).put(sealed, { mode: 'plain' });
    }
    const { deliveries } = JSON.parse(await printed(['inbox', 'list', '--json'])) as {
      deliveries: { from: string; signed?: Json }[];
    };
    const newest = deliveries
      .slice(0, 3)
      .map(({ from, signed }) => ({ from, state: signed?.['state'], name: signed?.['name'] }));
    expect(newest).toEqual([
      { from: 'Ann', state: 'wrong', name: 'ann' },
      { from: 'Ann', state: undefined, name: undefined },
      { from: 'Ann', state: 'valid', name: 'ann' },
    ]);
    // What the service adds to a list is shown like any other file.
    user.lie = rewriting(
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

  const keyOf = async (apiKey: string): Promise<string> => {
    const answer = await fetch(`${local.url}/v1/account`, { headers: { authorization: `Bearer ${apiKey}` } });
    return ((await answer.json()) as { key: { id: string } }).key.id;
  };
  const parcelOf = (from: string) => ({
    files: [{ cid: `bafkrei${'a'.repeat(52)}`, fileKey: new Uint8Array(32), name: 'x', type: 'text/plain', size: 1 }],
    from,
  });
});

test('the page of attacks has a row for each, with its command', async () => {
  const page = await readFile(new URL('../../../docs/attacks.md', import.meta.url), 'utf8');
  const sources = ['attacks', 'bytes'].map((name) => readFile(join(import.meta.dirname, `${name}.test.ts`), 'utf8'));
  const names = (await Promise.all(sources)).flatMap((source) =>
    Array.from(source.matchAll(/^ {2}test\('([a-z ]+)', async/gm), ([, name]) => present(name)),
  );
  const rows = [...page.matchAll(/^\| \*\*([a-z ]+)\*\* \|.*`npx vitest run cli\/test\/attacks -t '([a-z ]+)'`/gm)];
  expect(names).toHaveLength(14);
  expect(new Set(rows.map(([, name]) => name))).toEqual(new Set(names));
  expect(rows.map(([, , name]) => name)).toEqual(rows.map(([, name]) => name));
});
