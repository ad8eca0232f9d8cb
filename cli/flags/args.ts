/** Arguments that several commands share, each described once. */
import { SealpinError } from '../../shared/errors.ts';
import type { Args } from '../command.ts';

/** Input of an encrypting command. */
export const fileArg = {
  type: 'positional',
  path: true,
  description: 'The file or folder, or - for standard input',
} as const;

/** The password as an argument: the specified form, and the least safe one. */
export const passwordArg = {
  type: 'positional',
  required: false,
  description: 'The password. Visible to other users; prefer --password-file or the prompt',
} as const;

/** Input of a decrypting command. */
export const blobArg = {
  type: 'positional',
  completes: 'blob',
  description: 'The blob ID, a link, an encrypted file on this machine, or - for standard input',
} as const;

/** Output of a decrypting command. */
export const outputFileArg = {
  type: 'positional',
  path: true,
  description: 'Where to write, or - for standard output',
} as const;

/** The flag of the commands that write a file. */
export const forceArg = { type: 'boolean', description: 'Replace the output file if it exists' } as const;

/** The flag of the commands that ask before what cannot be undone. */
export const yesArg = { type: 'boolean', description: 'Do not ask at the terminal' } as const;

/** The same for what was sent. */
export const receiveExtractArg = {
  type: 'boolean',
  description: 'Make a folder of each folder that was sent (a tar archive), instead of a file',
} as const;

/** What of a folder is written, and where. */
export const placingFlags = {
  extract: {
    type: 'boolean',
    description: 'It is a folder (a tar archive): extract it into the new directory <output_file>',
  },
  path: {
    type: 'string',
    valueHint: 'path',
    description: 'Of a folder only this file, such as plans/a.pdf; with --extract only this folder',
  },
  force: forceArg,
} as const satisfies Args;

/** Which entries of a folder are encrypted. */
export const filterFlags = {
  include: {
    type: 'string',
    valueHint: 'pattern',
    repeats: true,
    description: "Of a folder only what matches, such as '*.jpg' or 'plans/**/final'; may be given again",
  },
  exclude: {
    type: 'string',
    valueHint: 'pattern',
    repeats: true,
    description: "Of a folder not what matches, such as '*.tmp' or 'cache/'; may be given again",
  },
} as const satisfies Args;

export const mixFlag = {
  mix: {
    type: 'boolean',
    description: 'Allow post-quantum and classical keys together, which removes the post-quantum protection',
  },
} as const satisfies Args;

/** Destination of an encrypting command. */
export const destinationFlags = {
  output: {
    type: 'string',
    valueHint: 'file',
    path: true,
    description: 'Write the encrypted file here, or to stdout with -, instead of storing it. Uses no service',
  },
  force: { type: 'boolean', description: 'Replace the file of --output if it exists' },
  name: {
    type: 'string',
    valueHint: 'name',
    description: 'What sealpin list calls it, instead of the name of the file',
  },
  unnamed: {
    type: 'boolean',
    description: 'Keep its name on this machine only; else the service keeps it, sealed to your public.key',
  },
  ...filterFlags,
} as const satisfies Args;

/** The flags of the commands that open something with a password. */
export const passwordFlags = {
  'password-file': {
    type: 'string',
    valueHint: 'file',
    path: true,
    description: 'Read the password from a file, or from standard input with -',
  },
} as const satisfies Args;

/** The private key of the commands that may need one, besides a password. */
export const keyFlag = {
  key: {
    type: 'string',
    valueHint: 'file',
    path: true,
    description: 'The private key file, for what is encrypted to keys; private.key if left out',
  },
} as const satisfies Args;

/** The flags of the commands that set a password. */
export const newPasswordFlags = {
  ...passwordFlags,
  generate: { type: 'boolean', description: 'Create a password of ten words and show it on stderr, only this once' },
} as const satisfies Args;

/** The flags of the commands that write a pair. */
export const pairFlags = {
  output: { type: 'string', valueHint: 'dir', path: true, description: 'Put the pair into this directory' },
  'post-quantum': { type: 'boolean', description: 'A pair that also resists quantum computers (age1tagpq1…)' },
  protect: { type: 'boolean', description: 'Protect private.key with a password, which you enter twice' },
  ...newPasswordFlags,
} as const satisfies Args;

/** Shows the backup words of a new pair. */
export const wordsFlag = {
  words: {
    type: 'boolean',
    description: 'Show 24 backup words on stderr, only this once: sealpin key restore takes them',
  },
} as const satisfies Args;

/** After an interruption of a command that fetches a file and writes it. */
export const fetchingInterrupted =
  'nothing was written: run the same command again, which fetches only the rest of a large file';

/** After an interruption of a command that stores a file without asking for its end. */
export const storingInterrupted = 'sealpin list shows whether it was stored; if not, run the same command again';

/** Checks a number that was given by a flag. @throws usage */
export function atLeastOne(number: number, flag: string): number {
  if (!Number.isSafeInteger(number) || number < 1) throw new SealpinError('usage', `${flag} must be 1 or more`);
  return number;
}
