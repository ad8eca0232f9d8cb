/** Slopes on logarithmic axes: how y grows with x, and where that changes. */
import { textOf } from './series.ts';
import type { Axis } from './series.ts';

/** Between two x: the exponent with which y grows. 0 is flat, 1 is linear. */
type Part = { from: number; to: number; slope: number };

/** `bends`: where one part ends and the next begins. */
export type Shape = { parts: Part[]; bends: number[] };

/** Slopes below this count as flat: at most 1.5 times the cost for ten times the input. */
const flat = 0.18;
/** Tolerance around 1 for the slope of a linear line: fixed costs and noise. */
const near = 0.2;
/** Between flat and linear. Where the slope of a + b·x crosses it, a equals b·x. */
const middle = 0.5;

type Place = { x: number; y: number };

/**
 * Finds the parts of a line. The slope at a point is that of three points, so that one disturbed run makes no bend. The line bends
 * where the slope crosses 0.5, or half of its steepest slope if that is less than linear.
 *
 * @param points with x and median above 0, by rising x
 */
export function shapeOf(points: readonly { x: number; median: number }[]): Shape {
  const places = points.map(({ x, median }) => ({ x: Math.log(x), y: Math.log(median) }));
  const [first] = points;
  if (first === undefined || points.length < 2) return { parts: [], bends: [] };
  const slopes = places.map((_, index) => {
    const begin = Math.max(0, Math.min(index - 1, places.length - 3));
    return slopeOf(places.slice(begin, begin + 3));
  });
  const steepest = Math.max(...slopes.map(Math.abs));
  const bound = steepest < flat ? Infinity : Math.min(middle, steepest / 2);
  const sloped = places.map(({ x }, index) => {
    const slope = slopes[index] ?? 0;
    return { x, slope, kind: slope >= bound ? 1 : slope <= -bound ? -1 : 0 };
  });
  const parts: Part[] = [];
  const bends: number[] = [];
  let begin = 0;
  for (const [index, here] of sloped.entries()) {
    const next = sloped[index + 1];
    if (here.kind === next?.kind) continue;
    const slope = index === begin ? here.slope : slopeOf(places.slice(begin, index + 1));
    const from = bends.at(-1) ?? first.x;
    if (next !== undefined) {
      // From rising to falling, the slope crosses 0.
      const crossed = (here.kind + next.kind) * bound;
      const share = (crossed - here.slope) / (next.slope - here.slope);
      bends.push(Math.exp(here.x + share * (next.x - here.x)));
    }
    const to = next === undefined ? points.at(-1)?.x : bends.at(-1);
    parts.push({ from, to: to ?? from, slope });
    begin = index + 1;
  }
  return { parts, bends };
}

/** The shape in words: each part with its numbers, and where it bends. */
export function wordsOf({ parts }: Shape, axis: Axis): string {
  return parts
    .map(
      ({ from, to, slope }, index) =>
        `${index === 0 ? `${textOf(from, axis)} ` : ''}to ${textOf(to, axis)} ${kindOf(slope)}`,
    )
    .join(', bends, ');
}

function kindOf(slope: number): string {
  if (Math.abs(slope) < middle) {
    const name = Math.abs(slope) < flat ? 'flat' : slope > 0 ? 'growing slowly' : 'falling slowly';
    return `${name} (× ${(10 ** slope).toFixed(2)} per × 10)`;
  }
  const name =
    slope < 0
      ? 'falling'
      : Math.abs(slope - 1) <= near
        ? 'linear'
        : `growing ${slope > 1 ? 'faster' : 'slower'} than linear`;
  return `${name} (slope ${slope.toFixed(2)})`;
}

/** Least squares. */
function slopeOf(places: readonly Place[]): number {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(places.map((place) => place.x));
  const y = mean(places.map((place) => place.y));
  const over = places.reduce((sum, place) => sum + (place.x - x) * (place.y - y), 0);
  return over / places.reduce((sum, place) => sum + (place.x - x) ** 2, 0);
}
