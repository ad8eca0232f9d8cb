/** Lines for the operator about files that a backend does not hold as it should. */
import type { SurveyedPin } from '../../shared/api.ts';

/** Remedies, by the code of the last error. */
const remedies: Readonly<Record<string, string>> = {
  disk_full: 'make room there, or pay for more',
  misconfigured: 'put its address and credentials right',
  backend_changed: 'give the new place an ID of its own in BACKENDS',
  invalid_request: 'it stays where it is; store its bytes again, as they are, to have it there',
  pinning_unavailable: 'see that the backends which have it respond',
  pinning_timeout: 'see that the backends which have it respond',
  content_mismatch: 'store the same bytes again',
  pinning_lost: 'store the same bytes again',
};

/** A line about it: which file, what is wrong, and what to do. */
export function troubleOf({ cid, service, state, reason = '', detail, files }: SurveyedPin): string {
  const [first, ...others] = files.map(({ fileId }) => fileId);
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const named = first === undefined ? cid : `${cid} (file ${first}${more})`;
  const why = detail ?? (reason === '' ? undefined : reason);
  const remedy = remedies[reason] ?? (state === 'lost' ? remedies['pinning_lost'] : undefined);
  const wrong = state === 'lost' ? `${service} has lost it` : `${service} does not take it`;
  return `${named}: ${wrong}${why === undefined ? '' : `: ${why}`}${remedy === undefined ? '' : `; ${remedy}`}`;
}
