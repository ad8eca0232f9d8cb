import { SealpinError } from '../../shared/errors.ts';
import { type Command, type Completes, defineCommand, positional, valueFlag } from '../command.ts';
import type { Context } from '../context.ts';
import { recall, notDeleted } from '../files/history.ts';
import { readContacts } from '../keys/contacts.ts';
import { readProfiles } from '../remote/profiles.ts';
import { completions, shells } from '../help/completion-scripts.ts';

/** More blob IDs would fill a screen. */
const recentBlobs = 20;

/** Values that the completion scripts request while somebody types. */
const values: Readonly<Record<Completes, (context: Context) => Promise<readonly string[]>>> = {
  profile: async (context) => [...(await readProfiles(context)).profiles.keys()],
  contact: async (context) => [...(await readContacts(context)).keys()],
  blob: async ({ dataDir }) => {
    const { entries } = await recall(dataDir);
    const newestFirst = notDeleted(entries).toReversed();
    return [...new Set(newestFirst.map(({ cid }) => cid))].slice(0, recentBlobs);
  },
  shell: async () => shells,
};
const valueKinds = Object.keys(values) as Completes[];

/** Defines `sealpin completions`. Its parameter is handed in: the table of commands loads this. */
export const completionsCommand = (loadCommands: () => Promise<readonly Command[]>) =>
  defineCommand({
    about: 'Completes commands, flags, files, profiles, contacts and the blob IDs of what was stored last from here.',
    args: {
      shell: positional(`${shells.slice(0, -1).join(', ')} or ${shells.at(-1)}`, {
        required: false,
        completes: 'shell',
      }),
      values: valueFlag('kind', `For the scripts: print the values of a kind (${valueKinds.join(', ')})`),
    },
    examples: [
      { command: 'source <(sealpin completions bash)', does: 'bash: into ~/.bashrc' },
      { command: 'sealpin completions zsh > ~/.zfunc/_sealpin', does: 'zsh, with ~/.zfunc in fpath' },
      { command: 'sealpin completions fish > ~/.config/fish/completions/sealpin.fish', does: 'fish' },
    ],
    async run({ args, context }) {
      const { output } = context;
      if (args.values !== undefined) {
        const found = await values[oneOf(args.values, valueKinds, 'there are no values of that kind')](context);
        await output.result({ values: found }, found);
        return;
      }
      const none = args.shell === undefined ? 'completions needs <shell>' : 'there are no completions for that shell';
      const shell = oneOf(args.shell, shells, none);
      const script = completions(shell, await loadCommands());
      await output.result({ shell, script }, script.trimEnd().split('\n'));
    },
  });

/** Finds a word among those that there are. @throws usage */
function oneOf<T extends string>(word: string | undefined, known: readonly T[], none: string): T {
  const found = known.find((each) => each === word);
  if (found !== undefined) return found;
  throw new SealpinError('usage', none, { hint: `choose one of ${known.join(', ')}` });
}
