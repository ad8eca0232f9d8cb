/** The objects `Share`, for those that call them. */
import type { Share } from './share.ts';

export type ShareBinding = { SHARE: DurableObjectNamespace<Share> };

/**
 * The object of a share.
 * @param id 22 base62 characters; whether there is a share is another question, and asking the object answers it
 */
export function shareOf(env: ShareBinding, id: string): DurableObjectStub<Share> {
  return env.SHARE.getByName(id);
}

/** How long a share that has expired, or ended before, can still be told from one that never existed, in ms: 7 days. */
export const keptMs = 7 * 86_400_000;
