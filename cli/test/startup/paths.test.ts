/**
 * Each argument of each command that may name a file, with what is a mistake or belongs to somebody
 * else. The arguments come from the commands themselves: a new one fails here until it is said what
 * it takes.
 */
import { execFileSync } from 'node:child_process';
import { constants } from 'node:fs';
import { mkdir, mkdtemp, open, readdir, realpath, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { connect } from '../../../client/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { run, type Overrides, type Ran } from '../environment.ts';
import { localService } from '../local.ts';
import { snapshotOf } from '../snapshot.ts';
import { ci, long } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';
import {
  commands,
  container,
  isFlag,
  type Kind,
  kindOf,
  known,
  lineWith,
  makesFolder,
  names,
  paths,
  positionalsOf,
  someNames,
  source,
  subjects,
  text,
  values,
  written,
} from './path-arguments.ts';

test('it is said of each argument what it takes, and the parser knows which are paths', () => {
  const unknown = subjects.filter((subject) => subject.arg !== '--data-dir' && kindOf(subject) === undefined);
  expect(unknown.map(({ command, arg }) => `${command} ${arg}`)).toEqual([]);
  for (const { command, arg, path } of subjects) {
    // A blob ID is no path, and a container beside it one with a slash.
    const kind = kindOf({ command, arg });
    expect(path !== undefined, `${command} ${arg}`).toEqual(
      arg === '--data-dir' || (kind !== text && kind !== container),
    );
  }
  expect(paths.length).toBeGreaterThan(50);
});

const local = localService();
/** The directory in which the commands run, and the data directory of their user. */
let root: string;
let desk: string;
let home: string;
/** Files of somebody else. */
const foreign = ['theirs.txt', 'theirs/private.key', 'theirs/letter.txt', 'theirs/files/x.json', 'theirs/blobs/y.car'];
const secret = 'violet-anchor-tundra-mosaic';

const sealpin = (argv: readonly string[], overrides: Overrides = {}): Promise<Ran> =>
  run([...argv, ...(argv.some((word) => word.startsWith('--data-dir')) ? [] : [`--data-dir=${home}`])], desk, {
    ...overrides,
    env: {
      SEALPIN_SERVICE: local.url,
      // What the other commands store would be in each backup.
      SEALPIN_API_KEY: argv[0] === 'backup' ? known['emptyKey'] : local.apiKey,
      SEALPIN_PASSWORD: secret,
      ...overrides.env,
    },
  });

async function printed(argv: readonly string[]): Promise<string> {
  const ran = await sealpin([...argv, '--quiet']);
  expect(ran, ran.stderr).toMatchObject({ exit: 0 });
  return ran.stdout.trim();
}

beforeAll(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'sealpin-test-')));
  [desk, home] = [join(root, 'desk'), join(root, 'home')];
  known['dataDir'] = local.dataDir;
  for (const name of ['desk/theirs/files', 'desk/theirs/blobs', 'pipe', 'ours'])
    await mkdir(join(root, name), { recursive: true });
  for (const name of foreign) await writeFile(join(desk, name), `what somebody else wrote into ${name}`);
  await symlink('theirs', join(desk, 'link-to-theirs'));
  await symlink('theirs.txt', join(desk, 'link-to-theirs.txt'));
  execFileSync('mkfifo', [join(root, 'pipe/fifo')]);
  await writeFile(join(root, 'ours/letter'), 'Dear Ann');
  await writeFile(join(root, 'ours/password'), secret, { mode: 0o600 });
  await sealpin(['keygen', '--quiet']);
  const made = await run(['account', 'create', 'empty', '--json', '--data-dir', local.dataDir], '/');
  known['emptyKey'] = (JSON.parse(made.stdout) as { apiKey: string }).apiKey;
  known['recipient'] = await printed(['keygen', '--output', '../ours/pair']);
  known['blob'] = await printed(['encrypt', '../ours/letter']);
  known['link'] = await printed(['send', '../ours/letter', '--opens', '90']);
  known['blobToKey'] = await printed(['ecc-encrypt', '../ours/letter', known['recipient']]);
  known['linkToKey'] = await printed(['send', '../ours/letter', '--opens', '90', '--to', known['recipient']]);
  await printed(['encrypt', '../ours/letter', '--output', '../ours/container']);
  await printed(['ecc-encrypt', '../ours/letter', known['recipient'], '--output', '../ours/container-to-key']);
  const { stderr: paper } = await sealpin(['keygen', '--words', '--output', '../ours/paper']);
  const lines = paper.split('\n').filter((line) => /^sealpin: {1,2}\d+ /.test(line));
  await writeFile(join(root, 'ours/words'), lines.map((line) => line.replace('sealpin: ', '')).join('\n'), {
    mode: 0o600,
  });
  await printed(['export', known['blob'], '../ours/letter.car']);
  await sealpin(['backup', '../ours/taken', '--quiet']);
  const inbox = await printed(['inbox', 'create', 'tax']);
  await printed(['send', '../ours/letter', '--inbox', inbox]);
  const { deliveries } = JSON.parse((await sealpin(['inbox', 'list', '--json'])).stdout) as {
    deliveries: { id: string }[];
  };
  known['delivery'] = first(deliveries).id;
  const files = connect({ service: local.url, apiKey: local.apiKey });
  known['fileId'] = (await files.put('encrypted by the service', { name: 'letter' })).fileId;
});

afterAll(() => rm(root, { recursive: true, force: true }));

/** Removes what a command has made in our folder, but for the backup of a service. */
async function tidy(): Promise<void> {
  for (const name of ['out', 'received', 'backup', 'made'])
    await rm(join(root, 'ours', name), { recursive: true, force: true });
}
afterEach(tidy);

/** Makes the pair that a command changes. */
async function prepare({ command }: (typeof subjects)[number]): Promise<void> {
  if (command === 'key rotate') await sealpin(['keygen', '--output', '../ours/made']);
}

const [triedEarly, triedKinds] = [new Set<string>(), new Set<Kind>()];

/**
 * Runs a command, and interrupts it when it has opened the FIFO into which nobody writes; before
 * that, once where nobody ever opens it, in the short form with one argument of each command.
 */
async function runInterrupted(argv: readonly string[], command: string): Promise<Ran> {
  if (long || !triedEarly.has(command)) {
    triedEarly.add(command);
    const early = new AbortController();
    const alone = sealpin(argv, { signal: early.signal });
    early.abort(new SealpinError('interrupted', 'interrupted by SIGTERM'));
    expect((await alone).exit, argv.join(' ')).not.toBe(0);
  }
  const stop = new AbortController();
  const running = { isOver: false };
  const ran = sealpin(argv, { signal: stop.signal }).finally(() => (running.isOver = true));
  while (!running.isOver) {
    // Without a reader, this fails (ENXIO, POSIX.1-2024 open).
    const writer = await open(join(desk, values.fifo), constants.O_WRONLY | constants.O_NONBLOCK).catch(
      () => undefined,
    );
    if (writer === undefined) {
      await sleep(2);
      continue;
    }
    stop.abort(new SealpinError('interrupted', 'interrupted by SIGTERM'));
    await ran;
    await writer.close();
  }
  return ran;
}

/** All on the desk but when folders last changed, which a new file changes. */
async function deskNow(): Promise<Map<string, string>> {
  const all = await snapshotOf(desk);
  return new Map([...all].map(([name, about]) => [name, about.startsWith('4') ? about.replace(/ \d+ /, ' ') : about]));
}

describe('an empty value', () => {
  test('is refused for every argument of every command, before anything is read', async () => {
    const longAgo = new Date(1e12);
    for (const name of foreign) await utimes(join(desk, name), longAgo, new Date(1.1e12));
    const before = await deskNow();
    for (const name of foreign) await utimes(join(desk, name), longAgo, new Date(1.1e12));
    for (const { command, arg } of subjects) {
      const own = positionalsOf(present(commands.find(({ name }) => name === command)));
      const count = arg === '…' ? own.length : Math.max(0, own.indexOf(arg));
      const forms = isFlag(arg) ? [[arg, ''], [`${arg}=`]] : [[...Array.from({ length: count }, () => 'x'), '']];
      for (const form of forms) {
        const ran = await run([...command.split(' '), ...form], desk, { env: { SEALPIN_HOME: home } });
        expect({ command, arg, exit: ran.exit, stdout: ran.stdout }).toEqual({ command, arg, exit: 2, stdout: '' });
        expect(ran.stderr).toMatch(/^sealpin: error: \S+ is empty\n/);
      }
    }
    // Reading sets the time of the last access, where the file system keeps one.
    for (const name of foreign) expect((await stat(join(desk, name))).atime).toEqual(longAgo);
    expect(await deskNow()).toEqual(before);
  });

  test('in a list of names is refused, too', async () => {
    for (const to of [',', 'ann,', ',ann', 'ann,,ben']) {
      const ran = await sealpin(['send', '../ours/letter', '--to', to]);
      expect(ran).toMatchObject({ exit: 2, stdout: '' });
      expect(ran.stderr).toContain('one of the names in --to is empty');
    }
  });
});

test.each(paths.filter(makesFolder).map((subject) => ({ subject, title: `${subject.command} ${subject.arg}` })))(
  'a folder that is made for nothing does not stay: $title',
  async ({ subject }) => {
    const { args } = present(commands.find(({ name }) => name === subject.command));
    const files = ['key', 'password-file', 'words-file'].filter((name) => name in args);
    for (const name of files) {
      const protect = name === 'password-file' && 'protect' in args ? ['--protect'] : [];
      const line = lineWith(subject, '../ours/made/below').filter(
        (_, at, all) => ![all[at], all[at - 1]].includes(`--${name}`),
      );
      const ran = await sealpin([...line, `--${name}`, 'none', ...protect]);
      expect(ran.exit, ran.stderr).not.toBe(0);
      expect(ran.stderr, line.join(' ')).toContain('there is no file none');
      expect(await readdir(join(root, 'ours')), line.join(' ')).not.toContain('made');
    }
    expect(files).not.toEqual([]);
  },
);

/** In the short form the first of each kind. */
const tried = paths.filter((one, at) => ci || paths.findIndex((each) => kindOf(each) === kindOf(one)) === at);

test.each(
  tried
    .filter(({ path }) => path !== 'folder')
    .map((subject) => ({ subject, title: `${subject.command} ${subject.arg}` })),
)('- is standard input or output, or is said not to be: $title', async ({ subject }) => {
  await prepare(subject);
  const stdin = Readable.from(['x']);
  const before = await deskNow();
  const ran = await sealpin(lineWith(subject, '-'), { stdin });
  // That backup needs no key.
  if (!stdin.readableDidRead && ran.stdout === '' && subject.command !== 'service restore')
    expect(ran.stderr).toMatch(/standard (in|out)put/);
  expect(await deskNow()).toEqual(before);
});

describe('what is a mistake or belongs to somebody else', () => {
  test.each(tried.map((subject) => ({ ...subject, title: `${subject.command} ${subject.arg}` })))(
    'stays as it is: $title',
    async (subject) => {
      const kind = kindOf(subject) as Kind;
      const before = await deskNow();
      for (const name of long || !triedKinds.has(kind) ? names : someNames) {
        const value = kind === container ? `./${values[name]}`.replace('.//', '/') : values[name];
        const argv = lineWith(subject, value);
        await prepare(subject);
        const own = await readdir(join(root, 'ours'));
        const ran = name === 'fifo' ? await runInterrupted(argv, subject.command) : await sealpin(argv);
        const why = `${argv.join(' ')}: ${ran.stderr}`;
        if (kind.good.includes(name)) expect(ran.exit, why).toBe(0);
        else {
          const codes = [1, 2, 3, 4, 5, ...(kind.either?.includes(name) ? [0] : name === 'fifo' ? [130] : [])];
          expect(codes, why).toContain(ran.exit);
        }
        if (ran.exit !== 0) expect(ran.stderr, why).toMatch(/^sealpin: error: ./m);
        expect(ran.stderr, why).not.toContain('this is a bug');
        if (kind === source && ['here', 'folder', 'linkToFolder'].includes(name))
          expect(ran.stderr, why).toMatch(/^sealpin: packing the folder (desk|theirs): \d+ files$/m);
        const after = await deskNow();
        for (const [path, about] of before) expect(after.get(path), `${why} ${path}`).toEqual(about);
        const made = [...after.keys()].filter((path) => !before.has(path));
        if (ran.exit !== 0) expect(made, why).toEqual([]);
        if (ran.exit !== 0) expect(await readdir(join(root, 'ours')), why).toEqual(own);
        for (const path of made) await rm(join(desk, path), { recursive: true, force: true });
        await tidy();
      }
      triedKinds.add(kind);
    },
  );

  const outputs = paths
    .filter((subject) => kindOf(subject) === written)
    .map((subject) => ({ ...subject, title: `${subject.command} ${subject.arg}` }));
  test.each(outputs)('is not said to be a directory because of a slash: $title', async (subject) => {
    const before = await deskNow();
    for (const [value, says] of [
      ['theirs/', 'theirs/ is a directory\n'],
      ['none/', 'there is no directory none/\nsealpin: hint: leave out the slash'],
      ['theirs.txt/', 'theirs.txt/ is not a directory\nsealpin: hint: leave out the slash'],
    ] as const) {
      const ran = await sealpin(lineWith(subject, value));
      expect(ran).toMatchObject({ exit: 1, stdout: '', stderr: expect.stringContaining(says) as string });
    }
    expect(await deskNow()).toEqual(before);
  });

  test.each(outputs)('stays as it is where --force replaces a file: $title', async (subject) => {
    const before = await deskNow();
    for (const name of ['here', 'folder', 'fifo', 'belowFile'] as const) {
      const argv = [...lineWith(subject, values[name]), '--force'];
      const ran = await sealpin(argv);
      expect(ran, argv.join(' ')).toMatchObject({ exit: 1, stdout: '' });
    }
    expect(await deskNow()).toEqual(before);
  });

  test('is no data directory, for any command', async () => {
    const before = await deskNow();
    for (const { name: command } of commands)
      for (const name of ['file', 'link', 'fifo'] as const) {
        const own = positionalsOf(present(commands.find(({ name: each }) => each === command)));
        const argv = [...command.split(' '), ...own.map(() => 'x'), `--data-dir=${values[name]}`];
        const ran = await sealpin(argv);
        expect(ran.exit, JSON.stringify(argv)).toBe(2);
        expect(ran.stderr).toMatch(/is not a directory\n/);
      }
    for (const name of ['belowFile', 'unwritable', 'folder'] as const) {
      const ran = await sealpin(['keygen', `--data-dir=${values[name]}`]);
      expect(ran, values[name]).toMatchObject({ exit: 1, stdout: '' });
    }
    expect(await deskNow()).toEqual(before);
  });
});
