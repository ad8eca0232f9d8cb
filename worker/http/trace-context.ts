/** The trace that a request belongs to (W3C Trace Context). */

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/**
 * The trace ID of a `traceparent`, 32 hexadecimal digits: for the log alone, because anybody can
 * send any.
 * @returns undefined for a value that is none (section 3.2.2)
 */
export function parseTraceId(header: string | undefined): string | undefined {
  const [, version, trace, parent, rest] = pattern.exec(header ?? '') ?? [];
  if (trace === undefined || parent === undefined || version === 'ff') return undefined;
  // Only later versions may have more fields.
  if (version === '00' && rest !== undefined) return undefined;
  return /^0+$/.test(trace) || /^0+$/.test(parent) ? undefined : trace;
}
