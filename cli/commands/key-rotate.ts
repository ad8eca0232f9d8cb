import { join } from 'node:path';
import { parseIdentities } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { readPrivateText } from '../keys/key-files.ts';
import { withoutGivenPassword } from '../keys/passwords.ts';
import { pairFlags, wordsFlag } from '../flags/args.ts';
import { makePair, pairDirectory, writePair } from '../keys/write-pair.ts';

export const command = defineCommand({
  about:
    'Makes a new pair in place of the one in the data directory, or in the directory of --output. private.key keeps ' +
    'the old key below the new one, so everything that it opened still opens; public.key is the new one. Give the ' +
    'new public key to those who encrypt to you. Stored files stay encrypted to the old key: sealpin reseal moves ' +
    'them, one by one. If somebody else has the old key, that does not shut them out: encrypt those files again.',
  args: { ...pairFlags, ...wordsFlag },
  examples: [
    { command: 'sealpin key rotate', does: 'A new pair; the old one still opens what it opened' },
    { command: 'sealpin key rotate --post-quantum', does: 'From now on one that resists quantum computers' },
  ],
  async run({ args, context }) {
    const { output } = context;
    const file = join(pairDirectory(args.output, context), 'private.key');
    const old = await readPrivateText(file, undefined, context).catch((error: unknown) => {
      if (!isSealpinError(error, 'key_invalid') || !isSealpinError(error.cause, 'file_not_found')) throw error;
      throw new SealpinError('file_not_found', `there is no ${file} to be replaced`, {
        hint: 'make a first pair with: sealpin keygen',
        cause: error,
      });
    });
    if (old.isProtected && !args.protect)
      throw new SealpinError('usage', `${file} is protected with a password, and the new one holds the old key, too`, {
        hint: 'add --protect',
      });
    // A file that is not understood must not become a part of the new one.
    parseIdentities(old.text);
    const day = new Date(context.now()).toISOString().slice(0, 10);
    const make = async () => ({
      pair: await makePair(args['post-quantum']),
      older: `# replaced on ${day}\n${old.text}`,
    });
    const { recipient } = await writePair(
      args,
      { force: true, words: args.words ? 'show' : 'none', make },
      withoutGivenPassword(context),
    );
    output.note('private.key holds the old key, too: what was encrypted to it still opens');
    // Post-quantum recipients are too long for a line.
    const who = recipient.length <= 80 ? recipient : 'public.key';
    output.note(`to move a stored file to the new key: sealpin reseal <blob_id> --to ${who}`);
  },
});
