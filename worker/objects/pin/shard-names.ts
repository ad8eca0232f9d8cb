/** The names of the 256 `Pin` objects, and which of them is responsible for a CID. */

/**
 * The name of the object: the first byte of SHA-256 of the CID's text, in hex; of objects in a
 * store, of their `<id>` itself. It never changes, because rows are found by it.
 */
export async function shardName(cid: string): Promise<string> {
  if (/^[0-9a-f]{32}(\/|$)/.test(cid)) return cid.slice(0, 2);
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
