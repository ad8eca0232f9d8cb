/** Saying which pinning service a request waits for. */
import { describe, isSealpinError, SealpinError } from '../../shared/errors.ts';

/**
 * Adds the ids of the pinning services to the hint of an error that says one cannot be reached. The detail of a system
 * fault is not shown to clients, and these ids they know already: `pins` of a file has them.
 * @param ids of the services that were asked
 * @returns any other thrown thing as it is
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
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  });
}
