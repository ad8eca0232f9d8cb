import { decodePadded, encodePadded } from '../bytes.ts';

/** Width of a full line (RFC 7468 section 2). */
const pemColumns = 64;

/** Encodes a PEM block (RFC 7468), with its line feed. */
export function encodePem(label: string, der: Uint8Array): string {
  const text = encodePadded(der);
  let lines = '';
  for (let offset = 0; offset < text.length; offset += pemColumns)
    lines += `${text.slice(offset, offset + pemColumns)}\n`;
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`;
}

/** Decodes the first PEM block with this label; undefined without one, or for invalid base64. */
export function decodePem(label: string, text: string): Uint8Array | undefined {
  const begin = `-----BEGIN ${label}-----`;
  const start = text.indexOf(begin);
  const end = text.indexOf(`-----END ${label}-----`, start);
  if (start < 0 || end < 0) return undefined;
  const bytes = decodePadded(text.slice(start + begin.length, end).replaceAll(/\s/g, ''));
  return bytes === undefined || bytes.length === 0 ? undefined : bytes;
}
