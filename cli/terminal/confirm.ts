/** Asking before what cannot be undone. */
import { SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { visible } from './output.ts';

/**
 * Asks a person at a terminal whether to go on. A script, whose standard input or error is no terminal, is not asked.
 *
 * @param what will be done, as a question without its mark
 * @param yes whether the answer was given on the command line
 * @throws interrupted unless the answer is yes
 */
export async function confirm(what: string, yes: boolean, context: Context): Promise<void> {
  const { interactive, stdin, stderr, signal } = context;
  if (yes || stdin.isTTY !== true || stderr.isTTY !== true) return;
  const { withTerminal } = await import('./prompt.ts');
  const missing = 'this needs a yes, and there is no terminal to ask for it';
  const answer = await withTerminal({ interactive, missing, hint: 'give it with --yes' }, (terminal) =>
    terminal.askShown(`${visible(what)}? [y/N]`, signal),
  );
  if (!isYes(answer))
    throw new SealpinError('interrupted', 'that was not confirmed: nothing was changed', {
      hint: 'type y, or give --yes',
    });
}

/** Recognizes a yes; an empty answer is a no. */
export function isYes(answer: string): boolean {
  return /^\s*y(?:es)?\s*$/i.test(answer);
}
