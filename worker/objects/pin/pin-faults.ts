/** Meaning of errors of pinning services for the rows of a `Pin` object. */
import { isSealpinError, type SealpinError } from '../../../shared/errors.ts';
import { printable } from '../../backends/printable.ts';
import { errorText, log, type LogLine } from '../../log.ts';
import { err, toFailure, type Result } from '../result.ts';

/** Faults of a service, or of its configuration, that its other rows have as well. */
const wideFaults = ['pinning_unavailable', 'pinning_timeout', 'misconfigured', 'backend_changed', 'disk_full'] as const;

/** Tells whether an error is one of those. */
export function isServiceFault(error: unknown): error is SealpinError {
  return !isMissing(error) && isSealpinError(error, ...wideFaults);
}

/** Tells whether a pin found a block missing: it was collected, and must be sent again. */
export function isMissing(error: unknown): boolean {
  return isSealpinError(error) && error.reason === 'blob_unavailable';
}

/**
 * Tells whether a service that responds cannot give the file. A truncated block looks like a broken
 * response, so that counts the third time.
 */
export function isLost(error: unknown, attempts: number): error is SealpinError {
  if (isSealpinError(error, 'content_mismatch', 'pinning_lost')) return true;
  return isSealpinError(error, 'pinning_failed') && attempts >= 2;
}

/** Returns the reason that a row gives for an error: its code. */
export function reasonOf(error: unknown): string {
  return isSealpinError(error) ? error.code : 'internal';
}

/** Describes an error for the operator: in printable characters, and no longer than a row keeps. */
export function detailOf(error: unknown): string {
  const { message } = error instanceof Error ? error : new Error(typeof error);
  return printable(message);
}

/**
 * Does what a call asks of a backend, and returns its failure: an error that is thrown over RPC
 * loses its code.
 * @param about of the line in the log, which alone has the detail
 * @param otherwise the failure for an error without a code
 */
export async function answered<T extends object>(
  about: LogLine,
  work: () => Promise<Result<T>>,
  otherwise = err('pinning_unavailable'),
): Promise<Result<T>> {
  try {
    return await work();
  } catch (error) {
    log({ ...about, error: errorText(error) });
    return isSealpinError(error) ? toFailure(error) : otherwise;
  }
}
