/**
 * Each argument of each command that may name a file, with what is a mistake or belongs to somebody
 * else. The arguments come from the commands themselves: a new one fails here until it is said what
 * it takes.
 */
import { execFileSync } from 'node:child_process';
import { constants } from 'node:fs';
import { mkdir, mkdtemp, open, realpath, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect } from '../../../client/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { loadCommands } from '../../commands/index.ts';
import type { Command } from '../../command.ts';
import { run, type Overrides, type Ran } from '../environment.ts';
import { localService } from '../local.ts';
import { snapshotOf } from '../snapshot.ts';
import { ci, long } from '../../../testkit/long-run.ts';
import { first, present } from '../../../testkit/present.ts';

const commands = await loadCommands();

/** An argument of a command: its name, as a flag with `--`. */
type Subject = { readonly command: string; readonly arg: string };
const isFlag = (arg: string): boolean => arg.startsWith('--');
const positionalsOf = ({ args }: Command): string[] =>
  Object.entries(args).flatMap(([name, { type }]) => (type === 'positional' ? [name] : []));
/** Every argument that has a value; `…`: one more than the command names. */
const subjects: readonly (Subject & { readonly isPath: boolean })[] = commands.flatMap((command) => [
  ...Object.entries(command.args).flatMap(([name, arg]) => {
    if (arg.type === 'boolean') return [];
    const shown = arg.type === 'positional' ? name : `--${name}`;
    return [{ command: command.name, arg: shown, isPath: arg.path !== undefined }];
  }),
  ...(command.rest === undefined ? [] : [{ command: command.name, arg: '…', isPath: isPathList(command) }]),
]);

function isPathList({ args, rest = '' }: Command): boolean {
  const arg = args[rest];
  return arg !== undefined && arg.type !== 'boolean' && arg.path !== undefined;
}

/** Values of an argument in these tests. */
const values = {
  here: '.',
  folder: 'theirs',
  linkToFolder: 'link-to-theirs',
  file: 'theirs.txt',
  link: 'link-to-theirs.txt',
  fifo: '../pipe/fifo',
  belowFile: 'theirs.txt/x',
  unwritable: '/proc/sealpin-of-the-tests',
  missing: 'none/x',
} as const;
type Value = keyof typeof values;
const names = Object.keys(values) as Value[];
/** In the short form, for an argument of a kind that met every value in another one. */
const someNames: readonly Value[] = ['folder', 'link', 'fifo', 'missing'];

/**
 * Kind of an argument. `good`: the values with which a command succeeds; `either`: those that
 * depend on something else, such as whether a password is right. All others are refused.
 */
type Kind = { readonly good: readonly Value[]; readonly either?: readonly Value[] };
const source: Kind = { good: ['here', 'folder', 'linkToFolder', 'file', 'link'] };
const password: Kind = { good: [], either: ['file', 'link'] };
const privateKey: Kind = { good: [] };
const publicKey: Kind = { good: [] };
const container: Kind = { good: [], either: ['file', 'link'] };
const car: Kind = { good: [] };
const words: Kind = { good: [] };
const written: Kind = { good: [] };
const backup: Kind = { good: ['missing'] };
const serviceBackup: Kind = { good: ['missing'] };
const restored: Kind = { good: [] };
const receiving: Kind = { good: ['here', 'folder', 'linkToFolder', 'missing'] };
const pair: Kind = { good: ['here', 'missing'] };
const oldPair: Kind = { good: [] };
const backends: Kind = { good: [] };
const pagesList: Kind = { good: [] };
const text = 'text';

/** Kind of each argument by its name, and by command where it differs. */
const kinds: Readonly<Record<string, Kind | typeof text>> = {
  file: source,
  'send …': source,
  'export file': written,
  'key export file': written,
  blob_id: text,
  'decrypt blob_id': container,
  'ecc-decrypt blob_id': container,
  output_file: written,
  '--output': written,
  'keygen --output': pair,
  'key restore --output': pair,
  'key rotate --output': oldPair,
  '--password-file': password,
  '--words-file': words,
  '--key': privateKey,
  private_key_file: privateKey,
  public_key_file: publicKey,
  'ecc-encrypt …': publicKey,
  '--to': publicKey,
  'copy --to': text,
  '--recipient': publicKey,
  '--recovery': publicKey,
  car,
  dir: receiving,
  'service backup dir': serviceBackup,
  'service restore dir': restored,
  'backup folder': backup,
  'restore folder': restored,
  '--backends': backends,
  '--pages': pagesList,
};
/** Arguments that name no file. */
const texts = [
  'name id password url from to size key_id label link shell file_id --name --service --profile --scopes --expires',
  '--rollback --limits --limit --port --origin --proxy --kubo-api --cors-origin --mode --quota --values --inbox --note',
  '--from --opens --include --exclude --path --max-files --max-bytes --after --repeat copy-…',
].flatMap((line) => line.split(' ').map((name) => name.replace('-…', ' …')));

function kindOf({ command, arg }: Subject): Kind | typeof text | undefined {
  const full = `${command} ${arg}`;
  if (Object.hasOwn(kinds, full)) return kinds[full];
  if (texts.includes(full) || texts.includes(arg)) return text;
  return Object.hasOwn(kinds, arg) ? kinds[arg] : undefined;
}

const paths = subjects.filter((subject) => subject.arg !== '--data-dir' && kindOf(subject) !== text);

test('it is said of each argument what it takes, and the parser knows which are paths', () => {
  const unknown = subjects.filter((subject) => subject.arg !== '--data-dir' && kindOf(subject) === undefined);
  expect(unknown.map(({ command, arg }) => `${command} ${arg}`)).toEqual([]);
  for (const { command, arg, isPath } of subjects) {
    // A blob ID is no path, and a container beside it one with a slash.
    const kind = kindOf({ command, arg });
    expect(isPath, `${command} ${arg}`).toEqual(arg === '--data-dir' || (kind !== text && kind !== container));
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
/** Values that commands of the tests need: blob IDs, links and the like. */
const known: Record<string, string> = {};
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

/** A use of each command that has a path: its positionals in their order, and its flags. */
const uses: Readonly<Record<string, () => { positionals: readonly string[]; flags?: readonly string[] }>> = {
  encrypt: () => ({ positionals: ['../ours/letter'] }),
  'chacha-encrypt': () => ({ positionals: ['../ours/letter'] }),
  'ecc-encrypt': () => ({ positionals: ['../ours/letter', '../ours/pair/public.key'] }),
  decrypt: () => ({ positionals: ['../ours/container', '../ours/out'] }),
  'ecc-decrypt': () => ({ positionals: ['../ours/container-to-key', '../ours/out', '../ours/pair/private.key'] }),
  send: () => ({ positionals: ['../ours/letter'] }),
  receive: () => ({ positionals: [present(known['link']), '../ours/received'] }),
  share: () => ({ positionals: [present(known['blob'])] }),
  'inbox create': () => ({ positionals: ['label'] }),
  'inbox list': () => ({ positionals: [] }),
  'inbox open': () => ({ positionals: [present(known['delivery']), '../ours/received'] }),
  get: () => ({ positionals: [present(known['fileId']), '../ours/out'] }),
  verify: () => ({ positionals: [present(known['blob'])] }),
  reseal: () => ({ positionals: [present(known['blob'])] }),
  export: () => ({ positionals: [present(known['blob']), '../ours/out'] }),
  import: () => ({ positionals: ['../ours/letter.car'] }),
  backup: () => ({ positionals: ['../ours/backup'] }),
  restore: () => ({ positionals: ['../ours/backup'] }),
  'service backup': () => ({ positionals: ['../ours/service'], flags: [`--data-dir=${local.dataDir}`] }),
  'service restore': () => ({ positionals: ['../ours/service'] }),
  'key export': () => ({ positionals: ['../ours/out'] }),
  'key restore': () => ({ positionals: [] }),
  'key rotate': () => ({ positionals: [] }),
  keygen: () => ({ positionals: [] }),
  'contact add': () => ({ positionals: [`ann${Math.random().toString(36).slice(2)}`, '../ours/pair/public.key'] }),
  'account create': () => ({ positionals: ['label'] }),
};

/** The command line with a value for one of its arguments. */
function lineWith({ command, arg }: Subject, value: string): string[] {
  const { positionals, flags = [] } = uses[command]?.() ?? { positionals: [] };
  const toKey: Record<string, string> = {
    [present(known['blob'])]: present(known['blobToKey']),
    [present(known['link'])]: present(known['linkToKey']),
  };
  const words = arg === '--key' ? positionals.map((word) => toKey[word] ?? word) : [...positionals];
  const at = positionalsOf(present(commands.find(({ name }) => name === command))).indexOf(arg);
  if (arg === '…') words.push(value);
  else if (!isFlag(arg)) words[at] = value;
  return [...command.split(' '), ...words, ...flags, ...(isFlag(arg) ? [arg, value] : []), ...more({ command, arg })];
}

/** Flags without which the one in question has no use. */
function more({ command, arg }: Subject): string[] {
  if (command === 'key restore' && arg === '--output') return ['--words-file', '../ours/words'];
  const hasProtect = ['keygen', 'key restore', 'key rotate', 'key export'].includes(command);
  if (hasProtect && arg === '--password-file') return ['--protect'];
  if (command === 'reseal' && arg === '--key') return ['--password'];
  if (command === 'verify' && arg === '--key') return ['--open'];
  return [];
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

describe('what is a mistake or belongs to somebody else', () => {
  // In the short form the first of each kind.
  const tried = paths.filter((one, at) => ci || paths.findIndex((each) => kindOf(each) === kindOf(one)) === at);
  test.each(tried.map((subject) => ({ ...subject, title: `${subject.command} ${subject.arg}` })))(
    'stays as it is: $title',
    async (subject) => {
      const kind = kindOf(subject) as Kind;
      const before = await deskNow();
      for (const name of long || !triedKinds.has(kind) ? names : someNames) {
        const value = kind === container ? `./${values[name]}`.replace('.//', '/') : values[name];
        const argv = lineWith(subject, value);
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
        for (const path of made) await rm(join(desk, path), { recursive: true, force: true });
        for (const path of ['out', 'received', 'backup'])
          await rm(join(desk, '../ours', path), { recursive: true, force: true });
      }
      triedKinds.add(kind);
    },
  );

  test.each(
    paths
      .filter((subject) => kindOf(subject) === written)
      .map((subject) => ({ ...subject, title: `${subject.command} ${subject.arg}` })),
  )('stays as it is where --force replaces a file: $title', async (subject) => {
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
