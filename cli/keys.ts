/** Key files: public ones to encrypt to, private ones to open with. */
import { nodeBackend } from './crypto.ts';
import { open, parseIdentities, parseRecipients, passwordIdentity, type Identity, type Recipient } from '../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import type { Context } from './context.ts';
import { isOpenToOthers, readSmall } from './input.ts';
import { pathsIn } from './paths.ts';
import { askPassword } from './secrets.ts';

/** Room for a thousand keys; what is longer is the wrong file. */
const limitBytes = 1024 * 1024;
/** How the two forms of an age file begin (age v1 specification, "Header" and "ASCII armor"). */
const protectedStarts = ['age-encryption.org/', '-----BEGIN AGE ENCRYPTED FILE-----'];

/**
 * The recipients in public key files; an argument that is itself a recipient (`age1…`) is taken as one.
 *
 * @throws key_invalid with the name of the file, file_not_found, file_unreadable
 */
export async function readRecipients(files: readonly string[], context: Context): Promise<Recipient[]> {
  const recipients: Recipient[] = [];
  for (const file of files) {
    if (/^age1[02-9a-z]+$/.test(file)) recipients.push(...parseRecipients(file));
    else {
      const text = await keyText(file, 'a public key', context);
      recipients.push(...naming(file, () => parseRecipients(text)));
    }
  }
  return recipients;
}

/**
 * The identities in a private key file: the given one, else `private.key` of the data directory. A file that is protected
 * with a password (an age file) asks for it.
 *
 * @throws key_invalid with the name of the file, file_not_found, file_unreadable, decrypt_failed
 */
export async function readIdentities(file: string | undefined, context: Context): Promise<Identity[]> {
  const path = file ?? pathsIn(context.dataDir).privateKey;
  let bytes;
  try {
    bytes = await readSmall(path, { limitBytes, what: 'a private key', world: context });
  } catch (error) {
    if (file !== undefined || !isSealpinError(error, 'file_not_found')) throw error;
    throw new SealpinError('file_not_found', `there is no private key in ${context.dataDir}`, { hint: 'name the key file, or make a pair with: sealpin keygen', cause: error });
  }
  if (await isOpenToOthers(path, context)) context.output.warn(`${path} is open to other users; close it with: chmod 600 ${path}`);
  const text = isProtected(bytes) ? await unprotect(path, bytes, context) : decode(path, bytes);
  return naming(path, () => parseIdentities(text));
}

function isProtected(bytes: Uint8Array): boolean {
  const start = Buffer.from(bytes.subarray(0, 64)).toString('latin1').trimStart();
  return protectedStarts.some((prefix) => start.startsWith(prefix));
}

async function unprotect(path: string, bytes: Uint8Array, context: Context): Promise<string> {
  const opened = await open(new Blob([new Uint8Array(bytes)]).stream(), { backend: nodeBackend });
  if (opened.kind !== 'age' || opened.opens !== 'password') {
    throw new SealpinError('key_invalid', `${path} is encrypted, and not with a password`, { hint: 'decrypt it first' });
  }
  const fromEnvironment = context.env['SEALPIN_KEY_PASSWORD'];
  const password = fromEnvironment ?? (await askPassword(path, context));
  try {
    const plain = await opened.decrypt([passwordIdentity(password)]);
    return decode(path, Buffer.from(await new Response(plain).arrayBuffer()));
  } catch (error) {
    if (isSealpinError(error, 'decrypt_failed')) throw new SealpinError('decrypt_failed', `${path} does not open: wrong password, or it is damaged`, { cause: error });
    throw error;
  }
}

async function keyText(path: string, what: string, context: Context): Promise<string> {
  return decode(path, await readSmall(path, { limitBytes, what, world: context }));
}

function decode(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // The decoder's error could repeat what it read.
    throw new SealpinError('key_invalid', `${path} is not a key file`, { hint: 'a key file is text: PEM, or lines such as age1…' });
  }
}

function naming<T>(path: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof SealpinError)) throw error;
    throw new SealpinError(error.code, `${path}: ${error.message}`, { ...(error.hint === undefined ? {} : { hint: error.hint }), cause: error });
  }
}
