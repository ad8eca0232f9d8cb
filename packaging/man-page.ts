/** The manual as a page for `man`, in the macros of man(7). */
import { lexer, type Token, type Tokens } from 'marked';

/**
 * Renders the manual: its text from the first section on, under the usual NAME.
 * @param markdown of the manual; before the first section is a table of contents, which `man` has
 * no use for
 * @param version of the command
 */
export function manPage(markdown: string, version: string): string {
  const tokens = lexer(markdown);
  const first = tokens.findIndex((token) => token.type === 'heading' && token['depth'] === 2);
  return [
    `.TH SEALPIN 1 "" "sealpin ${version}" "Sealpin"`,
    String.raw`.SH NAME`,
    String.raw`sealpin \- encrypt files, store them on IPFS and send them`,
    ...tokens.slice(first).flatMap(blockLines),
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
      return ['.PP', line((token as Tokens.Paragraph).tokens)];
    case 'text':
      return [line((token as Tokens.Text).tokens ?? [token])];
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
  const begin = [
    String.raw`.IP \(bu 2`,
    ...(first === undefined ? [] : blockLines(first).filter((text) => text !== '.PP')),
  ];
  return others.length === 0 ? begin : [...begin, '.RS 2', ...others.flatMap(blockLines), '.RE'];
}

/** A row as a term with its description; `man` has no room for columns. */
function rowLines(cells: readonly Tokens.TableCell[]): string[] {
  const [term, ...others] = cells.map(({ tokens }) => inline(tokens)).filter((text) => text !== '');
  return term === undefined ? [] : ['.TP', guardedText(term), guardedText(others.join('; '))];
}

function line(tokens: readonly Token[]): string {
  return guardedText(inline(tokens));
}

function inline(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      const inner = 'tokens' in token && token.tokens !== undefined ? token.tokens : undefined;
      if (token.type === 'codespan') return String.raw`\fB${escaped((token as Tokens.Codespan).text, true)}\fR`;
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

function codeLine(text: string): string {
  return guardedText(escaped(text, true));
}

/** A period or apostrophe at the beginning of a line would be a request. */
function guardedText(text: string): string {
  return /^[.']/.test(text) ? String.raw`\&${text}` : text;
}
