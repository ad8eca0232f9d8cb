/** API keys, and the private key of an account wrapped under one. */
import { SealpinError } from '../../errors.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { encodePadded, hex, utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import { hkdf } from '../providers/kdf.ts';
import { webProvider } from '../providers/web.ts';
import { checksum, checksumCharacters, decodeBase62, encodeBase62, endsWithChecksum } from './base62.ts';
import {
  accountBytes,
  accountCharacters,
  apiKeyPrefix,
  isAccountId,
  isApiKeyText,
  secretBytes,
  secretCharacters,
} from './api-key-text.ts';
import { nonceBytes } from '../payload/chunking.ts';

/** An API key: its text, its account, its secret (32 bytes) and the hex SHA-256 of the text. */
export type ApiKey = { text: string; account: string; secret: Uint8Array; hash: string };

/**
 * The ID that names an API key: 16 characters of its SHA-256 in hex, which reveal nothing about the
 * rest.
 */
export function keyIdOf(hash: string): string {
  return hash.slice(0, 16);
}

/** Draws an account id: 128 bits as 22 base62 characters; throws `random_failed`. */
export function newAccountId(provider: CryptoProvider = webProvider): string {
  return encodeBase62(draw(provider, accountBytes));
}

/** Draws a secret: 256 bits as 43 base62 characters; throws `random_failed`. */
export function newSecretText(): string {
  return encodeBase62(draw(webProvider, secretBytes));
}

/** Makes an API key of an account; throws `random_failed`. @param account from `newAccountId` */
export async function newApiKey(account: string, provider: CryptoProvider = webProvider): Promise<ApiKey> {
  if (!isAccountId(account)) throw new TypeError('account must be an account id');
  const secret = draw(provider, secretBytes);
  const body = `${apiKeyPrefix}${account}${encodeBase62(secret)}`;
  const text = body + checksum(body);
  return { text, account, secret, hash: hex(provider.sha256(utf8(text))) };
}

/** Parses an API key; undefined when it is malformed, out of range or has a wrong checksum. */
export async function parseApiKey(text: string): Promise<ApiKey | undefined> {
  if (!isApiKeyText(text) || !endsWithChecksum(text)) return undefined;
  const body = text.slice(0, -checksumCharacters);
  const account = body.slice(apiKeyPrefix.length, apiKeyPrefix.length + accountCharacters);
  const secret = decodeBase62(body.slice(-secretCharacters), secretBytes);
  if (secret === undefined || !isAccountId(account)) return undefined;
  return { text, account, secret, hash: hex(webProvider.sha256(utf8(text))) };
}

const aeadOf = (key: ApiKey) =>
  webProvider.aesGcm(hkdf(webProvider, key.secret, new Uint8Array(0), 'sealpin/v1 api-key'));
const aad = (key: ApiKey, id: string, spki: Uint8Array): Uint8Array =>
  utf8(`${key.account}\n${id}\n${encodePadded(spki)}`);

/**
 * Wraps an account's private key (PKCS#8 DER) under one of its API keys.
 * @param o.id of the API key's record @param o.spki the account's public key, which is bound to it
 * @returns nonce (12 bytes), ciphertext, tag (16 bytes)
 */
export async function sealPrivateKey(
  key: ApiKey,
  { id, pkcs8, spki }: { id: string; pkcs8: Uint8Array; spki: Uint8Array },
): Promise<Uint8Array> {
  const nonce = draw(webProvider, nonceBytes);
  const aead = await aeadOf(key);
  return concat(nonce, await aead.seal(nonce, pkcs8, aad(key, id, spki)));
}

/** Unwraps the private key that `sealPrivateKey` wrapped; throws `decrypt_failed`. */
export async function unsealPrivateKey(
  key: ApiKey,
  { id, sealed, spki }: { id: string; sealed: Uint8Array; spki: Uint8Array },
): Promise<Uint8Array> {
  if (sealed.length < nonceBytes + 16) throw new SealpinError('decrypt_failed');
  const aead = await aeadOf(key);
  return aead.open(sealed.subarray(0, nonceBytes), sealed.subarray(nonceBytes), aad(key, id, spki));
}
