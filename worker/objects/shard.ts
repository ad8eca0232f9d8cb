/** Which of the 256 `Pin` objects is responsible for a CID. */
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
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(cid));
  return new DataView(digest).getUint8(0).toString(16).padStart(2, '0');
}
