/** The words of a command line, before they are parsed. */

/** The words before `--`: what follows are positionals (POSIX.1-2024, XBD 12.2, guideline 10). */
export function beforeTerminator(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--');
  return end < 0 ? argv : argv.slice(0, end);
}

/** Recognizes a request for help. */
export function asksForHelp(argv: readonly string[]): boolean {
  return beforeTerminator(argv).some((word) => word === '--help' || word === '-h');
}

/** As the first word, each of them asks for the version. */
export const versionFlags: readonly string[] = ['--version', '-V', '-v'];
