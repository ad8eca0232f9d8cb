/** The wire shapes of what every service says of itself: problems and health. */
import * as v from 'valibot';
import { Bytes, ServiceId } from './fields.ts';
import { Migration } from './pins-shapes.ts';

/** One fault of a request: `pointer` into the body (RFC 6901, as a URI fragment), or the `parameter` of the query. */
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

export const HealthQuery = v.object({
  live: v.optional(
    v.pipe(v.picklist(['', 'true']), v.description('only whether the service runs, which is always 200')),
  ),
});

export const ServiceHealth = v.object({
  id: ServiceId,
  status: v.picklist(['ok', 'failing']),
  version: v.optional(v.string()),
  code: v.optional(v.string()),
});

/**
 * `degraded`, with status 503: the service runs, and cannot store or read. `maxUploadBytes`: the largest request body; null: no limit.
 * `maxFileBytes`: the largest file, in a resumable upload; a service without it takes no such uploads. `pages`: SHA-256 in hex of the
 * pages that it serves.
 * For the operator only: `storage` and `services`, whether the objects and each pinning service respond; `migrations`, where there are
 * any, how far they are.
 */
export const Health = v.object({
  status: v.picklist(['ok', 'degraded']),
  version: v.pipe(v.string(), v.examples(['1.0.0'])),
  pages: v.optional(v.string()),
  maxUploadBytes: v.nullable(Bytes),
  maxFileBytes: v.optional(Bytes),
  storage: v.optional(v.picklist(['ok', 'failing'])),
  services: v.optional(v.array(ServiceHealth)),
  migrations: v.optional(v.array(Migration)),
});
export type Health = v.InferOutput<typeof Health>;
