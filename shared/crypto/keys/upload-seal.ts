/** Secrets of an unfinished upload, sealed under the API key that it belongs to. */
import { SealpinError } from '../../errors.ts';
import { concat } from '../../streams/concat.ts';
import { draw } from '../providers/provider.ts';
import { hkdf } from '../providers/kdf.ts';
import { webProvider } from '../providers/web.ts';
import { encodePadded, utf8 } from '../bytes.ts';
import type { ApiKey } from './api-key.ts';
import { nonceBytes, tagBytes } from '../payload/chunking.ts';

/** Seals and opens the secrets of an upload; `label` says which: none for the file key. */
export interface UploadSeal {
  /** @returns nonce (12 bytes), ciphertext, tag (16 bytes) */
  seal(plaintext: Uint8Array, label?: string): Promise<Uint8Array>;
  /** @throws SealpinError `decrypt_failed` when it was sealed for another upload, key or label */
  open(sealed: Uint8Array, label?: string): Promise<Uint8Array>;
}

/**
 * The seal of an upload: AES-256-GCM under HKDF-SHA-256 of the secret of its API key
 * (shared/README.md, "Uploads in progress").
 * @param o.preamble of the payload; empty in plain mode
 */
export async function uploadSeal(
  key: ApiKey,
  { uploadId, preamble }: { uploadId: string; preamble: Uint8Array },
): Promise<UploadSeal> {
  const aead = await webProvider.aesGcm(hkdf(webProvider, key.secret, new Uint8Array(0), 'sealpin/v1 upload'));
  const aad = (label?: string): Uint8Array =>
    utf8([key.account, uploadId, encodePadded(preamble), ...(label === undefined ? [] : [label])].join('\n'));
  return {
    async seal(plaintext, label) {
      const nonce = draw(webProvider, nonceBytes);
      return concat(nonce, await aead.seal(nonce, plaintext, aad(label)));
    },
    async open(sealed, label) {
      if (sealed.length < nonceBytes + tagBytes) throw new SealpinError('decrypt_failed');
      return await aead.open(sealed.subarray(0, nonceBytes), sealed.subarray(nonceBytes), aad(label));
    },
  };
}
