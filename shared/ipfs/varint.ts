/**
 * Unsigned varints (https://github.com/multiformats/unsigned-varint), which protobuf writes in the
 * same way.
 */

/** The bytes of a whole number from 0 to 2^53 - 1. */
export function varintOf(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  // By division, not by shifts: operators on bits end at 2^32.
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}
