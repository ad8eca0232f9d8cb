/** The few assertions that the suites need: they run in Vitest (Node, workerd) and in a bare page (Chromium) alike. */
import { isSealpinError, type Code } from '../../errors.ts';

/** What a runner gives to a suite. */
export type Tool = {
  test(name: string, body: () => void | Promise<void>): void;
  /** Prints a line: how many vectors ran. */
  note(line: string): void;
  /** Whether the long forms are to run. */
  readonly long: boolean;
};

function show(value: unknown): string {
  return value instanceof Uint8Array ? `${value.length} bytes ${Array.from(value.subarray(0, 32), (byte) => byte.toString(16).padStart(2, '0')).join('')}` : (JSON.stringify(value) ?? String(value));
}

/** Fails unless both are the same: bytes by content, all else by their JSON. */
export function equal(actual: unknown, expected: unknown, what = 'value'): void {
  if (actual instanceof Uint8Array && expected instanceof Uint8Array) {
    if (actual.length === expected.length && actual.every((byte, index) => byte === expected[index])) return;
  } else if (JSON.stringify(actual) === JSON.stringify(expected)) return;
  throw new Error(`${what}: ${show(actual)} is not ${show(expected)}`);
}

/** Fails unless the condition holds. */
export function ok(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}

/** Fails unless `body` throws a SealpinError with one of the codes, which it returns. */
export async function fails(codes: Code | readonly Code[], body: () => unknown, what = 'it'): Promise<Code> {
  const expected: readonly Code[] = typeof codes === 'string' ? [codes] : codes;
  try {
    await body();
  } catch (error) {
    if (isSealpinError(error) && expected.includes(error.code)) return error.code;
    throw new Error(`${what} fails with ${String(error)} instead of ${expected.join(' or ')}`, { cause: error });
  }
  throw new Error(`${what} does not fail, where ${expected.join(' or ')} is due`);
}
