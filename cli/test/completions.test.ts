import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { loadCommands } from '../commands/index.ts';
import { run } from './environment.ts';

async function scriptFor(shell: string): Promise<string> {
  const ran = await run(['completions', shell], '/');
  expect(ran).toMatchObject({ exit: 0, stderr: '' });
  return ran.stdout;
}

const has = (program: string): boolean => spawnSync(program, ['-c', 'exit 0']).status === 0;

describe.runIf(has('bash'))('bash', () => {
  test.each([
    { words: ['sealpin', 'ch'], want: ['chacha-encrypt'] },
    { words: ['sealpin', 'key', ''], want: ['create', 'list', 'revoke', 'export'] },
    { words: ['sealpin', 'key', 'revoke', '--c'], want: ['--cascade'] },
    { words: ['sealpin', 'decrypt', 'id', '--pa'], want: ['--password-file'] },
    { words: ['sealpin', 'encrypt', '/etc/passw'], want: ['/etc/passwd', '/etc/passwd-'] },
  ])('completes $words', async ({ words, want }) => {
    const script = `${await scriptFor('bash')}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _sealpin; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr, status } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const found = stdout.trim().split('\n');
    if (words.at(-1)!.startsWith('/')) expect(found).toContain(want[0]);
    else expect(found).toEqual(want);
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
  if (has(program))
    expect(spawnSync(program, argv, { input: script, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});

test('another shell is misuse', async () => {
  expect(await run(['completions', 'tcsh'], '/')).toMatchObject({
    exit: 2,
    stdout: '',
    stderr: 'sealpin: error: there are no completions for that shell\nsealpin: hint: choose one of bash, zsh, fish\n',
  });
});
