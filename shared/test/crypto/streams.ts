import type { CryptoProvider } from '../../crypto/index.ts';
import { isWebKit } from '../../../testkit/browsers/engine.ts';

/** All bytes of a stream. */
export async function collect(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return (await released(stream, 'throws')).bytes;
}

/** Returns what a stream gives before it ends or fails. */
export async function released(
  stream: ReadableStream<Uint8Array>,
  failure: 'throws' | 'returned' = 'returned',
): Promise<{ bytes: Uint8Array; error: Error | undefined }> {
  const parts: Uint8Array[] = [];
  const reader = stream.getReader();
  let error: Error | undefined;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
    }
  } catch (thrown) {
    if (failure === 'throws') throw thrown;
    error = thrown as Error;
  }
  return { bytes: join(parts), error };
}

export function join(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

/** A stream of the bytes in pieces of a size, each an array of its own. */
export function pieces(bytes: Uint8Array, pieceBytes = 65_536): ReadableStream<Uint8Array> {
  let offset = 0;
  return new ReadableStream({
    pull(controller) {
      if (offset >= bytes.length) controller.close();
      else controller.enqueue(bytes.slice(offset, offset + pieceBytes));
      offset += pieceBytes;
    },
  });
}

/**
 * The same as a byte stream, which a reader may read into its own buffer; WebKitGTK 2.50 has none,
 * and gets the one above.
 */
export function byteStream(bytes: Uint8Array, pieceBytes = 65_536): ReadableStream<Uint8Array> {
  if (isWebKit) return pieces(bytes, pieceBytes);
  let offset = 0;
  return new ReadableStream({
    type: 'bytes',
    pull(controller) {
      if (offset >= bytes.length) {
        controller.close();
        controller.byobRequest?.respond(0);
        return;
      }
      const view = controller.byobRequest?.view;
      if (view) {
        const part = bytes.subarray(offset, offset + Math.min(view.byteLength, pieceBytes));
        new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(part);
        controller.byobRequest.respond(part.length);
        offset += part.length;
      } else {
        controller.enqueue(bytes.slice(offset, offset + pieceBytes));
        offset += pieceBytes;
      }
    },
  });
}

/** Bytes that look random and are the same each time (xorshift32). */
export function pattern(bytes: number, seed = 1): Uint8Array {
  const out = new Uint8Array(bytes);
  const words = new Uint32Array(out.buffer, 0, bytes >> 2);
  let state = (seed * 2_654_435_761) >>> 0 || 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  for (let index = 0; index < words.length; index += 1) words[index] = next();
  for (let index = words.length * 4; index < bytes; index += 1) out[index] = next();
  return out;
}

/** The provider with random bytes that are the same each time. */
export function seeded(provider: CryptoProvider, seed = 1): CryptoProvider {
  let calls = 0;
  return {
    ...provider,
    random(bytes) {
      calls += 1;
      return pattern(bytes, seed * 1000 + calls);
    },
  };
}

/** Base64 without padding, as headers have it. */
export function unpaddedBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll('=', '');
}

export const text = (content: string): Uint8Array => new TextEncoder().encode(content);
export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
export const fromHex = (digits: string): Uint8Array =>
  Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
export const fromBase64 = (encoded: string): Uint8Array =>
  Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));

/** The hex digest by WebCrypto, which is fast with megabytes in every runtime. */
export async function digest(hash: 'SHA-256' | 'SHA-512', bytes: Uint8Array): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest(hash, bytes as Uint8Array<ArrayBuffer>)));
}
