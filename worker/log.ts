/** The one place that writes to the log: a JSON object a line, as Workers Logs indexes it. */

/** A line of the log. It never carries a key, a header of a request, a filename or a body. */
export type LogLine = { event: string; requestId?: string | undefined } & Record<
  string,
  string | number | boolean | null | undefined
>;

export function log(line: LogLine): void {
  // oxlint-disable-next-line no-console -- this is the log
  console.log(JSON.stringify(line));
}

/** Does what may fail, of which then the log has a line, and the caller undefined. */
export async function orLog<T>(line: LogLine, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    log({ ...line, error: errorText(error) });
    return undefined;
  }
}

/** The most characters of an error in the log: it may be in the words of others. */
const maxErrorText = 1_000;

/**
 * The name and message of an error, for the operator; a stack would name nothing but our own
 * bundle.
 */
export function errorText(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}`.slice(0, maxErrorText) : typeof thrown;
}
