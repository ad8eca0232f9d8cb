/** Text in lines that fit a terminal. */

/** Breaks a paragraph into lines of at most `columns` characters; longer words stay whole. */
export function wrap(text: string, columns: number): string[] {
  return fillLines(text.split(/\s+/), columns);
}

/** Fills lines with words, which stay whole. */
function fillLines(words: readonly string[], columns: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of words) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = '';
    }
    line += line === '' ? word : ` ${word}`;
  }
  return [...lines, line];
}

/** Beginning of a command to be copied. */
const commandStart = ': sealpin ';

/**
 * Breaks a message between its words, with the lines after the first indented. A command at its end
 * or before a semicolon (`…: sealpin …`) stays whole, and a word that is longer than a line is left
 * to the terminal, so that both can be copied.
 * @param columns of the terminal
 */
export function wrapMessage(text: string, columns: number): string[] {
  if (text.length <= columns) return [text];
  const [first = '', ...others] = wrapWords(text, columns - indent.length);
  return [first, ...others.map((line) => indent + line)];
}

const indent = '  ';

/** Breaks text between its words, but for commands (`wrapMessage`). */
export function wrapWords(text: string, columns: number): string[] {
  return fillLines(wordsOf(text), columns);
}

/** The words of a text, of which a command is one. */
function wordsOf(text: string): string[] {
  const at = text.indexOf(commandStart);
  if (at === -1) return text.split(' ');
  const [command = '', ...rest] = text.slice(at + 2).split('; ');
  const prose = text.slice(0, at + 1).split(' ');
  return rest.length === 0 ? [...prose, command] : [...prose, `${command};`, ...wordsOf(rest.join('; '))];
}
