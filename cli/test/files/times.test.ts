/** When a file last changed: what keeps it, and what does not pass it on. */
import { copyFile, mkdir, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { first } from '../../../testkit/present.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { sharedLocalService } from '../local.ts';

const local = sharedLocalService();
const day = new Date('2019-05-17T08:09:10.000Z');
let desk: string;
beforeEach(async () => {
  desk = await temporaryDirectory();
  await mkdir(join(desk, 'photos/summer'), { recursive: true });
  await mkdir(join(desk, 'got'));
  for (const name of ['letter.txt', 'other.txt', 'photos/summer/a.jpg']) {
    await writeFile(join(desk, name), name);
    // A parcel has whole seconds.
    await utimes(join(desk, name), new Date(day.getTime() + 500), new Date(day.getTime() + 500));
  }
});

const printed = async (argv: readonly string[], home = 'home'): Promise<string> => {
  const ran = await run([...argv, '--quiet', '--data-dir', home], desk, {
    env: { SEALPIN_SERVICE: `${local.url}/`, SEALPIN_API_KEY: local.apiKey },
  });
  expect(ran.exit, `${argv.join(' ')}: ${ran.stderr}`).toBe(0);
  return ran.stdout.trim();
};
const timeOf = async (name: string): Promise<Date> =>
  new Date(Math.floor((await stat(join(desk, name))).mtimeMs / 1000) * 1000);
const storedId = async (): Promise<string> =>
  first((JSON.parse(await printed(['list', '--json'])) as { files: { fileId: string }[] }).files).fileId;

/** Each makes `got/x`. */
const ways: Record<string, () => Promise<unknown>> = {
  'encrypt, then decrypt by the blob ID': async () =>
    printed(['decrypt', await printed(['encrypt', 'letter.txt', '--to', 'home/public.key']), 'got/x']),
  'encrypt, then decrypt by the file ID on another computer': async () => {
    await printed(['encrypt', 'letter.txt', '--to', 'home/public.key']);
    await mkdir(join(desk, 'there'));
    await copyFile(join(desk, 'home/private.key'), join(desk, 'there/private.key'));
    await printed(['decrypt', await storedId(), 'got/x'], 'there');
  },
  'encrypt, reseal and decrypt': async () => {
    const blob = await printed(['encrypt', 'letter.txt', '--to', 'home/public.key']);
    await printed(['decrypt', await printed(['reseal', blob, '--to', 'home/public.key']), 'got/x']);
  },
  'encrypt, set a name and decrypt': async () => {
    const blob = await printed(['encrypt', 'letter.txt', '--to', 'home/public.key']);
    await printed(['set', await storedId(), '--name', 'x']);
    await printed(['decrypt', blob, 'got/x']);
  },
  'send, then decrypt by the link': async () =>
    printed(['decrypt', await printed(['send', 'letter.txt']), 'got/x'], 'reader'),
  'send several files, then receive': async () => {
    await writeFile(join(desk, 'x'), 'x');
    await utimes(join(desk, 'x'), day, day);
    await printed(['receive', await printed(['send', 'letter.txt', 'x']), 'got'], 'reader');
    expect(await timeOf('got/letter.txt')).toEqual(day);
  },
  'one file out of a folder': async () => {
    const blob = await printed(['encrypt', 'photos', '--to', 'home/public.key']);
    await printed(['decrypt', blob, 'got/x', '--path', 'summer/a.jpg']);
  },
};

test.each(Object.keys(ways))('stays: %s', async (way) => {
  await printed(['keygen']);
  await ways[way]?.();
  expect(await timeOf('got/x')).toEqual(day);
});

test('is not told to the owner of an inbox', async () => {
  await printed(['keygen']);
  const link = await printed(['inbox', 'create', 'tax']);
  await printed(['send', 'letter.txt', '--inbox', link], 'sender');
  await printed(['inbox', 'open', await storedId(), 'got']);
  expect(await timeOf('got/letter.txt')).not.toEqual(day);
});
