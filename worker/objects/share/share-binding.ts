/** The objects `Share`, for those that call them. */
import type { Share } from './share.ts';

export type ShareBinding = { SHARE: DurableObjectNamespace<Share> };

/**
 * The object of a share.
 * @param id 22 base62 characters; whether there is a share is another question, and asking the
 * object answers it
 */
export function shareOf(env: ShareBinding, id: string): DurableObjectStub<Share> {
  return env.SHARE.getByName(id);
}
