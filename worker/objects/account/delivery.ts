/** Delivery of references to `Pin`, and of messages to `Pin` and `Share`. */
import type { Env } from '../../env.ts';
import type { LogLine } from '../../log.ts';
import type { Delivered, KvMessage, Message } from './outbox.ts';
import { answered } from '../pin/pin-faults.ts';
import { numbersOf, parseObjectNames } from '../pin/stores/object-names.ts';
import type { PinPlan } from '../pin/pin-ownership.ts';
import type { Reference } from '../pin/pin-rows.ts';
import { err, unwrap, type Result } from '../result.ts';
import { askShards, pinOf, type PinBinding } from '../pin/shard.ts';
import { shareOf, type ShareBinding } from '../share/share-binding.ts';

/** The bindings that an account's object calls. */
export type AccountEnv = Env & PinBinding & ShareBinding;

/**
 * Delivers a message to `Pin` or `Share` once.
 * @param account the ID of the account that sends it
 * @param requestId of the request from which it follows, or its own
 * @returns what became of the pin; a message to `Share` leaves none. Throws what the bindings throw
 */
export async function send(
  env: AccountEnv,
  account: string | undefined,
  message: Exclude<Message, KvMessage>,
  requestId: string,
): Promise<Result<Delivered>> {
  if (message.op === 'unshare') {
    const revoked = await shareOf(env, message.target).revoke(account);
    return revoked.ok ? { ok: true, status: 'unpinned', pins: [] } : revoked;
  }
  if (account === undefined) return err('not_found');
  const { target: cid, service, fileId } = message;
  const names = parseObjectNames(cid);
  if (names !== undefined) {
    const dropped = await (await pinOf(env, cid)).objects.drop(names.id, numbersOf(names));
    return dropped.ok ? { ok: true, status: 'unpinned', pins: [] } : dropped;
  }
  return await (await pinOf(env, cid)).removeReference({ cid, service, fileId, account, requestId });
}

/**
 * Adds a reference to a CID, whose row is written already.
 * @returns `overloaded` where `Pin` cannot be asked
 */
export async function addReference(env: PinBinding, reference: Reference): Promise<Result<PinPlan>> {
  const { cid, service, fileId, account, isPart = false, isRestored = false, requestId } = reference;
  // Objects have a row of their own, which was there before them.
  if (parseObjectNames(cid) !== undefined) return { ok: true, beside: false, pinned: true, denied: false };
  return await reached<PinPlan>({ event: 'account.reference', requestId }, async () => {
    const pin = await pinOf(env, cid);
    return await pin.addReference({ cid, service, fileId, account, isPart, isRestored, requestId });
  });
}

/** Does what asks other objects, or KV. @returns as `answered`, otherwise `overloaded` */
export async function reached<T extends object>(about: LogLine, work: () => Promise<Result<T>>): Promise<Result<T>> {
  return await answered(about, work, err('overloaded', undefined, 2));
}

/** The services at which pins are being removed. Throws as `unwrap`. */
export async function removingAt(env: PinBinding): Promise<Set<string>> {
  const answers = await askShards(env, (pin) => unwrap(pin.removing()));
  return new Set(answers.flatMap(({ services }) => services));
}
