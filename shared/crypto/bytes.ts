import { base64, base64nopad } from '@scure/base';
import { orUndefined } from '../errors.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true, fatal: false });

/** Encodes text as UTF-8. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Decodes UTF-8. Invalid bytes become U+FFFD, which no grammar here accepts. */
export function fromUtf8(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Compares two arrays in a time that depends on their lengths only. For secrets, MACs and tags. */
export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let index = 0; index < a.length; index += 1) difference |= (a[index] ?? 0) ^ (b[index] ?? 0);
  return difference === 0;
}

/** Encodes base64 without padding, as headers have it (RFC 4648 section 4). */
export function encodeBase64(bytes: Uint8Array): string {
  return base64nopad.encode(bytes);
}

/** Decodes canonical base64 without padding; undefined for anything else. */
export function decodeBase64(text: string): Uint8Array | undefined {
  return orUndefined(() => base64nopad.decode(text));
}

/** Encodes base64 with padding, as PEM and armor have it. */
export function encodePadded(bytes: Uint8Array): string {
  return base64.encode(bytes);
}

/** Decodes canonical base64 with padding; undefined for anything else. */
export function decodePadded(text: string): Uint8Array | undefined {
  return orUndefined(() => base64.decode(text));
}

/** Encodes text as UTF-8, with spaces up to a multiple of so many bytes. */
export function padded(text: string, multiple: number): Uint8Array {
  const bytes = utf8(text);
  const whole = new Uint8Array(Math.ceil(bytes.length / multiple) * multiple).fill(0x20);
  whole.set(bytes);
  return whole;
}

/** Encodes lower-case hex. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns a stream that gives the bytes in one piece. */
export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes);
      controller.close();
    },
  });
}
