/** C2SP age.md, "Payload": the STREAM construction of age v1. */
import { SealpinError } from '../../errors.ts';
import { draw, type Backend } from '../backends/backend.ts';
import type { Chunking, Chunks } from './chunks.ts';
import { hkdf } from '../backends/kdf.ts';
import type { ByteSource } from '../../streams/byte-source.ts';

/** 64 KiB chunks; the counter has 88 bits, and what JavaScript counts exactly ends before. */
export const stream: Chunking = { chunkBytes: 65_536, fullLast: true, maxChunks: 2 ** 53 - 1 };
/** The nonce before the first chunk. */
export const nonceBytes = 16;

async function derive(backend: Backend, fileKey: Uint8Array, nonce: Uint8Array): Promise<Chunks> {
  return {
    ...stream,
    aead: await backend.chaChaPoly(hkdf(backend, fileKey, nonce, 'payload')),
    nonce(index, last) {
      const bytes = new Uint8Array(12);
      for (let at = 10, rest = index; rest > 0; at -= 1, rest = Math.floor(rest / 256)) bytes[at] = rest % 256;
      bytes[11] = last ? 1 : 0;
      return bytes;
    },
  };
}

/** A fresh nonce: what goes before the chunks, and how to seal them. */
export async function newStream(
  backend: Backend,
  fileKey: Uint8Array,
): Promise<{ preamble: Uint8Array; chunks: Chunks }> {
  const preamble = draw(backend, nonceBytes);
  return { preamble, chunks: await derive(backend, fileKey, preamble) };
}

/** Reads the nonce. */
export async function readStream(source: ByteSource, backend: Backend, fileKey: Uint8Array): Promise<Chunks> {
  await source.fill(nonceBytes);
  if (source.length < nonceBytes) throw new SealpinError('header_invalid', 'The container ends before its payload');
  return derive(backend, fileKey, source.take(nonceBytes).slice());
}
