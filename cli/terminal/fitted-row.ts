/**
 * A row of a list, or a fact, at a terminal of some width: IDs stay whole, so that they can be
 * copied, and a name that is too long is cut.
 */
import { columnsOf, type OutputStream } from './streams.ts';
import { wrapWords } from './wrap.ts';

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
type Terminal = { readonly stdout: OutputStream };

/**
 * The lines of a row: one for other programs.
 * @param plain that line, where it is not what is to be copied, before the rest
 */
export function rowLines(row: Row, { stdout }: Terminal, plain = [...row.below, row.about, row.name].join('  ')) {
  return stdout.isTTY === true ? fittedRow(row, columnsOf(stdout)) : [plain];
}

/** The lines of a row at a terminal of so many columns. */
export function fittedRow({ about, name, below }: Row, columns: number): string[] {
  const first = isNarrow(columns)
    ? [cut(name, columns), ...wrapWords(about, columns - 2).map((line) => `  ${line}`)]
    : [`${about}  ${cut(name, columns - about.length - 2)}`];
  return [...first, ...below.map((line) => `  ${line}`)];
}

function cut(text: string, columns: number): string {
  const characters = Array.from(text);
  return characters.length <= columns ? text : `${characters.slice(0, Math.max(1, columns - 1)).join('')}…`;
}

/**
 * The lines of a fact: one for other programs, at a terminal as many as it needs.
 * @param lead what it is about, with the spaces behind it; below it the text has its other lines,
 * and all of them at a narrow terminal, or where a word does not fit beside it
 */
export function factLines(lead: string, text: string, { stdout }: Terminal): string[] {
  if (stdout.isTTY !== true) return [lead + text];
  const columns = columnsOf(stdout);
  const lines = wrapWords(text, columns - lead.length);
  if (!isNarrow(columns) && lines.every((line) => lead.length + line.length <= columns))
    return lines.map((line, index) => (index === 0 ? lead : ' '.repeat(lead.length)) + line);
  const below = wrapWords(text, columns - 2).map((line) => `  ${line}`);
  return lead.trim() === '' ? below : [lead.trimEnd(), ...below];
}

/** A time in the zone of this machine, to the minute. */
export function localTime(iso: string): string {
  const time = new Date(iso);
  const two = (number: number): string => String(number).padStart(2, '0');
  const day = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join('-');
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

/** A time for people at a terminal, and as the service has it for other programs. */
export function shownTime(iso: string, { stdout }: Terminal): string {
  return stdout.isTTY === true ? localTime(iso) : iso;
}
