/** The wire shape of what every service says of itself. */
import * as v from 'valibot';
import { Bytes, Count, ServiceId, Timestamp } from './fields.ts';
import { Migration } from './pins-shapes.ts';

export const HealthQuery = v.object({
  live: v.optional(
    v.pipe(v.picklist(['', 'true']), v.description('only whether the service runs, which is always 200')),
  ),
});

export const ServiceHealth = v.object({
  id: ServiceId,
  type: v.optional(v.pipe(v.string(), v.examples(['kubo']))),
  triedAgainst: v.optional(v.pipe(v.string(), v.description('what Sealpin was tested with for services of this type'))),
  status: v.picklist(['ok', 'failing']),
  version: v.optional(v.string()),
  peers: v.optional(
    v.pipe(v.object({ answering: Count, listed: Count }), v.description('of a cluster: how many of its peers answer')),
  ),
  code: v.optional(v.string()),
  hint: v.optional(v.pipe(v.string(), v.description('what to do about it'))),
  warning: v.optional(v.pipe(v.string(), v.description('what will take files away; `hint` says what to do'))),
  refuses: v.optional(
    v.pipe(
      v.object({ code: v.string(), since: Timestamp, seenAt: Timestamp }),
      v.description('it takes no new files: why, since when, and when that was last seen'),
    ),
  ),
});

/**
 * `degraded`, with status 503: the service runs, and cannot store or read; with 200: it can, but a
 * pinning service takes no new files, or a bucket has rules that remove files. `maxUploadBytes`:
 * the largest request body; null: no limit. `maxFileBytes`: the largest file, in a resumable
 * upload; a service without it takes no such uploads. `shares`: for how many days from now a share
 * lasts at most, and how often it opens; null where the service makes none. `pages`: SHA-256 in hex
 * of the pages that it serves. For the operator only: `storage` and `services`, whether the objects
 * and each pinning service respond; `serviceId`, the part of the names of its pins that is this
 * service's own; `migrations`, where there are any, how far they are.
 */
export const Health = v.object({
  status: v.picklist(['ok', 'degraded']),
  version: v.pipe(v.string(), v.examples(['1.0.0'])),
  pages: v.optional(v.string()),
  maxUploadBytes: v.nullable(Bytes),
  maxFileBytes: v.optional(Bytes),
  shares: v.optional(
    v.pipe(
      v.nullable(v.object({ maxDays: Count, maxOpens: Count })),
      v.description('the longest time and the most opens of a share; null: this service makes no shares'),
    ),
  ),
  storage: v.optional(v.picklist(['ok', 'failing'])),
  serviceId: v.optional(v.string()),
  services: v.optional(v.array(ServiceHealth)),
  migrations: v.optional(v.array(Migration)),
});
export type Health = v.InferOutput<typeof Health>;
