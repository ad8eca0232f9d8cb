/** Arguments that several commands share, each described once, and parsers of their values. */
import { SealpinError } from '../../shared/errors.ts';
import type { NewApiKey } from '../../shared/api.ts';
import { dayMs, hourMs, parseTime } from '../../shared/time.ts';
import { positional, toggle, valueFlag, type Args } from '../command.ts';
import { parseSize } from '../terminal/size.ts';

/** Input of an encrypting command. */
export const fileArg = positional('The file or folder, or - for standard input', { path: true });

/** The password as an argument: the specified form, and the least safe one. */
export const passwordArg = positional('The password. Visible to other users; prefer --password-file or the prompt', {
  required: false,
});

/** Input of a decrypting command. */
export const blobArg = positional('The blob ID, a link, an encrypted file on this machine, or - for standard input', {
  completes: 'blob',
});

/** Output of a decrypting command. */
export const outputFileArg = positional('Where to write, or - for standard output', { path: true });

/** The flag of the commands that write a file. */
export const forceArg = toggle('Replace the output file if it exists');

/** The flag of the commands that ask before what cannot be undone. */
export const yesArg = toggle('Do not ask at the terminal');

/** The same for what was sent. */
export const receiveExtractArg = toggle(
  'Make a folder of each folder that was sent (a tar archive), instead of a file',
);

/** Flags for the part of a folder that is written, and for its destination. */
export const placingFlags = {
  extract: toggle('It is a folder (a tar archive): extract it into the new directory <output_file>'),
  path: valueFlag('path', 'Of a folder only this file, such as plans/a.pdf; with --extract only this folder'),
  force: forceArg,
} as const satisfies Args;

/** Filters of the entries of a folder that are encrypted. */
export const filterFlags = {
  include: valueFlag(
    'pattern',
    "Of a folder only what matches, such as '*.jpg' or 'plans/**/final'; may be given again",
    { repeats: true },
  ),
  exclude: valueFlag('pattern', "Of a folder not what matches, such as '*.tmp' or 'cache/'; may be given again", {
    repeats: true,
  }),
} as const satisfies Args;

export const mixFlag = {
  mix: toggle('Allow post-quantum and classical keys together, which removes the post-quantum protection'),
} as const satisfies Args;

/** Destination of an encrypting command. */
export const destinationFlags = {
  output: valueFlag(
    'file',
    'Write the encrypted file here, or to stdout with -, instead of storing it. Uses no service',
    { path: true },
  ),
  force: toggle('Replace the file of --output if it exists'),
  name: valueFlag('name', 'What sealpin list calls it, instead of the name of the file'),
  unnamed: toggle('Keep its name on this machine only; else the service keeps it, sealed to your public.key'),
  ...filterFlags,
} as const satisfies Args;

/** The flags of the commands that open something with a password. */
export const passwordFlags = {
  'password-file': valueFlag('file', 'Read the password from a file, or from standard input with -', { path: true }),
} as const satisfies Args;

/** The private key of the commands that may need one, besides a password. */
export const keyFlag = {
  key: valueFlag('file', 'The private key file, for what is encrypted to keys; private.key if left out', {
    path: true,
  }),
} as const satisfies Args;

/** The flags of the commands that set a password. */
export const newPasswordFlags = {
  ...passwordFlags,
  generate: toggle('Create a password of ten words and show it on stderr, only this once'),
} as const satisfies Args;

/** The flags of the commands that write a pair. */
export const pairFlags = {
  output: valueFlag('dir', 'Put the pair into this directory', { path: 'folder' }),
  'post-quantum': toggle(
    'A pair that also resists quantum computers (age1tagpq1…); a service keeps no names for it, no inbox takes it',
  ),
  protect: toggle('Protect private.key with a password, which you enter twice'),
  ...newPasswordFlags,
} as const satisfies Args;

/** Shows the backup words of a new pair. */
export const wordsFlag = {
  words: toggle('Show 24 backup words on stderr, only this once: sealpin key restore takes them'),
} as const satisfies Args;

/** After an interruption of a command that fetches a file and writes it. */
export const fetchingAgain = 'run the same command again, which fetches only the rest of a large file';
export const fetchingInterrupted = `nothing was written: ${fetchingAgain}`;

/** After an interruption of a command that stores a file without asking for its end. */
export const storingInterrupted = 'sealpin list shows whether it was stored; if not, run the same command again';

/** Checks a number that was given by a flag. @throws usage */
export function atLeastOne(number: number, flag: string): number {
  if (!Number.isSafeInteger(number) || number < 1) throw new SealpinError('usage', `${flag} must be 1 or more`);
  return number;
}

const unitMs = { h: hourMs, d: dayMs } as const;

/** The values of `--expires`, for help. */
export const expiryForms = '12h, 30d or a date (at 00:00 UTC)';

/**
 * Parses when something expires: `12h`, `30d`, a day, when it begins in UTC, or a time with its
 * zone.
 * @returns the time in RFC 3339; undefined where it is not given
 * @throws usage
 */
export function parseExpiry(text: string | undefined, nowMs: number): string | undefined {
  if (text === undefined) return undefined;
  const [, count, unit] = /^([1-9]\d{0,4})([hd])$/.exec(text) ?? [];
  const time = unit === 'h' || unit === 'd' ? nowMs + Number(count) * unitMs[unit] : parseTime(text);
  if (time === undefined)
    throw new SealpinError('usage', '--expires is neither a number of hours or days nor a date or time that exists', {
      hint: 'write 12h, 30d, 2027-01-31 (at 00:00 UTC), or a time with its zone, such as 2027-01-31T18:00:00+01:00',
    });
  return new Date(time).toISOString();
}

const limitNames = ['files', 'bytes', 'fileBytes'] as const;
type GivenLimits = NonNullable<NewApiKey['limits']>;

/** Parses `--limits`: `files=100,bytes=10GB`, each at most once. @throws usage */
export function parseLimits(text: string): GivenLimits {
  const limits: GivenLimits = {};
  for (const part of text.split(',')) {
    const [given = '', value = ''] = part.split('=', 2).map((word) => word.trim());
    const name = limitNames.find((each) => each === given);
    if (name === undefined || limits[name] !== undefined)
      throw new SealpinError('usage', `--limits has ${JSON.stringify(given)} ${name ? 'twice' : 'in it'}`, {
        hint: 'write files=100,bytes=10GB,fileBytes=1GB, or some of these',
      });
    const number = name === 'files' && !/^\d+$/.test(value) ? 0 : parseSize(value, `the limit ${name}`);
    if (number < 1) throw new SealpinError('usage', `the limit ${name} is a number from 1 on`);
    limits[name] = number;
  }
  return limits;
}
