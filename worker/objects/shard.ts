/** Which of the 256 `Pin` objects is responsible for a CID. */
import { askInBatches } from './batches.ts';
import type { Pin } from './pin.ts';

/** The binding of the objects `Pin`, for those that call them. */
export type PinBinding = { PIN: DurableObjectNamespace<Pin> };

/** The object that is responsible for a CID. */
export async function pinOf(env: PinBinding, cid: string): Promise<DurableObjectStub<Pin>> {
  return env.PIN.getByName(await shardName(cid));
}

/**
 * The name of the object: the first byte of SHA-256 of the CID's text, in hex. It never changes, because rows are
 * found by it.
 */
export async function shardName(cid: string): Promise<string> {
  return hex(await firstByte(cid));
}

/** The first byte of SHA-256 of a CID's text. */
export async function firstByte(cid: string): Promise<number> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(cid));
  return new DataView(digest).getUint8(0);
}

/** The name of the object for a byte. */
export function hex(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}

/** The names of all objects. */
export const shardNames: readonly string[] = Array.from({ length: 256 }, (_, byte) => hex(byte));

/** Asks objects, some at once. @returns the answers in the order of the names; stops after the batch in which `isEnough` holds */
export async function askShards<T>(
  env: PinBinding,
  names: readonly string[],
  ask: (pin: DurableObjectStub<Pin>, name: string) => Promise<T>,
  isEnough?: (answers: readonly T[]) => boolean,
): Promise<T[]> {
  return await askInBatches(names, (name) => ask(env.PIN.getByName(name), name), isEnough);
}
