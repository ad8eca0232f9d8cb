/** Pages of lists: from the query to the rows, and from the rows to the cursor of the next page. */

/** Returns the bounds of a page. @param query as `PageQuery` parses it */
export function pageOf({ limit, cursor }: { limit: number; cursor?: string | undefined }) {
  return { limit, before: cursor === undefined ? undefined : Number.parseInt(cursor, 36) };
}

/** The member `cursor` of a response, if there is a next page. */
export function cursorOf({ next }: { next: number | undefined }): { cursor: string | undefined } {
  return { cursor: next?.toString(36) };
}
