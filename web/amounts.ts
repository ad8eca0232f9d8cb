/** Sizes, times and dates as people of a language and region write them. */
import { dayMs } from '../shared/time.ts';

const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;

/** A size in the unit that suits it: 2.9 MB. */
export function sizeText(bytes: number, locale: string): string {
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  const number = new Intl.NumberFormat(locale, {
    style: 'unit',
    unit: units[power] ?? 'byte',
    unitDisplay: power === 0 ? 'long' : 'short',
    maximumFractionDigits: power < 2 ? 0 : 1,
  });
  // A number and its unit stay on one line.
  return number.format(bytes / 1000 ** power).replace(' ', '\u00a0');
}

const durations = [
  { unit: 'second', count: 1 },
  { unit: 'minute', count: 60 },
  { unit: 'hour', count: 3600 },
  { unit: 'day', count: 86_400 },
] as const;

/** A rough duration: 4 minutes. */
export function durationText(seconds: number, locale: string): string {
  const { unit, count } = durations.findLast(({ count }) => seconds >= count) ?? durations[0];
  const number = new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' });
  return number.format(Math.max(1, Math.ceil(seconds / count)));
}

/** A time (RFC 3339) with its day: 28 November at 14:05, with the year of another one. */
export function dayText(time: string, locale: string): string {
  const text = formatted(new Date(time), locale, new Date(), { hour: 'numeric', minute: '2-digit' });
  // A day and its month stay on one line.
  return text.replace(/(\d\.?) (?=[A-Z])/, '$1\u00a0');
}

/** A day with its month, with the year where it is not that of `now`, and with more. */
function formatted(date: Date, locale: string, now: Date, more: Intl.DateTimeFormatOptions): string {
  const year = date.getFullYear() === now.getFullYear() ? undefined : 'numeric';
  return new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'long', year, ...more }).format(date);
}

/** A day as a heading: Today, Yesterday, Monday 23 November, with the year of another one. */
export function dayHeading(time: string, locale: string, now = new Date()): string {
  // A day on which the clock changes has 23 or 25 hours.
  const days = Math.round((new Date(time).setHours(0, 0, 0, 0) - new Date(now).setHours(0, 0, 0, 0)) / dayMs);
  if (days === 0 || days === -1) {
    const name = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }).format(days, 'day');
    return name.charAt(0).toLocaleUpperCase(locale) + name.slice(1);
  }
  return formatted(new Date(time), locale, now, { weekday: 'long' });
}

/** A time within a day: 14:05. */
export function clockText(time: Date, locale: string): string {
  return new Intl.DateTimeFormat(locale, { hour: 'numeric', minute: '2-digit' }).format(time);
}

/** A part of a whole: 57 %. */
export function percentText(fraction: number, locale: string): string {
  return new Intl.NumberFormat(locale, { style: 'percent' }).format(fraction);
}
