/** What a container begins with: the one place that tells containers from plain files (shared/README.md, "What is stored"). */
import { fromUtf8 } from './bytes.ts';
import type { ByteSource } from '../streams/byte-source.ts';
import type { Format } from './types.ts';

/** The version lines, without the line feed (C2SP age.md, "Version line"; shared/README.md). */
export const versions = { age: 'age-encryption.org/v1', sealpin: 'sealpin/v1' } as const satisfies Record<
  Format,
  string
>;
/** The first line of a detached payload, with its line feed. */
export const detachedLine = 'sealpin/v1 detached\n';
/** The first line of armor, without the line end (C2SP age.md, "ASCII armor"); longer than all version lines. */
export const armorBegin = '-----BEGIN AGE ENCRYPTED FILE-----';

/** Anything that starts like a version line: never taken for a plain file. */
const versionLike = /^(?:age-encryption\.org\/|sealpin\/v[0-9])/i;
/** How much white space before armor is looked through; age has the same limit. */
const leadingBytes = 1024;

/** How many of the first bytes `sniff` looks at. */
export const sniffBytes = leadingBytes + armorBegin.length;

/**
 * What bytes begin like. `age` and `sealpin` are containers, `detached` is a payload whose header is kept elsewhere, `armor` is an age file
 * in ASCII armor (white space before it allowed), `unsupported` has a version line that is none of these.
 */
export type Sniffed = Format | 'detached' | 'armor' | 'unsupported';

/**
 * Recognizes a container by its first bytes, and reads nothing but those.
 * @param head the first `sniffBytes` bytes, or all of a shorter file
 * @returns undefined for a plain file
 */
export function sniff(head: Uint8Array): Sniffed | undefined {
  const text = fromUtf8(head.subarray(0, sniffBytes));
  if (text.startsWith(`${versions.age}\n`)) return 'age';
  if (text.startsWith(`${versions.sealpin}\n`)) return 'sealpin';
  if (text.startsWith(detachedLine)) return 'detached';
  if (versionLike.test(text)) return 'unsupported';
  return text.startsWith(armorBegin, leadingSpace(head)) ? 'armor' : undefined;
}

/** The same for a source, of which it reads as little as it can and takes nothing. */
export async function sniffSource(source: ByteSource): Promise<Sniffed | undefined> {
  await source.fill(armorBegin.length);
  if (isSpace(source.peek(1)[0])) await source.fill(sniffBytes);
  return sniff(source.peek(sniffBytes));
}

/** How many bytes of ASCII white space are in front, up to the limit for armor. */
export function leadingSpace(head: Uint8Array): number {
  const at = head.subarray(0, leadingBytes).findIndex((byte) => !isSpace(byte));
  return at < 0 ? Math.min(head.length, leadingBytes) : at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || (byte !== undefined && byte >= 0x09 && byte <= 0x0d);
}
