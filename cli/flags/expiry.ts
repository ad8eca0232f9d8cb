/** `--expires`. */
import { SealpinError } from '../../shared/errors.ts';
import { dayMs, hourMs, parseTime } from '../../shared/time.ts';

const unitMs = { h: hourMs, d: dayMs } as const;

/** The values of `--expires`, for help. */
export const expiryForms = '12h, 30d or a date (at 00:00 UTC)';

/**
 * Parses when something expires: `12h`, `30d`, a day, when it begins in UTC, or a time with its
 * zone.
 * @returns the time in RFC 3339; undefined where it is not given
 * @throws usage
 */
export function parseExpiry(text: string | undefined, nowMs: number): string | undefined {
  if (text === undefined) return undefined;
  const [, count, unit] = /^([1-9]\d{0,4})([hd])$/.exec(text) ?? [];
  const time = unit === 'h' || unit === 'd' ? nowMs + Number(count) * unitMs[unit] : parseTime(text);
  if (time === undefined)
    throw new SealpinError('usage', '--expires is neither a number of hours or days nor a date or time that exists', {
      hint: 'write 12h, 30d, 2027-01-31 (at 00:00 UTC), or a time with its zone, such as 2027-01-31T18:00:00+01:00',
    });
  if (time <= nowMs) throw new SealpinError('usage', '--expires is in the past');
  return new Date(time).toISOString();
}
