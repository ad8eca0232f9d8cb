/** QR codes at a terminal. */
import { generate } from 'lean-qr';

/** The light margin around a code, in modules (ISO/IEC 18004, "quiet zone"). */
const quietModules = 4;

/**
 * A text as a QR code: lines of half blocks, two rows of modules in each, and how wide they are.
 * @param coloured whether the terminal takes colours: then the code is black on white, and else its
 * dark parts are left blank, which readers take on a dark background
 */
export function qrLines(text: string, coloured: boolean): { columns: number; lines: string[] } {
  const code = generate(text);
  const isLight = (x: number, y: number): boolean => !code.get(x, y);
  const lines: string[] = [];
  for (let y = -quietModules; y < code.size + quietModules; y += 2) {
    let line = '';
    for (let x = -quietModules; x < code.size + quietModules; x += 1) {
      const below = y + 1 < code.size + quietModules && isLight(x, y + 1);
      line += isLight(x, y) ? (below ? '█' : '▀') : below ? '▄' : ' ';
    }
    // Bright white on black, whatever the colours of the terminal are.
    lines.push(coloured ? `\u001B[97;40m${line}\u001B[0m` : line);
  }
  return { columns: code.size + 2 * quietModules, lines };
}
