/** The 256 `Pin` objects: the one that is responsible for a CID, and many at once. */
import { askInBatches } from '../batches.ts';
import type { Pin } from './pin.ts';
import { shardName, shardNames } from './shard-names.ts';

/** The binding of the objects `Pin`, for those that call them. */
export type PinBinding = { PIN: DurableObjectNamespace<Pin> };

/** The object that is responsible for a CID. */
export async function pinOf(env: PinBinding, cid: string): Promise<DurableObjectStub<Pin>> {
  return env.PIN.getByName(await shardName(cid));
}

/**
 * Asks objects, some at once: all of them, unless `names` says which.
 * @returns the answers in the order of the names; stops after the batch in which `isEnough` holds
 */
export async function askShards<T>(
  env: PinBinding,
  ask: (pin: DurableObjectStub<Pin>, name: string) => Promise<T>,
  names = shardNames,
  isEnough?: (answers: readonly T[]) => boolean,
): Promise<T[]> {
  return await askInBatches(names, (name) => ask(env.PIN.getByName(name), name), isEnough);
}
