/** What a thread of the bench is asked to do. */

/** Bytes of one run, in MiB. */
export const totalMebibytes = 256;

/** `name`: a format of ours, a peer, or a cipher of node:crypto with nothing around it. */
export type Task = {
  name: 'sealpin' | 'age' | 'openpgp' | 'typage' | 'aes-256-gcm' | 'chacha20-poly1305';
  direction: 'encrypt' | 'decrypt';
  chunkBytes: number;
};
