/** The text of `--help`, wrapped to the width of the terminal. */
import { type Command, flagsOf, type Heading, positionalsOf } from '../command.ts';
import { wrap } from '../terminal/wrap.ts';

/** Longer lines are hard to read, however wide the terminal is. */
const maxColumns = 100;
/** A description that would get less room than this goes below its term. */
const minDescriptionColumns = 24;

/** `sealpin encrypt <file> [<password>]`: the positionals of a command as they are typed. */
export function synopsis(command: Command): string {
  const words = ['sealpin', command.name];
  for (const { name, required } of positionalsOf(command.args)) words.push(required ? `<${name}>` : `[<${name}>]`);
  if (command.rest !== undefined) words.push(`[<${command.rest}>]…`);
  return `${words.join(' ')} [flags]`;
}

/** Terms with their descriptions: beside each other where there is room, else below each other. */
function definitionLines(
  rows: readonly (readonly [term: string, description: string])[],
  columns: number,
  width = widthOf(rows.map(([term]) => term)),
): string[] {
  const isNarrow = columns - width - 4 < minDescriptionColumns;
  const indent = ' '.repeat(isNarrow ? 6 : width + 4);
  return rows.flatMap(([term, description]) => {
    const lines = wrap(description, columns - indent.length).map((line) => indent + line);
    if (isNarrow) return [`  ${term}`, ...lines];
    const [first = '', ...others] = lines;
    return [`  ${term.padEnd(width)}  ${first.slice(indent.length)}`, ...others];
  });
}

function widthOf(terms: readonly string[]): number {
  return Math.max(0, ...terms.map(({ length }) => length));
}

/** The usage line, its continuations indented below the command. */
function usageLine(text: string, columns: number): string {
  const [first, ...others] = wrap(text, columns - '       '.length);
  return [`Usage: ${first}`, ...others.map((line) => `       ${line}`)].join('\n');
}

/**
 * Everything about one command.
 * @param terminalColumns characters in a line of the terminal; lines are never longer than 100.
 * Examples are not wrapped, so that they can be copied
 */
export function commandUsage(command: Command, terminalColumns: number): string {
  const columns = Math.min(terminalColumns, maxColumns);
  const positionals = positionalsOf(command.args).map(({ name, arg }) => [`<${name}>`, arg.description] as const);
  const flags = flagsOf(command.args).map(({ name, arg }) => {
    const term = arg.type === 'string' ? `--${name} <${arg.valueHint}>` : `--${name}`;
    return [term, arg.description] as const;
  });
  const examples = command.examples.flatMap(({ command: line, does }) => [
    ...wrap(does, columns - 4).map((part) => `  # ${part}`),
    `  ${line}`,
  ]);
  const sections = [
    wrap(`${command.summary}.`, columns),
    [usageLine(synopsis(command), columns)],
    ...(command.about === undefined ? [] : [wrap(command.about, columns)]),
    ...(positionals.length === 0 ? [] : [['Arguments:', ...definitionLines(positionals, columns)]]),
    ['Flags:', ...definitionLines([...flags, ['--help', 'Show this help']], columns)],
    ['Examples:', ...examples],
  ];
  return `${sections.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

/**
 * An overview of commands.
 * @param groups the commands under their titles
 * @param terminalColumns as for `commandUsage`
 */
export function mainUsage(groups: Readonly<Record<string, readonly Heading[]>>, terminalColumns: number): string {
  const columns = Math.min(terminalColumns, maxColumns);
  const width = widthOf(Object.values(groups).flatMap((headings) => headings.map(({ name }) => name)));
  const sections = [
    ['Sealpin: files, encrypted, on IPFS.'],
    [usageLine('sealpin <command> [arguments] [flags]', columns)],
    ...Object.entries(groups).map(([title, headings]) => {
      const rows = headings.map(({ name, summary }) => [name, summary] as const);
      return [`${title}:`, ...definitionLines(rows, columns, width)];
    }),
    [
      ...wrap('sealpin help all lists every command.', columns),
      ...wrap('sealpin help <command> shows more about one, with examples.', columns),
      ...wrap('sealpin --version prints the version.', columns),
    ],
    [
      'First steps:',
      '  sealpin start --detach',
      ...definitionLines([['sealpin encrypt letter.pdf', '# asks for a password, prints the blob ID']], columns),
      '  sealpin decrypt <blob_id> copy.pdf',
    ],
  ];
  return `${sections.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}
