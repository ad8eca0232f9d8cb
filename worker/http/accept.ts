/** Content negotiation by `Accept` (RFC 9110 section 12.5.1). */
import { parseAccept } from 'hono/utils/accept';
import { SealpinError } from '../../shared/errors.ts';

/**
 * The media type to respond with.
 * @param header the value of `Accept`; null or empty takes anything
 * @param offered in the order of our preference, which decides between equal weights
 * @throws not_acceptable when the client accepts none of them
 */
export function negotiate<T extends string>(header: string | null, offered: readonly T[]): T {
  const best = preferred(header, offered);
  if (best === undefined) throw new SealpinError('not_acceptable', `choose one of: ${offered.join(', ')}`);
  return best;
}

/** The same as `negotiate` without an error: undefined when the client accepts none of them. */
export function preferred<T extends string>(header: string | null, offered: readonly T[]): T | undefined {
  if (header === null || header.trim() === '') return offered[0];
  const ranges = parseAccept(header.toLowerCase());
  let best: { type: T; q: number } | undefined;
  for (const type of offered) {
    const q = qualityOf(type, ranges);
    if (q > (best?.q ?? 0)) best = { type, q };
  }
  return best?.type;
}

/** The weight of the most specific range that matches a type; 0 without one. */
function qualityOf(type: string, ranges: ReturnType<typeof parseAccept>): number {
  const subtypes = `${type.split('/')[0]}/*`;
  for (const pattern of [type, subtypes, '*/*']) {
    const range = ranges.find((each) => each.type === pattern);
    if (range !== undefined) return range.q;
  }
  return 0;
}
