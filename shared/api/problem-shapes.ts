/** The wire shape of errors. */
import * as v from 'valibot';

/**
 * One fault of a request: `pointer` into the body (RFC 6901, as a URI fragment), or the `parameter`
 * of the query.
 */
export const Fault = v.object({
  pointer: v.optional(v.string()),
  parameter: v.optional(v.string()),
  detail: v.string(),
});

/** An error (RFC 9457); `code` is one of `codes` in errors.ts. */
export const Problem = v.object({
  type: v.string(),
  title: v.string(),
  status: v.pipe(v.number(), v.integer(), v.metadata({ format: 'int32' })),
  detail: v.optional(v.string()),
  code: v.string(),
  hint: v.optional(v.string()),
  requestId: v.optional(v.string()),
  errors: v.optional(v.array(Fault)),
});
export type Problem = v.InferOutput<typeof Problem>;
