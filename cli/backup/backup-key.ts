/**
 * `account.key` of a backup: the private key of the account, with a password on it. Without it
 * nothing sealed can be restored.
 */
import { createHash } from 'node:crypto';
import { decodePem, isKeyPair, open } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError, otherwise } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { readSmall } from '../io/input.ts';
import { readPrivateText } from '../keys/key-files.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import type { About, Layout } from './layout.ts';

/** A key file has less. */
const keyLimitBytes = 64 * 1024;

/** Digest of a key file for `backup.json`: SHA-256 in hex. */
export function keyFileDigest(keyFile: Uint8Array): string {
  return createHash('sha256').update(keyFile).digest('hex');
}

/**
 * Checks that the key file opens what is in the backup. With its password it is opened; without, it
 * must be the file that the last run left.
 * @param password called where there is a key file
 * @returns its digest; undefined where there is no file
 * @throws config_invalid with the reason; decrypt_failed for another password, file_unreadable
 */
export async function checkKey(
  { key }: Layout,
  about: Pick<About, 'publicKey' | 'key'>,
  password: () => Promise<string | undefined>,
  context: Context,
): Promise<string | undefined> {
  const reading = readSmall(key, { limitBytes: keyLimitBytes, what: 'a private key', environment: context });
  const bytes = await otherwise(reading, 'file_not_found', undefined);
  if (bytes === undefined) return undefined;
  const digest = keyFileDigest(bytes);
  const opened = await open(new Blob([bytes.slice()]).stream(), { provider: nodeProvider }).catch((error: unknown) => {
    throw unusable('is damaged', error);
  });
  if (!('opens' in opened) || opened.opens !== 'password') throw unusable('is not a key with a password on it');
  const given = await password();
  if (given === undefined) {
    if (about.key !== undefined && about.key !== digest)
      throw unusable('is not the file that sealpin wrote; with its password it can be tried (--password-file)');
    return digest;
  }
  const { text } = await readPrivateText(key, given, context).catch((error: unknown) => {
    if (!isSealpinError(error, 'decrypt_failed')) throw error;
    if (error.reason !== 'wrong_password') throw unusable('is damaged', error);
    throw new SealpinError('decrypt_failed', 'account.key does not open with this password', {
      hint: 'give the one that was set when account.key was written',
      cause: error,
    });
  });
  if (!isPair(text, about.publicKey)) throw unusable('is the key of something else than this account');
  return digest;
}

function isPair(privateText: string, publicText: string): boolean {
  const [pkcs8, spki] = [decodePem('PRIVATE KEY', privateText), decodePem('PUBLIC KEY', publicText)];
  try {
    return pkcs8 !== undefined && spki !== undefined && isKeyPair(pkcs8, spki);
  } catch {
    return false;
  }
}

function unusable(why: string, cause?: unknown): SealpinError {
  return new SealpinError('config_invalid', `account.key ${why}`, {
    hint: 'move it away: the next sealpin backup writes it again',
    cause,
  });
}
