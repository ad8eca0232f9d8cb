/** C2SP chunked-encryption.md, "Cobblestone-256": the payload of `sealpin/v1`. */
import { SealpinError } from '../../errors.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { timingSafeEqual, utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import type { Chunking, Chunks } from './chunking.ts';
import { expand } from '../providers/kdf.ts';
import type { ByteSource } from '../../streams/byte-source.ts';

/** 16 KiB chunks, the last one shorter; at most 2^38 of them (C2SP chunked-encryption.md). */
export const cobblestoneChunking: Chunking = { chunkBytes: 16_384, fullLast: false, maxChunks: 2 ** 38 };
const inputKeyBytes = 32;
const saltBytes = 24;
const commitmentBytes = 32;
/** Salt and commitment, before the first chunk. */
export const preambleBytes = saltBytes + commitmentBytes;

async function derive(
  provider: CryptoProvider,
  inputKey: Uint8Array,
  context: Uint8Array,
  salt: Uint8Array,
): Promise<{ commitment: Uint8Array; chunks: Chunks }> {
  if (inputKey.length !== inputKeyBytes) throw new TypeError('the input key of Cobblestone-256 has 32 bytes');
  const info = concat(utf8('c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0'), salt, context);
  const derived = expand(provider, 'sha512', inputKey, info, 32 + 12 + commitmentBytes);
  const baseNonce = derived.slice(32, 44);
  return {
    commitment: derived.slice(44),
    chunks: {
      ...cobblestoneChunking,
      aead: await provider.aesGcm(derived.slice(0, 32)),
      nonce(index) {
        const nonce = baseNonce.slice();
        // By division, not by shifts: an index may pass 2^32, where JavaScript's operators on bits
        // end.
        for (let position = 11, rest = index; rest > 0; position -= 1, rest = Math.floor(rest / 256))
          nonce[position] = (nonce[position] ?? 0) ^ (rest % 256);
        return nonce;
      },
    },
  };
}

/**
 * Draws a salt for a new payload.
 * @param inputKey 32 bytes; `TypeError` for anything else
 * @param context bound to the keys of the chunks
 * @returns the salt and the commitment as the preamble, and the cipher of the chunks
 */
export async function newCobblestone(
  provider: CryptoProvider,
  inputKey: Uint8Array,
  context: Uint8Array,
): Promise<{ preamble: Uint8Array; chunks: Chunks }> {
  const salt = draw(provider, saltBytes);
  const { commitment, chunks } = await derive(provider, inputKey, context, salt);
  return { preamble: concat(salt, commitment), chunks };
}

/**
 * Takes salt and commitment from a source.
 * @throws SealpinError `decrypt_failed` when the key is not the committed one, before any chunk is
 * opened; `container_invalid` when the source ends too early
 */
export async function readCobblestone(
  source: ByteSource,
  provider: CryptoProvider,
  inputKey: Uint8Array,
  context: Uint8Array,
): Promise<Chunks> {
  await source.fill(preambleBytes);
  if (source.length < preambleBytes)
    throw new SealpinError('container_invalid', 'the data is cut off at its start', { reason: 'payload' });
  const { commitment, chunks } = await derive(provider, inputKey, context, source.take(saltBytes).slice());
  if (!timingSafeEqual(commitment, source.take(commitmentBytes)))
    throw new SealpinError('decrypt_failed', 'the data is damaged at its start', { reason: 'payload' });
  return chunks;
}
