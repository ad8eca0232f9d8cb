/** `secrets.json` in a backup: an age file, for a password or for recipients. */
import { open, passwordIdentity } from '../../../shared/crypto/index.ts';
import { SealpinError } from '../../../shared/errors.ts';
import type { Context } from '../../context.ts';
import { streamOf } from '../../io/byte-stream.ts';
import { readIdentities } from '../../keys/key-files.ts';
import { nodeProvider } from '../../keys/node-provider.ts';
import { askPassword, givenPassword } from '../../keys/passwords.ts';

/**
 * Opens the secrets with the password or the key that was given; asks for a password.
 * @throws decrypt_failed, config_invalid when they are damaged; the codes of `readIdentities`
 */
export async function openSecrets(
  bytes: Uint8Array,
  given: { readonly key: string | undefined; readonly 'password-file': string | undefined },
  context: Context,
): Promise<string> {
  const opened = await open(streamOf(bytes), { provider: nodeProvider });
  if (!('opens' in opened)) throw new SealpinError('config_invalid', 'the secrets in the backup are damaged');
  const password = await givenPassword(given, context);
  const identities =
    opened.opens === 'password'
      ? [passwordIdentity(password ?? (await askPassword('the secrets of the backup', context)))]
      : await readIdentities(given.key, password, context);
  return new Response(await opened.decrypt(identities)).text();
}
