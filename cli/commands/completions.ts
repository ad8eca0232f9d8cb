import { SealpinError } from '../../shared/errors.ts';
import { type Command, defineCommand } from '../command.ts';
import { completions, shells } from '../terminal/completion-scripts.ts';

/**
 * Defines `sealpin completions`.
 *
 * @param loadCommands the commands to complete; handed in, because their table loads this file
 */
export const completionsCommand = (loadCommands: () => Promise<readonly Command[]>) =>
  defineCommand({
    args: {
      shell: { type: 'positional', description: `${shells.slice(0, -1).join(', ')} or ${shells.at(-1)}` },
    },
    examples: [
      { command: 'source <(sealpin completions bash)', does: 'bash: into ~/.bashrc' },
      { command: 'sealpin completions zsh > ~/.zfunc/_sealpin', does: 'zsh, with ~/.zfunc in fpath' },
      { command: 'sealpin completions fish > ~/.config/fish/completions/sealpin.fish', does: 'fish' },
    ],
    async run({ args, context }) {
      const shell = shells.find((name) => name === args.shell);
      if (shell === undefined)
        throw new SealpinError('usage', 'there are no completions for that shell', {
          hint: `choose one of ${shells.join(', ')}`,
        });
      const script = completions(shell, await loadCommands());
      await context.output.result({ shell, script }, script.trimEnd().split('\n'));
    },
  });
