/** Files that a backup leaves alone, and what its check and its restoration refuse. */
import { cp, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Code, describe as describeCode } from '../../../shared/errors.ts';
import { client } from '../../../testkit/api-client.ts';
import { type ProxyFault, faultyProxy } from '../../../testkit/faulty-proxy.ts';
import { ci, inCi } from '../../../testkit/long-run.ts';
import { startLoopbackServer } from '../../../testkit/loopback-server.ts';
import { directoryOfRun } from '../../../testkit/run-cache.ts';
import { type Service, startService } from '../../../testkit/service.ts';
import { type Account, accountAt, accountIn, jsonOf, password, sealpin } from '../backup-accounts.ts';
import { layoutOf } from '../../backup/layout.ts';
import { writeReaders } from '../../backup/readers.ts';
import { contextIn, run, temporaryDirectory, type Ran } from '../environment.ts';
import { sharedLocalService } from '../local.ts';
import { snapshotOf } from '../snapshot.ts';
import { flip, itemOf, present } from '../../../testkit/present.ts';

const local = sharedLocalService();
let other: Service;
beforeAll(async () => {
  other = await startService();
});
afterAll(async () => other.close());

const uuid = '6f1c2d3e-0000-4000-8000-000000000001';

/** An account with one file, and a folder with its backup in `copy`. */
async function backedUp(): Promise<{ source: Account; directory: string; fileId: string }> {
  const [source, directory] = [await accountIn(local), await temporaryDirectory()];
  const { fileId } = await source.files.put('letter', { name: 'letter' });
  await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  return { source, directory, fileId };
}

const problemAs = (code: Code): ProxyFault => {
  const { status, title } = describeCode(code);
  const headers = { 'content-type': 'application/problem+json' };
  return { kind: 'answer', status, headers, body: JSON.stringify({ type: 'about:blank', title, status, code }) };
};

let kept: Promise<Awaited<ReturnType<typeof backedUp>> & { otherKey: Buffer }> | undefined;

/** The same, made once: the folder is a copy for one test, which deletes nothing of the account. */
async function backedUpBefore(): Promise<Awaited<ReturnType<typeof backedUp>> & { otherKey: Buffer }> {
  const directory = await temporaryDirectory();
  const made = await (kept ??= madeBefore());
  await cp(made.directory, directory, { recursive: true });
  return { ...made, directory };
}

/** `otherKey`: the account.key of another account's backup, with the same password. */
async function madeBefore() {
  const folder = await directoryOfRun();
  const otherKey = await readFile(join((await backedUp()).directory, 'copy/account.key'));
  const made = await backedUp();
  await cp(made.directory, folder, { recursive: true });
  return { ...made, directory: folder, otherKey };
}

describe('a folder with other files', () => {
  test.each(['', '--prune'])('that is no backup is refused, and nothing in it changes: backup %s', async (flag) => {
    const [source, directory] = [await accountIn(local), await temporaryDirectory()];
    for (const folder of ['files', 'blobs']) await mkdir(join(directory, 'docs', folder), { recursive: true });
    for (const name of ['files/mine.json', `files/${uuid}.json`, 'files/notes.txt', 'blobs/photo.car'])
      await writeFile(join(directory, 'docs', name), '{}');
    const before = await snapshotOf(directory);
    const ran = await sealpin(source, ['backup', 'docs', ...(flag === '' ? [] : [flag])], directory);
    expect(ran).toMatchObject({
      exit: 1,
      stderr:
        'sealpin: error: docs is not a backup: it has no backup.json, and other files\n' +
        'sealpin: hint: name a new or an empty folder\n',
    });
    expect(await snapshotOf(directory)).toEqual(before);
  });

  inCi('in a backup keeps them, whatever they are called, while --prune removes what was deleted', async () => {
    const { source, directory, fileId } = await backedUp();
    const { cid } = itemOf((await source.files.list()).files, 0);
    const cidOfNone = `bafkrei${'a'.repeat(52)}`;
    const foreign = [
      'files/mine.json',
      `files/${uuid}.json`,
      'files/notes.txt',
      'blobs/photo.car',
      `blobs/${cidOfNone}.car`,
      'diary.txt',
    ];
    for (const name of foreign) await writeFile(join(directory, 'copy', name), '{}');
    // The records of another account's backup are somebody's, too.
    const others = await backedUp();
    const theirs = ['files', 'blobs'];
    for (const name of theirs)
      await cp(join(others.directory, 'copy', name), join(directory, 'copy', name), { recursive: true });
    await source.files.delete(fileId);
    const before = await snapshotOf(join(directory, 'copy'));
    const done = await jsonOf(sealpin(source, ['backup', 'copy', '--prune', '--json'], directory));
    expect(done).toMatchObject({ gone: [fileId], pruned: true });
    const after = await snapshotOf(join(directory, 'copy'));
    const ours = [`files/${fileId}.json`, `blobs/${cid}.car`, 'backup.json', 'files', 'blobs', ''];
    for (const name of ours) expect(before.has(name)).toBe(true);
    for (const name of ours) before.delete(name);
    for (const [name, content] of before) expect(after.get(name), name).toEqual(content);
    expect([...after.keys()]).not.toContain(`files/${fileId}.json`);
    expect([...after.keys()]).not.toContain(`blobs/${cid}.car`);
  });

  inCi('is found again by a later --prune, also where the run that stored it broke off', async () => {
    const { source, directory, fileId } = await backedUp();
    const about = join(directory, 'copy/backup.json');
    const {
      files: _,
      completedAt: __,
      ...begun
    } = JSON.parse(await readFile(about, 'utf8')) as Record<string, unknown>;
    await writeFile(about, JSON.stringify(begun));
    await source.files.delete(fileId);
    const first = await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    expect(first).toMatchObject({ gone: [fileId], pruned: false });
    const second = await jsonOf(sealpin(source, ['backup', 'copy', '--prune', '--json'], directory));
    expect(second).toMatchObject({ gone: [fileId], pruned: true });
    expect(await readdir(join(directory, 'copy/files'))).toEqual([]);
    expect(await readdir(join(directory, 'copy/blobs'))).toEqual([]);
  });

  test('that a killed first run left is taken up', async () => {
    const [source, directory] = [await accountIn(local), await temporaryDirectory()];
    await mkdir(join(directory, 'copy'));
    await writeFile(join(directory, 'copy/.sealpin-00000000-1-0123456789abcdef.tmp'), '{');
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  });
});

describe('account.key', () => {
  const keys: readonly { title: string; change: (key: string, otherKey: Buffer) => Promise<unknown>; says: string }[] =
    [
      { title: 'that is missing', change: (key) => rm(key), says: 'account.key is missing' },
      { title: 'that is garbage', change: (key) => writeFile(key, 'garbage'), says: 'account.key is not a key' },
      { title: 'that is empty', change: (key) => writeFile(key, ''), says: 'account.key is not a key' },
      {
        title: 'without a password',
        change: async (key) => writeFile(key, '-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n'),
        says: 'account.key is not a key with a password on it',
      },
      {
        title: 'with one byte changed',
        change: async (key) => {
          const bytes = await readFile(key);
          flip(bytes, bytes.length - 3);
          await writeFile(key, bytes);
        },
        says: 'account.key',
      },
      { title: 'of another account', change: (key, otherKey) => writeFile(key, otherKey), says: 'account.key is' },
    ];

  test.each(keys)('$title does not pass the check, with its password or without', async ({ change, says }) => {
    const { directory, otherKey } = await backedUpBefore();
    const check = (env: Record<string, string> = {}): Promise<Ran> =>
      run(['backup', 'copy', '--check'], directory, { env });
    expect(await check()).toMatchObject({ exit: 0 });
    expect(await check({ SEALPIN_PASSWORD: password })).toMatchObject({
      exit: 0,
      stderr: expect.stringContaining('account.key opens, and is the key of this account') as string,
    });
    await change(join(directory, 'copy/account.key'), otherKey);
    for (const env of [{}, { SEALPIN_PASSWORD: password }]) {
      const ran = await check(env);
      expect(ran).toMatchObject({ exit: 5, stdout: '' });
      expect(ran.stderr).toContain(`error: copy cannot be restored: ${says}`);
    }
  });

  test('does not open for the check with another password than its own, which is no damage', async () => {
    const { directory } = await backedUpBefore();
    const ran = await run(['backup', 'copy', '--check'], directory, { env: { SEALPIN_PASSWORD: 'another one' } });
    expect(ran).toMatchObject({
      exit: 4,
      stderr: expect.stringContaining('error: account.key does not open with this password') as string,
    });
  });

  const wrong = keys.filter(({ title }) => title !== 'that is missing');
  test.each(wrong.filter(({ title }) => ci || /garbage|account/.test(title)))(
    '$title is refused by the next backup and stays as it is',
    async ({ change, says }) => {
      const { source, directory, otherKey } = await backedUpBefore();
      await source.files.put('another', { name: 'another' });
      await change(join(directory, 'copy/account.key'), otherKey);
      const before = await snapshotOf(directory);
      for (const SEALPIN_PASSWORD of [password, '']) {
        const ran = await sealpin(source, ['backup', 'copy'], directory, { env: { SEALPIN_PASSWORD } });
        expect(ran).toMatchObject({ exit: 1, stdout: '' });
        expect(ran.stderr).toContain(says);
      }
      expect(await snapshotOf(directory)).toEqual(before);
    },
  );

  inCi('that is missing is written again, and then opens', async () => {
    const { source, directory } = await backedUp();
    await rm(join(directory, 'copy/account.key'));
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    const env = { SEALPIN_PASSWORD: password };
    expect(await run(['backup', 'copy', '--check'], directory, { env })).toMatchObject({ exit: 0 });
    const target = await accountAt(other.url, () => other.account());
    expect(await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory))).toMatchObject({ restored: 1 });
  });

  inCi('under a new password of its owner passes once that is given', async () => {
    const { source, directory } = await backedUp();
    const key = join(directory, 'copy/account.key');
    await rm(key);
    await sealpin(source, ['key', 'export', key, '--protect'], directory);
    expect(await run(['backup', 'copy', '--check'], directory)).toMatchObject({ exit: 5 });
    await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
    expect(await run(['backup', 'copy', '--check'], directory)).toMatchObject({ exit: 0 });
  });
});

test('a header of another file is not kept in a backup', async () => {
  const [source, directory] = [await accountIn(local), await temporaryDirectory()];
  const [one, two] = [await source.files.put('one', { name: 'one' }), await source.files.put('two', { name: 'two' })];
  const server = await startLoopbackServer((request, response) => {
    const { url = '/', headers } = request;
    const isHeader = headers.accept === 'application/vnd.sealpin';
    const path = isHeader ? url.replace(one.fileId, two.fileId) : url;
    void fetch(source.url.replace(/\/$/, '') + path, {
      headers: { authorization: headers.authorization ?? '', accept: headers.accept ?? '*/*' },
    }).then(async (answer) => {
      const bytes = Buffer.from(await answer.arrayBuffer());
      response.writeHead(answer.status, {
        'content-type': answer.headers.get('content-type') ?? '',
        'content-length': bytes.length,
      });
      response.end(bytes);
    });
  });
  onTestFinished(() => server.close());
  const ran = await sealpin({ ...source, url: server.url }, ['backup', 'copy'], directory);
  expect(ran).toMatchObject({
    exit: 4,
    stderr: expect.stringContaining(`${one.fileId} was not backed up`) as string,
  });
  expect(await readdir(join(directory, 'copy/files'))).toEqual([`${two.fileId}.json`]);
});

test('a file that cannot be read keeps no other out of a backup, nor what is kept of it', async () => {
  const [account, directory] = [await accountIn(local), await temporaryDirectory()];
  const codes = ['not_found', 'pinning_timeout', 'internal', 'too_large', 'invalid_request'] as const;
  const lost = new Map<string, Code>();
  const { url } = await faultyProxy(
    () => account.url,
    ({ path }) => {
      const code = [...lost.keys()].find((id) => path.includes(id));
      return code === undefined ? undefined : problemAs(present(lost.get(code)));
    },
  );
  const source = { ...account, url };
  const lose = ({ fileId, cid }: { fileId: string; cid: string }, code: Code): void => {
    for (const id of [fileId, cid]) lost.set(id, code);
  };
  const put = (name: string) => account.files.put(name, { name });
  const files = await Promise.all(codes.map((code) => put(code)));
  for (const [index, code] of codes.entries()) lose(itemOf(files, index), code);
  const kept = await put('kept');
  const first = await sealpin(source, ['backup', 'copy'], directory);
  expect(first.exit).not.toBe(0);
  for (const { fileId } of files) expect(first.stderr).toContain(`${fileId} was not backed up`);
  expect(await readdir(join(directory, 'copy'))).toEqual(expect.arrayContaining(['README.txt', 'open.html']));

  // What was kept of a file stays in the backup when the service loses it, also with --prune.
  lost.clear();
  const deleted = await put('deleted');
  await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  await account.files.delete(deleted.fileId);
  await client(local.url, account.apiKey).changeFile({ fileId: kept.fileId, tags: ['changed'] });
  lose(kept, 'not_found');
  const late = await put('late');
  expect(await sealpin(source, ['backup', 'copy', '--prune'], directory)).toMatchObject({ exit: 3 });
  const about = await readFile(join(directory, 'copy/backup.json'), 'utf8');
  const ids = [...files, kept, late].map(({ fileId }) => fileId);
  expect((JSON.parse(about) as { files: string[] }).files.toSorted()).toEqual(ids.toSorted());
  const names = ids.map((id) => `${id}.json`);
  expect((await readdir(join(directory, 'copy/files'))).toSorted()).toEqual(names.toSorted());
  expect(await run(['backup', 'copy', '--check'], directory)).toMatchObject({ exit: 0, stderr: /of 7 files/ });
});

test('a file that a service refuses keeps no other from being restored', async () => {
  const { directory, source } = await backedUp();
  const codes = ['too_large', 'invalid_filename', 'cid_mismatch', 'content_denied', 'invalid_request'] as const;
  for (const code of codes) await source.files.put(code, { name: code });
  await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  const account = await accountAt(other.url, () => other.account());
  const { url } = await faultyProxy(
    () => account.url,
    ({ method, path }, before) => {
      const sent = [...before, { method, path }].filter((each) => each.method === 'POST').length;
      return method === 'POST' ? problems.at(sent - 1) : undefined;
    },
  );
  const problems = codes.map(problemAs);
  const ran = await sealpin({ ...account, url }, ['restore', 'copy'], directory);
  expect(ran.exit).not.toBe(0);
  expect(ran.stderr.match(/was not restored/g)).toHaveLength(codes.length);
  expect((await account.files.list()).files).toHaveLength(1);
});

inCi('a full quota keeps no file that fits from being restored, and each other one is named', async () => {
  const [source, directory] = [await accountIn(local), await temporaryDirectory()];
  for (const name of ['a', 'b', 'c'])
    for (const bytes of [10, 100_000]) await source.files.put(new Uint8Array(bytes), { name: `${name}${bytes}` });
  await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  const target = await accountAt(local.url, () => local.newAccount('--quota', '50KB'));
  const ran = await sealpin(target, ['restore', 'copy'], directory);
  expect(ran).toMatchObject({ exit: 7, stdout: '' });
  expect(ran.stderr.match(/^sealpin: warning: [-0-9a-f]{36} was not restored: .*quota/gm)).toHaveLength(3);
  expect(ran.stderr).toContain('sealpin: 3 files restored, 0 there already\n');
  const names = (await target.files.list()).files.map(({ filename }) => filename);
  expect(new Set(names)).toEqual(new Set(['a10', 'b10', 'c10']));
});

inCi('files whose time had come are not stored again', async () => {
  const [source, directory] = [await accountIn(local), await temporaryDirectory()];
  const now = Date.now();
  const day = 86_400_000;
  await source.files.put('for a day', { name: 'a day', expiresAt: new Date(now + day) });
  await source.files.put('for a week', { name: 'a week', expiresAt: new Date(now + 7 * day), mode: 'plain' });
  await jsonOf(sealpin(source, ['backup', 'copy', '--json'], directory));
  const target = await accountAt(other.url, () => other.account());
  const late = { now: () => now + 2 * day };
  const done = await jsonOf(sealpin(target, ['restore', 'copy', '--json'], directory, late));
  expect(done).toMatchObject({ restored: 1, expired: 1 });
  expect((await target.files.list()).files.map(({ filename }) => filename)).toEqual(['a week']);
});

describe('a foreign backup.json', () => {
  test('that names a file by anything else than an ID reads nothing out of its folder', async () => {
    const { directory, source } = await backedUpBefore();
    const about = join(directory, 'copy/backup.json');
    const record = JSON.parse(await readFile(about, 'utf8')) as object;
    for (const name of ['../x', '../../etc/passwd', '', 'x', `${uuid}/../../x`, '.']) {
      await writeFile(about, JSON.stringify({ ...record, files: [name] }));
      for (const argv of [
        ['restore', 'copy'],
        ['backup', 'copy'],
        ['backup', 'copy', '--check'],
      ]) {
        const ran = await sealpin(source, argv, directory);
        expect(ran).toMatchObject({ exit: 1, stdout: '' });
        expect(ran.stderr).toContain('copy/backup.json is damaged');
        expect(ran.stderr).toContain('put a copy of backup.json there, or take a new backup into another folder');
      }
    }
  });

  test('and a record of another file are not believed', async () => {
    const { directory, fileId, source } = await backedUpBefore();
    const about = join(directory, 'copy/backup.json');
    const record = JSON.parse(await readFile(about, 'utf8')) as object;
    await writeFile(about, JSON.stringify({ ...record, files: [uuid] }));
    await cp(join(directory, 'copy/files', `${fileId}.json`), join(directory, 'copy/files', `${uuid}.json`));
    for (const argv of [
      ['restore', 'copy'],
      ['backup', 'copy', '--check'],
    ])
      expect(await sealpin(source, argv, directory)).toMatchObject({
        exit: argv.includes('--check') ? 5 : 1,
        stderr: expect.stringContaining(`the record of ${uuid} is that of another file`) as string,
      });
  });
});

test('a password for account.key that is there already is not drawn in vain', async () => {
  const { source, directory } = await backedUpBefore();
  const ran = await sealpin(source, ['backup', 'copy', '--generate'], directory);
  expect(ran).toMatchObject({ exit: 0, stderr: expect.stringContaining('it keeps its password') as string });
});

test('a link under the name of a reader stays, wherever it leads', async () => {
  const directory = await temporaryDirectory();
  const context = contextIn(directory);
  await writeFile(join(directory, 'empty'), '');
  const links = { 'README.txt': 'nowhere', 'open.html': 'empty' };
  for (const [name, target] of Object.entries(links)) await symlink(target, join(directory, name));
  await writeReaders(layoutOf('.', context), context);
  for (const [name, target] of Object.entries(links)) expect(await readlink(join(directory, name))).toBe(target);
  expect((await readFile(join(directory, 'rescue.py'))).length).toBeGreaterThan(0);
});
