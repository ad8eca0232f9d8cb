/**
 * Inboxes from the command line: whom they are sealed to, what is listed of what came, and what a
 * full one refuses.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { connect, generateKeys, handOver } from '../../../client/index.ts';
import { parseRecipients, type Recipient } from '../../../shared/crypto/index.ts';
import { parseLink, sealedParcelType } from '../../../shared/link/index.ts';
import { describe as describeCode, type Code } from '../../../shared/errors.ts';
import { client, pathOf } from '../../../testkit/api-client.ts';
import { faultyProxy, type ProxyFault } from '../../../testkit/faulty-proxy.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { fingerprint } from '../../keys/fingerprint.ts';
import { Collector, run, temporaryDirectory, type Ran } from '../environment.ts';
import { sharedLocalService, oldInbox } from '../local.ts';
import { first, present } from '../../../testkit/present.ts';
import { hostileFiles } from '../hostile-deliveries.ts';

const local = sharedLocalService();
let home: string;
let owner: string;
beforeEach(async () => {
  home = await temporaryDirectory();
  await run(['keygen', '--data-dir', home], home);
  owner = present((await recipientIn(join(home, 'public.key'))).text);
});

async function recipientIn(path: string): Promise<Recipient> {
  const [recipient] = parseRecipients(await readFile(path, 'utf8'));
  return present(recipient);
}

type Options = { stdout?: Collector; url?: string };
const inbox = (argv: readonly string[], { stdout = new Collector(), url = local.url }: Options = {}): Promise<Ran> =>
  run(['inbox', ...argv, '--data-dir', home], home, {
    stdout,
    env: { SEALPIN_SERVICE: url, SEALPIN_API_KEY: local.apiKey },
  });

type Listed = { id: string; from?: string; files?: { name: string }[]; problem?: string; sealedTo?: string };
const listed = async (o?: Options): Promise<Listed[]> => {
  const { stdout, stderr, exit } = await inbox(['list', '--json'], o);
  expect(exit, stderr).toBe(0);
  expect(stderr.includes('error'), stderr).toBe(false);
  return (JSON.parse(stdout) as { deliveries: Listed[] }).deliveries;
};

async function linkOf(...argv: string[]): Promise<{ link: string; recipient: string; apiKey: string }> {
  const { stdout, stderr } = await inbox(['create', 'Tax office', '--quiet', ...argv]);
  const { link } = parseLink(stdout.trim());
  if (link.kind !== 'inbox') throw new Error(stderr);
  return { link: stdout.trim(), recipient: link.recipient, apiKey: link.apiKey };
}

/** Removes what earlier tests handed over: they share the account. */
async function removeAll(): Promise<void> {
  const call = client(local.url, local.apiKey);
  const ids = async (): Promise<string[]> => (await call.listFiles()).files.map(({ fileId }) => fileId);
  for (let files = await ids(); files.length > 0; files = await ids()) await call.deleteFiles({ files });
}

test('what is handed over to an inbox is listed and opened by its owner, who alone has the key', async () => {
  await removeAll();
  const { link } = await linkOf('--max-files', '10');
  await handOver(link, { source: 'receipts', name: 'receipts.txt' }, { from: 'Ben', note: 'Of March' });
  const [delivery] = await listed();
  expect(delivery).toMatchObject({ from: 'Ben', files: [{ name: 'receipts.txt', size: 8 }], sealedTo: 'key' });
  expect((await inbox(['list'])).stdout).toMatch(/^[0-9a-f-]{36} {2}\d{4}-\d{2}-\d{2} +8 B {2}Ben: receipts\.txt\n$/);
  const narrow = await inbox(['list'], { stdout: Object.assign(new Collector(), { isTTY: true, columns: 40 }) });
  expect(narrow.stdout.replace(/\d{4}-\d{2}-\d{2}/, 'DAY').split('\n')).toEqual([
    'Ben: receipts.txt',
    '  DAY        8 B',
    `  ${present(delivery).id}`,
    '',
  ]);
  const opened = await inbox(['open', present(delivery).id, 'there']);
  expect(opened, opened.stderr).toMatchObject({ exit: 0, stderr: expect.stringContaining('Of March') as unknown });
  expect(await readFile(join(home, 'there/receipts.txt'), 'utf8')).toBe('receipts');
  const revoked = { exit: 0, stderr: expect.stringContaining('Tax office') as unknown };
  expect(await inbox(['revoke', link])).toMatchObject(revoked);
  await expect(handOver(link, { source: 'x', name: 'x' })).rejects.toMatchObject({ code: 'unauthorized' });
});

test('a delivery is deleted with its files, and leaves nothing that counts', async () => {
  await removeAll();
  const { link } = await linkOf('--max-files', '3');
  await writeFile(join(home, 'five.bin'), 'five');
  await writeFile(join(home, 'six.bin'), 'six');
  const sent = await run(['send', 'five.bin', 'six.bin', '--inbox', link], home, {});
  expect(sent.exit, sent.stderr).toBe(0);
  const [delivery] = await listed();
  const { id } = present(delivery);
  const env = { SEALPIN_SERVICE: local.url, SEALPIN_API_KEY: local.apiKey };
  const deleted = await run(['delete', id, '--yes', '--data-dir', home], home, { env });
  expect(deleted.exit, deleted.stderr).toBe(0);
  const { usage } = await client(local.url, local.apiKey).getAccount();
  expect(usage).toMatchObject({ files: 0, bytes: 0 });
  expect(await listed()).toEqual([]);
  // There is room for the next one.
  await handOver(link, [{ source: 'next', name: 'a' }]);
});

describe('an inbox is sealed to', () => {
  /** A proxy in front of the service that answers for the account with another public key. */
  async function lying(): Promise<string> {
    const { publicKey } = await generateKeys();
    const about = await client(local.url, local.apiKey).getAccount();
    const body = JSON.stringify({ ...about, account: { ...about.account, publicKey } });
    const fault = ({ path }: { path: string }): ProxyFault | undefined =>
      path === pathOf('getAccount')
        ? { kind: 'answer', status: 200, headers: { 'content-type': 'application/json' }, body }
        : undefined;
    return (await faultyProxy(() => local.url, fault)).url;
  }

  test('public.key, whose fingerprint is shown, whatever key the service answers with', async () => {
    const url = await lying();
    const { stdout, stderr } = await inbox(['create', 'x'], { url });
    expect(parseLink(stdout.trim()).link).toMatchObject({ kind: 'inbox', recipient: owner });
    expect(stderr).toContain(`your public.key: ${await fingerprint(owner)}`);
    expect(stderr).toContain('for 200 files, 1.0 GiB');
    expect(stderr).toContain(new Date(Date.now() + 90 * 86_400_000).toISOString().slice(0, 10));
  });

  test('the key that is named, and never to one that the service names', async () => {
    await run(['keygen', '--output', 'other'], home);
    const other = join(home, 'other', 'public.key');
    expect((await linkOf('--recipient', other)).recipient).toBe((await recipientIn(other)).text);
    expect(await inbox(['create', 'x', '--recipient', 'account'])).toMatchObject({ exit: 2, stdout: '' });
    await run(['contact', 'add', 'account', owner, '--data-dir', home], home);
    expect((await linkOf('--recipient', 'account')).recipient).toBe(owner);
  });

  test('no key of another kind, and to none where there is no pair', async () => {
    await run(['keygen', '--post-quantum', '--output', 'hybrid'], home);
    const hybrid = await inbox(['create', 'x', '--recipient', 'hybrid/public.key']);
    expect(hybrid).toMatchObject({ exit: 2, stdout: '', stderr: expect.stringContaining('no P-256 key') as unknown });
    expect(hybrid.stderr).toContain('sealpin keygen --output');
    await writeFile(join(home, 'public.key'), await readFile(join(home, 'hybrid/public.key')));
    expect(await inbox(['create', 'x'])).toMatchObject({ exit: 2, stdout: '' });
    home = await temporaryDirectory();
    const none = await inbox(['create', 'x']);
    expect(none).toMatchObject({ stdout: '', stderr: expect.stringContaining('sealpin keygen') as unknown });
    expect(none.exit).not.toBe(0);
  });
});

describe('what came that cannot be opened', () => {
  inCi('is listed with the reason, beside what can', async () => {
    await removeAll();
    const { link, apiKey, recipient } = await linkOf();
    const stranger = connect({ service: local.url, apiKey });
    const kinds = await hostileFiles(first(parseRecipients(recipient)));
    const ids = new Map<string, string>();
    for (const [kind, bytes] of Object.entries(kinds))
      ids.set((await stranger.put(bytes, { mode: 'plain', type: sealedParcelType })).fileId, kind);
    await handOver(link, { source: 'genuine', name: 'genuine.txt' }, { from: 'Ben' });
    const [genuine, ...others] = await listed();
    expect(genuine).toMatchObject({ from: 'Ben', files: [{ name: 'genuine.txt' }] });
    expect(others.map(({ id, problem, files }) => [ids.get(id), typeof problem, files])).toEqual(
      Object.keys(kinds)
        .toReversed()
        .map((kind) => [kind, 'string', undefined]),
    );
    const { stdout, exit } = await inbox(['list']);
    expect(exit).toBe(0);
    expect(stdout.match(/\(cannot be opened: .+\)/g)?.length).toBe(Object.keys(kinds).length);
    for (const { id } of others) {
      const { exit: failed, stderr } = await inbox(['open', id, 'there']);
      expect(failed === 0, stderr).toBe(false);
      expect(stderr.includes('bug'), stderr).toBe(false);
    }
    // The same with the key of the account, to which older inboxes are sealed.
    await handOver(await oldInbox(local), { source: 'x', name: 'old.txt' });
    const withOld = await inbox(['list']);
    expect(withOld.stdout).toContain('old.txt');
    expect(withOld.stderr).toContain(
      '1 of these: sealed to the account key, which the service named: make a new inbox',
    );
    expect((await listed())[0]).toMatchObject({ sealedTo: 'account' });
  });

  inCi('shows a delivery whose bytes are gone, and ends only where the service refuses the caller', async () => {
    await removeAll();
    await handOver((await linkOf()).link, { source: 'x', name: 'x' });
    let code: Code = 'not_found';
    let times = Infinity;
    const { url } = await faultyProxy(
      () => local.url,
      ({ path }) => {
        if (!path.endsWith('/content') || (times -= 1) < 0) return undefined;
        const { status } = describeCode(code);
        const headers = { 'content-type': 'application/problem+json', 'retry-after': '1' };
        return { kind: 'answer', status, headers, body: JSON.stringify({ type: '', title: '', status, code }) };
      },
    );
    for (code of ['not_found', 'content_denied', 'pinning_lost', 'pinning_unavailable'] as const)
      expect((await listed({ url }))[0]).toMatchObject({ problem: code });
    code = 'overloaded';
    expect(await inbox(['list'], { url })).toMatchObject({ exit: 6, stdout: '' });
    code = 'rate_limited';
    times = 1;
    expect((await listed({ url }))[0]).toMatchObject({ files: [{ name: 'x' }] });
    const refused = await run(['inbox', 'list', '--data-dir', home], home, {
      env: { SEALPIN_SERVICE: local.url, SEALPIN_API_KEY: (await linkOf()).apiKey },
    });
    expect(refused).toMatchObject({ stdout: '', stderr: expect.stringContaining('scope') as unknown });
  });

  test.runIf(long)('is not opened beyond the newest hundred', async () => {
    await removeAll();
    const { link, apiKey } = await linkOf();
    const stranger = connect({ service: local.url, apiKey });
    await handOver(link, { source: 'x', name: 'oldest.txt' });
    for (let count = 0; count < 101; count += 1)
      await stranger.put(`${count}`, { mode: 'plain', type: sealedParcelType });
    const { stdout, stderr } = await inbox(['list']);
    expect(stdout.match(/\(cannot be opened/g)).toHaveLength(100);
    expect(stdout.match(/\(not opened\)/g)).toHaveLength(2);
    expect(stderr).toContain('only the newest 100 are opened');
  });
});

test('a service that returns empty pages without end does not keep inbox list busy', async () => {
  let pages = 0;
  const { url } = await faultyProxy(
    () => local.url,
    ({ path }) => {
      if (!path.startsWith('/v1/storage?')) return undefined;
      pages += 1;
      const body = JSON.stringify({ files: [], cursor: `${pages}` });
      return { kind: 'answer', status: 200, headers: { 'content-type': 'application/json' }, body };
    },
  );
  expect(await inbox(['list'], { url })).toMatchObject({
    exit: 6,
    stderr: expect.stringContaining("the service's list never ends") as unknown,
  });
  expect(pages).toBe(101);
});

test('send --inbox stores nothing where the inbox has no room, and something the inbox can hold', async () => {
  await removeAll();
  const { link } = await linkOf('--max-files', '3', '--max-bytes', '40KB');
  for (const name of ['a', 'b', 'c']) await writeFile(join(home, name), 'x'.repeat(15_000));
  const send = (...files: string[]): Promise<Ran> =>
    run(['send', ...files, '--inbox', link, '--data-dir', home], home, { env: {} });
  const connection = connect({ service: local.url, apiKey: local.apiKey });
  for (const [files, message] of [
    [['a', 'b', 'c'], 'room for 3 more files'],
    [['a', 'b', 'c'].slice(0, 2), 'room for 40000 more bytes'],
  ] as const) {
    await writeFile(join(home, 'b'), 'x'.repeat(30_000));
    expect(await send(...files)).toMatchObject({ exit: 7, stderr: expect.stringContaining(message) as unknown });
  }
  expect((await connection.list()).files).toEqual([]);
  expect(await send('a')).toMatchObject({ exit: 0 });
  expect((await connection.list()).files).toHaveLength(2);
  expect((await listed())[0]).toMatchObject({ files: [{ name: 'a' }] });
});
