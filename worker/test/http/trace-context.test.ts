/** `traceparent` as W3C Trace Context has it. */
import { expect, it } from 'vitest';
import { parseTraceId } from '../../http/trace-context.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const parent = '00f067aa0ba902b7';

it.each([
  `00-${trace}-${parent}-01`,
  `00-${trace}-${parent}-00`,
  `01-${trace}-${parent}-01`,
  `cc-${trace}-${parent}-01-what`,
])('%j belongs to a trace', (text) => expect(parseTraceId(text)).toBe(trace));

it.each([
  undefined,
  '',
  trace,
  `00-${trace}-${parent}`,
  `00-${trace}-${parent}-01-what`,
  `01-${trace}-${parent}-01what`,
  `ff-${trace}-${parent}-01`,
  `00-${trace.toUpperCase()}-${parent}-01`,
  `00-${'0'.repeat(32)}-${parent}-01`,
  `00-${trace}-${'0'.repeat(16)}-01`,
  `00-${trace}0-${parent}-01`,
  `00-${trace}-${parent}-01\n{"event":"request"}`,
])('%j is ignored', (text) => expect(parseTraceId(text)).toBeUndefined());
