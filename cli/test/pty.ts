/** The command line at a pseudo-terminal. */
import { entry } from '../../testkit/programs/command-line.ts';
import { runAtTerminal, type TerminalOptions } from '../../testkit/programs/terminal.ts';

export { missingTerminal, type Step } from '../../testkit/programs/terminal.ts';

/** Runs the command line at a terminal, see `runAtTerminal`. @param argv of sealpin */
export function atTerminal(argv: readonly string[], o: TerminalOptions): Promise<{ exit: number; screen: string }> {
  return runAtTerminal([process.execPath, entry, ...argv], o);
}
