/** Text in lines that fit a terminal. */

/**
 * Breaks a paragraph into lines of at most `columns` characters; a longer word keeps a line of its
 * own.
 */
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

/** Beginning of a command to be copied, at the end of a message. */
const commandStart = ': sealpin ';

/**
 * Breaks a message between its words, with the lines after the first indented. A command at its end
 * (`…: sealpin …`) stays whole, and a word that is longer than a line is left to the terminal, so
 * that both can be copied.
 * @param columns of the terminal
 */
export function wrapMessage(text: string, columns: number): string[] {
  if (text.length <= columns) return [text];
  const [first = '', ...others] = wrapWords(text, columns - indent.length);
  return [first, ...others.map((line) => indent + line)];
}

const indent = '  ';

/** Breaks text between its words, but for a command at its end (`wrapMessage`). */
export function wrapWords(text: string, columns: number): string[] {
  const at = text.indexOf(commandStart);
  const prose = at === -1 ? text : text.slice(0, at + 1);
  const command = at === -1 ? [] : [text.slice(at + 2)];
  return fillLines([...prose.split(' '), ...command], columns);
}
