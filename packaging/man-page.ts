/** The manual as pages for `man`, in the macros of man(7). */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lexer, type Token, type Tokens } from 'marked';
import type { Command } from '../cli/command.ts';
import { loadCommands } from '../cli/commands/index.ts';
import { synopsis } from '../cli/help/usage.ts';
import { manualPages } from './manifest.ts';

/**
 * Renders the manual: `sealpin(1)`, a page for each command, and one for each task.
 * @param folder of the command line, with `README.md` and `manual/`
 * @param version of the command
 * @returns the pages by their paths in the package
 */
export async function manPages(folder: string, version: string): Promise<Map<string, string>> {
  const manual = await readFile(join(folder, 'README.md'), 'utf8');
  const commands = await loadCommands();
  const pages = new Map([['man/sealpin.1', mainPage(manual, commands, version)]]);
  for (const command of commands)
    pages.set(`man/${pageName(command)}.1`, commandPage(command, sectionOf(manual, command), version));
  for (const name of manualPages) {
    const text = await readFile(join(folder, 'manual', `${name}.md`), 'utf8');
    pages.set(`man/sealpin-${name}.7`, taskPage(name, text, version));
  }
  return pages;
}

const pageName = ({ name }: Command): string => `sealpin-${name.replace(' ', '-')}`;
const isHeading = (token: Token, depth: number): boolean => token.type === 'heading' && token['depth'] === depth;

function titleLines(name: string, section: number, what: string, version: string): string[] {
  const title = `.TH ${name.toUpperCase()} ${section} "" "sealpin ${version}" "Sealpin"`;
  return [title, '.SH NAME', guardedText(`${escaped(name, true)} \\- ${escaped(what)}`)];
}

/** Renders the manual from its first section on, with a list in place of the commands. */
function mainPage(manual: string, commands: readonly Command[], version: string): string {
  const tokens = lexer(manual);
  const first = tokens.findIndex((token) => isHeading(token, 2));
  const isCommand = (token: Token): boolean => isHeading(token, 3) && token.raw.startsWith('### sealpin ');
  const begin = tokens.findIndex(isCommand);
  const end = tokens.findIndex((token, index) => index > begin && isHeading(token, 2));
  const rows = commands.flatMap((each) => ['.TP', `${bold(pageName(each))}(1)`, escaped(each.summary)]);
  return [
    ...titleLines('sealpin', 1, 'encrypt files, store them on IPFS and send them', version),
    ...tokens.slice(first, begin).flatMap(blockLines),
    ...rows,
    ...tokens.slice(end).flatMap(blockLines),
    '.SH SEE ALSO',
    manualPages.map((name) => `${bold(`sealpin-${name}`)}(7)`).join(', '),
    '',
  ].join('\n');
}

/** Finds the words of the manual on a command, without title and synopsis. */
function sectionOf(manual: string, { name }: Command): string {
  const begin = manual.indexOf(`\n### sealpin ${name}\n`);
  if (begin < 0) throw new TypeError(`the manual has no ${name}`);
  const rest = manual.slice(begin).split('\n').slice(4).join('\n');
  return rest.slice(0, rest.search(/^##{1,2} /m));
}

/** Renders the page of a command: its text from the manual, its flags and examples from itself. */
function commandPage(command: Command, text: string, version: string): string {
  const tokens = lexer(text);
  const sub = tokens.findIndex((token) => isHeading(token, 4));
  // The examples of a command are its own.
  const about = tokens.filter((token, index) => token.type !== 'code' || (sub >= 0 && index > sub));
  const rows = Object.entries(command.args).map(([name, arg]): [string, string] => {
    if (arg.type === 'positional') return [`<${name}>`, arg.description];
    return [arg.type === 'string' ? `--${name} <${arg.valueHint}>` : `--${name}`, arg.description];
  });
  const examples = command.examples.map((example) => {
    return ['.TP', guardedText(escaped(example.does)), '.nf', codeLine(example.command), '.fi'];
  });
  return [
    ...titleLines(pageName(command), 1, command.summary, version),
    '.SH SYNOPSIS',
    bold(synopsis(command)),
    '.SH DESCRIPTION',
    ...about.flatMap(blockLines),
    '.SH ARGUMENTS AND FLAGS',
    ...rows.flatMap(([term, says]) => ['.TP', bold(term), guardedText(escaped(says))]),
    '.SH EXAMPLES',
    ...examples.flat(),
    '.SH EXIT STATUS',
    `As ${bold('sealpin')}(1) says.`,
    '.SH SEE ALSO',
    `${bold('sealpin')}(1)`,
    '',
  ].join('\n');
}

/** Renders the page about a task. */
function taskPage(name: string, text: string, version: string): string {
  const [title, ...others] = lexer(text);
  if (title === undefined || !isHeading(title, 1)) throw new TypeError(`${name}.md has no title`);
  return [
    ...titleLines(`sealpin-${name}`, 7, (title as Tokens.Heading).text, version),
    '.SH DESCRIPTION',
    ...others.flatMap(blockLines),
    '',
  ].join('\n');
}

/** The lines of a block; TypeError for one that the manual does not use. */
function blockLines(token: Token): string[] {
  switch (token.type) {
    case 'space':
      return [];
    case 'heading': {
      const { depth, tokens } = token as Tokens.Heading;
      if (depth > 3) return ['.PP', String.raw`\fB${inline(tokens)}\fR`];
      return [depth === 2 ? '.SH' : '.SS', inline(tokens)];
    }
    case 'paragraph':
      return ['.PP', guardedText(inline((token as Tokens.Paragraph).tokens))];
    case 'text':
      return [guardedText(inline((token as Tokens.Text).tokens ?? [token]))];
    case 'code':
      return ['.PP', '.RS 4', '.nf', ...(token as Tokens.Code).text.split('\n').map(codeLine), '.fi', '.RE'];
    case 'list':
      return (token as Tokens.List).items.flatMap(({ tokens }) => itemLines(tokens));
    case 'table':
      return (token as Tokens.Table).rows.flatMap(rowLines);
    default:
      throw new TypeError(`the page for man has no ${token.type}`);
  }
}

function itemLines(tokens: readonly Token[]): string[] {
  const [first, ...others] = tokens.filter(({ type }) => type !== 'space');
  const firstLines = first === undefined ? [] : blockLines(first).filter((text) => text !== '.PP');
  const begin = [String.raw`.IP \(bu 2`, ...firstLines];
  return others.length === 0 ? begin : [...begin, '.RS 2', ...others.flatMap(blockLines), '.RE'];
}

/** A row as a term with its description; `man` has no room for columns. */
function rowLines(cells: readonly Tokens.TableCell[]): string[] {
  const [term, ...others] = cells.map(({ tokens }) => inline(tokens)).filter((text) => text !== '');
  return term === undefined ? [] : ['.TP', guardedText(term), guardedText(others.join('; '))];
}

function inline(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      const inner = 'tokens' in token && token.tokens !== undefined ? token.tokens : undefined;
      if (token.type === 'codespan') return bold((token as Tokens.Codespan).text);
      if (token.type === 'strong') return String.raw`\fB${inline(inner ?? [])}\fR`;
      if (token.type === 'em') return String.raw`\fI${inline(inner ?? [])}\fR`;
      if (inner !== undefined) return inline(inner);
      return escaped('text' in token ? String(token['text']) : token.raw);
    })
    .join('');
}

/** Text without a meaning to roff. In code, a hyphen is the ASCII one, so that it can be copied. */
function escaped(text: string, isCode = false): string {
  const safe = text.replaceAll('\\', String.raw`\(rs`).replaceAll('\n', ' ');
  return isCode ? safe.replaceAll('-', String.raw`\-`) : safe;
}

/** Text as one types it. */
function bold(text: string): string {
  return String.raw`\fB${escaped(text, true)}\fR`;
}

function codeLine(text: string): string {
  return guardedText(escaped(text, true));
}

/** A period or apostrophe at the beginning of a line would be a request. */
function guardedText(text: string): string {
  return /^[.']/.test(text) ? String.raw`\&${text}` : text;
}
