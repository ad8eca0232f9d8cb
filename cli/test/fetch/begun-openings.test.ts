/** Links that open once, and what goes wrong before all of their files are written. */
import { mkdirSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { SealpinError } from '../../../shared/errors.ts';
import { repeatMs } from '../../../shared/time.ts';
import { faultyProxy, type Passed, type ProxyFault } from '../../../testkit/faulty-proxy.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from '../environment.ts';
import { sharedLocalService } from '../local.ts';

const local = sharedLocalService();
const password = 'violet-anchor-tundra-mosaic';
let directory: string;
let line: { fault: (request: Passed) => ProxyFault | undefined };
let proxy: Awaited<ReturnType<typeof faultyProxy>>;
beforeEach(async () => {
  directory = await temporaryDirectory();
  line = { fault: () => undefined };
  proxy = await faultyProxy(
    () => local.url,
    (request) => line.fault(request),
  );
  await writeFile(join(directory, 'letter.txt'), 'Dear Ann\n');
  await writeFile(join(directory, 'pass'), password, { mode: 0o600 });
});

/** Sends a letter with a link that opens once. */
async function linkOf(...flags: string[]): Promise<string> {
  return linkTo('letter.txt', flags);
}

async function linkTo(name: string, flags: readonly string[] = []): Promise<string> {
  const env = { SEALPIN_SERVICE: proxy.url, SEALPIN_API_KEY: local.apiKey };
  const argv = ['send', name, '--opens', '1', ...flags, '--quiet', '--data-dir', local.dataDir];
  const { stdout, stderr, exit } = await run(argv, directory, { env });
  expect(exit, stderr).toBe(0);
  return stdout.trim();
}
const receive = (link: string, flags: readonly string[] = [], overrides: Overrides = {}): Promise<Ran> =>
  run(['receive', link, 'there', ...flags, '--data-dir', 'home'], directory, overrides);
const kept = (): Promise<string[]> => readdir(join(directory, 'home/openings')).catch(() => []);
const isOpening = ({ path }: Passed): boolean => path.endsWith('/open');

/** What goes wrong with the first run, and the flags of one that goes well. */
const troubles: Record<string, { terms?: string[]; wrong?: string[]; right?: string[]; exit: number }> = {
  'a wrong password': {
    terms: ['--password-file', 'pass'],
    wrong: ['--password-file', 'letter.txt'],
    right: ['--password-file', 'pass'],
    exit: 4,
  },
  'a wrong key': {
    terms: ['--to', 'ann/public.key'],
    wrong: ['--key', 'ben/private.key'],
    right: ['--key', 'ann/private.key'],
    exit: 4,
  },
  'no key': { terms: ['--to', 'ann/public.key'], right: ['--key', 'ann/private.key'], exit: 3 },
  'Ctrl-C while the opening has no answer': { exit: 130 },
  'Ctrl-C during the download': { exit: 130 },
  'a download that breaks off': { exit: 6 },
};

describe.each(Object.entries(troubles))('after %s', (trouble, { terms = [], wrong = [], right = [], exit }) => {
  test('the same link opens once more, for the same opening, until its files are written', async () => {
    if (trouble.endsWith('key')) for (const name of ['ann', 'ben']) await run(['keygen', '--output', name], directory);
    const link = await linkOf(...terms);
    const stop = new AbortController();
    line.fault = (request) => {
      const isMeant = trouble.includes('download') ? request.path.startsWith('/ipfs/') : isOpening(request);
      if (trouble.startsWith('Ctrl-C') && isMeant) stop.abort(new SealpinError('interrupted'));
      if (trouble.startsWith('Ctrl-C')) return isMeant ? { kind: 'swallow' } : undefined;
      return trouble.includes('breaks off') && isMeant ? { kind: 'cut', afterBytes: 0 } : undefined;
    };
    const failed = await receive(link, wrong, { signal: stop.signal });
    expect(failed.exit, failed.stderr).toBe(exit);
    if (trouble.endsWith('key')) expect(failed.stderr).not.toMatch(/sealpin (?:ecc-)?decrypt/);
    line.fault = () => undefined;
    expect(proxy.passed.filter(isOpening)).toHaveLength(1);

    const file = join(directory, 'home/openings/openings.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).not.toContain(link.slice(-49, -6));
    // Who does not have what is kept opens nothing.
    const other = await run(['receive', link, 'other', ...right, '--data-dir', 'elsewhere'], directory);
    expect(other).toMatchObject({ exit: 3, stderr: expect.stringContaining('as often as its sender allowed') });

    const again = await receive(link, right);
    expect(again.exit, again.stderr).toBe(0);
    expect(await readFile(join(directory, 'there/letter.txt'), 'utf8')).toBe('Dear Ann\n');
    expect(await kept()).toEqual([]);
    expect((await receive(link, right)).exit).toBe(3);
  });
});

describe('of several files', () => {
  const names = ['a.txt', 'letter.txt', 'plans.tar'];
  const blobs = ({ path }: Passed): boolean => path.startsWith('/ipfs/');
  const paths = (): string[] => [...new Set(proxy.passed.filter(blobs).map(({ path }) => path))];

  const there = async (): Promise<string[]> => (await readdir(join(directory, 'there'))).sort();

  /** Receives all but the last one that is asked for. */
  async function brokenOff(how: string, flags: readonly string[]): Promise<{ link: string; missing: string }> {
    await writeFile(join(directory, 'a.txt'), 'A');
    await mkdir(join(directory, 'plans'));
    await writeFile(join(directory, 'plans/house.txt'), 'four walls');
    const link = await linkOf('a.txt', 'plans');
    const stop = new AbortController();
    let missing = '';
    line.fault = (request) => {
      if (!blobs(request)) return undefined;
      if (paths().length === names.length) missing ||= request.path;
      if (request.path !== missing) return undefined;
      return how === 'Ctrl-C' ? { kind: 'stall', afterBytes: 0 } : { kind: 'cut', afterBytes: 0 };
    };
    const ended = receive(link, flags, { signal: stop.signal });
    if (how === 'Ctrl-C') {
      await vi.waitFor(async () => expect((await there()).filter((name) => names.includes(name))).toHaveLength(2));
      stop.abort(new SealpinError('interrupted'));
    }
    expect((await ended).exit).toBe(how === 'Ctrl-C' ? 130 : 6);
    line.fault = () => undefined;
    proxy.passed.length = 0;
    return { link, missing };
  }

  test.each([
    { how: 'Ctrl-C', flags: [] },
    { how: 'a broken line', flags: [] },
    { how: 'a broken line', flags: ['--force'] },
    { how: 'a broken line', flags: ['--extract'] },
  ])('the same command writes only what is missing after $how: $flags', async ({ how, flags }) => {
    const { link, missing } = await brokenOff(how, flags);
    const { exit, stdout, stderr } = await receive(link, [...flags, '--json']);
    expect(exit, stderr).toBe(0);
    expect(paths()).toEqual([missing]);
    expect(await there()).toEqual(flags.includes('--extract') ? ['a.txt', 'letter.txt', 'plans'] : names);
    expect(
      JSON.parse(stdout)
        .files.map(({ name }: { name: string }) => name)
        .sort(),
    ).toEqual(names);
    expect(await kept()).toEqual([]);
  });

  test.each([
    { what: 'what was changed', dir: 'there', flags: [], change: (path: string) => writeFile(path, 'not what came') },
    { what: 'what was removed', dir: 'there', flags: [], change: (path: string) => rm(path) },
    { what: 'all of it in another directory', dir: 'elsewhere', flags: [] },
    { what: 'a folder that is an archive', dir: 'there', flags: ['--extract'] },
  ])('the same link writes $what again', async ({ dir, flags, change }) => {
    const { link } = await brokenOff('a broken line', []);
    const written = await there();
    await change?.(join(directory, 'there', written[0] ?? ''));
    const { exit, stderr } = await run(['receive', link, dir, ...flags, '--data-dir', 'home'], directory);
    expect(exit, stderr).toBe(0);
    const extracted = flags.length > 0 && written.includes('plans.tar') ? 1 : 0;
    expect(paths()).toHaveLength(1 + (dir === 'elsewhere' ? 2 : change === undefined ? extracted : 1));
    const texts = (await readdir(join(directory, dir))).filter((name) => name.endsWith('.txt'));
    const found = await Promise.all(texts.map((name) => readFile(join(directory, dir, name), 'utf8')));
    expect(found).toEqual(expect.arrayContaining(['A', 'Dear Ann\n']));
  });
});

describe('what is kept of an opening', () => {
  const brokenOff = async (): Promise<string> => {
    const link = await linkOf();
    line.fault = ({ path }) => (path.startsWith('/ipfs/') ? { kind: 'cut', afterBytes: 0 } : undefined);
    expect((await receive(link)).exit).toBe(6);
    line.fault = () => undefined;
    return link;
  };

  test.each([
    { when: 'after that', laterMs: repeatMs },
    { when: 'after the clock was set back', laterMs: -3_600_000 },
  ])('is asked for again while the service repeats it, and used $when', async ({ laterMs }) => {
    const link = await brokenOff();
    line.fault = (request) => {
      if (request.path.startsWith('/ipfs/')) return { kind: 'cut', afterBytes: 0 };
      return isOpening(request) ? { kind: 'answer', status: 410 } : undefined;
    };
    expect((await receive(link)).exit).toBe(6);
    line.fault = (request) => (isOpening(request) ? { kind: 'answer', status: 410 } : undefined);
    const now = (): number => Date.now() + laterMs;
    const later = await receive(link, [], { now });
    expect(later.exit, later.stderr).toBe(0);
  });

  test('opens nothing after the share was taken back', async () => {
    const link = await brokenOff();
    await run(['unshare', link, '--service', local.url, '--data-dir', local.dataDir], directory);
    expect(await receive(link)).toMatchObject({ exit: 3, stderr: expect.stringContaining('taken back') });
  });

  test.each([
    { what: 'link of a share', exit: 0, again: () => linkOf() },
    { what: 'link, which is used up', exit: 3, again: (link: string) => link },
  ])('is worth nothing after 7 days, and is removed with the next $what', async ({ exit, again }) => {
    const link = await brokenOff();
    const now = (): number => Date.now() + 7 * 24 * 3_600_000;
    expect(await receive(await again(link), [], { now })).toMatchObject({ exit });
    expect(await kept()).toEqual([]);
  });

  test('serves decrypt, too', async () => {
    const link = await brokenOff();
    expect(await run(['decrypt', link, '-', '--data-dir', 'home'], directory)).toMatchObject({ stdout: 'Dear Ann\n' });
    expect(await kept()).toEqual([]);
  });

  test.each([
    { what: 'a damaged one', path: 'home/openings/openings.json' },
    { what: 'a place that takes none', path: 'home/openings' },
  ])('is a warning, and no reason not to open: $what', async ({ path }) => {
    await mkdir(dirname(join(directory, path)), { recursive: true, mode: 0o700 });
    await writeFile(join(directory, path), 'not ours');
    const { exit, stderr } = await receive(await linkOf());
    expect({ exit, stderr }).toMatchObject({ exit: 0, stderr: /it cannot be continued with the same opening: / });
    expect(stderr.match(/cannot be continued/g)).toHaveLength(1);
    expect(await readFile(join(directory, path), 'utf8')).toBe('not ours');
  });
});

test.each([
  { sent: 'letter.txt', name: 'letter.txt', free: 'letter (2).txt' },
  { sent: 'photos', name: 'photos', free: 'photos (2)' },
])('a name that another command takes meanwhile gets a number: $name', async ({ sent, name, free }) => {
  await mkdir(join(directory, 'photos'));
  await writeFile(join(directory, 'photos/a.jpg'), 'a');
  const link = await linkTo(sent);
  const theirs = join(directory, 'there', name);
  line.fault = ({ path }) => {
    if (path.startsWith('/ipfs/')) mkdirSync(join(theirs, 'x'), { recursive: true });
    return undefined;
  };
  const ran = await receive(link, ['--extract', '--json']);
  expect(ran.exit, ran.stderr).toBe(0);
  expect(JSON.parse(ran.stdout)).toMatchObject({ files: [{ path: join(directory, 'there', free) }] });
  expect(await readdir(theirs)).toEqual(['x']);
  expect(await readdir(join(directory, 'there'))).toHaveLength(2);
});
