/** Containers for the tests of decrypting, and the keys and the password that open them. */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { encrypt, generateKeyPair, passwordRecipient, type Format, type Recipient } from '../../shared/crypto/index.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { run, temporaryDirectory, type Overrides, type Ran } from './environment.ts';

export const password = 'some long password';
export const env = { SEALPIN_PASSWORD: password };
export const pair = await generateKeyPair(nodeProvider);
export const other = await generateKeyPair(nodeProvider);

export const byPassword = (logN = 10): Recipient => passwordRecipient(password, { name: 'scrypt', logN });

export async function contain(text: string | Uint8Array, format: Format, ...recipients: Recipient[]): Promise<Buffer> {
  const { stream } = await encrypt(new Blob([typeof text === 'string' ? text : new Uint8Array(text)]).stream(), {
    format,
    recipients,
    provider: nodeProvider,
  });
  return Buffer.from(await new Response(stream).arrayBuffer());
}

/**
 * Runs a command in a directory with the container as `./in`, and the user's private key where it
 * belongs.
 */
export async function unseal(
  container: Uint8Array,
  argv: readonly string[],
  overrides: Overrides = {},
  keys = pair,
): Promise<Ran & { directory: string; files: string[] }> {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'in'), container);
  await writeFile(join(directory, 'private.key'), keys.privatePem, { mode: 0o600 });
  await writeFile(join(directory, 'other.key'), other.privatePem, { mode: 0o600 });
  const ran = await run([...argv, '--data-dir', directory], directory, overrides);
  const files = (await readdir(directory)).filter((name) => !['in', 'private.key', 'other.key'].includes(name));
  return { ...ran, directory, files };
}
