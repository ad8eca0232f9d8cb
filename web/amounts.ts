/** Sizes, times and dates as people of a language and region write them. */

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
  return number.format(bytes / 1000 ** power);
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

/**
 * A time of a day: 28 November at 14:05, with the year where it is another one.
 * @param time as RFC 3339 has it
 */
export function dayText(time: string, locale: string): string {
  const date = new Date(time);
  return new Intl.DateTimeFormat(locale, {
    day: 'numeric',
    month: 'long',
    ...(date.getFullYear() === new Date().getFullYear() ? {} : { year: 'numeric' }),
    hour: 'numeric',
    minute: '2-digit',
  }).format(date);
}

/** A part of a whole: 57 %. */
export function percentText(fraction: number, locale: string): string {
  return new Intl.NumberFormat(locale, { style: 'percent' }).format(fraction);
}
