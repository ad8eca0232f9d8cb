/** Names of objects in stores, in rows where parts at pinning services have a CID. */
import { leafBytes } from '../../../../shared/ipfs/index.ts';
import type { DataObject } from '../../../backends/objects/object-index.ts';
import { hex } from '../../../../shared/crypto/bytes.ts';

/** Objects of an upload: one with several leaves, or several that have a leaf each. */
export type ObjectNames = { id: string; first: number; last: number };

/** The text of names: `<id>/<n>`, or `<id>/<first>-<last>`. It is stored, so it never changes. */
export function nameOfObjects({ id, first, last }: ObjectNames): string {
  return `${id}/${first}${last === first ? '' : `-${last}`}`;
}

/** Reads names; undefined for the text of a CID. */
export function parseObjectNames(text: string): ObjectNames | undefined {
  const [, id, first, last = first] = /^([0-9a-f]{32})\/(\d{1,8})(?:-(\d{1,8}))?$/.exec(text) ?? [];
  return id === undefined ? undefined : { id, first: Number(first), last: Number(last) };
}

/** The numbers of objects. */
export function numbersOf({ first, last }: ObjectNames): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

/** The objects of a part, as an index has them. @param bytes of the part */
export function objectsOf(names: ObjectNames, bytes: number): DataObject[] {
  const ns = numbersOf(names);
  if (ns.length === 1) return [{ n: names.first, bytes }];
  return ns.map((n, at) => ({ n, bytes: Math.min(leafBytes, bytes - at * leafBytes) }));
}

/**
 * The `<id>` of the objects of an upload: it follows from the ID of the file, so that who knows
 * that knows the row.
 */
export async function objectIdOf(fileId: string): Promise<string> {
  const text = new TextEncoder().encode(`sealpin/v1 objects ${fileId}`);
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', text)).subarray(0, 16));
}

/** An `<id>` for a copy. */
export function newObjectId(): string {
  return hex(crypto.getRandomValues(new Uint8Array(16)));
}
