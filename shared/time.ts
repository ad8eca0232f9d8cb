/** Times as text, and their units. */

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
/** Time for which an opening of a share can be repeated, in ms. */
export const repeatMs = 600_000;

/** Writes a time in ms as an optional member of JSON has it. */
export function isoTime(ms: number | null | undefined): string | undefined {
  return ms === null || ms === undefined ? undefined : new Date(ms).toISOString();
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
 * Recognizes a time of RFC 3339, in capitals, on a day that exists. Leap seconds do not exist, as
 * in all of POSIX.
 */
export function isTime(text: string): boolean {
  const [, day] = pattern.exec(text) ?? [];
  if (day === undefined) return false;
  const midnight = new Date(`${day}T00:00:00Z`);
  // JavaScript takes a day that its month does not have for one of the next month.
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
}
