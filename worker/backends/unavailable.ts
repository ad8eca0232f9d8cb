/** Errors that name the pinning service which does not respond. */
import { describe, isSealpinError, SealpinError } from '../../shared/errors.ts';

/**
 * Adds the IDs of pinning services to the hint of an error that says one cannot be reached. Clients
 * do not see the detail of a system fault; these IDs they know already, from `pins` of a file.
 * @param ids the services that were called
 * @returns anything else that was thrown, unchanged
 */
export function atServices(thrown: unknown, ids: readonly string[]): unknown {
  if (!isSealpinError(thrown, 'pinning_unavailable') && !isSealpinError(thrown, 'pinning_timeout')) return thrown;
  if (thrown.hint !== describe(thrown.code).hint) return thrown;
  const { code, message, retryAfterSeconds } = thrown;
  const which =
    ids.length === 1 ? `the pinning service ${ids[0]} does` : `the pinning services ${ids.join(' and ')} do`;
  return new SealpinError(code, message, {
    hint: `${which} not answer at the moment`,
    cause: thrown,
    retryAfterSeconds,
  });
}
