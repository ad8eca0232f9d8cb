/** The text of `--help`. */
import type { Command } from '../command.ts';

/** `sealpin encrypt <file> [<password>]`: the positionals of a command as they are typed. */
export function synopsis(command: Command): string {
  const words = ['sealpin', command.name];
  for (const [name, arg] of Object.entries(command.args)) {
    if (arg.type === 'positional') words.push(arg.required === false ? `[<${name}>]` : `<${name}>`);
  }
  if (command.rest !== undefined) words.push(`[<${command.rest}>]…`);
  return `${words.join(' ')} [flags]`;
}

const lineChars = 100;

/** Breaks a paragraph into lines. */
function wrap(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > lineChars) {
      lines.push(line);
      line = '';
    }
    line += line === '' ? word : ` ${word}`;
  }
  return [...lines, line].join('\n');
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(0, ...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}

/** Everything about one command. */
export function commandUsage(command: Command): string {
  const args = Object.entries(command.args);
  const positionals = args.flatMap(([name, arg]) =>
    arg.type === 'positional' ? [[`<${name}>`, arg.description] as const] : [],
  );
  const flags = args.flatMap(([name, arg]) => {
    if (arg.type === 'positional') return [];
    return [[arg.type === 'string' ? `--${name} <${arg.valueHint}>` : `--${name}`, arg.description] as const];
  });
  const sections = [
    `${command.summary}.`,
    `Usage: ${synopsis(command)}`,
    ...(command.about === undefined ? [] : [wrap(command.about)]),
    ...(positionals.length === 0 ? [] : [['Arguments:', ...columns(positionals)].join('\n')]),
    ['Flags:', ...columns([...flags, ['--help', 'This text']])].join('\n'),
    ['Examples:', ...command.examples.map(({ command, does }) => `  # ${does}\n  ${command}`)].join('\n'),
  ];
  return `${sections.join('\n\n')}\n`;
}

/** The overview. */
export function mainUsage(summaries: readonly (readonly [name: string, summary: string])[]): string {
  return `${[
    'Sealpin: files, encrypted, on IPFS.',
    'Usage: sealpin <command> [arguments] [flags]',
    ['Commands:', ...columns(summaries)].join('\n'),
    'sealpin <command> --help tells more about each, with examples.\nsealpin --version prints the version.',
    [
      'A first round:',
      '  sealpin start --detach',
      '  sealpin encrypt letter.pdf          # asks for a password, prints the blob ID',
      '  sealpin decrypt <blob_id> copy.pdf',
    ].join('\n'),
  ].join('\n\n')}\n`;
}
