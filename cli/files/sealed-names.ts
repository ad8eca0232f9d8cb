/**
 * Names of files at a service, sealed to the public key of this data directory: another computer
 * with the private key lists them, too.
 */
import { existsSync } from 'node:fs';
import type { StoredFile } from '../../shared/api.ts';
import { parseIdentities, sniff, type Identity } from '../../shared/crypto/index.ts';
import { isSealpinError, SealpinError } from '../../shared/errors.ts';
import { type FileDetails, openFileDetails, sealFileDetails } from '../../shared/link/index.ts';
import type { Context } from '../context.ts';
import { readSmall } from '../io/input.ts';
import { pathsIn } from '../io/paths.ts';
import { readIdentities, readRecipients } from '../keys/key-files.ts';
import { environmentPassword } from '../keys/passwords.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { api } from '../remote/client.ts';
import type { Service } from '../remote/service-choice.ts';
import { countText } from '../terminal/size.ts';
import { keepInHistory, type StoredEntry } from './history.ts';

/** `modified`: when the file had last changed. */
type KeptFile = Pick<StoredEntry, 'cid' | 'fileId' | 'bytes'> & {
  name: string | undefined;
  modified?: Date | undefined;
};

/**
 * Remembers a file that was stored: here and, where the data directory has a public key, its name
 * at the service. The file stays stored where that fails, as with a post-quantum key: then a
 * warning says it.
 * @param o.unnamed keeps the name here alone
 */
export async function keepStored(
  { name, modified: time, ...file }: KeptFile,
  service: Service,
  context: Context,
  { unnamed = false }: { unnamed?: boolean } = {},
): Promise<void> {
  const modified = time?.toISOString();
  await keepInHistory({ ...file, name, modified, service: service.url.href }, context);
  const { publicKey } = pathsIn(context.dataDir);
  if (name === undefined || unnamed || !existsSync(publicKey)) return;
  try {
    const recipients = await readRecipients([publicKey], context);
    const other = 'a service keeps names for a P-256 public.key, and yours is of another kind';
    if (recipients.some(({ text }) => text?.startsWith('age1tag1') !== true))
      throw new SealpinError('key_invalid', other);
    const details = await sealFileDetails({ cid: file.cid, name, modified }, { recipients, provider: nodeProvider });
    await api(service, context).setDetails(file.fileId, Buffer.from(details).toString('base64'));
  } catch (error) {
    if (!isSealpinError(error)) throw error;
    context.output.warn(`the name of ${name} is kept on this computer only: ${error.message}`);
  }
}

/**
 * Opens the details of files with the private key of the data directory, where it is there and
 * needs no password, or `SEALPIN_PASSWORD` has that. What cannot be opened is said in notes.
 * @returns them by file ID; `foreign`: the files beside which the service has those of another
 */
export async function openDetails(files: readonly StoredFile[], context: Context) {
  const found = new Map<string, FileDetails>();
  const foreign = new Set<string>();
  const sealed = files.flatMap(({ fileId, cid, details }) => (details === undefined ? [] : [{ fileId, cid, details }]));
  if (sealed.length === 0) return { details: found, foreign };
  const identities = await ownIdentities(countText(sealed.length, 'name'), context);
  let others = 0;
  for (const { fileId, cid, details } of identities === undefined ? [] : sealed) {
    try {
      const bytes = Buffer.from(details, 'base64');
      found.set(fileId, await openFileDetails(bytes, { cid, identities: identities ?? [], provider: nodeProvider }));
    } catch (error) {
      if (!isSealpinError(error)) throw error;
      if (error.code === 'content_mismatch') foreign.add(fileId);
      if (error.code === 'decrypt_failed') others += 1;
      else context.output.warn(`${fileId}: ${error.message}`);
    }
  }
  if (others > 0) context.output.note(`another private key opens ${countText(others, 'name')} of files`);
  return { details: found, foreign };
}

/** The identities of the data directory; undefined, with a note, where they are not at hand. */
async function ownIdentities(what: string, context: Context): Promise<Identity[] | undefined> {
  const { privateKey } = pathsIn(context.dataDir);
  const { output } = context;
  if (!existsSync(privateKey)) {
    output.note(`${what} of files cannot be shown: the private key that opens them is not in ${context.dataDir}`);
    return undefined;
  }
  const bytes = await readSmall(privateKey, { what: 'a private key', environment: context });
  if (sniff(bytes) === undefined) return parseIdentities(new TextDecoder().decode(bytes), nodeProvider);
  const password = environmentPassword(context);
  try {
    if (password !== undefined) return await readIdentities(undefined, password, context);
  } catch (error) {
    if (!isSealpinError(error, 'decrypt_failed')) throw error;
  }
  output.note(`${what} of files cannot be shown: SEALPIN_PASSWORD must have the password of your private key`);
  return undefined;
}
