/** Meaning of errors of pinning services for the rows of a `Pin` object. */
import { isSealpinError, type SealpinError } from '../../../shared/errors.ts';
import { printable } from '../../backends/printable.ts';

/** Faults of a service, or of its configuration, that its other rows have as well. */
const serviceFaults = [
  'pinning_unavailable',
  'pinning_timeout',
  'misconfigured',
  'backend_changed',
  'disk_full',
] as const;

/** Tells whether an error is one of those. */
export function isServiceFault(error: unknown): error is SealpinError {
  return !isMissing(error) && serviceFaults.some((code) => isSealpinError(error, code));
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
  if (isSealpinError(error, 'content_mismatch') || isSealpinError(error, 'pinning_lost')) return true;
  return isSealpinError(error, 'pinning_failed') && attempts >= 2;
}

/** Returns the reason that a row gives for an error: its code. */
export function reasonOf(error: unknown): string {
  if (isSealpinError(error)) return error.code;
  return error instanceof DOMException && error.name === 'TimeoutError' ? 'pinning_timeout' : 'internal';
}

/** The longest text that a row keeps of an error, in characters. */
export const maxDetail = 300;

/** Describes an error for the operator: in printable characters, and no longer than a row keeps. */
export function detailOf(error: unknown): string {
  const { message } = error instanceof Error ? error : new Error(typeof error);
  return printable(message, maxDetail);
}
