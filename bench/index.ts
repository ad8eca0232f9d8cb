/** `npm run bench [-- --json] [part of a bench's file name …]`: every figure beside its peer and its target. */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { isMet } from './figure.ts';
import type { Bench, Figure } from './figure.ts';

const root = join(import.meta.dirname, '..');
const words = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const asJson = process.argv.includes('--json');
const files = globSync('{shared,worker,cli}/bench/*.bench.ts', { cwd: root })
  .sort()
  .filter((file) => words.length === 0 || words.some((word) => file.includes(word)));

const columns = [46, 22, 34, 8, 24, 5];
const line = (cells: readonly string[]): string =>
  cells
    .map((cell, index) => cell.padEnd(columns[index]!))
    .join(' ')
    .trimEnd();
const all: (Figure & { bench: string; met: boolean | undefined })[] = [];

if (!asJson) console.log(line(['figure', 'Sealpin', 'peer', 'ratio', 'target', 'met']));
for (const file of files) {
  const { bench } = (await import(join(root, file))) as { bench: Bench };
  for await (const figure of bench.run()) {
    const met = isMet(figure);
    all.push({ bench: bench.name, ...figure, met });
    if (!asJson) console.log(line(cells(figure, met)));
  }
}
if (asJson) console.log(JSON.stringify(all, null, 2));
if (all.length === 0) {
  console.error('no bench has such a name');
  process.exitCode = 2;
}

function cells({ figure, unit, value, spread, peer, target }: Figure, met: boolean | undefined): string[] {
  const amount = (number: number, range?: number): string =>
    `${round(number)}${range === undefined ? '' : ` ±${round(range)}`}`;
  const bounds = Object.entries(target ?? {}).map(
    ([of, bound]) => `${of === 'ratio' ? '× ' : ''}${'atLeast' in bound ? `≥ ${bound.atLeast}` : `≤ ${bound.atMost}`}`,
  );
  return [
    figure,
    `${amount(value, spread)} ${unit}`,
    peer === undefined ? '' : `${amount(peer.value, peer.spread)} ${peer.name}`,
    peer === undefined ? '' : (value / peer.value).toFixed(2),
    bounds.join(', '),
    met === undefined ? '' : met ? 'yes' : 'NO',
  ];
}

function round(number: number): string {
  return number >= 100 ? number.toFixed(0) : number.toPrecision(3);
}
