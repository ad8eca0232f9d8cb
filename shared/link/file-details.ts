/**
 * Details of a file, sealed to its owner (docs/details.md): what it is called, which the service
 * that keeps it cannot read.
 */
import * as v from 'valibot';
import { padded, streamOf } from '../crypto/bytes.ts';
import { encrypt, open, type Identity, type Recipient } from '../crypto/index.ts';
import type { WithProvider } from '../crypto/types.ts';
import { SealpinError } from '../errors.ts';
import { cleanFilename, parseFilename } from '../filename.ts';
import { readAll } from '../streams/read-all.ts';
import { parseJson } from './parcel.ts';

/** The bytes of details before they are sealed: names of any length look the same. */
const paddedBytes = 1024;
/** The most bytes of sealed details. */
export const maxDetailsBytes = 4096;

/**
 * Details of the file with this blob ID. `modified`: when its content last changed, in RFC 3339.
 */
export type FileDetails = { cid: string; name: string; type?: string | undefined; modified?: string | undefined };

const DetailsJson = v.object({
  v: v.literal(1),
  cid: v.string(),
  name: v.string(),
  type: v.optional(v.pipe(v.string(), v.regex(/^[ -~]{1,255}$/))),
  modified: v.optional(v.pipe(v.string(), v.isoTimestamp())),
});

/**
 * Seals details.
 * @returns a container of at most `maxDetailsBytes`
 * @throws SealpinError `invalid_filename`, `no_recipients`, `too_large` for more recipients than
 * there is room for
 */
export async function sealFileDetails(
  { cid, name, type, modified }: FileDetails,
  { recipients, provider }: WithProvider & { recipients: readonly Recipient[] },
): Promise<Uint8Array<ArrayBuffer>> {
  const json = padded(JSON.stringify({ v: 1, cid, name: parseFilename(name), type, modified }), paddedBytes);
  if (json.length > paddedBytes) throw new SealpinError('too_large', 'the details of a file have at most 1 KiB');
  const { stream } = await encrypt(streamOf(json), { format: 'sealpin', recipients, provider });
  return readAll(stream, maxDetailsBytes, () => new SealpinError('too_large', 'these are too many recipients'));
}

/**
 * Opens details.
 * @param o.cid of the file that they came with
 * @returns the name with `_` for the characters that `cleanFilename` changes
 * @throws SealpinError `decrypt_failed` for another key, `content_mismatch` for details of another
 * file, `unsupported_version`, `invalid_filename`; `container_invalid`, `wrong_kind` and
 * `header_invalid` for anything else
 */
export async function openFileDetails(
  sealed: Uint8Array,
  { cid, identities, provider }: WithProvider & { cid: string; identities: readonly Identity[] },
): Promise<FileDetails> {
  if (sealed.length > maxDetailsBytes) throw invalid();
  const opened = await open(streamOf(sealed), { provider });
  if (!('decrypt' in opened) || opened.kind !== 'sealpin') throw invalid();
  const plaintext = await readAll(await opened.decrypt(identities), paddedBytes, invalid);
  const value = parseJson(plaintext, invalid);
  const { success, output } = v.safeParse(DetailsJson, value);
  if (!success || plaintext.length !== paddedBytes) {
    const version = typeof value === 'object' && value !== null && 'v' in value ? value.v : 1;
    throw version === 1 ? invalid() : new SealpinError('unsupported_version', 'unsupported version of details');
  }
  if (output.cid !== cid) throw new SealpinError('content_mismatch', 'the name does not belong to this file');
  const { name, type, modified } = output;
  return { cid, name: cleanFilename(name), type, modified };
}

function invalid(): SealpinError {
  return new SealpinError('container_invalid', 'these are no details of a file');
}
