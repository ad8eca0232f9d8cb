/** A series as an SVG picture: one panel for each quantity, its lines with the range of their runs, and the places where they bend. */
import { textOf } from './series.ts';
import type { Axis, Line, Point, Series } from './series.ts';
import { shapeOf, wordsOf } from './slope.ts';

/** Of the lines, in their order: the palette of Okabe and Ito, which people with a color vision deficiency can tell apart. */
export const colors = ['#0072b2', '#d55e00', '#009e73', '#cc79a7'];
/** Of the points, in the same order, around the origin: a circle, a square, a triangle, a diamond. */
const symbols = ['M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z', 'M-4-4h8v8h-8z', 'M0-5L5 4H-5z', 'M0-5L5 0L0 5L-5 0z'];

const width = 960;
const panelHeight = 300;
/** Around a panel: the name of its quantity above, the labels of the x axis below. */
const margin = { left: 80, right: 40, above: 40, below: 60 };
const rowHeight = 18;
const gray = '#54555a';
const gridGray = '#d9dadd';

/** Scale of an axis: positions of values in pixels, and the values that get a label. */
type Scale = { at(value: number): number; ticks: readonly number[] };

/** Draws a series as SVG, on white. */
export function draw({ title, x, lines }: Series): string {
  const panels = [...Map.groupBy(lines, ({ what, unit }) => `${what} (${unit})`)];
  const top = 44 + (lines.length + 1) * rowHeight + 16;
  const height = top + panels.length * (margin.above + panelHeight + margin.below);
  const scaleX = logScale(
    lines.flatMap(({ points }) => points.map((point) => point.x)),
    x.base,
    [margin.left, width - margin.right],
  );
  return element(
    'svg',
    {
      xmlns: 'http://www.w3.org/2000/svg',
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      'font-family': 'sans-serif',
    },
    element('rect', { width, height, fill: '#fff' }),
    label(16, 30, title, { 'font-size': 18, 'font-weight': 'bold' }),
    ...lines.flatMap((line, index) => legendRow(line, 54 + index * rowHeight, styleOf(index), x)),
    ...panels.map(([quantity, own], index) => {
      const panelTop = top + margin.above + index * (margin.above + panelHeight + margin.below);
      return panel(quantity, own, { lines, x, scaleX, panelTop });
    }),
  );
}

type Style = { color: string; symbol: string };

function styleOf(index: number): Style {
  return { color: colors[index % colors.length] ?? gray, symbol: symbols[index % symbols.length] ?? '' };
}

function legendRow({ name, points }: Line, y: number, { color, symbol }: Style, axis: Axis): string[] {
  return [
    element('path', { d: symbol, fill: color, transform: `translate(22 ${y - 4})` }),
    label(34, y, name, { fill: color }),
    label(260, y, wordsOf(shapeOf(points), axis), { fill: gray }),
  ];
}

function panel(
  quantity: string,
  own: readonly Line[],
  o: { lines: readonly Line[]; x: Axis; scaleX: Scale; panelTop: number },
): string {
  const bottom = o.panelTop + panelHeight;
  const scaleY = scaleOf(own, [bottom, o.panelTop]);
  const middle = (margin.left + width - margin.right) / 2;
  return element(
    'g',
    {},
    label(margin.left, o.panelTop - 12, quantity, { fill: gray }),
    label(middle, bottom + 42, o.x.what, { fill: gray, 'text-anchor': 'middle' }),
    ...o.scaleX.ticks.flatMap((tick) => [
      stroke(o.scaleX.at(tick), o.panelTop, o.scaleX.at(tick), bottom, gridGray),
      label(o.scaleX.at(tick), bottom + 18, textOf(tick, o.x), { fill: gray, 'text-anchor': 'middle' }),
    ]),
    ...scaleY.ticks.flatMap((tick) => [
      stroke(margin.left, scaleY.at(tick), width - margin.right, scaleY.at(tick), gridGray),
      label(margin.left - 8, scaleY.at(tick) + 4, numberText(tick), { fill: gray, 'text-anchor': 'end' }),
    ]),
    ...own.flatMap((line) => {
      const index = o.lines.indexOf(line);
      const bends = shapeOf(line.points).bends.flatMap((bend) => {
        const at = o.scaleX.at(bend);
        // Lines may bend at the same place: their labels are at different heights.
        const labelY = o.panelTop + 14 + index * 14;
        const { color } = styleOf(index);
        return [
          stroke(at, o.panelTop, at, bottom, color, { 'stroke-dasharray': '4 4' }),
          label(at + 4, labelY, `bends at ${textOf(bend, o.x)}`, { fill: color }),
        ];
      });
      return [...bends, ...curve(line.points, styleOf(index), o.scaleX, scaleY)];
    }),
  );
}

/** The medians as a line with symbols, and the range of the runs of each point as a bar. */
function curve(points: readonly Point[], { color, symbol }: Style, scaleX: Scale, scaleY: Scale): string[] {
  const places = points.map(({ x, median }) => `${pixels(scaleX.at(x))},${pixels(scaleY.at(median))}`);
  return [
    element('polyline', { points: places.join(' '), fill: 'none', stroke: color, 'stroke-width': 2 }),
    ...points.flatMap(({ x, median, low, high }) => {
      const [at, from, to] = [scaleX.at(x), scaleY.at(low), scaleY.at(high)];
      const bar = [
        stroke(at, from, at, to, color),
        stroke(at - 4, from, at + 4, from, color),
        stroke(at - 4, to, at + 4, to, color),
      ];
      const transform = `translate(${pixels(at)} ${pixels(scaleY.at(median))})`;
      return [...(low < high ? bar : []), element('path', { d: symbol, fill: color, transform })];
    }),
  ];
}

/** Logarithmic where one point is ten times another, else linear from 0. */
function scaleOf(lines: readonly Line[], range: readonly [number, number]): Scale {
  const values = lines.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high]));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (most < 10 * least) return linearScale(most, range);
  return logScale([10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most))], 10, range);
}

function logScale(values: readonly number[], base: number, [from, to]: readonly [number, number]): Scale {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const decades = Math.log(most / least) / Math.log(base) || 1;
  return {
    at: (value) => from + (Math.log(value / least) / Math.log(base) / decades) * (to - from),
    // The logarithm of a power of the base may be a little below the whole number.
    ticks: Array.from({ length: Math.floor(decades + 1e-9) + 1 }, (_, power) => least * base ** power),
  };
}

function linearScale(most: number, [from, to]: readonly [number, number]): Scale {
  const rough = most / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const steps = Math.ceil(most / step);
  return {
    at: (value) => from + (value / (steps * step)) * (to - from),
    ticks: Array.from({ length: steps + 1 }, (_, index) => index * step),
  };
}

type Attributes = Record<string, string | number>;

function element(name: string, attributes: Attributes, ...content: readonly string[]): string {
  const list = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${typeof value === 'number' ? pixels(value) : escapeXml(value)}"`)
    .join('');
  return content.length === 0 ? `<${name}${list}/>` : `<${name}${list}>${content.join('')}</${name}>`;
}

function label(x: number, y: number, text: string, attributes: Attributes = {}): string {
  return element('text', { x, y, 'font-size': 12, ...attributes }, escapeXml(text));
}

function stroke(x1: number, y1: number, x2: number, y2: number, color: string, attributes: Attributes = {}): string {
  return element('line', { x1, y1, x2, y2, stroke: color, ...attributes });
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function pixels(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function numberText(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 6 });
}
