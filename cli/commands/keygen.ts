import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { defineCommand, toggle } from '../command.ts';
import { pairFlags, wordsFlag, yesArg } from '../flags/args.ts';
import { makePair, pairDirectory, writePair } from '../keys/write-pair.ts';
import { confirm } from '../terminal/confirm.ts';

export const command = defineCommand({
  about:
    'private.key decrypts; public.key is what others encrypt to. The pair (P-256) goes into the data directory, ' +
    'where decrypt and ecc-decrypt find it, or into the directory named by --output. The recipient (age1tag1…), a ' +
    'short form of public.key, is printed. Back up private.key, or write its words down (--words): without it the ' +
    'files encrypted to it cannot be opened.',
  args: {
    ...pairFlags,
    ...wordsFlag,
    force: toggle('Replace an existing pair. Files that only the old pair opens are lost: sealpin key rotate keeps it'),
    yes: yesArg,
  },
  examples: [
    { command: 'sealpin keygen --words', does: 'A pair for yourself, with 24 words for paper' },
    { command: 'sealpin keygen --protect', does: 'With a password on private.key' },
    { command: 'sealpin keygen --post-quantum', does: 'Resists future quantum computers' },
    { command: 'sealpin keygen --output ./alice', does: 'Another pair, in a directory of its own' },
  ],
  async run({ args, context }) {
    const directory = pairDirectory(args.output, context);
    const [privateKey, publicKey] = [join(directory, 'private.key'), join(directory, 'public.key')];
    const make = async () => {
      if (args.force && existsSync(privateKey))
        await confirm(`Replace ${privateKey}: what only it opens is lost`, args.yes, context);
      return { pair: await makePair(args['post-quantum']) };
    };
    try {
      await writePair(args, { force: args.force, words: args.words ? 'show' : 'none', make }, context);
    } catch (error) {
      if (!isSealpinError(error, 'file_exists')) throw error;
      const rotate = `sealpin key rotate${args.output === undefined ? '' : ` --output ${args.output}`}`;
      const found = existsSync(publicKey)
        ? 'you have a pair, whose public.key is beside it'
        : 'its public.key is missing, as after a run that was killed';
      throw new SealpinError('file_exists', error.message, {
        hint: existsSync(privateKey)
          ? `${found}; a new one that also opens what the old one does: ${rotate}`
          : 'move it away, or name another directory with --output',
        cause: error,
      });
    }
  },
});
