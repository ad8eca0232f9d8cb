/** The record of a share (docs/links.md): a parcel that the secret of the link opens, if need be together with a password. */
import { draw } from '../crypto/backends/backend.ts';
import { streamOf } from '../crypto/bytes.ts';
import {
  decryptPayload,
  encrypt,
  encryptPayload,
  open,
  passwordIdentity,
  passwordRecipient,
  webBackend,
  type Backend,
  type PasswordKdf,
} from '../crypto/index.ts';
import { encodeBase62 } from '../crypto/keys/base62.ts';
import { SealpinError } from '../errors.ts';
import { readAll } from '../streams/read-all.ts';
import { idBytes, secretBytes } from './link.ts';
import { encodeParcel, maxParcelBytes, parcelTooLarge, parseParcel, type Parcel } from './parcel.ts';

/** The most bytes of a record: the largest parcel, the tags of its chunks, the preamble, and a header with a password. */
export const maxRecordBytes = maxParcelBytes + 1024;

/** Draws the ID of a share: 128 bits as 22 base62 characters. @throws SealpinError `random_failed` */
export function newShareId(backend: Backend = webBackend): string {
  return encodeBase62(draw(backend, idBytes));
}

/** The password of a record: the secret of the link and what the sender chose, so that both are needed. */
function recordPassword(secret: Uint8Array, password: string): string {
  if (password === '') throw new SealpinError('password_invalid', 'The password is empty');
  return `${encodeBase62(secret)}.${password}`;
}

/**
 * Seals a parcel as the record of a share, under a fresh secret.
 * @param o.password needed to open it, too
 * @param o.kdf how the key is derived then; scrypt with logN 18 by default
 * @returns the record, and the 32 bytes for its link
 * @throws SealpinError `parcel_invalid`, `invalid_filename`, `password_invalid`, `kdf_unavailable`, `random_failed`
 */
export async function sealParcel(
  parcel: Parcel,
  { password, kdf, backend = webBackend }: { password?: string | undefined; kdf?: PasswordKdf; backend?: Backend } = {},
): Promise<{ record: Uint8Array; secret: Uint8Array }> {
  const plaintext = encodeParcel(parcel);
  const secret = draw(backend, secretBytes);
  const sealed =
    password === undefined
      ? (await encryptPayload(streamOf(plaintext), { fileKey: secret, backend })).payload
      : (
          await encrypt(streamOf(plaintext), {
            format: 'sealpin',
            recipients: [passwordRecipient(recordPassword(secret, password), kdf)],
            backend,
          })
        ).stream;
  return { record: await readAll(sealed, maxRecordBytes, parcelTooLarge), secret };
}

/**
 * Opens the record of a share.
 * @param record as the service handed it out
 * @param o.secret 32 bytes, from the link
 * @param o.password ignored for a record that needs none
 * @throws SealpinError `wrong_kind` (`needs_password`) for a record that needs a password, `decrypt_failed` (`wrong_password`),
 *   `container_invalid`, `header_invalid`, `unsupported_version`, `kdf_unavailable`, and what `parseParcel` throws
 */
export async function openParcel(
  record: Uint8Array,
  { secret, password, backend = webBackend }: { secret: Uint8Array; password?: string | undefined; backend?: Backend },
): Promise<Parcel> {
  const opened = await open(streamOf(record), { backend });
  if (opened.kind === 'plain' || opened.kind === 'age')
    throw new SealpinError('parcel_invalid', 'The record of the share is not a parcel that Sealpin sealed');
  const plaintext =
    opened.kind === 'detached'
      ? decryptPayload(opened.stream, { fileKey: secret, backend })
      : await opened.decrypt(password === undefined ? [] : [passwordIdentity(recordPassword(secret, password))]);
  return parseParcel(await readAll(plaintext, maxParcelBytes, parcelTooLarge));
}
