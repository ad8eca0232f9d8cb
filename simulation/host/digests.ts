/** Digests, each of the same large bytes made once: pins are read as a whole every week. */
import { hash } from 'node:crypto';

/** The fewest bytes whose digest is remembered. */
const leastBytes = 16_384;
/** Number of digests that are remembered. */
const maxDigests = 64;

type Known = { bytes: Uint8Array; digest: Uint8Array };

const known = new Map<string, Known>();

/** Digests bytes. @returns bytes of its own */
export function digestOf(algorithm: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bytes.length < leastBytes) return digested(algorithm, bytes);
  const edge = Buffer.from(bytes.buffer, bytes.byteOffset, 64).toString('latin1');
  const key = `${algorithm} ${bytes.length} ${edge}`;
  const found = known.get(key);
  if (found !== undefined && Buffer.compare(found.bytes, bytes) === 0) return found.digest.slice();
  const digest = digested(algorithm, bytes);
  known.delete(key);
  known.set(key, { bytes: bytes.slice(), digest });
  const [oldest] = known.keys();
  if (known.size > maxDigests && oldest !== undefined) known.delete(oldest);
  return digest.slice();
}

function digested(algorithm: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hash(algorithm.replace('-', ''), bytes, 'buffer'));
}

/** Block of SHA-256, in bytes. */
const blockBytes = 64;

/** HMAC of SHA-256, without the objects that Node makes for each key. */
export function hmacOf(key: Uint8Array, message: Uint8Array): Uint8Array<ArrayBuffer> {
  const block = key.length > blockBytes ? digested('SHA-256', key) : key;
  const padded = (pad: number, rest: Uint8Array): Uint8Array => {
    const bytes = new Uint8Array(blockBytes + rest.length).fill(pad, 0, blockBytes);
    for (let i = 0; i < block.length; i += 1) bytes[i] = pad ^ (block[i] ?? 0);
    bytes.set(rest, blockBytes);
    return bytes;
  };
  return digested('SHA-256', padded(0x5c, digested('SHA-256', padded(0x36, message))));
}
