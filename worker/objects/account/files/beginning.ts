/** Kinds of content of plain files, as rows have them. */

/**
 * Kind of content of a plain file, by its first bytes: a `container`, which carries its own header; a `payload`, whose
 * header or file key is elsewhere.
 */
export type ContentKind = 'other' | 'container' | 'payload';

/** Kinds at the index that rows store, which never changes. */
const kinds = ['other', 'container', 'payload'] as const satisfies readonly ContentKind[];

/** Returns the code of a kind in rows. */
export function kindCode(kind: ContentKind): number {
  return kinds.indexOf(kind);
}

/** Returns the kind with a code. */
export function kindOfCode(code: number): ContentKind {
  return kinds[code] ?? 'other';
}
