/** `--expires`. */
import { SealpinError } from '../../shared/errors.ts';
import { dayMs, hourMs } from '../../shared/time.ts';

const unitMs = { h: hourMs, d: dayMs } as const;

/**
 * Parses when something expires: `12h`, `30d`, or a date.
 * @returns the time in RFC 3339; undefined where it is not given
 * @throws usage
 */
export function parseExpiry(text: string | undefined, nowMs: number): string | undefined {
  if (text === undefined) return undefined;
  const [, count, unit] = /^([1-9]\d{0,4})([hd])$/.exec(text) ?? [];
  const time =
    unit === 'h' || unit === 'd'
      ? nowMs + Number(count) * unitMs[unit]
      : /^\d{4}-\d{2}-\d{2}/.test(text)
        ? Date.parse(text)
        : Number.NaN;
  if (Number.isNaN(time))
    throw new SealpinError('usage', '--expires is neither a number of hours or days nor a date', {
      hint: 'write 12h, 30d, or 2027-01-31',
    });
  if (time <= nowMs) throw new SealpinError('usage', '--expires is in the past');
  return new Date(time).toISOString();
}
