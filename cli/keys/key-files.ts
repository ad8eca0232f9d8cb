/** Key files: public ones to encrypt to, private ones to open with. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { nodeProvider } from './node-provider.ts';
import {
  encrypt,
  isPrivateText,
  isSignerText,
  open,
  parseIdentities,
  parseRecipients,
  parseSigner,
  passwordIdentity,
  passwordRecipient,
  signersIn,
  sniff,
  type Format,
  type Recipient,
} from '../../shared/crypto/index.ts';
import { isSealpinError, otherwise, SealpinError } from '../../shared/errors.ts';
import type { Context } from '../context.ts';
import { isOpenToOthers, readSmall } from '../io/input.ts';
import { pathsIn } from '../io/paths.ts';
import { suggestion } from '../terminal/suggestion.ts';
import type { Contacts } from './contacts.ts';
import { askPassword, environmentPassword, withPassword } from './passwords.ts';
import { streamOf } from '../io/byte-stream.ts';

/** A recipient, or the text of an SSH key, which the parser refuses with the reason. */
const recipientText = /^(?:age1[0-9a-z]+$|(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+ )/;

/**
 * The recipients that arguments name: public key files, contacts, and recipients themselves
 * (`age1…`).
 * @param contacts without them, names of contacts are not known
 * @throws key_invalid with the name of the file or contact, file_unreadable; usage when a name is
 * both a file and a contact
 */
export async function readRecipients(names: readonly string[], context: Context, contacts: Contacts = new Map()) {
  const recipients: Recipient[] = [];
  for (const file of names) {
    refusePasted(file, 'expected public keys, got a private key');
    const contact = contacts.get(file.normalize('NFC'));
    if (recipientText.test(file))
      recipients.push(...parsing(shortened(file), () => parseRecipients(file, nodeProvider)));
    else if (contact !== undefined) {
      await refuseFileOfThatName(file, context);
      recipients.push(...contact.flatMap((text) => parsing(file, () => parseRecipients(text, nodeProvider))));
    } else {
      const text = await publicKeyText(file, context, contacts);
      recipients.push(...parsing(file, () => parseRecipients(text, nodeProvider)));
    }
  }
  return recipients;
}

/** The content of a public key file: its recipients, and its signer. */
export type PublicKeys = { readonly recipients: readonly string[]; readonly signers: readonly string[] };

/**
 * Reads the public key of somebody else: a file, or a recipient or signer itself.
 * @throws as `readRecipients`
 */
export async function readPublicKeys(name: string, context: Context): Promise<PublicKeys> {
  refusePasted(name, 'expected public keys, got a private key');
  const checked = (signers: readonly string[]) => signers.filter((signer) => parseSigner(signer).length > 0);
  if (isSignerText(name)) return { recipients: [], signers: parsing(shortened(name), () => checked([name])) };
  if (recipientText.test(name))
    return { recipients: (await readRecipients([name], context)).map(({ text = '' }) => text), signers: [] };
  const text = await publicKeyText(name, context, new Map());
  return parsing(name, () => ({
    recipients: parseRecipients(text, nodeProvider).map((recipient) => recipient.text ?? ''),
    signers: checked(signersIn(text)),
  }));
}

/**
 * The identities in a private key file: the given one, else `private.key` of the data directory. A
 * file that is protected with a password (a container) is opened with the given one, else that of
 * the environment. Where there is none, or that one is for something else, a person is asked.
 * @param password for a protected key file
 * @param hint how to give it where nobody can be asked
 * @throws key_invalid with the name of the file, file_not_found when none is named and the data
 * directory has none, file_unreadable, decrypt_failed
 */
export async function readIdentities(
  file: string | undefined,
  password: string | undefined,
  context: Context,
  hint?: string,
) {
  const { path, text } = await readPrivateText(file, password, context, hint);
  return parsing(path, () => parseIdentities(text, nodeProvider));
}

/** The text of a private key file, in the clear, not parsed; else as `readIdentities`. */
export async function readPrivateText(
  file: string | undefined,
  password: string | undefined,
  context: Context,
  hint = 'give its password in SEALPIN_PASSWORD',
) {
  if (file !== undefined) refusePasted(file, 'expected a file name, got a private key');
  const path = file ?? pathsIn(context.dataDir).privateKey;
  let bytes;
  try {
    bytes = await readKeyFile(path, 'a private key', context);
  } catch (error) {
    if (file !== undefined || !isMissingFile(error)) throw error;
    throw new SealpinError('file_not_found', `there is no private key in ${context.dataDir}`, {
      hint:
        'name the private key that the file was encrypted to, or copy it there; a new pair does ' +
        'not open older files',
      cause: error,
    });
  }
  if (await isOpenToOthers(path, context))
    context.output.warn(`${path} is accessible to other users; fix it with: chmod 600 ${path}`);
  const isProtected = sniff(bytes) !== undefined;
  const text = isProtected ? await unprotect(path, bytes, { password, hint }, context) : decodeKeyFile(path, bytes);
  return { path, text, isProtected };
}

/** A key on the command line is not repeated: messages end up in logs. */
function refusePasted(argument: string, detail: string): void {
  if (!isPrivateText(argument)) return;
  throw new SealpinError('key_invalid', detail, {
    hint: 'it is now in your shell history: create a new pair with: sealpin keygen',
  });
}

async function unprotect(
  path: string,
  bytes: Uint8Array,
  { password, hint }: { password: string | undefined; hint: string },
  context: Context,
) {
  const opened = await open(streamOf(bytes), { provider: nodeProvider });
  if (!('opens' in opened) || opened.opens !== 'password') {
    throw new SealpinError('key_invalid', `${path} is encrypted, but not with a password`, {
      hint: 'decrypt it first',
    });
  }
  const given = password ?? environmentPassword(context);
  const find = async (failed: number) => {
    if (given !== undefined && failed === 0) return [passwordIdentity(given)];
    const asked = askPassword(path, context, failed, hint);
    // Without a terminal, that the other one is wrong is what is said.
    const typed = await (given === undefined ? asked : otherwise(asked, 'usage', undefined));
    return typed === undefined ? undefined : [passwordIdentity(typed)];
  };
  try {
    const plain = await withPassword(find, password !== undefined, opened.decrypt, context);
    return decodeKeyFile(path, Buffer.from(await new Response(plain).arrayBuffer()));
  } catch (error) {
    throw naming(path, error);
  }
}

/**
 * A private key file that opens with a password only: an age file, which `age --decrypt` opens,
 * too. Without a password it is the text.
 */
export async function protect(text: string, password: string | undefined, context: Context): Promise<Uint8Array> {
  if (password === undefined) return new TextEncoder().encode(text);
  return sealText(text, 'age', [passwordRecipient(password, { name: 'scrypt', logN: context.scryptLogN })]);
}

/** Encrypts a short text. */
export async function sealText(text: string, format: Format, recipients: readonly Recipient[]): Promise<Uint8Array> {
  const plaintext = streamOf(new TextEncoder().encode(text));
  const { stream } = await encrypt(plaintext, { format, recipients, provider: nodeProvider });
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function publicKeyText(path: string, context: Context, contacts: Contacts): Promise<string> {
  try {
    return decodeKeyFile(path, await readKeyFile(path, 'a public key', context));
  } catch (error) {
    if (!isMissingFile(error)) throw error;
    throw new SealpinError('key_invalid', `there is no file ${path}, and no contact of that name`, {
      hint: suggestion(path, [...contacts.keys()]) ?? 'name a public key file, a contact, or a recipient itself: age1…',
      cause: error,
    });
  }
}

/** Refuses a name that is also a file: who can read is not guessed. @throws usage */
async function refuseFileOfThatName(name: string, { cwd }: Context): Promise<void> {
  const found = await stat(resolve(cwd, name)).catch(() => undefined);
  if (found === undefined) return;
  const detail = `${name} is a contact, and also a ${found.isDirectory() ? 'directory' : 'file'} here`;
  const hint = `for the file write ./${name}; for the contact change to another directory`;
  throw new SealpinError('usage', detail, { hint });
}

/** A recipient as it is shown in a message: some are 2,000 characters long. */
function shortened(recipient: string): string {
  return recipient.length > 24 ? `${recipient.slice(0, 20)}…` : recipient;
}

/**
 * All of a key file. An argument that cannot be a key file (missing, a directory, too large) is
 * misuse, unlike a file that cannot be read.
 * @param what it should be, for the message
 * @throws key_invalid, file_unreadable
 */
async function readKeyFile(path: string, what: string, context: Context): Promise<Uint8Array> {
  try {
    return await readSmall(path, { what, environment: context });
  } catch (error) {
    if (!isSealpinError(error, 'file_not_found') && !isSealpinError(error, 'file_unreadable')) throw error;
    // A failure of the system has its error as the cause; a path that cannot be a key file has
    // none, or our own.
    const isSystemFailure = error.cause !== undefined && !isSealpinError(error.cause);
    if (error.code === 'file_unreadable' && isSystemFailure) throw error;
    throw new SealpinError('key_invalid', error.message, { hint: `name a file with ${what}`, cause: error });
  }
}

function isMissingFile(error: unknown): error is SealpinError {
  return isSealpinError(error, 'key_invalid') && isSealpinError(error.cause, 'file_not_found');
}

function decodeKeyFile(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // The decoder's error could repeat what it read.
    throw new SealpinError('key_invalid', `${path} is not a key file`, {
      hint: 'a key file is text: PEM, or lines such as age1…',
    });
  }
}

function parsing<T>(path: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw naming(path, error);
  }
}

/** Adds the name of the file, or the recipient, to a failure. */
function naming(path: string, error: unknown): unknown {
  if (!isSealpinError(error) || !['key_invalid', 'decrypt_failed', 'container_invalid'].includes(error.code))
    return error;
  return new SealpinError(error.code, `${path}: ${error.message}`, { reason: error.reason, cause: error });
}
