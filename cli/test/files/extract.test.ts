/** Archives that were not made by us: what extracting them must not do. */
import { mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { packTar, type TarEntry, type TarHeader } from 'modern-tar';
import { describe, expect, test } from 'vitest';
import { isInside } from '../../folder/archive-path.ts';
import { openExtraction } from '../../folder/extraction.ts';
import { byPassword, contain, env } from '../containers.ts';
import { contextIn, run, temporaryDirectory } from '../environment.ts';
import { first, flip, present } from '../../../testkit/present.ts';
import { entry as entryPoint } from '../../../testkit/programs/command-line.ts';
import { onSmallDisk } from '../../../testkit/small-disk.ts';
import { ci, inCi, long } from '../../../testkit/long-run.ts';

type Type = NonNullable<TarHeader['type']>;
const mtime = new Date(1_000_000_000_000);
const entry = (name: string, type: Type, more: Partial<TarHeader> = {}): TarEntry => ({
  header: { name, type, size: 0, mtime, ...more },
});
const file = (name: string, text = 'x', more: Partial<TarHeader> = {}): TarEntry => ({
  header: { name, type: 'file', size: Buffer.byteLength(text), mtime, ...more },
  body: text,
});
const directory = (name: string): TarEntry => entry(`${name}/`, 'directory');
const link = (name: string, linkname: string, type: Type = 'symlink', pax?: TarHeader['pax']): TarEntry =>
  entry(name, type, { linkname, ...(pax === undefined ? {} : { pax }) });

/** Extracts an archive into `out` of a new directory, which has a file `secret` beside it. */
async function extract(archive: Uint8Array | readonly TarEntry[]) {
  const bytes = archive instanceof Uint8Array ? archive : await packTar(archive);
  const outer = await temporaryDirectory();
  await writeFile(join(outer, 'secret'), 'secret');
  await writeFile(join(outer, 'c'), await contain(bytes, 'sealpin', byPassword()));
  const ran = await run(['decrypt', './c', '--extract', 'out'], outer, { env });
  return { ...ran, outer, out: join(outer, 'out'), names: (await readdir(outer)).toSorted() };
}

describe('an archive is refused, and nothing of it stays,', () => {
  test.each<{ title: string; entries: TarEntry[]; says: string }>([
    { title: 'a path with ..', entries: [file('a/../../secret')], says: 'its path has .. in it' },
    { title: 'a path that is ..', entries: [directory('..')], says: 'its path has .. in it' },
    { title: 'an absolute path', entries: [file('/absolute')], says: 'its path is absolute' },
    { title: 'a file without a name', entries: [file('./.')], says: 'it has no name' },
    { title: 'a link without a target', entries: [link('a', '')], says: 'leads nowhere' },
    { title: 'a link with a NUL', entries: [link('a', 'x', 'symlink', { linkpath: '/x\0' })], says: 'leads nowhere' },
    { title: 'a link that is too long', entries: [link('a', `/${'n'.repeat(5000)}`)], says: 'its name is too long' },
    { title: 'a link not in UTF-8', entries: [link('a', '/\uFFFD')], says: 'its target is not UTF-8' },
    { title: 'a file written through a link', entries: [link('a', '.'), file('a/x')], says: 'goes through a link' },
    {
      title: 'a directory that is a link',
      entries: [directory('d'), link('a', 'd'), directory('a')],
      says: 'goes through a link',
    },
    { title: 'a file in a file', entries: [file('a'), file('a/x')], says: 'goes through a link or a file' },
    { title: 'a file over a link', entries: [link('a', 'b'), file('a')], says: 'of that name is there already' },
    { title: 'a file that comes twice', entries: [file('a', 'one'), file('./a', 'two')], says: 'is there already' },
    { title: 'a file over a directory', entries: [directory('a'), file('a')], says: 'is there already' },
    { title: 'a directory over a file', entries: [file('a'), directory('a')], says: 'a link or a file' },
    { title: 'a hard link to what is outside', entries: [link('a', '../secret', 'link')], says: 'its path has ..' },
    { title: 'an absolute hard link', entries: [link('a', '/etc/passwd', 'link')], says: 'is absolute' },
    { title: 'a hard link to a folder', entries: [directory('d'), link('b', 'd', 'link')], says: 'no file before it' },
    {
      title: 'a hard link through a link',
      entries: [file('d/x'), link('a', 'd'), link('b', 'a/x', 'link')],
      says: 'goes through a link',
    },
    { title: 'a hard link to nothing', entries: [link('b', 'a', 'link')], says: 'no file before it' },
    { title: 'a device', entries: [entry('null', 'character-device')], says: 'neither a file, a directory nor a link' },
    { title: 'a disk', entries: [entry('sda', 'block-device')], says: 'neither a file, a directory nor a link' },
    { title: 'a named pipe', entries: [entry('p', 'fifo')], says: 'neither a file, a directory nor a link' },
    { title: 'a name that is too long', entries: [file('n'.repeat(256))], says: 'its name is too long' },
    { title: 'a path that is too long', entries: [file('dir/'.repeat(1100))], says: 'its name is too long' },
    { title: 'a sparse file', entries: [file('s', 'x', { pax: { 'GNU.sparse.major': '1' } })], says: 'a sparse file' },
    { title: 'a NUL in a name', entries: [file('a', 'x', { pax: { path: 'a\0b' } })], says: 'a NUL in it' },
    { title: 'escape sequences in a name', entries: [file('../\u001B[2J')], says: '../\\u{1b}[2J in the archive' },
  ])('for $title', async ({ entries, says }) => {
    const ran = await extract([file('first'), ...entries]);
    expect(ran).toMatchObject({ exit: says.includes('too long') ? 1 : 5, stdout: '', names: ['c', 'secret'] });
    expect(ran.stderr).toContain(says);
    expect(await readFile(join(ran.outer, 'secret'), 'utf8')).toBe('secret');
  });

  test('for names that are not UTF-8', async () => {
    const archive = Buffer.from(await packTar([file('aa')]));
    archive[1] = 0xff;
    expect((await extract(summed(archive))).stderr).toContain('its name is not UTF-8');
  });

  test.each([
    { title: 'cut in a file', change: (bytes: Uint8Array) => bytes.subarray(0, 700) },
    { title: 'without its end', change: (bytes: Uint8Array) => bytes.subarray(0, -1024) },
    { title: 'with a damaged header', change: (bytes: Uint8Array) => bytes.fill(0x41, 0, 10) },
    {
      title: 'with something behind its end',
      change: (bytes: Uint8Array) => Buffer.concat([bytes, Buffer.alloc(512, 1)]),
    },
    { title: 'of no bytes', change: () => new Uint8Array() },
  ])('for an archive $title', async ({ change }) => {
    const ran = await extract(change(await packTar([file('a', 'x'.repeat(600))])));
    expect(ran).toMatchObject({ exit: 5, names: ['c', 'secret'] });
    expect(ran.stderr).toContain('it is not a tar archive, or one that is damaged');
  });

  test.each([{ part: [] }, ...(ci ? [{ part: ['d'] }] : [])])(
    'for every kind of entry but those that all programs read, of the part $part',
    async ({ part }) => {
      const before = [directory('d'), link('l', 'd'), file('n'.repeat(120), 'x'.repeat(1500)), file('size', 'four')];
      const start = Buffer.from(await packTar([...before, file('p', 'xy', { pax: { comment: 'c' } })])).subarray(
        0,
        -1024,
      );
      // The length is in the records alone, as for a file that is too long for its header.
      const sized = Buffer.from(await packTar([file('s', 'x'.repeat(700), { pax: { size: '700' } })])).subarray(
        0,
        -1024,
      );
      sized.fill('0', 1024 + 124, 1024 + 135);
      const archive = Buffer.concat([
        start,
        summed(sized, 1024),
        await packTar([entry('kind', 'file', { linkname: 'p' }), file('d/last')]),
      ]);
      const at = start.length + sized.length;
      const written: string[] = [];
      for (let flag = 0; flag < 256; flag += 1) {
        archive[at + 156] = flag;
        const stream = pieces(summed(archive, at), 1 + ((flag * 7) % 1000));
        const extraction = await openExtraction('out', contextIn(await temporaryDirectory()));
        const result = await extraction
          .unpack(stream, new AbortController().signal, part)
          .catch((error: unknown) => error);
        await extraction.abort();
        const name = String.fromCharCode(flag);
        if ('files' in (result as object)) written.push(name);
        // Records without any, a pipe and the like are refused by others.
        else if (!'xgLK346'.includes(name))
          expect(result, name).toMatchObject({ code: 'archive_invalid', hint: /tar -x/ });
      }
      expect(written.join('')).toBe(part.length > 0 ? '\u{0}01234567KLgx' : '\u{0}01257Kgx');
    },
  );

  test('when the end of the container is not authentic', async () => {
    const outer = await temporaryDirectory();
    const container = await contain(await packTar([file('a', 'x'.repeat(200_000))]), 'sealpin', byPassword());
    flip(container, container.length - 20);
    await writeFile(join(outer, 'c'), container);
    const ran = await run(['decrypt', './c', '--extract', 'out'], outer, { env });
    expect(ran).toMatchObject({ exit: 5, stdout: '' });
    expect(ran.stderr).toContain('damaged or cut off');
    expect(await readdir(outer)).toEqual(['c']);
  });
});

describe('nothing is written, linked or changed through a link that leads out:', () => {
  const targets = ['..', '../..', '../secret', '../folder', './../folder/', 'd/../..', '/tmp', '/etc/passwd', 'up/..'];
  const later: Readonly<Record<string, readonly TarEntry[]>> = {
    'a file in it': [file('a/x')],
    'a file in its place': [file('a')],
    'the file itself in its place': [file('./a', 'other', { mode: 0o777 })],
    'a directory in its place': [directory('a')],
    'a directory in it': [directory('a/x')],
    'a link in it': [link('a/x', 'y')],
    'a link in its place': [link('a', 'd')],
    'another link out in its place': [link('a', '/usr')],
    'a file through a hard link to it': [link('b', 'a', 'link'), file('b/x')],
    'a file over a hard link to it': [link('b', 'a', 'link'), file('b')],
    'a hard link through it': [link('b', 'a/secret', 'link')],
    'a hard link in its place': [file('b'), link('a', 'b', 'link')],
    'a file through a link to it': [link('b', 'a'), file('b/x')],
    'a file through a chain': [link('b', 'a'), link('c', 'b'), directory('c'), file('c/x')],
    'a file by a longer way': [directory('d'), file('d/x'), file('./d/../a/x')],
  };
  test.each(Object.keys(later))('%s', async (title) => {
    for (const target of targets) {
      const outer = await temporaryDirectory();
      await mkdir(join(outer, 'folder'));
      await writeFile(join(outer, 'secret'), 'secret');
      const extraction = await openExtraction('out', contextIn(outer));
      const archive = await packTar([directory('d'), link('a', target), file('first'), ...present(later[title])]);
      const unpacked = extraction.unpack(new Blob([archive]).stream(), new AbortController().signal);
      await expect(unpacked, target).rejects.toMatchObject({ code: 'archive_invalid' });
      await extraction.abort();
      expect((await readdir(outer, { recursive: true })).toSorted(), target).toEqual(['folder', 'secret']);
      expect(await readFile(join(outer, 'secret'), 'utf8')).toBe('secret');
      expect((await stat(join(outer, 'secret'))).nlink).toBe(1);
    }
  });

  test('until the end such a link leads nowhere', async () => {
    const outer = await temporaryDirectory();
    const extraction = await openExtraction('out', contextIn(outer));
    const archive = await packTar([directory('d'), link('d/a', '/etc'), file('z', 'x'.repeat(2000))]);
    const linkOf = async (): Promise<string> => readlink(join(outer, first(await readdir(outer)), 'd/a'));
    const seen: string[] = [];
    // The last bytes are asked for when all entries are there.
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          if (seen.length > 0) return controller.close();
          controller.enqueue(archive);
          while ((await readdir(join(outer, (await readdir(outer))[0] ?? ''))).length < 2);
          return void seen.push(await linkOf());
        },
      },
      { highWaterMark: 0 },
    );
    const { warning } = await extraction.unpack(stream, new AbortController().signal);
    expect(seen).toEqual(['a']);
    expect(await linkOf()).toBe('/etc');
    expect(warning).toBe('symbolic links may lead out of out: d/a -> /etc');
    expect((await stat(join(outer, first(await readdir(outer)), 'd'))).mtime).toEqual(mtime);
    await extraction.abort();
  });
});

test('links that lead out come out as links, and what they lead to is as it was', async () => {
  const links = { a: '/etc/passwd', 'd/b': '../../secret', c: 'd/up/../x', 'd/up': '..', e: '../secret' };
  // A hard link to a link is the same link: this one leads out, from where it is.
  const same = { 'd/a': 'a', 'a-again': 'd/a', up: 'd/up' };
  const entries = Object.entries(links).map(([name, target]) => link(name, target));
  const ran = await extract([...entries, ...Object.entries(same).map((each) => link(...each, 'link')), file('first')]);
  expect(ran).toMatchObject({ exit: 0, names: ['c', 'out', 'secret'] });
  expect(ran.stderr).toContain('may lead out of out: a -> /etc/passwd (and 6 more)');
  const wanted = { ...links, 'd/a': links.a, 'a-again': links.a, up: '..' };
  for (const [name, target] of Object.entries(wanted)) expect(await readlink(join(ran.out, name)), name).toBe(target);
  expect(await readFile(join(ran.outer, 'secret'), 'utf8')).toBe('secret');
});

test('what an archive may have comes out, with masked permissions and its times', async () => {
  const ran = await extract([
    file('late/deep/x', 'one', { mode: 0o6755 }),
    directory('late'),
    link('late/up', '../late/deep/x'),
    link('late/hard', 'late/deep/x', 'link'),
    link('late/dangling', 'nowhere'),
    file('late/deep/read-only', 'two', { mode: 0o444 }),
    entry('closed/', 'directory', { mode: 0 }),
    entry('late/', 'directory', { mode: 0o6775 }),
    entry('new/', 'directory', { mode: 0o6775 }),
    file('old', 'x', { pax: { mtime: '-99999999999999' } }),
    file('future', 'x', { pax: { mtime: '99999999999999' } }),
    file('closed/x'),
  ]);
  expect(ran).toMatchObject({ exit: 0, names: ['c', 'out', 'secret'] });
  const at = (name: string) => stat(join(ran.out, name));
  expect((await at('late/deep/x')).mode & 0o7777).toBe(0o755);
  expect((await at('late/deep/read-only')).mode & 0o7777).toBe(0o444);
  expect((await at('closed')).mode & 0o7777).toBe(0o700);
  expect((await at('late')).mode).toBe((await at('new')).mode);
  expect(await readFile(join(ran.out, 'late/up'), 'utf8')).toBe('one');
  expect((await at('late/hard')).ino).toBe((await at('late/deep/x')).ino);
  expect(await readlink(join(ran.out, 'late/dangling'))).toBe('nowhere');
  for (const name of ['late', 'late/deep/x', 'closed', 'closed/x']) expect((await at(name)).mtime, name).toEqual(mtime);
});

test('S45: an extraction replaces nothing but an empty directory', async () => {
  const outer = await temporaryDirectory();
  await mkdir(join(outer, 'empty'));
  await mkdir(join(outer, 'full/x'), { recursive: true });
  await symlink('empty', join(outer, 'link'));
  await writeFile(join(outer, 'c'), await contain(await packTar([file('a')]), 'sealpin', byPassword()));
  await symlink('nowhere', join(outer, 'dangling'));
  await symlink('../empty', join(outer, 'full/up'));
  for (const [out, says] of Object.entries({
    full: 'full exists and is not empty',
    c: 'c exists',
    link: 'link is a symbolic link',
    'full/up': 'full/up is a symbolic link',
    dangling: 'dangling is a symbolic link',
  }))
    expect((await run(['decrypt', './c', out, '--extract'], outer, { env })).stderr).toContain(says);
  for (const out of ['.', '../empty', join(outer, 'empty')])
    expect((await run(['decrypt', '../c', out, '--extract'], join(outer, 'empty'), { env })).stderr).toBe(
      `sealpin: error: ${out} is the current directory, which is not replaced\n` +
        'sealpin: hint: name a new directory in it\n',
    );
  expect(await run(['decrypt', './c', '-', '--extract'], outer, { env })).toMatchObject({ exit: 2 });
  expect(await run(['decrypt', './c', 'x', '--extract', '--force'], outer, { env })).toMatchObject({ exit: 2 });
  expect(await run(['decrypt', './c', 'no/x', '--extract'], outer, { env })).toMatchObject({ exit: 1 });
  expect(await run(['decrypt', './c', 'empty', '--extract'], outer, { env })).toMatchObject({ exit: 0 });
  expect(await readdir(join(outer, 'empty'))).toEqual(['a']);
  expect((await readdir(outer)).toSorted()).toEqual(['c', 'dangling', 'empty', 'full', 'link']);
});

test('an extraction onto the root of a disk is refused before anything is read', async (context) => {
  const outer = await temporaryDirectory();
  await mkdir(join(outer, 'disk'));
  const ran = await onSmallDisk(context, {
    disk: join(outer, 'disk'),
    mebibytes: 1,
    script: '"$NODE" "$ENTRY" decrypt ./none disk --extract',
    cwd: outer,
    env: { HOME: outer, ENTRY: entryPoint },
  });
  expect(ran).toMatchObject({ status: 1, stderr: /disk is where a disk is mounted.*\n.*name a new directory in it/ });
});

test('a directory that appears meanwhile is not replaced', async () => {
  const outer = await temporaryDirectory();
  const extraction = await openExtraction('out', contextIn(outer));
  await extraction.unpack(new Blob([await packTar([file('a')])]).stream(), new AbortController().signal);
  await mkdir(join(outer, 'out/theirs'), { recursive: true });
  await expect(extraction.commit()).rejects.toMatchObject({ code: 'file_exists' });
  await extraction.abort();
  expect(await readdir(outer)).toEqual(['out']);
});

test.each([
  { target: 'x', depth: 0, inside: true },
  { target: '..', depth: 0, inside: false },
  { target: '..', depth: 1, inside: true },
  { target: '../../x', depth: 1, inside: false },
  { target: './../x/./y', depth: 1, inside: true },
  { target: 'x/..', depth: 5, inside: false },
  { target: '/x', depth: 5, inside: false },
])('a link to $target at depth $depth is inside: $inside', ({ target, depth, inside }) => {
  expect(isInside(target, depth)).toBe(inside);
});

inCi(
  'memory does not grow with the number of entries, which are extracted and removed',
  { timeout: 1_500_000 },
  async () => {
    const pairs = long ? 500_000 : 3000;
    const outer = await temporaryDirectory();
    const one = Buffer.from(await packTar([directory('d'), link('d/x', 'y')]));
    let made = 0;
    const archive = new ReadableStream<Uint8Array>({
      pull(controller) {
        // Directories and links cost no disk space; each name is a new one.
        const end = made === pairs;
        const bytes = end ? Buffer.alloc(1024) : renamed(one.subarray(0, 1024), made++);
        controller.enqueue(bytes);
        if (end) controller.close();
      },
    });
    const extraction = await openExtraction('out', contextIn(outer));
    const before = heldBytes();
    let most = 0;
    const sampling = setInterval(() => (most = Math.max(most, heldBytes() - before)), 5000);
    try {
      const { files } = await extraction.unpack(archive, new AbortController().signal);
      expect(files).toBe(pairs);
      most = Math.max(most, heldBytes() - before);
      await extraction.abort();
    } finally {
      clearInterval(sampling);
    }
    expect(most).toBeLessThan(3 * 2 ** 20);
    expect(await readdir(outer)).toEqual([]);
  },
);

function pieces(bytes: Uint8Array, pieceBytes: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(bytes.slice(at, (at += pieceBytes)));
      if (at >= bytes.length) controller.close();
    },
  });
}

/** Returns the size of the heap after garbage collection. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc()');
  return process.memoryUsage().heapUsed;
}

/** The two headers with a number in their names, and the checksums of that. */
function renamed(headers: Uint8Array, number: number): Buffer {
  const bytes = Buffer.from(headers);
  for (const [at, name] of [
    [0, `d${number}/`],
    [512, `d${number}/x`],
  ] as const) {
    bytes.fill(0, at, at + 100).write(name, at);
    summed(bytes, at);
  }
  return bytes;
}

/** Gives a header of an archive that was changed its checksum. */
function summed(archive: Buffer, at = 0): Buffer {
  archive.write('        ', at + 148, 'latin1');
  const sum = archive.subarray(at, at + 512).reduce((total, byte) => total + byte, 0);
  archive.write(`${sum.toString(8).padStart(6, '0')}\0 `, at + 148, 'latin1');
  return archive;
}
