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
 * A size that a person chose, in a unit in which it is whole, as they probably wrote it: `1 GB`,
 * and not `954 MiB`. Others are rounded.
 */
export function chosenSizeText(bytes: number): string {
  const counts = (units: readonly string[], base: number) =>
    units.map((unit, power) => ({ unit, count: bytes / base ** power }));
  const exact = [...counts(binaryUnits, 1024), ...counts(decimalUnits, 1000)]
    .filter(({ count }) => Number.isSafeInteger(count) && count > 0 && count < 10_000)
    .toSorted((one, other) => one.count - other.count)[0];
  return exact === undefined ? sizeText(bytes) : `${exact.count} ${exact.unit}`;
}
