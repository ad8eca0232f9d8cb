/** The result of a check, and how it is printed. */
import { visible } from '../cli/terminal/output.ts';
import { isSealpinError } from '../shared/errors.ts';

/**
 * `ok` is undefined for what was not checked, or is worth knowing. `todo` says what to do where it
 * is false.
 */
export type Finding = { ok: true | undefined; what: string } | { ok: false; what: string; todo: string };

export function linesOf(finding: Finding): string[] {
  const sign = finding.ok === undefined ? '–' : finding.ok ? '✓' : '✗';
  const line = `${sign} ${visible(finding.what)}`;
  return finding.ok === false ? [line, `  → ${visible(finding.todo)}`] : [line];
}

/** The message of an error with that of its cause: that of `fetch` says nothing by itself. */
export function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error && !isSealpinError(error) ? `: ${error.cause.message}` : '';
  return `${error.message}${cause}`;
}

/** Returns the hint of an error, where it has one. */
export function hintOf(error: unknown): string | undefined {
  return isSealpinError(error) ? error.hint : undefined;
}
