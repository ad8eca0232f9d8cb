/** The result of a check, and how it is printed. */
import { visible } from '../cli/terminal/output.ts';
import { isSealpinError, ownHint } from '../shared/errors.ts';

/** `ok` is undefined for what was not checked, or is worth knowing. */
export type Finding = { ok: true | undefined; what: string } | { ok: false; what: string; todo: string };

export function linesOf(finding: Finding): string[] {
  const sign = finding.ok === undefined ? '–' : finding.ok ? '✓' : '✗';
  const line = `${sign} ${visible(finding.what)}`;
  return finding.ok === false ? [line, `  → ${visible(finding.todo)}`] : [line];
}

/** Reports what is in order. */
export function fine(what: string): Finding {
  return { ok: true, what };
}

/** Reports what was not checked, or is worth knowing. */
export function note(what: string): Finding {
  return { ok: undefined, what };
}

/** Reports what is wrong. */
export function wrong(what: string, todo: string): Finding {
  return { ok: false, what, todo };
}

/** Reports an error. @param otherwise what to do where it has no hint @param about what failed */
export function failure(error: unknown, otherwise: string, about = ''): Finding {
  const hint = isSealpinError(error) ? ownHint(error) : undefined;
  return wrong(`${about}${errorMessage(error)}`, hint ?? otherwise);
}

/** The message of an error with that of its cause: that of `fetch` says nothing by itself. */
function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error && !isSealpinError(error) ? `: ${error.cause.message}` : '';
  return `${error.message}${cause}`;
}
