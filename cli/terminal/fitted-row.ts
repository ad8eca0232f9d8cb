/**
 * A row of a list at a terminal of some width: IDs stay whole, so that they can be copied, and a
 * name that is too long is cut.
 */
import { columnsOf, type OutputStream } from './streams.ts';

/** Narrower than this, what a row is about has a line of its own below the name. */
const narrowColumns = 60;

/** Checks whether rows on a terminal of so many columns need several lines. */
export function isNarrow(columns: number): boolean {
  return columns < narrowColumns;
}

/**
 * `about`: times and numbers; `name`: what may be cut; `below`: what is to be copied, each in a
 * line of its own.
 */
type Row = { readonly about: string; readonly name: string; readonly below: readonly string[] };

/**
 * The lines of a row: one for other programs.
 * @param plain that line, where it is not what is to be copied, before the rest
 */
export function rowLines(
  row: Row,
  { stdout }: { readonly stdout: OutputStream },
  plain = [...row.below, row.about, row.name].join('  '),
): string[] {
  return stdout.isTTY === true ? fittedRow(row, columnsOf(stdout)) : [plain];
}

/** The lines of a row at a terminal of so many columns. */
export function fittedRow({ about, name, below }: Row, columns: number): string[] {
  const first = isNarrow(columns)
    ? [cut(name, columns), `  ${about}`]
    : [`${about}  ${cut(name, columns - about.length - 2)}`];
  return [...first, ...below.map((line) => `  ${line}`)];
}

function cut(text: string, columns: number): string {
  const characters = Array.from(text);
  return characters.length <= columns ? text : `${characters.slice(0, Math.max(1, columns - 1)).join('')}…`;
}
