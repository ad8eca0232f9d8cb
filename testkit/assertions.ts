/** The few assertions that suites need, which run in Vitest and in a bare page alike. */
import { equalBytes } from '../shared/streams/equal-bytes.ts';
import { isSealpinError, type Code } from '../shared/errors.ts';

/** The runner of a suite, as the suite sees it. */
export type Tool = {
  test(name: string, body: () => void | Promise<void>): void;
  /** Prints a line, such as the number of vectors that ran. */
  note(line: string): void;
  /** Asks for the long forms. */
  readonly long: boolean;
};

function show(value: unknown): string {
  return value instanceof Uint8Array
    ? `${value.length} bytes ${Buffer.from(value.subarray(0, 32)).toString('hex')}`
    : (JSON.stringify(value) ?? String(value));
}

/** Fails unless both are equal: bytes by content, everything else by its JSON. */
export function equal(actual: unknown, expected: unknown, what = 'value'): void {
  if (actual instanceof Uint8Array && expected instanceof Uint8Array) {
    if (equalBytes(actual, expected)) return;
  } else if (JSON.stringify(actual) === JSON.stringify(expected)) return;
  throw new Error(`${what}: ${show(actual)} is not ${show(expected)}`);
}

/** Fails unless the condition holds. */
export function ok(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}

/** Fails unless the error is a SealpinError with one of the codes. */
export function failedWith(codes: Code | readonly Code[], error: unknown, what = 'it'): void {
  const expected: readonly Code[] = typeof codes === 'string' ? [codes] : codes;
  if (error === undefined) throw new Error(`${what} does not fail with ${expected.join(' or ')}`);
  if (!isSealpinError(error) || !expected.includes(error.code))
    throw new Error(
      `${what} fails with ${error instanceof Error ? String(error) : typeof error} instead of ${expected.join(' or ')}`,
      { cause: error },
    );
}

/** Fails unless `body` throws a SealpinError with one of the codes. */
export async function fails(codes: Code | readonly Code[], body: () => unknown, what = 'it'): Promise<void> {
  let error: unknown;
  try {
    await body();
  } catch (thrown) {
    error = thrown;
  }
  failedWith(codes, error, what);
}
