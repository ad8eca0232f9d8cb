/**
 * Files from one person to another: sent by one, received by another in a home of their own,
 * without a key or an account.
 */
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { connect } from '../../../client/index.ts';
import { encryptPayload } from '../../../shared/crypto/index.ts';
import { printLink, sealParcel, type Parcel } from '../../../shared/link/index.ts';
import { client } from '../../../testkit/api-client.ts';
import { faultyProxy, type WholeAnswer } from '../../../testkit/faulty-proxy.ts';
import { Collector, run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { hostile, json } from '../hostile.ts';
import { sharedLocalService } from '../local.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import { first, present } from '../../../testkit/present.ts';

const local = sharedLocalService();
/** More than one block. */
const noise = Buffer.from(Uint8Array.from({ length: 1_300_000 }, (_, index) => index * 31 + (index >> 8) * 7));

/** The directories of the sender, and of the receiver, who has nothing else. */
let sender: string;
let receiver: string;
beforeEach(async () => {
  [sender, receiver] = [await temporaryDirectory(), await temporaryDirectory()];
  await writeFile(join(sender, 'film.mkv'), noise);
  await writeFile(join(sender, 'letter.txt'), 'Dear Ann\n');
});

const send = (argv: readonly string[], overrides: Overrides = {}): Promise<Ran> =>
  run(['send', ...argv, '--data-dir', local.dataDir], sender, overrides);
const receive = (argv: readonly string[], overrides: Overrides = {}): Promise<Ran> =>
  run(['receive', ...argv, '--data-dir', join(receiver, 'home')], receiver, overrides);

async function linkOf(argv: readonly string[]): Promise<string> {
  const { stdout, stderr, exit } = await send([...argv, '--quiet']);
  expect(exit, stderr).toBe(0);
  return stdout.trim();
}

/** The files that the receiver has, but for their data directory. */
async function received(directory = receiver): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name !== 'home').toSorted();
}

/** The service says that it has these terms. */
const naming =
  (shares: object | null | undefined) =>
  ({ body, ...answer }: WholeAnswer): WholeAnswer => {
    const text = JSON.stringify({ ...(JSON.parse(body.toString()) as object), shares });
    return { ...answer, body: Buffer.from(text) };
  };

describe('what is sent', () => {
  test('arrives in a clean home, with nothing said about the key', async () => {
    const { stdout, stderr } = await send(['letter.txt', 'film.mkv', '--note', 'As promised', '--from', 'Ben']);
    const { exit, stderr: said } = await receive([stdout.trim(), 'new/folder']);
    expect(exit, said).toBe(0);
    expect((await readFile(join(receiver, 'new/folder/film.mkv'))).equals(noise)).toBe(true);
    expect(await readFile(join(receiver, 'new/folder/letter.txt'), 'utf8')).toBe('Dear Ann\n');
    expect(said).toContain('As promised');
    for (const words of [stderr, said]) expect(words).not.toContain(stdout.trim().slice(-49, -6));
  });

  test('may be a folder, which arrives as an archive', async () => {
    await mkdir(join(sender, 'plans'));
    await writeFile(join(sender, 'plans/house'), 'four walls');
    await receive([await linkOf(['plans'])]);
    expect(await received()).toEqual(['plans.tar']);
    expect((await readFile(join(receiver, 'plans.tar'))).includes('four walls')).toBe(true);
  });

  test('arrives whole on a disk that takes names in other letters or another form for one', async () => {
    const names = ['A.txt', 'a.txt', 'a (2).txt', 'caf\u00e9', 'cafe\u0301', 'ΟΔΟΣ', 'οδος'];
    const paths = names.map((name, index) => `${index}/${name}`);
    for (const path of paths) {
      await mkdir(join(sender, path, '..'));
      await writeFile(join(sender, path), path);
    }
    const link = await linkOf(paths);
    for (const [into, ...flags] of [['numbered'], ['forced', '--force']] as const) {
      expect(await receive([link, into, ...flags])).toMatchObject({ exit: 0 });
      const found = await received(join(receiver, into));
      expect(new Set(found.map((name) => name.normalize('NFC').toUpperCase())).size).toBe(names.length);
    }
  });

  test('opens as often as it was said, and until it is taken back', async () => {
    const link = await linkOf(['letter.txt', '--opens', '1']);
    expect((await receive([link])).exit).toBe(0);
    const again = await receive([link]);
    expect(again).toMatchObject({ exit: 3, stderr: expect.stringContaining('as often as its sender allowed') });
    const other = await linkOf(['letter.txt']);
    await run(['unshare', other, '--data-dir', local.dataDir], sender);
    expect(await receive([other, 'other'])).toMatchObject({ exit: 3, stderr: expect.stringContaining('taken back') });
    expect(await received()).not.toContain('other');
  });

  test('is gone with its file', async () => {
    const link = await linkOf(['letter.txt', 'film.mkv']);
    const { stdout } = await run(['list', '--json', '--limit', '2', '--data-dir', local.dataDir], sender);
    const { files } = JSON.parse(stdout) as { files: { blobId: string; name: string }[] };
    const film = present(files.find(({ name }) => name === 'film.mkv'));
    await run(['delete', film.blobId, '--data-dir', local.dataDir], sender);
    expect(await receive([link])).toMatchObject({ exit: 3, stderr: expect.stringContaining('its files were deleted') });
  });

  test('is not used up by what cannot open it: a key that is not there, a folder that is none', async () => {
    const link = await linkOf(['letter.txt', '--opens', '1']);
    await writeFile(join(receiver, 'no-key.pem'), 'no key');
    for (const rest of [['--key', 'missing.pem'], ['--key', 'no-key.pem'], ['no-key.pem']])
      expect((await receive([link, ...rest])).exit).not.toBe(0);
    expect((await receive([link])).exit).toBe(0);
  });

  test('with a password opens with it, and a missing or wrong one leaves the link as it was', async () => {
    await writeFile(join(sender, 'pass'), 'violet-anchor-tundra-mosaic', { mode: 0o600 });
    const link = await linkOf(['letter.txt', '--opens', '2', '--password-file', 'pass']);
    expect((await receive([link])).stderr).toContain('a password is required');
    const wrong = await receive([link], { env: { SEALPIN_PASSWORD: 'wrong' } });
    expect(wrong).toMatchObject({ exit: 4, stderr: expect.stringContaining('wrong password') });
    const right = await receive([link], { env: { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' } });
    expect(right.exit, right.stderr).toBe(0);
    expect(await received()).toEqual(['letter.txt']);
  });

  test('waits for a service that is away at its last request, and says so once', async () => {
    let away = 2;
    const { url } = await faultyProxy(
      () => local.url,
      ({ method, path }) =>
        method === 'POST' && path === '/v1/shares' && (away -= 1) >= 0 ? { kind: 'answer', status: 502 } : undefined,
    );
    const { exit, stdout, stderr } = await send(['letter.txt'], {
      env: { SEALPIN_SERVICE: url, SEALPIN_API_KEY: local.apiKey },
    });
    expect(exit, stderr).toBe(0);
    expect(away).toBe(-1);
    expect(stderr.match(/says 502; trying again/g)).toHaveLength(1);
    expect(stdout).toContain('/s#');
  });

  test('that cannot be sent leaves nothing at the service', async () => {
    const count = async (): Promise<number> => {
      const { stdout } = await run(['list', '--json', '--data-dir', local.dataDir], sender);
      return (JSON.parse(stdout) as { files: unknown[] }).files.length;
    };
    const before = await count();
    expect((await send(['letter.txt', '--opens', '1000000000'])).exit).toBe(2);
    expect((await send(['letter.txt', 'missing'])).exit).toBe(3);
    expect((await send(['letter.txt', '--note', 'x'.repeat(5000)])).stderr).toContain('note');
    expect(await count()).toBe(before);
  });

  test('is refused before a byte of it is sent, where the service would refuse its terms', async () => {
    const sentBy = async (shares: object | null | undefined, ...flags: string[]) => {
      const { url, passed } = await faultyProxy(
        () => local.url,
        ({ path }) => (path === '/v1/health' ? { kind: 'rewrite', rewrite: naming(shares) } : undefined),
      );
      const env = { SEALPIN_SERVICE: url, SEALPIN_API_KEY: local.apiKey };
      const ran = await send(['letter.txt', ...flags], { env });
      return { ...ran, posts: passed.filter(({ method }) => method === 'POST').map(({ path }) => path) };
    };
    const strict = { maxDays: 3, maxOpens: 3 };
    for (const [shares, flags, exit, said] of [
      [strict, ['--opens', '4'], 2, 'opens must be at most 3 at this service'],
      [strict, ['--expires', '4d'], 2, 'a share lasts at most 3 days at this service'],
      [null, [], 4, 'this service makes no links'],
    ] as const) {
      const ran = await sentBy(shares, ...flags);
      expect(ran).toMatchObject({ exit, posts: [], stderr: expect.stringContaining(said) });
    }
    for (const [shares, ...flags] of [[strict, '--opens', '3', '--expires', '3d'], [strict], [undefined]] as const)
      expect(await sentBy(shares, ...flags)).toMatchObject({ exit: 0 });
  });

  test('that fails, with a key that may not delete, names what stays stored', async () => {
    const create = ['key', 'create', 'sends', '--scopes', 'write,share', '--data-dir', local.dataDir];
    const { stdout } = await run(create, sender);
    // A service of an earlier version says nothing of its terms.
    const { url } = await faultyProxy(
      () => local.url,
      ({ path }) => (path === '/v1/health' ? { kind: 'rewrite', rewrite: naming(undefined) } : undefined),
    );
    const env = { SEALPIN_API_KEY: stdout.trim(), SEALPIN_SERVICE: url };
    const ran = await send(['letter.txt', 'film.mkv', '--opens', '1000000000', '--json'], { env });
    expect(ran.exit).toBe(2);
    const [warning = ''] = (JSON.parse(ran.stderr) as { warnings: string[] }).warnings;
    expect(warning).toMatch(/^nothing was sent; 2 files could not be removed again/);
    const listed = await connect({ service: local.url, apiKey: local.apiKey }).list({ limit: 2 });
    for (const { fileId } of listed.files) expect(warning).toContain(fileId);
  });
});

describe('a service or sender that lies', () => {
  const shareId = '7n42DGM5Tflk9n8mt7Fhc7';

  /** A share as a hostile service would have it, and the link to it. */
  async function shareOf(parcel: Parcel, blobs: string): Promise<string> {
    const { record, secret } = await sealParcel(parcel);
    const status = { id: shareId, state: 'active', password: false, expiresAt: '2030-01-31T00:00:00.000Z' };
    const { url } = await hostile({
      'GET /v1/shares/': (_, response) => json(response, 200, { ...status, opensLeft: 1 }),
      'POST /v1/shares/': (_, response) =>
        json(response, 200, { record: Buffer.from(record).toString('base64'), opensLeft: 0 }),
      'GET /ipfs/': (request, response) =>
        void fetch(new URL(request.url ?? '', blobs), { headers: { Accept: String(request.headers.accept) } }).then(
          async (found) =>
            response
              .writeHead(found.status, { 'content-type': found.headers.get('content-type') ?? '' })
              .end(Buffer.from(await found.arrayBuffer())),
        ),
    });
    return printLink({ kind: 'share', service: `${url}/`, id: shareId, secret });
  }

  /** A payload that the local service has. */
  async function stored(text: string): Promise<{ cid: string; fileKey: Uint8Array }> {
    const { payload, fileKey } = await encryptPayload(new Blob([text]).stream());
    const { cid } = await client(local.url, local.apiKey).store('plain', await new Response(payload).bytes());
    return { cid, fileKey };
  }

  test('writes no file outside of the directory, over another or under a hidden name', async () => {
    const blob = await stored('harmless');
    // One file on a system that tells neither cases nor spellings apart.
    const spellings = ['\u00e9', 'e\u0301', '\u00c9'];
    const names = ['.bashrc', '~', 'CON', 'com¹.txt', 'LPT² .a', 'CONIN$', 'a:b', '-rf', 'same', 'same', 'link'];
    names.push(...spellings);
    const files = names.map((name) => ({ ...blob, name, type: 'a/b', size: 8 }));
    await symlink('/etc/passwd', join(receiver, 'link'));
    await writeFile(join(receiver, 'same'), 'mine');
    const { exit, stderr } = await receive([await shareOf({ files }, local.url)]);
    expect(exit, stderr).toBe(0);
    expect(await received()).toEqual(
      [
        '_',
        '_CON',
        '_CONIN$',
        '_LPT² .a',
        '_bashrc',
        '_com¹.txt',
        '_rf',
        'a_b',
        'link',
        'link (2)',
        'same',
        'same (2)',
        'same (3)',
        '\u00e9',
        'e\u0301 (2)',
        '\u00c9 (3)',
      ].toSorted(),
    );
    expect(await readFile(join(receiver, 'same'), 'utf8')).toBe('mine');
    const replaced = await receive([await shareOf({ files: files.slice(-3) }, local.url), '--force']);
    expect(replaced.exit, replaced.stderr).toBe(0);
    expect((await received()).filter((name) => name.normalize('NFC').toLowerCase().startsWith('\u00e9'))).toHaveLength(
      5,
    );
  });

  test('of the size, or with other bytes, gets nothing written, and the other files arrive', async () => {
    const [right, wrong] = [await stored('harmless'), await stored('another')];
    const files = [
      { ...right, name: 'too-large', type: 'a/b', size: 9 },
      { cid: wrong.cid, fileKey: right.fileKey, name: 'other-key', type: 'a/b', size: 7 },
      { ...right, name: 'good', type: 'a/b', size: 8 },
    ];
    const { exit, stderr } = await receive([await shareOf({ files }, local.url)]);
    expect(exit).toBe(5);
    expect(stderr).toContain('size does not match the parcel');
    expect(await received()).toEqual(['good']);
    // Of a link that opens once, nothing says it again.
    const again = await receive([await shareOf({ files, note: 'For you' }, local.url), '--json']);
    expect(again.exit).toBe(5);
    expect(JSON.parse(again.stdout)).toMatchObject({
      files: [{ path: join(receiver, 'good (2)'), name: 'good', size: 8 }],
      note: 'For you',
    });
  });

  test('with blocks of another file, or that breaks off, gets nothing written', async () => {
    const blob = await stored('harmless');
    const other = await startLoopbackServer((_, response) => response.end('not the block'));
    const files = [{ ...blob, name: 'file', type: 'a/b', size: 8 }];
    const lied = await receive([await shareOf({ files }, other.url)]);
    await other.close();
    expect(lied.exit).toBe(6);
    const { url } = await faultyProxy(
      () => local.url,
      ({ path }) => (path.startsWith('/ipfs/') ? { kind: 'cut', afterBytes: 10_000 } : undefined),
    );
    const link = (await linkOf(['film.mkv'])).replace(local.url, url);
    expect(await receive([link])).toMatchObject({ exit: 6, stdout: '' });
    expect(await received()).toEqual([]);
  });

  test('may put escape sequences into words, which are shown as text', async () => {
    const blob = await stored('harmless');
    const files = [{ ...blob, name: 'file', type: 'a/b', size: 8 }];
    const { stderr } = await receive([await shareOf({ files, note: 'a\tb\u202ec', from: 'x\u202ey' }, local.url)]);
    expect(stderr).not.toContain('\u202e');
    expect(stderr).toContain('\\u{202e}');
  });
});

describe('links', () => {
  test('that are truncated, mangled, of an inbox or of nobody are told apart', async () => {
    const link = await linkOf(['letter.txt']);
    expect(await receive([link.slice(0, -3)])).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining('incomplete'),
    });
    const mangled = await receive([`<${link.replace('#', '%23')}&utm_source=mail>`]);
    expect(mangled).toMatchObject({ exit: 0, stderr: expect.stringContaining('warning') });
    const away = link.replace(local.url, 'http://127.0.0.1:9');
    expect(await receive([away])).toMatchObject({ exit: 6, stderr: expect.stringContaining('127.0.0.1:9') });
  });

  test('to a blob open with the key in them, or with a password or private key', async () => {
    const env = { SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
    const { stdout } = await run(['encrypt', 'letter.txt', '--quiet', '--data-dir', local.dataDir], sender, { env });
    const link = printLink({ kind: 'blob', service: `${local.url}/`, cid: stdout.trim() });
    expect((await receive([link], { env })).exit).toBe(0);
    expect(await readFile(join(receiver, stdout.trim()), 'utf8')).toBe('Dear Ann\n');
    expect((await run(['decrypt', link, '-', '--data-dir', receiver], receiver, { env })).stdout).toBe('Dear Ann\n');
  });

  test('show as a QR code of the width of a terminal', async () => {
    const { stderr } = await send(['letter.txt', '--qr']);
    const code = stderr.split('\n').filter((line) => /^[█▀▄ ]{30,}$/.test(line));
    expect(new Set(code.map((line) => line.length))).toEqual(new Set([code[0]?.length]));
    expect(first(code).length).toBeLessThan(80);
    const narrow = Object.assign(new Collector(), { isTTY: true, columns: 40 });
    const refused = await send(['letter.txt', '--qr'], { stderr: narrow });
    const said = refused.stderr.replaceAll(/\s+/g, ' ');
    expect(said).toContain(`there is no QR code: it is ${first(code).length} columns wide, and the terminal 40; `);
    expect(said).not.toMatch(/[█▀▄]{4}/);
  });
});

test('what is stored from a terminal is followed by what to give to whom', async () => {
  const { url } = await faultyProxy(
    () => local.url,
    () => undefined,
  );
  const env = { SEALPIN_SERVICE: url, SEALPIN_API_KEY: local.apiKey, SEALPIN_PASSWORD: 'violet-anchor-tundra-mosaic' };
  const atTerminal = (): Collector => Object.assign(new Collector(), { isTTY: true });
  const encrypt = (words: readonly string[], stdout: Collector): Promise<Ran> =>
    run([...words, 'letter.txt', '--data-dir', sender], sender, { env, stdout, stderr: atTerminal() });
  const shown = await encrypt(['encrypt'], atTerminal());
  expect(shown.stderr).toContain('the blob ID may go in public; tell the password another way');
  expect(shown.stderr).toMatch(RegExp(`to open it:\\s+sealpin decrypt <blob_id> <file> --service ${url}/\n`));
  expect((await encrypt(['encrypt'], new Collector())).stderr).not.toContain('in public');
});
