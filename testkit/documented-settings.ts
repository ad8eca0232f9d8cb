/** The settings of a service, as the operator finds them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const page = readFileSync(join(import.meta.dirname, '../docs/operating.md'), 'utf8');
const [, table = ''] = /^## Settings\n([^]*?)^## /m.exec(page) ?? [];
const cells = Array.from(table.matchAll(/^\| (`.*?) \|/gm), ([, cell = '']) => ({
  isText: !/\((?:secret|bindings)\)/.test(cell),
  inCell: Array.from(cell.matchAll(/`(\w+)`/g), ([, name = '']) => name),
}));

/** All variables and secrets of the table in docs/operating.md, but for bindings. */
export const documentedSettings: readonly string[] = cells
  .flatMap(({ inCell }) => inCell)
  .filter((name) => !name.endsWith('_LIMIT'));

/** Those that a parser reads: a secret may be any text. */
export const parsedSettings: readonly string[] = cells.flatMap(({ isText, inCell }) => (isText ? inCell : []));
