/** A series as a picture: a panel for each thing that is measured, its lines with the range of their runs, and where they bend. */
import { CustomChart, LineChart } from 'echarts/charts';
import type { CustomSeriesOption, LineSeriesOption } from 'echarts/charts';
import { GridComponent, LegendComponent, MarkLineComponent, TitleComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import { textOf } from './series.ts';
import type { Line, Series } from './series.ts';
import { shapeOf, wordsOf } from './slope.ts';

use([LineChart, CustomChart, GridComponent, TitleComponent, LegendComponent, MarkLineComponent, SVGRenderer]);

/** Of the lines, in their order (Okabe and Ito: they can be told apart by those who see fewer colors, too). */
export const colors = ['#0072b2', '#d55e00', '#009e73', '#cc79a7'];
const symbols = ['circle', 'rect', 'triangle', 'diamond'];

const width = 960;
const panelHeight = 300;
/** What a panel has around it: the name of its axis above, the numbers below. */
const gapAbove = 40;
const gapBelow = 60;
const rowHeight = 18;

/** Draws it as SVG, on white. */
export function draw({ title, x, lines }: Series): string {
  const panels = [...new Map(lines.map((line) => [quantityOf(line), line])).keys()];
  const top = 44 + (lines.length + 1) * rowHeight + 16;
  const chart = init(null, null, {
    renderer: 'svg',
    ssr: true,
    width,
    height: top + panels.length * (gapAbove + panelHeight + gapBelow),
  });
  const all = lines.flatMap(({ points }) => points.map((point) => point.x));
  const grey = { color: '#54555a' };
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    color: colors,
    title: {
      text: title,
      subtext: lines.map((line) => `${line.name}: ${wordsOf(shapeOf(line.points), x)}`).join('\n'),
      left: 16,
      top: 12,
      subtextStyle: { ...grey, lineHeight: rowHeight, width: width - 32, overflow: 'truncate' },
    },
    legend: { data: lines.map(({ name }) => name), left: 16, top: top - rowHeight - 6, selectedMode: false },
    grid: panels.map((_, index) => ({
      left: 80,
      right: 40,
      top: top + gapAbove + index * (gapAbove + panelHeight + gapBelow),
      height: panelHeight,
    })),
    xAxis: panels.map((_, gridIndex) => ({
      gridIndex,
      type: 'log',
      logBase: x.base,
      min: Math.min(...all),
      max: Math.max(...all),
      // In powers of the base; left to itself, the axis has a tick for each tenth of them.
      interval: 1,
      name: x.what,
      nameLocation: 'middle',
      nameGap: 34,
      nameTextStyle: grey,
      axisLabel: { formatter: (value: number) => textOf(value, x) },
      splitLine: { show: true },
    })),
    yAxis: panels.map((panel, gridIndex) => ({
      gridIndex,
      ...scaleOf(lines.filter((line) => quantityOf(line) === panel)),
      name: panel,
      nameTextStyle: { ...grey, align: 'left' },
      axisLabel: {
        formatter: (value: number) => Number(value.toPrecision(3)).toLocaleString('en', { maximumFractionDigits: 6 }),
      },
      splitLine: { show: true },
    })),
    series: lines.flatMap((line, index) => {
      const axes = { xAxisIndex: panels.indexOf(quantityOf(line)), yAxisIndex: panels.indexOf(quantityOf(line)) };
      const color = colors[index % colors.length]!;
      return [
        { ...curve(line, index, color), ...axes, markLine: marks(line, index, color, x) },
        { ...ranges(line, color), ...axes },
      ];
    }),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

function quantityOf({ what, unit }: Line): string {
  return `${what} (${unit})`;
}

/** Logarithmic where one point is ten times another. */
function scaleOf(lines: readonly Line[]): { type: 'log'; logBase: number } | { type: 'value'; min: number } {
  const values = lines.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high]));
  return Math.max(...values) >= 10 * Math.min(...values) ? { type: 'log', logBase: 10 } : { type: 'value', min: 0 };
}

function curve({ name, points }: Line, index: number, color: string): LineSeriesOption {
  return {
    type: 'line',
    name,
    silent: true,
    symbol: symbols[index % symbols.length]!,
    symbolSize: 8,
    itemStyle: { color },
    lineStyle: { color },
    data: points.map(({ x, median }) => [x, median]),
  };
}

/** From the lowest to the highest run of each point. */
function ranges({ points }: Line, color: string): CustomSeriesOption {
  return {
    type: 'custom',
    silent: true,
    data: points.filter(({ low, high }) => low < high).map(({ x, low, high }) => [x, low, high]),
    encode: { x: 0, y: [1, 2] },
    renderItem(_, api) {
      const [x, from] = api.coord([api.value(0), api.value(1)]) as [number, number];
      const [, to] = api.coord([api.value(0), api.value(2)]) as [number, number];
      const stroke = (x1: number, y1: number, x2: number, y2: number) => ({
        type: 'line' as const,
        shape: { x1, y1, x2, y2 },
        style: { stroke: color, fill: 'none', lineWidth: 1.5 },
      });
      return {
        type: 'group',
        children: [stroke(x, from, x, to), stroke(x - 4, from, x + 4, from), stroke(x - 4, to, x + 4, to)],
      };
    },
  };
}

/** Upright lines where it bends. */
function marks(
  { points }: Line,
  index: number,
  color: string,
  axis: Series['x'],
): NonNullable<LineSeriesOption['markLine']> {
  return {
    silent: true,
    symbol: 'none',
    lineStyle: { color, type: 'dashed', width: 1 },
    // Lines that bend at the same place have their words at different ends.
    label: { color, position: index % 2 === 0 ? 'insideEndTop' : 'insideStartTop' },
    data: shapeOf(points).bends.map((bend) => ({
      xAxis: bend,
      label: { formatter: `bends at ${textOf(bend, axis)}` },
    })),
  };
}
