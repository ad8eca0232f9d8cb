/**
 * Files that the service encrypted, opened by their owner, and files that are verified where they
 * are stored.
 */
import { writeFileSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { connect, generateKeys, seal, type Connection } from '../../../client/index.ts';
import { faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { receiveFile } from '../../files/received-files.ts';
import { contextIn, run, temporaryDirectory, type Ran } from '../environment.ts';
import { hostile } from '../hostile.ts';
import { sharedLocalService } from '../local.ts';
import { flip } from '../../../testkit/present.ts';

const local = sharedLocalService();
const noise = Buffer.from(Array.from({ length: 2_500_000 }, (_, index) => (index * 31 + (index >> 8) * 7) & 0xff));

let account: Connection;
beforeAll(() => {
  account = connect({ service: local.url, apiKey: local.apiKey });
});

const sealpin = (argv: readonly string[], directory: string, service?: string): Promise<Ran> =>
  run([...argv, '--data-dir', local.dataDir, ...(service === undefined ? [] : ['--service', service])], directory, {
    env: service === undefined ? {} : { SEALPIN_API_KEY: local.apiKey },
  });

describe('decrypt of a file ID', () => {
  test('opens what the service encrypted, under its own name, and never over a file', async () => {
    const directory = await temporaryDirectory();
    const { fileId, cid } = await account.put(noise, { name: 'film ☃.mkv' });
    expect(await sealpin(['decrypt', fileId], directory)).toMatchObject({ exit: 0 });
    expect((await readFile(join(directory, 'film ☃.mkv'))).equals(noise)).toBe(true);
    const again = await sealpin(['decrypt', fileId.toUpperCase(), '--json'], directory);
    expect(JSON.parse(again.stdout)).toEqual({
      output: join(directory, 'film ☃ (2).mkv'),
      size: noise.length,
      fileId,
      blobId: cid,
      name: 'film ☃.mkv',
    });
    expect((await sealpin(['decrypt', fileId, '-'], directory)).stdoutBytes.equals(noise)).toBe(true);
  });

  test('writes under the next number when another command takes the name meanwhile', async () => {
    const directory = await temporaryDirectory();
    const { fileId } = await account.put(noise, { name: 'film.mkv' });
    let name = 'film.mkv';
    const { url } = await faultyProxy(
      () => local.url,
      ({ path }) => {
        if (path.startsWith('/ipfs/')) writeFileSync(join(directory, name), 'theirs');
        return undefined;
      },
    );
    const ran = await sealpin(['decrypt', fileId], directory, url);
    expect(ran, ran.stderr).toMatchObject({ exit: 0, stderr: /wrote film \(2\)\.mkv/ });
    // One that the user has chosen stays the one.
    name = 'film';
    const named = await sealpin(['decrypt', fileId, name], directory, url);
    expect(named).toMatchObject({ exit: 1, stderr: /film was created while this was running/ });
    expect((await readdir(directory)).toSorted()).toEqual(['film', 'film (2).mkv', 'film.mkv']);
  });

  test('refuses without an output file all that it refuses with one', async () => {
    const directory = await temporaryDirectory();
    const { fileId } = await account.put('text', { name: 'in' });
    await writeFile(join(directory, 'in'), 'theirs');
    const flags = [['--extract'], ['--force'], ['--path', '../x'], ['--json']];
    const refused: string[] = [];
    for (let set = 0; set < 2 ** flags.length; set += 1) {
      const given = flags.flatMap((flag, index) => ((set >> index) % 2 === 1 ? flag : []));
      const { exit, stderr } = await sealpin(['decrypt', fileId, 'out', ...given], await temporaryDirectory());
      if (exit !== 2) continue;
      refused.push(given.join(' '));
      expect(await sealpin(['decrypt', fileId, ...given], directory), given.join(' ')).toMatchObject({ exit, stderr });
    }
    expect(refused).toContain('--extract --force');
    expect(await readFile(join(directory, 'in'), 'utf8')).toBe('theirs');
  });

  test('tries no other name once it is interrupted', async () => {
    const directory = await temporaryDirectory();
    await writeFile(join(directory, 'in'), 'theirs');
    const freeName = () => Promise.reject(new Error('another name'));
    const placing = { outputFile: 'in', freeName, force: false, extract: false };
    const interrupted = new SealpinError('interrupted');
    const context = contextIn(directory, { signal: AbortSignal.abort(interrupted) });
    const { cid } = await account.put('text', { name: 'in' });
    const file = { cid, fileKey: new Uint8Array(32), name: 'in', size: 4 };
    await expect(receiveFile(file, placing, local.url, context)).rejects.toBe(interrupted);
  });

  test('writes nothing when the service puts another file behind the ID', async () => {
    const directory = await temporaryDirectory();
    const asked = await account.put('asked for', { name: 'a' });
    const other = await account.put('another one', { name: 'b' });
    const forward = async (path: string): Promise<Response> =>
      fetch(new URL(path, local.url), {
        headers: { authorization: `Bearer ${local.apiKey}`, accept: 'application/vnd.sealpin, application/json' },
      });
    const { url } = await hostile({
      'GET /v1/account': async (_request, response) => {
        const body = Buffer.from(await (await forward('v1/account')).arrayBuffer());
        response.writeHead(200, { 'content-type': 'application/json' }).end(body);
      },
      [`GET /v1/storage/${asked.fileId}`]: async (request, response) => {
        const isAbout = request.headers.accept === 'application/json';
        const answer = isAbout
          ? Buffer.from(JSON.stringify({ ...other, fileId: asked.fileId }))
          : Buffer.from(await (await forward(`v1/storage/${other.fileId}`)).arrayBuffer());
        response.writeHead(200).end(answer);
      },
    });
    const ran = await sealpin(['decrypt', asked.fileId, 'out'], directory, url);
    expect(ran).toMatchObject({ exit: 5, stderr: /header/ });
    await expect(readFile(join(directory, 'out'))).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

describe('verify', () => {
  test('opens by file ID what the service encrypted, and by a key what was encrypted to it', async () => {
    const directory = await temporaryDirectory();
    const { fileId, cid } = await account.put(noise, { name: 'noise' });
    const deep = await sealpin(['verify', fileId, '--open', '--json'], directory);
    expect(JSON.parse(deep.stdout)).toMatchObject({ blobId: cid, opened: true, plaintextSize: noise.length });
    const quick = await sealpin(['verify', cid, '--json'], directory);
    expect(JSON.parse(quick.stdout)).toMatchObject({ blobId: cid, opened: false });
    // The header is not in the blob, so by its blob ID it does not open.
    expect(await sealpin(['verify', cid, '--open'], directory)).toMatchObject({ exit: 4, stderr: /sealpin decrypt/ });
  });

  test('fails where the payload is damaged, although every block is the one that was stored', async () => {
    const directory = await temporaryDirectory();
    const keys = await generateKeys();
    const bytes = await (await seal(noise, { to: { keys: keys.recipient } })).bytes();
    flip(bytes, bytes.length - 1);
    const { cid } = await account.put(bytes, { mode: 'plain' });
    await writeFile(join(directory, 'key'), keys.privateKey, { mode: 0o600 });
    expect(await sealpin(['verify', cid], directory)).toMatchObject({ exit: 0 });
    expect(await sealpin(['verify', cid, '--key', 'key'], directory)).toMatchObject({ exit: 5, stdout: '' });
    const plain = await account.put('not encrypted', { mode: 'plain' });
    expect(await sealpin(['verify', plain.cid, '--open'], directory)).toMatchObject({
      exit: 4,
      stderr: /not encrypted/,
    });
  });
});
