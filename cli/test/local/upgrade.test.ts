/**
 * Data directories of earlier versions under today's program. `states/0.1.0.tar.gz` was made by the
 * code of commit 7ae8386, of the first version: `sealpin start`, three files over HTTP, a key pair,
 * three containers and an API key with the scope `read` (reader.txt), then a clean stop.
 * `states/ab333d8.tar.gz` was made by the code of that commit: a key pair, a contact, six files
 * (from `encrypt`, `ecc-encrypt`, `send`, an inbox and the API in encrypted mode), and a backup of
 * the account in `backup`. Locks, caches and reserves of zeros are left out. Nothing in them is a
 * secret of anybody's.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { dayMs } from '../../../shared/time.ts';
import { prepareState, removeOldCopies } from '../../local/upgrade/copies.ts';
import { inCi, long } from '../../../testkit/long-run.ts';
import { here, remove, startHere } from './harness.ts';
import { first } from '../../../testkit/present.ts';
import { client, type Client } from '../../../testkit/api-client.ts';

const password = { SEALPIN_PASSWORD: 'first version password' };
const stored = [
  ['b31a3ce0-b646-4906-95d1-4af2a0e6f13a', 'plain text of the first version\n'],
  ['df4a814b-2004-4db9-8f77-1989dd0b96fb', 'encrypted by the service\n'],
  ['da689723-3b77-4acc-bb91-dfcdab17815b', 'v'.repeat(1_300_000)],
] as const;
/** The first two take the real cost of a password; the short form opens one of them. */
const containers = [
  ['bafkreifirjrtwtqzrj5rpjpudojfukt3pgu2gnxmpqgjsp247m6xopvi3e', 'for a password\n', password],
  ['bafkreieeqrmjyh2l575yuizvf7jttx3klrmrxvqcocunrlfstqj7hrnxea', 'for a password\n', password],
  ['bafkreictiyyszpgbdrjol7p4bjb654i2fzgnb5iu64ryiujd57tiqpbcv4', 'for a key\n', {}],
] as const;

/** A copy of the directory. @param of its version or commit */
async function unpacked(of = '0.1.0'): Promise<string> {
  const dataDir = await realpath(await mkdtemp(join(tmpdir(), 'sealpin-upgrade-')));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  await promisify(execFile)('tar', ['-xzf', join(import.meta.dirname, `states/${of}.tar.gz`), '-C', dataDir]);
  return dataDir;
}

test('a service of the first version starts with today’s Worker: everything opens, with the old keys', async () => {
  const dataDir = await unpacked();
  const local = await startHere({ dataDir });
  onTestFinished(() => remove(local));
  const reader = (await readFile(join(dataDir, 'reader.txt'), 'utf8')).trim();
  const { apiKey } = JSON.parse(await readFile(join(dataDir, 'local/secrets.json'), 'utf8')) as { apiKey: string };
  const [owner, holder] = [apiKey, reader].map((key) => client(local.url, key)) as [Client, Client];
  for (const by of [owner, holder])
    for (const [fileId, text] of stored) expect((await by.read(fileId)).toString()).toBe(text);
  for (const [blob, text, env] of long ? containers : containers.slice(1))
    expect(await here(['decrypt', blob, '-', `--data-dir=${dataDir}`], env)).toMatchObject({
      code: 0,
      stdout: text,
    });

  const list = await here(['list', '--json', `--data-dir=${dataDir}`]);
  expect((JSON.parse(list.stdout) as { files: unknown[] }).files).toHaveLength(6);
  const { fileId } = await owner.store('encrypted', 'stored by the new version');
  expect((await holder.read(fileId)).toString()).toBe('stored by the new version');
  for (const id of [stored[1][0], fileId]) {
    expect((await holder.ask('deleteFile', { fileId: id })).status).toBe(403);
    const receipt = await owner.deleteFile({ fileId: id });
    // The pin of the first version has a name of that version.
    expect(receipt).toMatchObject({ pins: [{ status: 'unpinned' }] });
    expect((await owner.ask('getFile', { fileId: id })).status).toBe(404);
  }
});

inCi('a data directory of a later commit opens, and its backup is whole and is restored elsewhere', async () => {
  const dataDir = await unpacked('ab333d8');
  const local = await startHere({ dataDir });
  onTestFinished(() => remove(local));
  const ask = (args: string[], dir = dataDir) =>
    here(
      [...args, `--data-dir=${dir}`],
      ['restore', 'backup'].includes(first(args)) ? { SEALPIN_PASSWORD: 'second version password' } : {},
    );
  const sealed = '1634deaf-78b9-424d-9cba-bd0920d9d651';
  const folder = 'bafkreihfwb2imtj4flhblvnejkdgjlvqaj3vtu76tjipvii37e6fqh45d4';
  const files = async (dir: string): Promise<string[]> => {
    const { stdout } = await ask(['list', '--json'], dir);
    const list = JSON.parse(stdout) as { files: { fileId: string }[] };
    return list.files.map(({ fileId }) => fileId).toSorted();
  };
  const before = await files(dataDir);
  expect(before).toHaveLength(6);
  expect(await ask(['decrypt', sealed, '-'])).toMatchObject({ code: 0, stdout: 'encrypted by the service' });
  const out = join(dataDir, 'out');
  expect(await ask(['decrypt', folder, out, '--extract'])).toMatchObject({ code: 0 });
  expect(await readFile(join(out, 'sub/two.txt'), 'utf8')).toBe('two\n');
  expect((await ask(['contact', 'list'])).stdout).toContain('ann');
  expect((await ask(['inbox', 'list'])).stdout).toContain('Ben: letter.txt');
  const backup = join(dataDir, 'backup');
  expect(await ask(['backup', backup, '--check'])).toMatchObject({ code: 0 });

  const other = await startHere();
  onTestFinished(() => remove(other));
  expect(await ask(['restore', backup], other.dataDir)).toMatchObject({ code: 0 });
  expect(await files(other.dataDir)).toHaveLength(6);
  expect(await ask(['backup', backup])).toMatchObject({ code: 0 });
  expect(await files(dataDir)).toEqual(before);
});

test('a data directory of a newer version is refused in a sentence, and left as it is', async () => {
  const dataDir = await unpacked();
  const path = join(dataDir, 'local/secrets.json');
  const secrets = JSON.parse(await readFile(path, 'utf8')) as { v: number };
  const newer = JSON.stringify({ ...secrets, v: secrets.v + 1 });
  await writeFile(path, newer);
  const started = await here(['start', '--port=0', `--data-dir=${dataDir}`]);
  expect(started).toMatchObject({ code: 1, stdout: '' });
  expect(started.stderr).toContain('secrets.json was written by a newer sealpin');
  expect(await readFile(path, 'utf8')).toBe(newer);
});

inCi('a copy is kept for as long as its note says, also where the clock was a year ahead before', async () => {
  const dataDir = await unpacked('ab333d8');
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 365 * dayMs });
  onTestFinished(() => void vi.useRealTimers());
  await prepareState(dataDir, { backupDays: undefined, note: () => undefined, own: '98.0.0' });
  vi.useRealTimers();
  await prepareState(dataDir, { backupDays: undefined, note: () => undefined, own: '99.0.0' });
  await removeOldCopies(dataDir, undefined, Date.now() + 29 * dayMs);
  expect(await readdir(join(dataDir, 'local/copies'))).toHaveLength(1);
  await removeOldCopies(dataDir, undefined, Date.now() + 31 * dayMs);
  expect(await readdir(join(dataDir, 'local/copies'))).toEqual([]);
});
