import { spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { colors } from '../growth/chart.ts';
import { ladder } from '../growth/series.ts';
import type { Line, Series } from '../growth/series.ts';
import { shapeOf, wordsOf } from '../growth/slope.ts';
import type { Shape } from '../growth/slope.ts';
import { temporaryDirectory } from '../../testkit/temporary-directory.ts';

const long = process.env['SEALPIN_LONG'] === '1';
/** The series that the short form draws: it needs no service. */
const cheapest = 'recipients';

type Result = Omit<Series, 'lines'> & { quick: boolean; lines: (Line & Shape)[] };

/** The names of the elements of an XML document, in order. Throws where it is not well-formed. */
function elementsOf(xml: string): string[] {
  const names: string[] = [];
  const open: string[] = [];
  const token = /<!\[CDATA\[[\s\S]*?\]\]>|<(\/?)([A-Za-z][\w:-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>|[^<]+/gy;
  let read = 0;
  for (const [text, closing, name, , empty] of xml.matchAll(token)) {
    read += text.length;
    if (name === undefined) {
      if (!text.startsWith('<') && /&(?!(amp|lt|gt|quot|apos|#\d+|#x[\da-f]+);)/i.test(text))
        throw new Error(`a bare & in ${text}`);
    } else if (closing === '/') {
      if (open.pop() !== name) throw new Error(`</${name}> closes nothing`);
    } else {
      names.push(name);
      if (empty !== '/') open.push(name);
    }
  }
  if (read !== xml.length || open.length > 0) throw new Error(`ends within ${open.join(' ')} at ${read}`);
  return names;
}

// The memory of processes is read from /proc.
test.runIf(process.platform === 'linux')(
  `a quick run draws ${long ? 'every series' : 'a series'} and leaves nothing else behind`,
  async () => {
    const folder = await temporaryDirectory();
    const rest = await temporaryDirectory();
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, '../growth/index.ts'), '--quick', '--out', folder, ...(long ? [] : [cheapest])],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, TMPDIR: rest } },
    );
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    expect(await readdir(rest)).toEqual([]);

    const { series } = JSON.parse(await readFile(join(folder, 'growth.json'), 'utf8')) as { series: Result[] };
    const times = (count: number, xs: number[]): number[][] => Array.from({ length: count }, () => xs);
    const covered = Object.fromEntries(
      series.map(({ name, lines }) => [name, lines.map(({ points }) => points.map(({ x }) => x))]),
    );
    const all = {
      files: times(2, [10, 100]),
      memory: times(4, [1024, 4096, 16_384]),
      recipients: times(3, [1, 3, 10]),
      size: times(2, [1024, 4096, 16_384]),
      uploads: times(2, [1, 2]),
    };
    expect(covered).toEqual(long ? all : { [cheapest]: all[cheapest] });
    expect((await readdir(folder)).sort()).toEqual(['growth.json', ...series.map(({ name }) => `${name}.svg`)].sort());
    for (const { name, title, x, lines } of series) {
      const svg = await readFile(join(folder, `${name}.svg`), 'utf8');
      expect(elementsOf(svg)[0]).toBe('svg');
      expect(svg).toContain(`>${title}<`);
      for (const [index, line] of lines.entries()) {
        const { points } = line;
        expect(
          points.every(({ median, low, high, rounds }) => low > 0 && low <= median && median <= high && rounds === 1),
        ).toBe(true);
        expect(stdout).toContain(`${name}, ${line.name}: ${wordsOf(line, x)}`);
        expect(svg).toContain(`>${line.name}<`);
        const curves = [...svg.matchAll(/<polyline points="([\d., ]+)" fill="none" stroke="([^"]+)"/g)]
          .filter(([, , color]) => color === colors[index])
          .map(([, places = '']) => places.split(' ').map((place) => place.split(',').map(Number)));
        expect(curves.map((places) => places.length)).toEqual([points.length]);
        expect(curves.flat(2).every((pixel) => pixel > 0 && pixel < 3000)).toBe(true);
      }
    }
  },
  120_000,
);

test('XML that is not well-formed is found', () => {
  for (const xml of ['<a><b></a>', '<a', '<a></a></a>', '<a>x & y</a>', '<a b="<"></a>', '<a>'])
    expect(() => elementsOf(xml), xml).toThrow();
  expect(elementsOf('<a b="1"><c/>x &amp; y<d >z</d></a>')).toEqual(['a', 'c', 'd']);
});

describe('where a line bends', () => {
  const xs = ladder(1, 10_000_000, 10);
  const shape = (y: (x: number) => number): Shape => shapeOf(xs.map((x) => ({ x, median: y(x) })));
  const axis = { what: 'x', base: 10 };

  test('flat and linear ones do not', () => {
    expect(
      wordsOf(
        shape(() => 7),
        axis,
      ),
    ).toBe('1 to 10,000,000 flat (× 1.00 per × 10)');
    expect(
      wordsOf(
        shape((x) => 3 * x),
        axis,
      ),
    ).toBe('1 to 10,000,000 linear (slope 1.00)');
    expect(
      wordsOf(
        shape((x) => x * x),
        axis,
      ),
    ).toBe('1 to 10,000,000 growing faster than linear (slope 2.00)');
    expect(shape((x) => (x === 1000 ? 8 : 7)).bends).toEqual([]);
  });

  test('a fixed cost and one a piece: where they are the same', () => {
    const { parts, bends } = shape((x) => 100 + x / 100);
    expect(bends).toHaveLength(1);
    expect(Math.log10(bends[0]!)).toBeCloseTo(4, 0.5);
    expect(parts.map(({ from, to }) => [from, to])).toEqual([
      [1, bends[0]],
      [bends[0], 10_000_000],
    ]);
    expect(parts[0]!.slope).toBeLessThan(0.15);
    expect(parts[1]!.slope).toBeGreaterThan(0.85);
  });

  test('a step bends twice, and what comes down again, too', () => {
    expect(shape((x) => (x < 1000 ? 60 : 600)).bends).toHaveLength(2);
    const { parts, bends } = shape((x) => (x < 1000 ? x : 1_000_000 / x));
    expect(bends).toHaveLength(2);
    expect([parts[0]!.slope, parts[2]!.slope]).toEqual([expect.closeTo(1), expect.closeTo(-1)]);
  });

  test('one point or two', () => {
    expect(shapeOf([{ x: 1, median: 1 }])).toEqual({ parts: [], bends: [] });
    expect(
      shapeOf([
        { x: 1, median: 1 },
        { x: 2, median: 2 },
      ]),
    ).toEqual({ parts: [{ from: 1, to: 2, slope: 1 }], bends: [] });
  });
});
