/** Errors of where a file is copied from: the service that it goes to has no part in them. */
import { isSealpinError, SealpinError } from '../../shared/errors.ts';

/** A copy failed where it was read, not where it was sent to. */
export class SourceError extends SealpinError {}

/** The error for what reading threw, with the code of that. */
export function sourceError(error: unknown): SourceError {
  const code = isSealpinError(error) ? error.code : 'pinning_failed';
  return new SourceError(code, error instanceof Error ? error.message : undefined, { cause: error });
}
