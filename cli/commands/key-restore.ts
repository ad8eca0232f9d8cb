import { defineCommand, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { isOpenToOthers, readSmall } from '../io/input.ts';
import { backupWords, secretOf, splitWords } from '../keys/backup-words.ts';
import { pairFlags } from '../flags/args.ts';
import { makePair, writePair } from '../keys/write-pair.ts';
import { hinting } from '../terminal/hints.ts';
import { withTerminal } from '../terminal/prompt.ts';

export const command = defineCommand({
  about:
    'Writes private.key and public.key of the 24 words that sealpin keygen --words showed, into the data directory ' +
    'or that of --output. A pair that is there stays: nothing is replaced. Compare the fingerprint with the one on ' +
    'your paper. The words do not say of which kind the key is: those of a post-quantum pair need --post-quantum.',
  args: {
    ...pairFlags,
    'words-file': valueFlag(
      'file',
      'Read the words from a file (-: standard input), without the numbers between them; else the terminal asks',
      { path: true },
    ),
  },
  examples: [
    { command: 'sealpin key restore', does: 'Asks for the words' },
    { command: 'sealpin key restore --output ./restored', does: 'Into a directory of its own' },
  ],
  async run({ args, context }) {
    const make = async () => {
      const file = args['words-file'];
      const words = file === undefined ? await askWords(context) : await readWords(file, context);
      return { pair: await makePair(args['post-quantum'], await secretOf(words)) };
    };
    const writing = writePair(args, { force: false, words: 'known', make }, context);
    await hinting(writing, 'file_exists', 'restore into another directory with --output, and compare');
  },
});

/** 24 words, and what keygen writes around them, need less. */
const wordsLimitBytes = 16_384;

async function readWords(file: string, context: Context): Promise<string[]> {
  const bytes = await readSmall(file, { limitBytes: wordsLimitBytes, what: 'the backup words', environment: context });
  if (await isOpenToOthers(file, context))
    context.output.warn(`${file} holds backup words and is accessible to other users; fix it with: chmod 600 ${file}`);
  return splitWords(new TextDecoder().decode(bytes));
}

/** Asks until there are enough: on one line, or on several, as they are on the paper. */
async function askWords({ interactive, signal }: Context): Promise<string[]> {
  const missing = 'the backup words are required, and there is no terminal to ask for them';
  return withTerminal({ interactive, missing, hint: 'give them with --words-file' }, async (terminal) => {
    const words: string[] = [];
    while (words.length < backupWords) {
      const typed = splitWords(await terminal.askShown(`Backup words, from word ${words.length + 1} on`, signal));
      if (typed.length === 0) break;
      words.push(...typed);
    }
    return words;
  });
}
