/** C2SP age.md, "Payload": the STREAM construction of age v1. */
import { SealpinError } from '../../errors.ts';
import type { ByteSource } from '../../streams/byte-source.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { hkdf } from '../providers/kdf.ts';
import type { Chunking, Chunks, Payload } from './chunking.ts';

/** 64 KiB chunks; the counter has 88 bits, of which JavaScript's numbers hold 53 exactly. */
export const ageChunking: Chunking = { chunkBytes: 65_536, fullLast: true, maxChunks: 2 ** 53 - 1 };
/** The nonce before the first chunk. */
const ageNonceBytes = 16;

async function derive(provider: CryptoProvider, fileKey: Uint8Array, nonce: Uint8Array): Promise<Chunks> {
  return {
    ...ageChunking,
    aead: await provider.chaChaPoly(hkdf(provider, fileKey, nonce, 'payload')),
    nonce(index, last) {
      const bytes = new Uint8Array(12);
      for (let position = 10, rest = index; rest > 0; position -= 1, rest = Math.floor(rest / 256))
        bytes[position] = rest % 256;
      bytes[11] = last ? 1 : 0;
      return bytes;
    },
  };
}

/** The payload of age v1: a nonce, then chunks under a key derived with it. */
export const ageStream: Payload = {
  chunking: ageChunking,
  preambleBytes: ageNonceBytes,
  async create(provider, fileKey) {
    const preamble = draw(provider, ageNonceBytes);
    return { preamble, chunks: await derive(provider, fileKey, preamble) };
  },
  async read(source: ByteSource, provider, fileKey) {
    await source.fill(ageNonceBytes);
    if (source.length < ageNonceBytes)
      throw new SealpinError('header_invalid', 'the container ends before its payload');
    return derive(provider, fileKey, source.take(ageNonceBytes).slice());
  },
};
