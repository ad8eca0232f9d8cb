/** Pages of lists: from the query to the rows, and from the rows to the cursor of the next page. */

/** Items on a page when the request does not say. */
const defaultLimit = 50;

/** Which rows a page has. @param query as `PageQuery` validates it */
export function pageOf({ limit, cursor }: { limit?: string | undefined; cursor?: string | undefined }): {
  limit: number;
  before: number | undefined;
} {
  return {
    limit: limit === undefined ? defaultLimit : Number(limit),
    before: cursor === undefined ? undefined : Number.parseInt(cursor, 36),
  };
}

/** The member `cursor` of a response, if there is a next page. */
export function cursorOf({ next }: { next: number | undefined }): { cursor?: string } {
  return next === undefined ? {} : { cursor: next.toString(36) };
}
