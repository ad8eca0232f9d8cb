/**
 * Files that are sent while the connection breaks: the same command continues, or says why it does
 * not.
 */
import { randomBytes } from 'node:crypto';
import { link, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { plaintextBytes } from '../../../shared/crypto/index.ts';
import { faultyProxy, type ProxyFault, type Passed } from '../../../testkit/faulty-proxy.ts';
import { run, temporaryDirectory, type Ran } from '../environment.ts';
import { changeKeepingTimes } from '../keeping-times.ts';
import { sharedLocalService, oldInbox } from '../local.ts';
import { first } from '../../../testkit/present.ts';
import { inCi } from '../../../testkit/long-run.ts';

const local = sharedLocalService();
const mib = 1024 * 1024;
const partBytes = mib;
/** Three parts. */
const fileBytes = 2.5 * mib;
const health = {
  kind: 'answer',
  status: 200,
  body: JSON.stringify({ status: 'ok', version: '0.1.0', maxUploadBytes: partBytes, maxFileBytes: 64 * mib }),
} as const;
/** A service that asks for more patience than the command line has. */
const away = { kind: 'answer', status: 503, headers: { 'retry-after': '86400' } } as const;

const patches = (passed: readonly Passed[]): Passed[] => passed.filter(({ method }) => method === 'PATCH');

/**
 * A sender with two files of three parts each, and a proxy before the service whose fault the test
 * may change.
 */
async function scene() {
  const directory = await temporaryDirectory();
  const contents = { one: randomBytes(fileBytes), two: randomBytes(fileBytes) };
  for (const [name, bytes] of Object.entries(contents)) await writeFile(join(directory, name), bytes);
  const line: { fault: (request: Passed, before: readonly Passed[]) => ProxyFault | undefined } = {
    fault: () => undefined,
  };
  const { url, passed } = await faultyProxy(
    () => local.url,
    (request, before) => (request.path.startsWith('/v1/health') ? health : line.fault(request, before)),
  );
  const home = join(directory, 'home');
  const spools = (): Promise<string[]> => readdir(join(home, 'uploads')).catch(() => []);
  const send = (...flags: string[]): Promise<Ran> =>
    run(['send', 'one', 'two', '--data-dir', home, ...flags], directory, {
      env: flags.includes('--inbox') ? {} : { SEALPIN_SERVICE: url, SEALPIN_API_KEY: local.apiKey },
    });
  /** Expects that what arrived is what was sent. */
  const arrived = async (where: string): Promise<void> => {
    for (const [name, bytes] of Object.entries(contents))
      expect((await readFile(join(directory, where, name))).equals(bytes), name).toBe(true);
  };
  return { directory, url, passed, line, home, spools, send, arrived };
}

/** Leaves the first file stored, and the second one in its middle. */
async function interrupted(on: Awaited<ReturnType<typeof scene>>, ...flags: string[]): Promise<Ran> {
  on.line.fault = ({ path }, before) =>
    path.startsWith('/v1/uploads/') && patches(before).length >= 4 ? away : undefined;
  const ran = await on.send(...flags);
  on.line.fault = () => undefined;
  on.passed.length = 0;
  return ran;
}

const json = ({ stdout }: Ran): unknown => JSON.parse(stdout);

const storedFiles = async (): Promise<number> =>
  (json(await run(['list', '--json', '--data-dir', local.dataDir], local.dataDir)) as { files: unknown[] }).files
    .length;

describe('a send that breaks off', () => {
  test('is continued by the same command, also with another expiry or name, and nothing is sent twice', async () => {
    const on = await scene();
    const broken = await interrupted(on);
    expect(broken).toMatchObject({
      exit: 6,
      stdout: '',
      stderr: expect.stringContaining('run the same command again within 7 days') as unknown,
    });
    expect(await on.spools()).toHaveLength(2);
    // As a backup of hard links does.
    await link(join(on.directory, 'two'), join(on.directory, 'two, too'));
    const ran = await on.send('--expires', '2d');
    expect(ran.stderr).toContain('continuing the upload of two at 1.0 MiB of 2.5 MiB');
    expect(patches(on.passed).map(({ headers }) => Number(headers['upload-offset']))).toEqual([
      partBytes,
      2 * partBytes,
    ]);
    expect(await on.spools()).toEqual([]);
    const received = await run(['receive', ran.stdout.trim(), 'there'], on.directory);
    expect(received.exit, received.stderr).toBe(0);
    await on.arrived('there');
  });

  test('keeps no key in the clear, and no name but that of the file on this disk', async () => {
    const on = await scene();
    await interrupted(on);
    const [spool = ''] = await on.spools();
    const folder = join(on.home, 'uploads', spool);
    const state = JSON.parse(await readFile(join(folder, 'state.json'), 'utf8')) as Record<string, unknown>;
    const sealed = Buffer.from(String(state['sealedKey']), 'base64');
    // Nonce, key and tag: a key that is not sealed has 32 bytes.
    expect(sealed).toHaveLength(12 + 32 + 16);
    expect(plaintextBytes((await readFile(join(folder, 'container'))).length)).toBe(fileBytes);
    // The key is bound to its upload: it opens no other one.
    const damaged = { ...state, sealedKey: Buffer.from(sealed.map((byte) => byte ^ 1)).toString('base64') };
    await writeFile(join(folder, 'state.json'), JSON.stringify(damaged), { mode: 0o600 });
    const ran = await on.send();
    expect(ran.exit, ran.stderr).toBe(0);
    expect(ran.stderr).toContain('the API key does not open what was kept of it; it starts afresh');
  });

  test.each(['shorter', 'x'.repeat(fileBytes)])('starts afresh and says so when a file has changed', async (text) => {
    const on = await scene();
    await interrupted(on);
    const two = join(on.directory, 'two');
    await changeKeepingTimes(two, () => writeFile(two, text));
    const ran = await on.send();
    const why = 'the file or its permissions have changed since';
    expect(ran.stderr).toContain(`the interrupted upload of two is not continued: ${why}`);
    await run(['receive', ran.stdout.trim(), 'there'], on.directory);
    expect(await readFile(join(on.directory, 'there/two'), 'utf8')).toBe(text);
  });

  inCi('by an earlier version, which kept less about the file, is continued', async () => {
    const on = await scene();
    await interrupted(on);
    for (const spool of await on.spools()) {
      const path = join(on.home, 'uploads', spool, 'state.json');
      const { source, ...state } = JSON.parse(await readFile(path, 'utf8')) as { source: Record<string, string> };
      delete source['ctimeNs'];
      delete source['nlink'];
      await writeFile(path, JSON.stringify({ ...state, source }));
    }
    expect((await on.send()).stderr).toContain('continuing the upload of two');
  });

  test('for good leaves nothing, here or at the service', async () => {
    const on = await scene();
    const before = await storedFiles();
    const refusal = { type: 'about:blank', title: 'Not allowed', status: 403, code: 'forbidden', detail: 'no shares' };
    on.line.fault = ({ method, path }) =>
      method === 'POST' && path === '/v1/shares'
        ? {
            kind: 'answer',
            status: 403,
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(refusal),
          }
        : undefined;
    expect(await on.send()).toMatchObject({ exit: 4, stderr: expect.stringMatching(/error: no shares\n$/) as unknown });
    expect(await on.spools()).toEqual([]);
    expect(await storedFiles()).toBe(before);
  });

  test('to an inbox is continued, too, by a sender who has no account', async () => {
    const on = await scene();
    const inbox = (...words: string[]): Promise<Ran> =>
      run(['inbox', ...words, '--data-dir', local.dataDir], on.directory);
    const link = (await oldInbox(local)).replace(local.url, on.url);
    expect(await interrupted(on, '--inbox', link)).toMatchObject({ exit: 6 });
    const ran = await on.send('--inbox', link, '--from', 'Ben');
    expect(ran).toMatchObject({
      exit: 0,
      stdout: '',
      stderr: expect.stringContaining('continuing the upload of two') as unknown,
    });
    expect(await on.spools()).toEqual([]);
    const { deliveries } = json(await inbox('list', '--json')) as { deliveries: { id: string; from: string }[] };
    expect(deliveries).toMatchObject([{ from: 'Ben' }]);
    await inbox('open', first(deliveries).id, 'there');
    await on.arrived('there');
  });
});
