/** Asking before what cannot be undone. */
import { SealpinError } from '../../shared/errors.ts';
import type { InputStream, OutputStream } from './streams.ts';
import { withTerminal } from './prompt.ts';

/** A terminal at which a person may be asked; a `Context` is one. */
type Dialogue = {
  readonly interactive: boolean;
  readonly stdin: InputStream;
  readonly stderr: OutputStream;
  readonly signal: AbortSignal;
};

/**
 * Asks a person at a terminal whether to continue. A script, whose standard input or error is no
 * terminal, is not asked.
 * @param what will be done, as a question without its mark
 * @param yes whether the answer was given on the command line
 * @throws interrupted unless the answer is yes
 */
export async function confirm(what: string, yes: boolean, dialogue: Dialogue): Promise<void> {
  const { interactive, stdin, stderr, signal } = dialogue;
  if (yes || stdin.isTTY !== true || stderr.isTTY !== true) return;
  const missing = 'this needs a yes, and there is no terminal to ask for it';
  const answer = await withTerminal({ interactive, missing, hint: 'give it with --yes' }, (terminal) =>
    terminal.askShown(`${what}? [y/N]`, signal),
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
