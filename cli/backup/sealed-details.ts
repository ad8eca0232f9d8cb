/**
 * Sealed parts of a backup: details of plain files, and headers of files that the service
 * encrypted.
 */
import * as v from 'valibot';
import { open, openContainerHeader, type Identity, type Recipient } from '../../shared/crypto/index.ts';
import { SealpinError } from '../../shared/errors.ts';
import { sealText } from '../keys/key-files.ts';
import { nodeProvider } from '../keys/node-provider.ts';
import { Details, type BackupEntry } from './layout.ts';
import { streamOf } from '../io/byte-stream.ts';

/** Seals details to the key of the account. @returns a container in base64 */
export async function sealDetails(details: Details, recipient: Recipient): Promise<string> {
  return Buffer.from(await sealText(JSON.stringify(details), 'sealpin', [recipient])).toString('base64');
}

/**
 * Opens what is sealed of a plain file.
 * @throws decrypt_failed for another key; container_invalid and the like
 */
export async function openDetails({ fileId, sealed }: BackupEntry, identities: readonly Identity[]): Promise<Details> {
  const opened = await open(streamOf(Buffer.from(sealed ?? '', 'base64')), { provider: nodeProvider });
  if (!('decrypt' in opened)) throw damaged(fileId);
  const plaintext = await new Response(await opened.decrypt(identities)).text();
  try {
    return v.parse(Details, JSON.parse(plaintext));
  } catch (cause) {
    throw damaged(fileId, cause);
  }
}

/**
 * Opens the header of a file that the service encrypted.
 * @throws as `openDetails`, header_invalid
 */
export async function openSealedHeader({ fileId, header }: BackupEntry, identities: readonly Identity[]) {
  if (header === undefined) throw damaged(fileId);
  const container = streamOf(Buffer.from(header, 'base64'));
  return openContainerHeader(container, { fileId, identities, provider: nodeProvider });
}

function damaged(fileId: string, cause?: unknown): SealpinError {
  return new SealpinError('config_invalid', `the record of ${fileId} is damaged`, {
    hint:
      'remove it from files/ of the backup: the next sealpin backup makes it again, if the ' +
      'account still has the file',
    cause,
  });
}
