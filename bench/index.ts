/** `npm run bench`: every figure beside its peer and its target. */
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { isMet, othersShare } from './figure.ts';
import type { Bench, Figure } from './figure.ts';
import { describeMachine } from './machine.ts';

const usage = `usage: npm run bench [-- [--json] [--list] [part of a name …]]

  --json   print the figures as JSON
  --list   print the names of the benches and what they measure, and run none
`;

const columnWidths = [46, 22, 34, 8, 24, 5, 10];
/** Above this share of the processors others are heard in the figures. */
const quietShare = 0.05;

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean' }, list: { type: 'boolean' }, help: { type: 'boolean' } },
  allowPositionals: true,
});
const benchFiles = globSync('*.bench.ts', { cwd: import.meta.dirname })
  .sort()
  .filter((file) => positionals.length === 0 || positionals.some((part) => basename(file).includes(part)));

if (values.help === true) console.log(usage);
else if (benchFiles.length === 0) {
  console.error(`no bench has such a name\n\n${usage}`);
  process.exitCode = 2;
} else {
  const benches = await Promise.all(
    benchFiles.map(async (file) => ((await import(join(import.meta.dirname, file))) as { bench: Bench }).bench),
  );
  if (values.list === true) for (const { name, measures } of benches) console.log(`${name.padEnd(10)} ${measures}`);
  else if (values.json === true) console.log(JSON.stringify(await Array.fromAsync(figuresOf(benches)), null, 2));
  else {
    console.log(`machine: ${describeMachine()}\n`);
    console.log(toLine(['figure', 'Sealpin', 'peer', 'ratio', 'target', 'met', 'quiet']));
    for (const bench of benches) {
      const begun = performance.now();
      for await (const figure of figuresOf([bench])) console.log(toLine(cellsOf(figure)));
      console.log(`  (${bench.name} took ${((performance.now() - begun) / 1000).toFixed(0)} s)`);
    }
    console.log(`\nall of it took ${(performance.now() / 60_000).toFixed(1)} min`);
  }
}

type MeasuredFigure = Figure & { bench: string; met: boolean | undefined; others: number };

async function* figuresOf(benches: readonly Bench[]): AsyncGenerator<MeasuredFigure> {
  for (const bench of benches)
    for await (const figure of bench.run()) {
      const others = figure.others ?? (await othersShare());
      yield { bench: bench.name, ...figure, others, met: isMet(figure) };
    }
}

function cellsOf({ figure, unit, value, spread, peer, target, met, others }: MeasuredFigure): string[] {
  const amount = (number: number, range?: number): string =>
    `${rounded(number)}${range === undefined ? '' : ` ±${rounded(range)}`}`;
  const bounds = Object.entries(target ?? {}).map(
    ([of, bound]) =>
      `${of === 'ratio' ? '× ' : ''}${'atLeast' in bound ? `≥ ${short(bound.atLeast)}` : `≤ ${short(bound.atMost)}`}`,
  );
  return [
    figure,
    `${amount(value, spread)} ${unit}`,
    peer === undefined ? '' : `${amount(peer.value, peer.spread)} ${peer.name}`,
    peer === undefined ? '' : (value / peer.value).toFixed(2),
    bounds.join(', '),
    met === undefined ? '' : met ? 'yes' : 'NO',
    others <= quietShare ? 'yes' : `${(others * 100).toFixed(0)} % busy`,
  ];
}

function toLine(cells: readonly string[]): string {
  return cells
    .map((cell, index) => cell.padEnd(columnWidths[index] ?? 0))
    .join(' ')
    .trimEnd();
}

/** At most three digits, without trailing zeros. */
function short(number: number): string {
  return String(Number(rounded(number)));
}

function rounded(number: number): string {
  return number >= 100 ? number.toFixed(0) : number.toPrecision(3);
}
