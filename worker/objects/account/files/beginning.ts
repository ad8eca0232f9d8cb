/** Kinds of content of plain files, as rows have them. */

/**
 * Kind of content of a plain file, by its first bytes: a `container`, which carries its own header; a `payload`, whose
 * header or file key is elsewhere.
 */
export type Beginning = 'other' | 'container' | 'payload';

/** Kinds at the index that rows store, which never changes. */
const beginnings = ['other', 'container', 'payload'] as const satisfies readonly Beginning[];

/** The number of a beginning in a row. */
export function numberOf(beginning: Beginning): number {
  return beginnings.indexOf(beginning);
}

/** The beginning with a number. */
export function beginningOf(number: number): Beginning {
  return beginnings[number] ?? 'other';
}
