/**
 * Growth of costs: `npm run growth [-- --quick] [--out DIR] [part of a growth file's name …]`. Writes a picture of each
 * series and all numbers (`growth.json`) to DIR, `bench-results` by default, and prints for each line of a picture
 * where it is flat, linear, or bends. `--quick` measures the smallest points alone, to `bench-results/quick` by
 * default. A run of some series leaves the numbers of the others as they are.
 */
import { existsSync, globSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { draw } from './chart.ts';
import type { Growth, Line, Series } from './series.ts';
import { shapeOf, wordsOf } from './slope.ts';
import type { Shape } from './slope.ts';

/** `quick`: whether only the smallest points were measured. */
type Result = Omit<Series, 'lines'> & {
  measured: string;
  quick: boolean;
  machine: { cpu: string; cores: number; node: string };
  lines: (Line & Shape)[];
};

const root = join(import.meta.dirname, '../..');
const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } },
  allowPositionals: true,
});
const quick = values.quick;
const out = values.out === undefined ? join(root, 'bench-results', quick ? 'quick' : '') : resolve(values.out);
const files = globSync('*.growth.ts', { cwd: import.meta.dirname })
  .sort()
  .filter((file) => positionals.length === 0 || positionals.some((part) => file.includes(part)));

let stopped = false;
const stop = (): void => void (stopped = true);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);

try {
  if (files.length === 0) throw new Error('no growth file has such a name');
  await mkdir(out, { recursive: true });
  for (const file of files) {
    const { growth } = (await import(join(import.meta.dirname, file))) as { growth: Growth };
    for await (const series of growth.run({ quick, step })) {
      await save(series);
      for (const line of series.lines)
        console.log(`${series.name}, ${line.name}: ${wordsOf(shapeOf(line.points), series.x)}`);
    }
  }
  console.log(`written to ${out}`);
} catch (error) {
  // When it was stopped, the error of the work that broke off says less.
  console.error(`✗ ${stopped ? 'stopped' : error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

function step(text: string): void {
  if (stopped) throw new Error('stopped');
  console.error(text);
}

async function save(series: Series): Promise<void> {
  await writeFile(join(out, `${series.name}.svg`), draw(series));
  const path = join(out, 'growth.json');
  const before = existsSync(path) ? (JSON.parse(await readFile(path, 'utf8')) as { series: Result[] }).series : [];
  const result: Result = {
    ...series,
    measured: new Date().toISOString(),
    quick,
    machine: { cpu: cpus()[0]?.model ?? '', cores: availableParallelism(), node: process.version },
    lines: series.lines.map((line) => ({ ...line, ...shapeOf(line.points) })),
  };
  const all = [...before.filter(({ name }) => name !== series.name), result].sort((a, b) =>
    a.name.localeCompare(b.name),
  );
  await writeFile(path, `${JSON.stringify({ series: all }, null, 2)}\n`);
}
