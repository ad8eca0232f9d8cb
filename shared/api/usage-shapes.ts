/** The wire shapes of what API keys use. */
import * as v from 'valibot';
import { Bytes, Count, KeyId } from './fields.ts';

/** Number of days for which it is kept, besides the current one. */
export const usageDays = 90;

/**
 * Usage of a key on a day of UTC. `bytesIn`: of the bodies of its requests; `bytesOut`: of those of
 * the responses whose length is announced, as that of every file is.
 */
export const KeyUsage = v.object({
  day: v.pipe(v.string(), v.isoDate(), v.examples(['2026-11-22'])),
  keyId: KeyId,
  requests: Count,
  bytesIn: Bytes,
  bytesOut: Bytes,
});
export type KeyUsage = v.InferOutput<typeof KeyUsage>;

export const UsageList = v.object({ usage: v.array(KeyUsage), cursor: v.optional(v.string()) });
export type UsageList = v.InferOutput<typeof UsageList>;
