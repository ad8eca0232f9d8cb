/** Sizes as text, as people read and write them. */
import { SealpinError } from '../../shared/errors.ts';

/** Units of sizes by powers of 1024 (IEC 80000-13). */
const binaryUnits: readonly string[] = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** A size for people: `1.5 GiB`. */
export function sizeText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < binaryUnits.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${binaryUnits[unit]}`;
}

/** Units of powers of 1000 (SI), beside those of 1024. */
const decimalUnits = ['B', 'KB', 'MB', 'GB', 'TB'];

/** A number of things: `1 file`, `2 files`. */
export function countText(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/**
 * Parses a size: bytes, or a number with a unit, such as `500MB` or `1.5 GiB`.
 * @param what it is, for the message
 * @returns whole bytes
 * @throws usage
 */
export function parseSize(text: string, what: string): number {
  const [, number = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,3})?) ?([A-Za-z]*)$/.exec(text) ?? [];
  const power = (of: readonly string[]): number => of.findIndex((each) => each.toLowerCase() === unit.toLowerCase());
  const factor = power(binaryUnits) >= 0 ? 1024 ** power(binaryUnits) : 1000 ** power(decimalUnits);
  const bytes = unit === '' ? Number(number) : Math.round(Number(number) * factor);
  const isKnown = unit === '' || power(binaryUnits) >= 0 || power(decimalUnits) >= 0;
  if (number === '' || !isKnown || !Number.isSafeInteger(bytes))
    throw new SealpinError('usage', `${what} is not a size`, { hint: 'write bytes, or a unit: 500MB, 1.5GiB' });
  return bytes;
}

/**
 * How much of a size that a person chose is used: `1.04 MB of 1 MB`. Both are in the unit in which
 * the size is whole, as they probably wrote it. What is used is rounded up, so that it shows when
 * it is more.
 */
export function usedText(bytes: number, ofBytes: number): string {
  const counts = (units: readonly string[], base: number) =>
    units.map((unit, power) => ({ unit, one: base ** power, count: ofBytes / base ** power }));
  const { unit, one, count } = [...counts(binaryUnits, 1024), ...counts(decimalUnits, 1000)]
    .filter((each) => Number.isSafeInteger(each.count) && each.count > 0 && each.count < 10_000)
    .toSorted((a, b) => a.count - b.count)[0] ?? { unit: 'B', one: 1, count: ofBytes };
  return `${Math.ceil((bytes / one) * 100) / 100} ${unit} of ${count} ${unit}`;
}
