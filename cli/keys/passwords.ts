/** Passwords: where they come from, in the order of the manual, and the warnings about them. */
import { randomInt } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parsePassword, type Again, type Identity } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { isOpenToOthers, readSmall } from '../io/input.ts';
import { isYes } from '../terminal/confirm.ts';
import { type Terminal, withTerminal } from '../terminal/prompt.ts';
import type { Guarded } from './strength.ts';

const generatedWords = 10;
/** Number of tries that a person has to type a password that opens something. */
export const maxTries = 3;

/** Flags of a command, as far as they say where its password comes from. */
type PasswordSource = {
  readonly 'password-file': string | undefined;
  /** From the command line. */
  readonly argument?: string | undefined;
  /** Marks standard input as taken: the password cannot come from it. */
  readonly stdinTaken?: boolean;
};
type NewPasswordSource = PasswordSource & { readonly generate: boolean };

/**
 * Refuses a password argument that is the path of something on this machine: most likely a shell
 * expanded `*.pdf`, and the name of the second file would become the password of the first.
 * @param hint what to do when a second file was meant
 * @throws usage
 */
export async function refusePathAsPassword(argument: string | undefined, hint: string, context: Context) {
  if (argument === undefined || argument === '') return;
  // A text that cannot be a path, for example because it is too long, fails here and is a password.
  const found = await stat(resolve(context.cwd, argument)).catch(() => undefined);
  if (found === undefined) return;
  const detail = `${argument} is a ${found.isDirectory() ? 'directory' : 'file'}, and would be used as the password`;
  throw new SealpinError('usage', detail, { hint: `${hint}; for a password of that text use --password-file` });
}

/**
 * The password that was given, without asking at the terminal: the argument, the file, or
 * `SEALPIN_PASSWORD`.
 * @returns undefined when none was given
 * @throws usage when two are given, password_invalid, file_not_found, file_unreadable
 */
export async function givenPassword(source: PasswordSource, context: Context): Promise<string | undefined> {
  const { argument, 'password-file': file } = source;
  if (argument !== undefined && file !== undefined)
    throw new SealpinError('usage', 'the password is given twice: as an argument and with --password-file');
  if (argument !== undefined) {
    context.output.warn(
      'a password on the command line is visible to other users and stays in your shell history; safer: ' +
        '--password-file, SEALPIN_PASSWORD or the prompt',
    );
    if (context.env['npm_lifecycle_event'] !== undefined)
      context.output.warn(
        'npm has written this password to its log files and shows it to other users until the command ends: ' +
          'choose another one, and run ./sealpin without npm',
      );
    return wellFormed(argument);
  }
  if (file !== undefined) return passwordFromFile(file, source.stdinTaken === true, context);
  return environmentPassword(context);
}

/** The password in `SEALPIN_PASSWORD`, if any. @throws password_invalid */
export function environmentPassword({ env }: Pick<Context, 'env'>): string | undefined {
  return wellFormed(env['SEALPIN_PASSWORD']);
}

/**
 * Refuses a text that was not UTF-8: in arguments and variables Node turns each such byte into
 * U+FFFD, so that different passwords would be the same one.
 */
function wellFormed<T extends string | undefined>(password: T): T {
  if (password?.includes('\uFFFD') !== true) return password;
  throw new SealpinError('password_invalid', 'the password is not valid UTF-8', {
    hint: 'give it in UTF-8, or with --password-file',
  });
}

async function passwordFromFile(file: string, stdinTaken: boolean, context: Context): Promise<string> {
  if (file === '-' && stdinTaken)
    throw new SealpinError('usage', 'standard input cannot be both the file and the password', {
      hint: 'put the password into a file, or into SEALPIN_PASSWORD',
    });
  const bytes = await readSmall(file, { what: 'a password', environment: context });
  if (await isOpenToOthers(file, context))
    context.output.warn(`${file} holds a password and is accessible to other users; fix it with: chmod 600 ${file}`);
  return parsePassword(bytes);
}

/**
 * Asks at the terminal, once, for the password that opens something.
 * @param what is being opened, for the question
 * @param failed how many passwords for it were wrong so far
 * @param hint how to give it where there is no terminal
 * @throws usage without a terminal, interrupted
 */
export async function askPassword(what: string, context: Context, failed = 0, hint?: string): Promise<string> {
  const question = `${failed > 0 ? 'Wrong password. ' : ''}Password for ${what}`;
  return askAtTerminal(context, (terminal) => terminal.ask(question, context.signal), hint);
}

/**
 * Opens something with a password, which is asked for again where it is wrong.
 * @param find gives what opens it, if anything; `failed`: how many passwords were wrong so far
 * @param isGiven no other password is asked for
 * @param use opens it with the first one, or with another
 */
export async function withPassword<T>(
  find: (failed: number) => Promise<readonly Identity[] | undefined>,
  isGiven: boolean,
  use: (first: readonly Identity[], again: Again) => Promise<T>,
  { output }: Context,
): Promise<T> {
  const derive = () => output.progress('deriving the key from the password');
  const first = (await find(0)) ?? [];
  let derivation = derive();
  let failed = 0;
  try {
    return await use(first, async () => {
      derivation.done();
      failed += 1;
      if (isGiven || failed === maxTries) return undefined;
      const next = await find(failed);
      if (next !== undefined) derivation = derive();
      return next;
    });
  } finally {
    derivation.done();
  }
}

/**
 * The same command without the password of the environment, which opens what is there, is not meant
 * for what is made of it, and may be for something else than a key.
 */
export function withoutGivenPassword(context: Context): Context {
  return { ...context, env: { ...context.env, SEALPIN_PASSWORD: undefined } };
}

/** Refuses a password beside one that is to be generated. @throws usage */
export function refuseBoth({ generate, argument, 'password-file': file }: NewPasswordSource): void {
  if (generate && (argument !== undefined || file !== undefined))
    throw new SealpinError('usage', 'a password is given together with --generate', { hint: 'leave one of them out' });
}

/**
 * The password for something new: given, generated, or asked for twice. A person who types a weak
 * one is asked for another, or for a yes; of one that is given there is a warning.
 * @param source.generate ten words of 2,048: 110 bits, beyond any search
 * @throws as `givenPassword`; usage when none is given and there is no terminal, interrupted
 */
export async function newPassword(source: NewPasswordSource, guarded: Guarded, context: Context): Promise<string> {
  refuseBoth(source);
  if (source.generate) {
    const { wordlist } = await import('@scure/bip39/wordlists/english.js');
    const password = Array.from({ length: generatedWords }, () => wordlist[randomInt(wordlist.length)]).join('-');
    context.output.secret(`password: ${password}`);
    context.output.note('write it down now: without it nobody can open the file, and it cannot be reset');
    return password;
  }
  const given = await givenPassword(source, context);
  if (given === undefined) {
    const isTaken = Object.hasOwn(context.env, 'SEALPIN_PASSWORD');
    const hint = `give it with --password-file${isTaken ? '' : ' or SEALPIN_PASSWORD'}`;
    return askAtTerminal(context, (terminal) => askNew(terminal, guarded, context), hint);
  }
  refuseEmpty(given);
  await warnIfWeak(given, guarded, context);
  return given;
}

/** @throws password_invalid */
export function refuseEmpty(password: string): void {
  if (password === '')
    throw new SealpinError('password_invalid', 'the password is empty', { hint: 'use at least one character' });
}

/** Asks until a password is strong, or is to be used although it is weak. */
async function askNew(terminal: Terminal, guarded: Guarded, context: Context): Promise<string> {
  for (;;) {
    const password = await terminal.ask('New password (it cannot be reset later)', context.signal);
    refuseEmpty(password);
    if ((await terminal.ask('Repeat the password', context.signal)) !== password)
      throw new SealpinError('password_invalid', 'the two passwords differ', { hint: 'try again' });
    const isStrong = !(await warnIfWeak(password, guarded, context));
    if (isStrong || isYes(await terminal.askShown('Use it anyway? [y/N]', context.signal))) return password;
  }
}

function askAtTerminal<T>(
  context: Context,
  use: (terminal: Terminal) => Promise<T>,
  hint = 'give it with --password-file or SEALPIN_PASSWORD',
): Promise<T> {
  const missing = 'a password is required, and there is no terminal to ask for it';
  return withTerminal({ interactive: context.interactive, missing, hint }, use);
}

/** Warns about a weak password while it can still be changed. @returns whether it is weak */
async function warnIfWeak(password: string, guarded: Guarded, context: Context): Promise<boolean> {
  const { strengthWarning } = await import('./strength.ts');
  const warning = await strengthWarning(password, guarded);
  if (warning !== undefined) context.output.warn(warning);
  return warning !== undefined;
}
