/**
 * Sealed parcels (docs/links.md): the records of shares, which the secret of a link opens, and what
 * is handed over to an inbox.
 */
import { draw } from '../crypto/providers/provider.ts';
import { streamOf } from '../crypto/bytes.ts';
import {
  decryptPayload,
  encrypt,
  encryptPayload,
  open,
  passwordIdentity,
  passwordRecipient,
  webProvider,
  type Identity,
  type PasswordKdf,
  type Recipient,
} from '../crypto/index.ts';
import type { WithProvider } from '../crypto/types.ts';
import { encodeBase62 } from '../crypto/keys/base62.ts';
import { SealpinError } from '../errors.ts';
import { cancelQuietly } from '../streams/cancel-quietly.ts';
import { readAll } from '../streams/read-all.ts';
import { shareIdBytes, secretBytes } from './link.ts';
import { encodeParcel, maxParcelBytes, parcelTooLarge, parseSignedParcel, type Parcel } from './parcel.ts';
import { checkClaim, type ParcelPlace, type Signing } from './parcel-signature.ts';

/**
 * The most bytes of a record: the largest parcel, the tags of its chunks, the preamble, and a
 * header with a password.
 */
export const maxRecordBytes = maxParcelBytes + 1024;

/**
 * Draws the ID of a share: 128 bits as 22 base62 characters.
 * @throws SealpinError `random_failed`
 */
export function newShareId(): string {
  return encodeBase62(draw(webProvider, shareIdBytes));
}

/**
 * The password of a record: the secret of the link and what the sender chose, so that both are
 * needed.
 */
function recordPassword(secret: Uint8Array, password: string): string {
  if (password === '') throw new SealpinError('password_invalid', 'the password is empty');
  return `${encodeBase62(secret)}.${password}`;
}

/**
 * Seals a parcel as the record of a share, under a fresh secret.
 * @param o.password needed to open it, too
 * @param o.kdf how the key is derived then; scrypt with logN 18 by default
 * @param o.recipients instead of a password: one of their private keys is needed to open it, too
 * @param o.signing signs it, for its share and these recipients
 * @returns the record, and the 32 bytes for its link
 * @throws SealpinError `parcel_invalid`, `invalid_filename`, `password_invalid`, `invalid_request`
 * for a password together with recipients, `kdf_unavailable`, `random_failed`
 */
export async function sealParcel(
  parcel: Parcel,
  o: WithProvider & {
    password?: string | undefined;
    kdf?: PasswordKdf | undefined;
    recipients?: readonly Recipient[];
    signing?: Signing | undefined;
  } = {},
): Promise<{ record: Uint8Array<ArrayBuffer>; secret: Uint8Array }> {
  const { password, recipients = [], signing, provider = webProvider } = o;
  if (password !== undefined && recipients.length > 0)
    throw new SealpinError('invalid_request', 'a password cannot be combined with keys', {
      reason: 'password_and_keys',
    });
  const plaintext =
    recipients.length > 0
      ? await sealParcelTo(parcel, { recipients, signing, provider })
      : encodeParcel(parcel, signing);
  const secret = draw(provider, secretBytes);
  const byPassword = password === undefined ? [] : [passwordRecipient(recordPassword(secret, password), o.kdf)];
  const sealed =
    byPassword.length === 0
      ? (await encryptPayload(streamOf(plaintext), { fileKey: secret, provider })).payload
      : (await encrypt(streamOf(plaintext), { format: 'sealpin', recipients: byPassword, provider })).stream;
  return { record: await readAll(sealed, maxRecordBytes, parcelTooLarge), secret };
}

/**
 * Opens the record of a share.
 * @param record as the service handed it out
 * @param o.secret 32 bytes, from the link
 * @param o.password ignored for a record that needs none
 * @param o.identities finds private keys, once the record turns out to need one
 * @param o.place of the share, which a signature is compared with
 * @throws SealpinError `wrong_kind` (`needs_password`, `needs_key`) for a record that needs more
 * than the secret, `decrypt_failed` (`wrong_password`, `no_key`), `container_invalid`,
 * `header_invalid`, `unsupported_version`, `kdf_unavailable`, and what `parseParcel` throws
 */
export async function openParcel(
  record: Uint8Array,
  o: WithProvider & {
    secret: Uint8Array;
    place?: ParcelPlace | undefined;
    password?: string | undefined;
    identities?: () => readonly Identity[] | Promise<readonly Identity[]>;
  },
): Promise<Parcel> {
  const { secret, password, identities = () => [], place, provider } = o;
  const opened = await open(streamOf(record), { provider });
  if (opened.kind === 'plain' || opened.kind === 'age') throw notAParcel();
  if ('decrypt' in opened) {
    const given = password === undefined ? [] : [passwordIdentity(recordPassword(secret, password))];
    return parcelIn(await opened.decrypt(given), place);
  }
  const plaintext = decryptPayload(opened.stream, { fileKey: secret, provider });
  const inner = await open(plaintext, { provider });
  if (inner.kind === 'plain') return parcelIn(inner.stream, place);
  if (inner.kind === 'detached') throw notAParcel();
  const keys = await identities();
  return parcelIn(await inner.decrypt(keys), place, keys);
}

/**
 * Seals a parcel to public keys, as an age container: the form in which files are handed over to an
 * inbox.
 * @throws SealpinError `parcel_invalid`, `invalid_filename`, `no_recipients`, `invalid_request`,
 * `random_failed`
 */
export async function sealParcelTo(
  parcel: Parcel,
  { recipients, signing, provider }: WithProvider & { recipients: readonly Recipient[]; signing?: Signing | undefined },
): Promise<Uint8Array<ArrayBuffer>> {
  const { stream } = await encrypt(streamOf(encodeParcel(parcel, signing)), { format: 'age', recipients, provider });
  return readAll(stream, maxRecordBytes, parcelTooLarge);
}

/**
 * Opens a parcel sealed to public keys.
 * @throws SealpinError `parcel_invalid`, `decrypt_failed`; as `openParcel`
 */
export async function openParcelWith(
  container: ReadableStream<Uint8Array>,
  { identities, place, provider }: WithProvider & { identities: readonly Identity[]; place?: ParcelPlace | undefined },
): Promise<Parcel> {
  const opened = await open(container, { provider });
  if (opened.kind !== 'plain' && opened.kind !== 'detached')
    return parcelIn(await opened.decrypt(identities), place, identities);
  await cancelQuietly(opened.stream);
  throw notAParcel();
}

/** Reads a parcel, and checks its signature. @param identities those that opened it */
async function parcelIn(
  plaintext: ReadableStream<Uint8Array>,
  place: ParcelPlace | undefined,
  identities?: readonly Identity[],
): Promise<Parcel> {
  const { parcel, claim } = parseSignedParcel(await readAll(plaintext, maxParcelBytes, parcelTooLarge));
  if (claim === undefined) return parcel;
  const own = identities?.flatMap(({ recipient = [] }) => recipient);
  return { ...parcel, signed: await checkClaim(claim, { place, own }) };
}

function notAParcel(): SealpinError {
  return new SealpinError('parcel_invalid', 'it is not a parcel that Sealpin sealed');
}
