import { entry } from '../../../testkit/programs/command-line.ts';
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bareEnv } from '../../../testkit/run-cache.ts';
import { flagsOf, positionalsOf } from '../../command.ts';
import { loadCommands } from '../../commands/index.ts';
import { remember } from '../../files/history.ts';
import { run, temporaryDirectory } from '../environment.ts';
import { someApiKey } from '../hostile.ts';
import { itemOf } from '../../../testkit/present.ts';
import { ci, long } from '../../../testkit/long-run.ts';

async function scriptFor(shell: string): Promise<string> {
  const ran = await run(['completions', shell], '/');
  expect(ran).toMatchObject({ exit: 0, stderr: '' });
  return ran.stdout;
}

const has = (program: string): boolean => spawnSync(program, ['-c', 'exit 0']).status === 0;

describe.runIf(has('bash'))('bash', () => {
  test.each([
    { words: ['sealpin', 'ch'], want: ['chacha-encrypt'] },
    { words: ['sealpin', 'key', ''], want: ['create', 'list', 'revoke', 'export', 'restore', 'rotate'] },
    { words: ['sealpin', 'key', 'revoke', '--c'], want: ['--cascade'] },
    { words: ['sealpin', 'shares', ''], want: ['change'] },
    { words: ['sealpin', 'shares', '--l'], want: ['--limit'] },
    { words: ['sealpin', 'shares', 'change', '--e'], want: ['--expires'] },
    { words: ['sealpin', 'decrypt', 'id', '--pa'], want: ['--password-file', '--path'] },
    { words: ['sealpin', 'encrypt', '/etc/passw'], want: ['/etc/passwd', '/etc/passwd-'] },
  ])('completes $words', async ({ words, want }) => {
    const script = `${await scriptFor('bash')}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
_sealpin; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr, status } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const found = stdout.trim().split('\n');
    if (itemOf(words, -1).startsWith('/')) expect(found).toContain(want[0]);
    else expect(found).toEqual(want);
  });

  test('completes names that the shell would expand as they are', async () => {
    const names = ['*', '[ab]', 'a', 'two words', '$(echo b)', '\\'];
    const cwd = await temporaryDirectory();
    for (const name of names) await writeFile(join(cwd, name), '');
    const script = `${await scriptFor('bash')}
COMP_WORDS=(sealpin encrypt ''); COMP_CWORD=2; _sealpin; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8', cwd });
    expect(stdout.split('\n').slice(0, -1).toSorted()).toEqual(names.toSorted());
  });
});

test.each([
  { shell: 'bash', check: ['bash', '-n'] },
  { shell: 'zsh', check: ['zsh', '-n'] },
  { shell: 'fish', check: ['fish', '--no-execute'] },
])('the script for $shell names every command and flag, and the shell can read it', async ({ shell, check }) => {
  const script = await scriptFor(shell);
  for (const command of await loadCommands()) {
    for (const word of command.name.split(' ')) expect(script).toContain(word);
    for (const [name, arg] of Object.entries(command.args))
      if (arg.type !== 'positional') expect(script).toContain(shell === 'fish' ? ` -l ${name}` : `--${name}`);
  }
  const [program = '', ...argv] = check;
  // Where the shell is not installed, its users' syntax stays unchecked here.
  if (!has(program)) return;
  const path = join(await temporaryDirectory(), 'script');
  await writeFile(path, script);
  expect(spawnSync(program, [...argv, path], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});

type Case = { readonly line: string; readonly want: string };
type Scene = { readonly directory: string; readonly env: Record<string, string> };

/** Completes lines in a shell; of each, returns what is wanted if that is offered. */
const completed: Record<string, (cases: readonly Case[], scene: Scene) => Promise<string[]>> = {
  async bash(cases, { directory, env }) {
    const steps = cases.map(({ line }) => {
      const words = line.split(' ').map((word) => `'${word}'`);
      return `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _sealpin; echo "\${COMPREPLY[@]}"`;
    });
    const script = [await scriptFor('bash'), ...steps].join('\n');
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8', cwd: directory, env });
    expect(stderr).toBe('');
    return stdout.split('\n').slice(0, -1);
  },
  async fish(cases, { directory, env }) {
    await writeFile(join(directory, 'script.fish'), await scriptFor('fish'));
    const script = ['source script.fish', ...cases.map(({ line }) => `complete -C '${line}' | cut -f 1; echo ==`)].join(
      '\n',
    );
    const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', script], {
      encoding: 'utf8',
      cwd: directory,
      env,
    });
    expect(stderr).toBe('');
    const found = stdout.split('==\n').slice(0, -1);
    return found.map((lines, index) => lines.split('\n').find((line) => line === cases[index]?.want) ?? lines);
  },
  async zsh(cases, { directory, env }) {
    await writeFile(join(directory, '_sealpin'), await scriptFor('zsh'));
    const typed = cases.map(
      ({ line, want }) =>
        `zpty -w -n z $'${line}\\t'
        zpty -r -m z seen '*${line.replace(/\S*$/, want)}*' && print -r -- '${want}'
        zpty -w z $'\\C-u'`,
    );
    const script = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1='> '; fpath=($PWD $fpath); autoload -Uz compinit; compinit -D -u; print rea''dy"
zpty -r -m z seen '*ready*> '
${typed.join('\n')}
zpty -d z`;
    const o = { encoding: 'utf8', cwd: directory, env, timeout: 60_000 } as const;
    const { stdout, stderr } = spawnSync('zsh', ['-f', '-c', script], o);
    expect(stderr).toBe('');
    return stdout.split('\n').slice(0, -1);
  },
};

describe('values', () => {
  const [older, newer, deleted] = ['a', 'b', 'c'].map((letter) => `bafkrei${letter.repeat(52)}`) as [
    string,
    string,
    string,
  ];

  /**
   * A home with a profile, a contact and a history, and a directory with the program for a shell to
   * call.
   */
  async function scene() {
    const directory = await temporaryDirectory();
    const home = join(directory, 'home');
    for (const [index, cid] of [older, deleted, newer].entries())
      await remember(home, {
        v: 1,
        cid,
        fileId: `file ${cid}`,
        service: 'https://a.example/',
        bytes: 1,
        at: `2026-01-0${index + 1}`,
      });
    await remember(home, { v: 1, deleted: `file ${deleted}`, at: '2026-01-04' });
    const { stdout: recipient } = await run(['keygen', '--output', 'pair', '--quiet'], directory);
    await run(['contact', 'add', 'wolfgang', recipient.trim(), '--data-dir', home, '--quiet'], directory);
    await mkdir(join(home, 'profiles'));
    const profiles = { v: 1, profiles: { work: { service: 'https://a.example/', apiKey: someApiKey } } };
    await writeFile(join(home, 'profiles/profiles.json'), JSON.stringify(profiles), { mode: 0o600 });
    await mkdir(join(directory, 'bin'));
    const program = `#!/bin/sh\nexec '${process.execPath}' '${entry}' "$@"\n`;
    await writeFile(join(directory, 'bin/sealpin'), program, { mode: 0o755 });
    await writeFile(join(directory, 'wood.txt'), '');
    const env = {
      ...bareEnv(),
      PATH: `${join(directory, 'bin')}:${process.env['PATH']}`,
      HOME: directory,
      SEALPIN_HOME: home,
      TERM: 'xterm',
    };
    return { directory, home, env };
  }

  test('are printed for the scripts: of blobs the newest first, and none that was deleted', async () => {
    const { directory, home } = await scene();
    const printed = async (kind: string): Promise<string> =>
      (await run(['completions', '--values', kind, '--data-dir', home], directory)).stdout;
    expect(await printed('blob')).toBe(`${newer}\n${older}\n`);
    expect(await printed('contact')).toBe('wolfgang\n');
    expect(await printed('profile')).toBe('work\n');
    expect(await printed('shell')).toBe('bash\nzsh\nfish\n');
    expect(await run(['completions', '--values', 'key'], directory)).toMatchObject({ exit: 2 });
  });

  const cases = [
    { line: 'sealpin profile use wo', want: 'work' },
    { line: 'sealpin list --profile wo', want: 'work' },
    { line: 'sealpin send wood.txt --to wo', want: 'wolfgang' },
    { line: 'sealpin ecc-encrypt wood.txt wo', want: 'wolfgang' },
    { line: 'sealpin decrypt bafkreib', want: newer },
    { line: 'sealpin completions z', want: 'zsh' },
    { line: 'sealpin encrypt wo', want: 'wood.txt' },
    // A command, and the first word of another one.
    { line: 'sealpin shares ch', want: 'change' },
    { line: 'sealpin shares --da', want: '--data-dir' },
    { line: 'sealpin shares change --op', want: '--opens' },
  ];
  /** Each takes a process or two. What differs between the shells is tried in all. */
  const tried = long ? cases : cases.filter((_, index) => [1, 4, 6, 7, 8].includes(index));

  test.each(Object.keys(completed).filter(has))('are completed by %s, files elsewhere', async (shell) => {
    expect(await completed[shell]?.(tried, await scene())).toEqual(tried.map(({ want }) => want));
  });
});

describe('a value of which nothing is typed yet', () => {
  /** Each command, up to each of its positionals and flags whose values have a kind. */
  async function casesOfAll(): Promise<Case[]> {
    const cases: Case[] = [];
    for (const { name, args } of await loadCommands()) {
      let line = `sealpin ${name} `;
      for (const { name: flag, arg } of flagsOf(args))
        if (arg.type === 'string' && arg.completes !== undefined)
          cases.push({ line: `${line}--${flag} `, want: `a-${arg.completes}` });
      for (const { arg } of positionalsOf(args)) {
        if (arg.completes !== undefined) cases.push({ line, want: `a-${arg.completes}` });
        line += 'x ';
      }
    }
    return cases;
  }

  test.each(Object.keys(completed).filter((shell) => has(shell) && (ci || shell !== 'fish')))(
    'is offered by %s for every command',
    async (shell) => {
      const directory = await temporaryDirectory();
      await mkdir(join(directory, 'bin'));
      await writeFile(join(directory, 'bin/sealpin'), '#!/bin/sh\necho "a-$3"\n', { mode: 0o755 });
      const env = {
        ...bareEnv(),
        PATH: `${join(directory, 'bin')}:${process.env['PATH']}`,
        HOME: directory,
        TERM: 'xterm',
      };
      const cases = await casesOfAll();
      expect(await completed[shell]?.(cases, { directory, env })).toEqual(cases.map(({ want }) => want));
    },
  );
});

test('another shell is misuse', async () => {
  expect(await run(['completions', 'tcsh'], '/')).toMatchObject({
    exit: 2,
    stdout: '',
    stderr: 'sealpin: error: there are no completions for that shell\nsealpin: hint: choose one of bash, zsh, fish\n',
  });
});
