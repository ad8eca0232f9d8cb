import { parseArgs } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Args, defineCommand } from '../../command.ts';
import { SealpinError } from '../../../shared/errors.ts';
import { firstPage, headings, loadCommands } from '../../commands/index.ts';
import { commandUsage, mainUsage, synopsis } from '../../help/usage.ts';
import { Collector, run, temporaryDirectory, environmentIn } from '../environment.ts';
import { createOutput } from '../../terminal/output.ts';
import { suggestion } from '../../terminal/suggestion.ts';
import { present } from '../../../testkit/present.ts';

const args = {
  file: { type: 'positional', description: 'The file' },
  password: { type: 'positional', required: false, description: 'The password' },
  'password-file': { type: 'string', valueHint: 'file', path: true, description: 'Where it is' },
  to: { type: 'string', valueHint: 'who', repeats: true, description: 'Whom it is for' },
  force: { type: 'boolean', description: 'Replace it' },
} as const satisfies Args;

const heading = { name: 'probe', summary: 'Probe' };
/** Returns what a command gets from these arguments. */
async function parsed(argv: readonly string[], rest?: string): Promise<unknown> {
  let got: unknown;
  const command = defineCommand({
    args,
    ...(rest === undefined ? {} : { rest }),
    examples: [],
    run: async (o) => void (got = { ...o.args, rest: o.rest }),
  })(heading);
  const environment = environmentIn('/');
  await command.parse(argv).run({
    ...environment,
    output: createOutput({ ...environment, json: false, quiet: false }),
    dataDir: '/',
    service: undefined,
  });
  return got;
}

const common = { json: false, quiet: false, 'data-dir': undefined, to: undefined };

describe('a command takes', () => {
  test.each([
    { title: 'positionals in order', argv: ['a', 'b'], want: { file: 'a', password: 'b' } },
    {
      title: 'flags anywhere',
      argv: ['--force', 'a', '--password-file', 'p', 'b'],
      want: { file: 'a', password: 'b', force: true, 'password-file': 'p' },
    },
    { title: 'a value after =', argv: ['a', '--password-file=-p'], want: { file: 'a', 'password-file': '-p' } },
    {
      title: '- as a value and as a positional',
      argv: ['-', '--password-file', '-'],
      want: { file: '-', 'password-file': '-' },
    },
    { title: 'anything after --', argv: ['a', '--', '--force'], want: { file: 'a', password: '--force' } },
    {
      title: 'what looks like a negated flag after --',
      argv: ['--', 'a', '--no-force'],
      want: { file: 'a', password: '--no-force' },
    },
    {
      title: 'a flag that repeats, in order',
      argv: ['a', '--to=x', '--to', 'y', '--to', 'x'],
      want: { file: 'a', to: ['x', 'y', 'x'] },
    },
  ])('$title', async ({ argv, want }) => {
    expect(await parsed(argv)).toEqual({
      password: undefined,
      force: false,
      'password-file': undefined,
      ...common,
      rest: [],
      ...want,
    });
  });

  test('any number of further arguments where it says so', async () => {
    expect(await parsed(['a', 'b', 'c', '--', '-d'], 'more')).toMatchObject({
      file: 'a',
      password: 'b',
      rest: ['c', '-d'],
    });
  });
});

describe('a command refuses', () => {
  test.each([
    { title: 'an unknown flag', argv: ['a', '--passphrase-file', 'p'], says: 'probe has no flag --passphrase-file' },
    {
      title: 'an unknown flag with a value, without repeating the value',
      argv: ['a', '--secret=canary'],
      says: 'probe has no flag --secret',
    },
    { title: 'an unknown short flag', argv: ['a', '-f'], says: 'probe has no flag -f' },
    { title: 'a negated flag', argv: ['a', '--no-force'], says: 'probe has no flag --no-force' },
    {
      title: 'a flag in camel case, which citty would take',
      argv: ['a', '--passwordFile', 'p'],
      says: 'probe has no flag --passwordFile',
    },
    { title: 'a surplus argument', argv: ['a', 'b', 'c'], says: 'probe takes at most 2 arguments (3 given)' },
    { title: 'a missing argument', argv: [], says: 'probe needs <file>' },
    {
      title: 'a flag without its value',
      argv: ['a', '--password-file'],
      says: '--password-file needs a value: --password-file <file>',
    },
    {
      title: 'a flag with an empty value',
      argv: ['a', '--password-file='],
      says: '--password-file is empty',
    },
    { title: 'a flag with an empty value that is no file', argv: ['a', '--to', ''], says: '--to is empty' },
    { title: 'an empty argument', argv: ['a', ''], says: '<password> is empty' },
    {
      title: 'a flag as the value of a flag',
      argv: ['a', '--password-file', '--force'],
      says: '--password-file needs a value, and what follows is a flag',
    },
    {
      title: 'a flag twice',
      argv: ['a', '--password-file', 'x', '--password-file', 'y'],
      says: '--password-file is given more than once',
    },
    { title: 'a value for a flag that has none', argv: ['a', '--force=false'], says: '--force takes no value' },
    { title: 'the name of a positional as a flag', argv: ['a', '--file', 'b'], says: 'probe has no flag --file' },
  ])('$title', async ({ argv, says }) => {
    const error: unknown = await parsed(argv).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SealpinError);
    expect(error).toMatchObject({ code: 'usage', message: says });
    expect((error as SealpinError).hint).not.toContain('canary');
  });
});

test('any words are taken exactly as Node would parse them strictly, or refused as misuse', async () => {
  const word = fc.oneof(
    fc.string(),
    fc.constantFrom(
      '--',
      '-',
      '--force',
      '--password-file',
      '--password-file=x',
      '--to=y',
      '--to',
      '--no-force',
      '--__proto__',
      '--constructor=x',
      '-f',
      '--_',
      '---',
      '--=',
      '__proto__',
    ),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 6 }), async (argv) => {
      let taken: Record<string, unknown>;
      try {
        taken = (await parsed(argv)) as Record<string, unknown>;
      } catch (error) {
        if (!(error instanceof SealpinError)) throw error;
        expect(error.code).toBe('usage');
        return;
      }
      const { values, positionals } = parseArgs({
        args: argv,
        options: {
          force: { type: 'boolean', default: false },
          json: { type: 'boolean', default: false },
          quiet: { type: 'boolean', default: false },
          'password-file': { type: 'string' },
          'data-dir': { type: 'string' },
          to: { type: 'string', multiple: true },
        },
        allowPositionals: true,
        strict: true,
      });
      const [file, password] = positionals;
      expect(taken).toEqual({
        'password-file': undefined,
        'data-dir': undefined,
        to: undefined,
        ...values,
        file,
        password,
        rest: [],
      });
    }),
    { numRuns: 2000 },
  );
});

describe('the entry', () => {
  test('without a command: the overview on stderr, exit 2', async () => {
    const ran = await run([], await temporaryDirectory());
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain('Usage: sealpin <command>');
  });

  test('--help: the first page on stdout, exit 0, with at most 20 commands for people', async () => {
    const ran = await run(['--help'], await temporaryDirectory());
    expect(ran).toMatchObject({ exit: 0, stderr: '' });
    const shown = headings.filter(({ name }) => ran.stdout.includes(`\n  ${name} `)).map(({ name }) => name);
    expect(shown.length).toBeLessThanOrEqual(20);
    const first = ['start', 'rebuild', 'keygen', 'encrypt', 'chacha-encrypt', 'ecc-encrypt', 'decrypt', 'ecc-decrypt'];
    expect(shown).toEqual(expect.arrayContaining([...first, 'send', 'receive', 'list', 'delete']));
    expect(shown.filter((name) => /^(account|migrate|completions|copy)/.test(name))).toEqual([]);
    expect(ran.stdout).toContain('sealpin help all lists every command.');
    expect((await run(['help'], '/')).stdout).toBe(ran.stdout);
  });

  test('help all: every command on stdout, exit 0', async () => {
    const ran = await run(['help', 'all'], await temporaryDirectory());
    expect(ran).toMatchObject({ exit: 0, stderr: '' });
    for (const { name } of headings) expect(ran.stdout).toContain(`\n  ${name} `);
  });

  test('--version: one line', async () => {
    expect((await run(['--version'], await temporaryDirectory())).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test.each([
    { argv: ['lsit'], error: 'there is no such command', hint: 'did you mean list?' },
    {
      argv: ['--json', 'list'],
      error: 'unknown option --json',
      hint: 'flags go after the command',
    },
    { argv: ['toString'], error: 'there is no such command', hint: 'see: sealpin --help' },
  ])('$argv.0 is misuse, exit 2', async ({ argv, error, hint }) => {
    const ran = await run(argv, await temporaryDirectory());
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(ran.stderr).toContain(error);
    expect(ran.stderr).toContain(hint);
  });

  test('a misuse of a command says so on stderr with exit 2, as a problem object with --json', async () => {
    const directory = await temporaryDirectory();
    expect(await run(['encrypt'], directory)).toMatchObject({
      exit: 2,
      stdout: '',
      stderr: 'sealpin: error: encrypt needs <file>\nsealpin: hint: see: sealpin encrypt --help\n',
    });
    const ran = await run(['encrypt', '--json'], directory);
    expect(ran).toMatchObject({ exit: 2, stdout: '' });
    expect(JSON.parse(ran.stderr)).toEqual({
      type: 'about:blank',
      title: 'Invalid usage',
      status: 400,
      detail: 'encrypt needs <file>',
      code: 'usage',
      hint: 'see: sealpin encrypt --help',
    });
  });

  test('each command explains itself with examples that it would take', async () => {
    for (const command of await loadCommands()) {
      const { name } = command;
      expect(command.examples.length, name).toBeGreaterThan(0);
      const help = await run([...name.split(' '), '--help'], '/');
      expect(help).toMatchObject({ exit: 0, stderr: '', stdout: commandUsage(command, 80) });
      expect(help.stdout.replaceAll(/\s+/g, ' ')).toContain(synopsis(command));
      for (const example of command.examples) {
        const words = present(example.command.split(/ (?:\||&&) /).find((part) => part.includes(`sealpin ${name}`)))
          .replace(/.*?sealpin /, '')
          .replace(/ > .*|\)$/, '')
          .split(' ');
        command.parse(words.slice(name.split(' ').length));
      }
    }
  });
});

describe('help', () => {
  test.each([40, 80, 200])('fits a terminal of %i columns, examples apart', async (columns) => {
    const limit = Math.min(columns, 100);
    const helps = (await loadCommands()).map((command) => commandUsage(command, columns).split('\nExamples:')[0]);
    const pages = [firstPage, { 'All commands': headings }].map((groups) => mainUsage(groups, columns));
    for (const line of [...helps, ...pages.map((page) => page.split('\nFirst steps:')[0])].join('\n').split('\n')) {
      // A single word that is longer than the line cannot be broken.
      if (line.trim().includes(' ')) expect(line.length, line).toBeLessThanOrEqual(limit);
    }
  });

  test('is wrapped at the width of the terminal, and at 80 columns in a pipe', async () => {
    const stdout = new Collector();
    const widest = (text: string): number => Math.max(...text.split('\n').map(({ length }) => length));
    await run(['--help'], '/', { stdout: Object.assign(stdout, { columns: 60 }) });
    expect(widest(stdout.text)).toBeLessThanOrEqual(60);
    expect(widest(stdout.text)).toBeGreaterThan(50);
    const piped = (await run(['--help'], '/', { stdout: Object.assign(new Collector(), { columns: 0 }) })).stdout;
    expect(widest(piped)).toBeLessThanOrEqual(80);
    expect(widest(piped)).toBeGreaterThan(60);
  });

  test.each([
    ['help', 'encrypt'],
    ['help', 'key', 'create'],
  ])('%s %s explains that command', async (...argv) => {
    const name = argv.slice(1).filter((word) => word !== undefined);
    const ran = await run(argv, '/');
    expect(ran).toMatchObject({ exit: 0, stderr: '', stdout: (await run([...name, '--help'], '/')).stdout });
  });

  test('of no such command is misuse', async () => {
    expect(await run(['help', 'encrpt'], '/')).toMatchObject({
      exit: 2,
      stdout: '',
      stderr: expect.stringContaining('did you mean encrypt?') as unknown,
    });
  });

  test.each(['-V', '-v'])('%s is --version', async (flag) => {
    expect((await run([flag], '/')).stdout).toBe((await run(['--version'], '/')).stdout);
  });
});

test('a suggestion is made for what is near, and for nothing else', () => {
  expect(suggestion('encrpt', ['encrypt', 'decrypt'])).toBe('did you mean encrypt?');
  expect(suggestion('forse', ['force'], '--')).toBe('did you mean --force?');
  expect(suggestion('xyz', ['encrypt', 'list'])).toBeUndefined();
  expect(suggestion('pasword', ['data-dir', 'password-file'], '--')).toBe('did you mean --password-file?');
  for (const word of ['config', 'signin', 'whoami'])
    expect(
      suggestion(
        word,
        headings.map(({ name }) => name),
      ),
      word,
    ).toBeUndefined();
});
