/**
 * Sightings by uploads and copies of a pinning service that takes no new files, told to the object
 * `Metrics`, which health asks.
 */
import { orLog } from '../../log.ts';
import { unwrap } from '../result.ts';
import { metricsOf, type MetricsBinding } from './metrics-binding.ts';
import type { Refusal } from './metrics.ts';

/** Codes by which a service says that it would refuse the next file as well. */
const refusing = ['disk_full', 'misconfigured'];

/** Tells whether a code means that a service takes no new files. */
export function isRefusal(code: string | null): code is string {
  return code !== null && refusing.includes(code);
}

/**
 * Time for which a refusal counts, in ms: longer than the longest wait before the same copy is
 * tried again.
 */
const countsMs = 2 * 3_600_000;
/** The same where an upload was refused. */
export const uploadCountsMs = 600_000;

/** What this isolate could not tell, as where the disk of the object is full, too, by service. */
const untold = new Map<string, Refusal & { until: number }>();

/** The refusals that only this isolate knows, and that count. */
export function untoldRefusals(): Refusal[] {
  return [...untold.values()].filter(({ until }) => until > Date.now());
}

/**
 * Tells that a service has refused a file, with its code, or that it takes files again (null). It
 * does not throw.
 */
export async function tellRefusal(
  env: MetricsBinding,
  service: string,
  code: string | null,
  forMs = countsMs,
): Promise<void> {
  const metrics = metricsOf(env);
  const told = await orLog({ event: 'metrics.refusal', service }, () =>
    unwrap(code === null ? metrics.accepted(service) : metrics.refused(service, code, forMs)),
  );
  const before = untoldRefusals().find((each) => each.service === service && each.code === code);
  untold.delete(service);
  const seenAt = Date.now();
  const [since, until] = [before?.since ?? seenAt, seenAt + forMs];
  if (told === undefined && code !== null) untold.set(service, { service, code, since, seenAt, until });
}
