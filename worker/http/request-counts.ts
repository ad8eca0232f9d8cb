/** Counts of an isolate's requests, until it hands them to the object `Metrics`. */
import { routePath } from 'hono/route';
import { errorText, log } from '../log.ts';
import type { Counter } from '../objects/metrics/metrics.ts';
import { metricsOf, type MetricsBinding } from '../objects/metrics/metrics-binding.ts';
import { unwrap } from '../objects/result.ts';
import type { Ctx } from './app.ts';
import { lengthOf } from './body-headers.ts';
import { later } from './collector.ts';
import { labelsOf } from './exposition.ts';

/** Methods that have a series; a client may send any name. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** The sums of this isolate by name and labels. */
const counted = new Map<string, Counter>();
const handOverLater = later(handOverCounts);

/** Counts a request that has its response. @param ms since it arrived */
export function countRequest(c: Ctx, ms: number): void {
  const { status, headers } = c.res;
  const { method: name } = c.req.raw;
  const method = methods.has(name) ? name : 'other';
  // The pattern: an address would make a series for each file.
  const route = routePath(c);
  add('sealpin_http_requests_total', labelsOf({ method, route, status: String(status) }), 1);
  add('sealpin_http_request_duration_seconds_sum', labelsOf({ method, route }), ms / 1000);
  add('sealpin_http_request_duration_seconds_count', labelsOf({ method, route }), 1);
  add('sealpin_http_request_body_bytes_total', labelsOf({ route }), lengthOf(c.req.raw.headers));
  if (name !== 'HEAD') add('sealpin_http_response_body_bytes_total', labelsOf({ route }), lengthOf(headers));
  if (c.var.code !== undefined) add('sealpin_errors_total', labelsOf({ code: c.var.code }), 1);
  handOverLater(c);
}

/**
 * Hands over what this isolate has counted. Where that fails it is kept; an addition that was lost
 * on its way back counts twice.
 */
export async function handOverCounts(env: MetricsBinding): Promise<void> {
  const counters = [...counted.values()];
  counted.clear();
  if (counters.length === 0) return;
  try {
    await unwrap(metricsOf(env).add(counters));
  } catch (error) {
    for (const { name, labels, value } of counters) add(name, labels, value);
    log({ event: 'metrics.add', error: errorText(error) });
  }
}

function add(name: string, labels: string, value: number): void {
  if (value === 0) return;
  const key = `${name}{${labels}}`;
  counted.set(key, { name, labels, value: (counted.get(key)?.value ?? 0) + value });
}
