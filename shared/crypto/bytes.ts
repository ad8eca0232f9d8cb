import { base64, base64nopad } from '@scure/base';

const encoder = new TextEncoder();
const latin = new TextDecoder('utf-8', { ignoreBOM: true, fatal: false });

/** UTF-8 bytes of text. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Text of UTF-8 bytes; what is not valid comes out as U+FFFD, which no grammar here accepts. */
export function fromUtf8(bytes: Uint8Array): string {
  return latin.decode(bytes);
}

/** Whether two arrays hold the same bytes, in a time that depends on their lengths only. */
export function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let index = 0; index < a.length; index += 1) difference |= (a[index] ?? 0) ^ (b[index] ?? 0);
  return difference === 0;
}

/** Base64 without padding, as headers have it (RFC 4648 section 4). */
export function encodeBase64(bytes: Uint8Array): string {
  return base64nopad.encode(bytes);
}

/** The bytes of canonical base64 without padding; undefined for anything else. */
export function decodeBase64(text: string): Uint8Array | undefined {
  try {
    return base64nopad.decode(text);
  } catch {
    return undefined;
  }
}

/** Base64 with padding, as PEM and armor have it. */
export function encodePadded(bytes: Uint8Array): string {
  return base64.encode(bytes);
}

/** The bytes of canonical base64 with padding; undefined for anything else. */
export function decodePadded(text: string): Uint8Array | undefined {
  try {
    return base64.decode(text);
  } catch {
    return undefined;
  }
}

/** Lower-case hex. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** A stream that gives the bytes in one piece. */
export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
}
