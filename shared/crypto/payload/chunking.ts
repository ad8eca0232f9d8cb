/** The arithmetic of payloads of sealed chunks, and the differences between their kinds. */
import type { ByteSource } from '../../streams/byte-source.ts';
import type { Aead, CryptoProvider } from '../providers/provider.ts';

/** Bytes of the tag of a chunk, for both ciphers (RFC 5116 section 5.1, RFC 8439 section 2.8). */
export const tagBytes = 16;
/** Bytes of the nonce of AES-256-GCM, where it is drawn at random (RFC 5116 section 5.1). */
export const nonceBytes = 12;
/** Bytes of plaintext in flight at once. */
export const batchBytes = 1024 * 1024;

/** Division of a payload into chunks. */
export type Chunking = {
  /** Plaintext bytes of a full chunk. */
  readonly chunkBytes: number;
  /** Permits a full last chunk (an empty one only in an empty payload); else it is shorter. */
  readonly fullLast: boolean;
  /** The most chunks that the format allows. */
  readonly maxChunks: number;
};

/** A payload's chunking, its cipher and its nonces. */
export type Chunks = Chunking & { readonly aead: Aead; nonce(index: number, last: boolean): Uint8Array };

/** A kind of payload: what goes before its chunks, and how a file key opens them. */
export interface Payload {
  readonly chunking: Chunking;
  /** Bytes before the first chunk. */
  readonly preambleBytes: number;
  /** Draws a fresh salt; returns the preamble with it and the cipher of the chunks. */
  create(provider: CryptoProvider, fileKey: Uint8Array): Promise<{ preamble: Uint8Array; chunks: Chunks }>;
  /** Takes the preamble that is next in the source; returns the cipher of the chunks after it. */
  read(source: ByteSource, provider: CryptoProvider, fileKey: Uint8Array): Promise<Chunks>;
}

/**
 * Counts full chunks that are certainly not the last.
 * @param sizeBytes of a chunk, sealed if `bytes` are
 */
export function fullChunksIn(chunking: Chunking, bytes: number, sizeBytes: number): number {
  return chunking.fullLast ? Math.max(0, Math.ceil(bytes / sizeBytes) - 1) : Math.floor(bytes / sizeBytes);
}

export function chunkCount(chunking: Chunking, plaintextBytes: number): number {
  return fullChunksIn(chunking, plaintextBytes, chunking.chunkBytes) + 1;
}

/** Returns how many bytes the chunks of a plaintext have. */
export function sealedBytes(chunking: Chunking, plaintextBytes: number): number {
  if (!Number.isSafeInteger(plaintextBytes) || plaintextBytes < 0)
    throw new RangeError('plaintextBytes must be a whole number of at least 0');
  return plaintextBytes + tagBytes * chunkCount(chunking, plaintextBytes);
}

/** Returns the plaintext bytes in `sealed` bytes of chunks; undefined for an impossible size. */
export function openedBytes(chunking: Chunking, sealed: number): number | undefined {
  if (!Number.isSafeInteger(sealed) || sealed < tagBytes) return undefined;
  const plaintextBytes = sealed - tagBytes * (fullChunksIn(chunking, sealed, chunking.chunkBytes + tagBytes) + 1);
  return plaintextBytes >= 0 && sealedBytes(chunking, plaintextBytes) === sealed ? plaintextBytes : undefined;
}
