/** Delivers the messages of an account's outbox to `Pin` and KV. */
import { kvKeyName } from '../auth/key-cache.ts';
import type { Env } from '../env.ts';
import type { Message } from './outbox.ts';
import type { Removal } from './pin.ts';
import { err, type Result } from './result.ts';
import { pinOf, type PinBinding } from './shard.ts';

/**
 * Delivers a message once.
 * @param account the ID of the account that sends it
 * @returns what became of the pin; a message to KV leaves none. Throws what the bindings throw
 */
export async function send(
  env: Env & PinBinding,
  account: string | undefined,
  message: Message,
): Promise<Result<{ status: Removal }>> {
  if (message.op === 'forget') {
    await env.API_KEYS.delete(kvKeyName(message.target));
    return { ok: true, status: 'unpinned' };
  }
  if (account === undefined) return err('not_found');
  const { target: cid, service, fileId } = message;
  return await (await pinOf(env, cid)).removeReference({ cid, service, fileId, account });
}
