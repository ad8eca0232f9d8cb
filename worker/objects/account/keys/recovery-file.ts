/**
 * The recovery file of an account: an age file to its recovery key, with the account's private key
 * and a secret. The private key alone recovers nothing, because every API key with `read` can
 * unseal it; of the secret the account keeps a hash.
 */
import { decodePem, encodePem, encrypt, newSecretText, parseRecipients } from '../../../../shared/crypto/index.ts';
import type { Recipient } from '../../../../shared/crypto/index.ts';
import { SealpinError } from '../../../../shared/errors.ts';
import type { Recovery } from '../account-row.ts';

/** The line above the PEM. Readers of key files skip it as a comment. */
const secretLine = /^# recovery: ([0-9A-Za-z]{43})\r?$/m;

/**
 * Makes a recovery file with a new secret.
 * @param recipient the recovery key
 * @param pkcs8 the account's private key, in DER
 */
export async function newRecovery(recipient: Recipient, pkcs8: Uint8Array): Promise<Recovery> {
  const secret = newSecretText();
  const text = `# recovery: ${secret}\n${encodePem('PRIVATE KEY', pkcs8)}`;
  const { stream } = await encrypt(new Blob([text]).stream(), { format: 'age', recipients: [recipient] });
  return { file: new Uint8Array(await new Response(stream).arrayBuffer()), secretHash: await hashOf(secret) };
}

/**
 * Parses the text of an opened recovery file.
 * @returns the private key in DER, and the hash of the secret; without its line, undefined
 * @throws key_invalid when the text has no private key
 */
export async function parseRecoveryText(text: string): Promise<{ pkcs8: Uint8Array; secretHash: string | undefined }> {
  const secret = secretLine.exec(text)?.[1];
  const pkcs8 = decodePem('PRIVATE KEY', text);
  if (pkcs8 === undefined) {
    throw new SealpinError('key_invalid', 'privateKey has no -----BEGIN PRIVATE KEY----- block', {
      hint: 'send the whole text of the opened recovery file',
    });
  }
  return { pkcs8, secretHash: secret === undefined ? undefined : await hashOf(secret) };
}

/** @throws key_invalid when the text is not exactly one public key */
export function parseRecoveryKey(text: string): Recipient {
  const [recipient, ...more] = parseRecipients(text);
  if (recipient === undefined || more.length > 0)
    throw new SealpinError('key_invalid', 'recovery must be one public key');
  return recipient;
}

async function hashOf(secret: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(secret))).toHex();
}
