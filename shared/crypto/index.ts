/**
 * Exports of crypto for other rooms: the container formats, keys and streams of `shared/README.md`.
 * All of it works on web streams and runs the same in workerd, Node and browsers.
 */
export { keyIdOf, newAccountId, newApiKey, newSecretText, parseApiKey, type ApiKey } from './keys/api-key.ts';
export { sealPrivateKey, unsealPrivateKey } from './keys/api-key.ts';
export { isSignedBy, parseSignedToken, signerOf, signToken, type SignedToken } from './keys/signed-token.ts';
export { uploadSeal, type UploadSeal } from './keys/upload-seal.ts';
export { apiKeyHint, apiKeyPrefix, isAccountId, isApiKeyText } from './keys/api-key-text.ts';
export { timingSafeEqual } from './bytes.ts';
export type { Aead, CryptoProvider, CompressibleCurve, Curve, HybridKem, ScryptCost } from './providers/provider.ts';
export { encrypt, open, type Again, type EncryptOptions, type Opened } from './container.ts';
export { encryptDetached, openContainerHeader, openDetached, type OpenedDetached } from './detached.ts';
export { decryptPayload, detachedPayloadBytes, encryptPayload, plaintextBytes } from './detached.ts';
export { beginPayload, resumePayload, type PayloadKeys, type PayloadSealer } from './detached.ts';
export type { PayloadState } from './payload/chunk-sealer.ts';
export { fileKeyIdentity } from './file-key.ts';
export { fileKeyOf, openWithFileKey } from './known-file-key.ts';
export { fileKeyText, parseFileKey } from './keys/file-key-text.ts';
export type { FileInfo } from './stanzas/file-stanza.ts';
export type { Format, FormatRow, Stanza } from './formats/format-row.ts';
export { encodePrivateKeyFile, encodePublicKeyFile, isPrivateText } from './keys/key-file.ts';
export { generateKeyPair, keyPairOf, type KeyPair } from './keys/key-file.ts';
export { generatePostQuantumKeyPair, postQuantumKeyPairOf, type PostQuantumKeyPair } from './keys/key-file.ts';
export { parseIdentities, parseRecipients, secretIn } from './keys/key-file.ts';
export { identityFromPair, identityFromPkcs8, isKeyPair, recipientFromSpki } from './keys/key-pair.ts';
export { parcelSigner, parseSigner, type ParcelSigner } from './keys/parcel-signer.ts';
export { isSignerText, signerComment, signersIn } from './keys/parcel-signer.ts';
export { decodePem, encodePem } from './keys/pem.ts';
export { searchTag } from './keys/search-tag.ts';
export { parsePassword, passwordIdentity, passwordRecipient, type PasswordKdf } from './stanzas/password.ts';
export { openPreviousKey, sealPreviousKey } from './previous-key.ts';
export { openAt, openAtWithFileKey, type OpenedAt } from './random-access.ts';
export { rewrap, rewrapHeader, type Rewrapping } from './rewrap.ts';
export { sniff, sniffBytes, type Sniffed } from './sniff.ts';
export type { Identity, NamedRecipient, RandomAccess, Recipient } from './types.ts';
export { webProvider } from './providers/web.ts';
