/** Times as text, and their units. */

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
/** Time for which an opening of a share can be repeated, in ms. */
export const repeatMs = 600_000;

/** 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write. */
export const lastTimeMs = 253_402_300_799_999;

/** Writes a time in ms as a member of JSON has it; a later one than can be written as the last. */
export function isoTime(ms: number): string;
export function isoTime(ms: number | null | undefined): string | undefined;
export function isoTime(ms: number | null | undefined): string | undefined {
  return ms === null || ms === undefined ? undefined : new Date(Math.min(ms, lastTimeMs)).toISOString();
}

/**
 * Reads a time (`isTime`), or a day, such as `2030-01-31`, which begins at midnight UTC. JavaScript
 * itself takes days that do not exist, and reads a time without a zone as a local one.
 * @returns ms since 1970; undefined for other text
 */
export function parseTime(text: string): number | undefined {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
  return isTime(time) ? Date.parse(time) : undefined;
}

const pattern =
  /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/**
 * Recognizes a time of RFC 3339, in capitals, on a day that exists, which can be written in UTC,
 * too. Leap seconds do not exist, as in all of POSIX.
 */
export function isTime(text: string): boolean {
  const [, day] = pattern.exec(text) ?? [];
  if (day === undefined) return false;
  const midnight = new Date(`${day}T00:00:00Z`);
  // JavaScript takes a day that its month does not have for one of the next month.
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(day)) return false;
  return /^\d{4}-/.test(new Date(text).toISOString());
}
