import { SealpinError } from '../../shared/errors.ts';
import { defineCommand } from '../command.ts';
import { completions, shells } from '../terminal/completion-scripts.ts';

export const command = defineCommand({
  name: 'completions',
  summary: 'Print the completions for a shell',
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
        hint: `there are some for ${shells.join(', ')}`,
      });
    // Only here: the table of commands loads this file.
    const { commands } = await import('../main.ts');
    const script = completions(shell, await Promise.all(Object.values(commands).map(async ({ load }) => load())));
    await context.output.result({ shell, script }, script.trimEnd().split('\n'));
  },
});
