/** Which of the 256 objects `Pin` knows a CID. */
import type { Pin } from './pin.ts';

/** The binding of the objects `Pin`, for those that call them. */
export type PinBinding = { PIN: DurableObjectNamespace<Pin> };

/** The object that knows a CID. */
export async function pinOf(env: PinBinding, cid: string): Promise<DurableObjectStub<Pin>> {
  return env.PIN.getByName(await shardName(cid));
}

/** Its name: the first byte of SHA-256 of the CID's text, in hex. It is so for ever: rows are found by it. */
export async function shardName(cid: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(cid)));
  return digest[0]!.toString(16).padStart(2, '0');
}
