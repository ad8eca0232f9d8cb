/** What plain files begin like, as rows have it. */

/**
 * What a plain file begins like: a `container`, which carries its own header; a `payload`, whose header or file key is elsewhere.
 */
export type Beginning = 'other' | 'container' | 'payload';

/** By the numbers in the rows, which never change. */
const beginnings = ['other', 'container', 'payload'] as const satisfies readonly Beginning[];

/** The number of a beginning in a row. */
export function numberOf(beginning: Beginning): number {
  return beginnings.indexOf(beginning);
}

/** The beginning with a number. */
export function beginningOf(number: number): Beginning {
  return beginnings[number] ?? 'other';
}
