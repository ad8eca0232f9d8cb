/** Faults of the folder of a backup, with an operator's API that only has pages. */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as v from 'valibot';
import { expect, test } from 'vitest';
import { onSmallDisk } from '../../testkit/small-disk.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';
import type { OperatorApi } from '../operator-api.ts';
import { backup } from '../service-backup.ts';
import { restore } from '../service-restore.ts';
import { newFolder, processWith, refusal } from './deployment.ts';

const service = 'https://files.example.com';
const ids = ['1', '2', '3'].map((digit) => digit.repeat(22));
const [one = '', two = '', three = ''] = ids;
/** Its code runs in another process, too. */
const pageOf = (accountId: string, after: string | null, pinsOf = 'one') => ({
  accountId,
  pinsOf,
  after,
  next: after === null ? 'f1' : after === 'f1' ? 'f2' : null,
  // Node's own reader of lines ends one there.
  label: '\u2028'.repeat(1000),
});

/** The API of a service with these accounts. `put`: what it was sent, as paths and bodies. */
function apiOf({ accounts = ids, pinsOf = 'one' } = {}) {
  const put: [string, string][] = [];
  const api = {
    async get(path: string) {
      const { pathname, searchParams } = new URL(path, service);
      const [account] = accounts.filter((id) => pathname.includes(id));
      return account === undefined
        ? { accounts: accounts.map((id) => ({ id })) }
        : pageOf(account, searchParams.get('cursor'), pinsOf);
    },
    async put(path: string, body: string) {
      put.push([path, body]);
      return { unpinned: [] };
    },
  };
  return { api: api as unknown as OperatorApi, put };
}

const linesOf = (account: string): string[] =>
  [null, 'f1', 'f2'].map((after) => `${JSON.stringify(pageOf(account, after))}\n`);

async function contentOf(dir: string): Promise<Record<string, string>> {
  const names = (await readdir(dir)).toSorted();
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(join(dir, name), 'utf8')])),
  );
}

const accountFiles = Object.fromEntries(ids.map((id) => [`${id}.ndjson`, linesOf(id).join('')]));
const context = async () => processWith(await newFolder(), {});

async function backedUp(): Promise<string> {
  const dir = join(await temporaryDirectory(), 'backup');
  expect(await backup(apiOf().api, service, dir, await context())).toBe(0);
  expect(await contentOf(dir)).toEqual({ ...accountFiles, 'backup.json': expect.stringContaining(service) as string });
  return dir;
}

/** What the file of the first account may have instead of all its pages. */
const [first = '', second = '', third = ''] = linesOf(one);
const unfinished = {
  nothing: '',
  'its first page': first,
  'a cut page': first + second.slice(0, 50),
  'all but the last newline': first + second + third.slice(0, -1),
  'something else': 'hello\n',
  'something else in the middle': `${first}{}\n${second}${third}`,
  'a page that is left out': first + third,
  'pages in another order': first + third + second,
  'pages of another account': linesOf(two).join(''),
};

test.each(Object.entries(unfinished))('a backup resumes behind the whole pages of a file with %s', async (_, text) => {
  const dir = await backedUp();
  const whole = join(dir, `${one}.ndjson`);
  for (const name of [`${one}.ndjson`, `${one}.ndjson.part`]) {
    await rm(join(dir, 'backup.json'));
    await rename(whole, join(dir, name));
    await writeFile(join(dir, name), text);
    expect(await backup(apiOf().api, service, dir, await context())).toBe(0);
    expect(await contentOf(dir)).toMatchObject(accountFiles);
    expect(await readdir(dir)).toHaveLength(4);
  }
});

test.each([...Object.entries(unfinished), ['no file', undefined], ['a folder as its file', null]] as const)(
  'an account with %s is not restored and named, and the others are restored',
  async (_, text) => {
    const dir = await backedUp();
    const path = join(dir, `${one}.ndjson`);
    await rm(path);
    if (text === null) await mkdir(path);
    else if (text !== undefined) await writeFile(path, text);
    const { api, put } = apiOf();
    const { lines, ...rest } = await context();
    expect(await restore(api, dir, { ...rest, print: (line) => void lines.push(line) })).toBe(1);
    expect(lines).toEqual([
      `✗ ${one} was not restored: ${path} is missing, unreadable or incomplete`,
      `✓ ${two}`,
      `✓ ${three}`,
      expect.stringMatching(/^→ put another copy of each such file there and run this again/),
    ]);
    const sent = [two, three].flatMap((id) =>
      linesOf(id).map((line) => [`/v1/operator/accounts/${id}/backup`, line.trimEnd()]),
    );
    expect(put).toEqual(sent);
  },
);

test('two backups into one folder at once: the second is refused, and the first is whole', async () => {
  const dir = join(await temporaryDirectory(), 'backup');
  const { api } = apiOf();
  const second = apiOf();
  let refused: unknown;
  const get = async (path: string) => {
    if (path.includes('cursor=f1')) refused ??= await refusal(backup(second.api, service, dir, await context()));
    return await api.get(path, v.any());
  };
  expect(await backup({ ...api, get } as OperatorApi, service, dir, await context())).toBe(0);
  expect(refused).toEqual(['conflict', `another backup into ${dir} is running`, 'wait for its end']);
  expect(await contentOf(dir)).toMatchObject(accountFiles);
  expect(await readdir(dir)).toHaveLength(4);
});

test('a folder with accounts of another service is refused, and stays as it is', async () => {
  for (const name of [`${one}.ndjson`, `${one}.ndjson.part`]) {
    const dir = await temporaryDirectory();
    await writeFile(join(dir, name), linesOf(one).slice(0, 2).join(''));
    const before = await contentOf(dir);
    for (const accounts of [ids, [two]]) {
      const { api } = apiOf({ accounts, pinsOf: 'another' });
      expect(await refusal(backup(api, service, dir, await context()))).toEqual([
        'conflict',
        `${dir} holds accounts of another service`,
        'name another folder',
      ]);
      expect(await contentOf(dir)).toEqual(before);
    }
  }
});

test('a folder that cannot be written is an error for people', async () => {
  const dir = await temporaryDirectory();
  await writeFile(join(dir, 'file'), '');
  await mkdir(join(dir, 'folder', `${one}.ndjson.part`), { recursive: true });
  await mkdir(join(dir, 'other', `${one}.ndjson`, 'x'), { recursive: true });
  for (const [name, code, why] of [
    ['file', 'file_unwritable', 'a part of its path is a file'],
    ['file/in/it', 'file_unwritable', 'a part of its path is a file'],
    ['/proc/nothing', 'file_unwritable', 'cannot be written'],
    ['folder', 'file_unreadable', 'it is a directory'],
    ['other', 'file_unreadable', 'it is a directory'],
  ] as const) {
    const refused = await refusal(backup(apiOf().api, service, resolve(dir, name), await context()));
    expect(refused.slice(0, 2)).toEqual([code, expect.stringContaining(why)]);
  }
});

const program = `
  import { cp, readdir, rm, statfs, writeFile } from 'node:fs/promises';
  const { backup } = await import(process.env.MODULE);
  const ids = JSON.parse(process.env.IDS);
  const pageOf = ${pageOf.toString()};
  const api = {
    async get(path) {
      const { pathname, searchParams } = new URL(path, 'https://files.example.com');
      const account = ids.find((id) => pathname.includes(id));
      return account === undefined
        ? { accounts: ids.map((id) => ({ id })) }
        : pageOf(account, searchParams.get('cursor'), 'one');
    },
  };
  const [dir, filler] = [process.env.DISK + '/backup', process.env.DISK + '/filler'];
  const run = () => backup(api, 'https://files.example.com', dir, { print: () => undefined });
  for (let left = 0; ; left += 1) {
    const { bfree, bsize } = await statfs(process.env.DISK);
    await writeFile(filler, Buffer.alloc((bfree - left) * bsize));
    const result = await run().catch((error) => error.code ?? String(error));
    await rm(filler);
    if (result === 0) break;
    const names = await readdir(dir);
    const again = await run().catch((error) => error.code ?? String(error));
    console.log(JSON.stringify({ result, names: names.length, again }));
    await cp(dir, process.env.OUT, { recursive: true, force: true });
    await rm(dir, { recursive: true });
  }
`;

test('where the disk is full, at any byte, the same command continues when it has room again', async (skipping) => {
  const directory = await temporaryDirectory();
  await mkdir(join(directory, 'small'));
  const ran = await onSmallDisk(skipping, {
    disk: join(directory, 'small'),
    mebibytes: 1,
    script: 'exec "$NODE" --disable-warning=ExperimentalWarning --input-type=module -e "$PROGRAM"',
    env: {
      PROGRAM: program,
      IDS: JSON.stringify(ids),
      MODULE: new URL('../service-backup.ts', import.meta.url).href,
      OUT: join(directory, 'out'),
    },
  });
  expect(ran.stderr).toBe('');
  const runs = ran.stdout.trim().split('\n');
  const parsed = runs.map((line) => JSON.parse(line) as { result: string; names: number; again: number });
  expect(parsed.every(({ result, again }) => result === 'disk_full' && again === 0)).toBe(true);
  // The last one had room for all but backup.json.
  expect(parsed.at(-1)).toMatchObject({ names: ids.length });
  expect(parsed.length).toBeGreaterThan(5);
  expect(await contentOf(join(directory, 'out'))).toMatchObject(accountFiles);
});
