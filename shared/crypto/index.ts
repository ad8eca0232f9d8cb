/**
 * The crypto room's door: the container formats, keys and streams of `shared/README.md`. Everything takes and gives web streams and runs
 * the same in workerd, Node and browsers.
 */
export {
  newAccountId,
  newApiKey,
  newSecretText,
  parseApiKey,
  sealPrivateKey,
  unsealPrivateKey,
  type ApiKey,
} from './keys/api-key.ts';
export type { Aead, Backend, CompressibleCurve, Curve, HybridKem, ScryptCost } from './backends/backend.ts';
export { encrypt, open, type Again, type Opened } from './container.ts';
export {
  detachedPayloadBytes,
  encryptDetached,
  openDetached,
  plaintextBytes,
  type OpenedDetached,
} from './detached.ts';
export type { FileInfo } from './stanzas/file-stanza.ts';
export {
  generateKeyPair,
  generatePostQuantumKeyPair,
  identityFromPkcs8,
  parseIdentities,
  parseRecipients,
  recipientFromSpki,
  type KeyPair,
  type PostQuantumKeyPair,
} from './keys/key-file.ts';
export { parsePassword, passwordIdentity, passwordRecipient, type PasswordKdf } from './stanzas/password.ts';
export { openAt, type OpenedAt, type RandomAccess } from './random-access.ts';
export { rewrap, rewrapHeader, type Rewrapping } from './rewrap.ts';
export { sniff, sniffBytes, type Sniffed } from './sniff.ts';
export type { Format, Identity, Recipient, Stanza } from './types.ts';
export { webBackend } from './backends/web.ts';
