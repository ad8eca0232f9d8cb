/** The one place that tells containers from plain files (shared/README.md, "What is stored"). */
import type { ByteSource } from '../streams/byte-source.ts';
import { fromUtf8 } from './bytes.ts';
import type { Format } from './formats/format-row.ts';
import { formats } from './formats/index.ts';

/** The first line of armor (C2SP age.md, "ASCII armor"); longer than all version lines. */
export const armorBegin = '-----BEGIN AGE ENCRYPTED FILE-----';

/** Anything that starts like a version line: never taken for a plain file. */
const looksLikeVersion = /^(?:age-encryption\.org\/|sealpin\/v[0-9])/i;
/** Most white space that is skipped before armor; age has the same limit. */
const leadingBytes = 1024;

/** Number of first bytes that `sniff` looks at. */
export const sniffBytes = leadingBytes + armorBegin.length;

/**
 * Kind of file that bytes begin like. `age` and `sealpin` are containers, `detached` is a payload
 * whose header is kept elsewhere, `armor` is an age file in ASCII armor (white space before it
 * allowed), `unsupported` has a version line that is none of these.
 */
export type Sniffed = Format | 'detached' | 'armor' | 'unsupported';

/** Recognizes a container by its first `sniffBytes` bytes; undefined for a plain file. */
export function sniff(head: Uint8Array): Sniffed | undefined {
  const text = fromUtf8(head.subarray(0, sniffBytes));
  for (const { name, versionLine, detachedLine } of formats) {
    if (text.startsWith(`${versionLine}\n`)) return name;
    if (detachedLine !== undefined && text.startsWith(detachedLine)) return 'detached';
  }
  if (looksLikeVersion.test(text)) return 'unsupported';
  return text.startsWith(armorBegin, leadingSpace(head)) ? 'armor' : undefined;
}

/** Recognizes a container in a source, of which it reads little and takes nothing. */
export async function sniffSource(source: ByteSource): Promise<Sniffed | undefined> {
  await source.fill(armorBegin.length);
  if (isSpace(source.peek(1)[0])) await source.fill(sniffBytes);
  return sniff(source.peek(sniffBytes));
}

/** Tells whether a container with a header at its beginning was recognized. */
export function isFormat(sniffed: Sniffed | undefined): sniffed is Format {
  return formats.some(({ name }) => name === sniffed);
}

/** Counts the bytes of ASCII white space at the start, up to the limit for armor. */
export function leadingSpace(head: Uint8Array): number {
  const index = head.subarray(0, leadingBytes).findIndex((byte) => !isSpace(byte));
  return index < 0 ? Math.min(head.length, leadingBytes) : index;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || (byte !== undefined && byte >= 0x09 && byte <= 0x0d);
}
