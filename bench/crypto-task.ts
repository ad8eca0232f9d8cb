/** The work of one thread of the crypto bench. */

/** Bytes of one run, in MiB. */
export const totalMebibytes = 256;

/** `name`: one of our formats, a peer, or a bare cipher of node:crypto. */
export type Task = {
  name: 'sealpin' | 'age' | 'openpgp' | 'typage' | 'aes-256-gcm' | 'chacha20-poly1305';
  direction: 'encrypt' | 'decrypt';
  chunkBytes: number;
};
