/** Parcels (docs/links.md): which files are passed on, with the key of each, as JSON. */
import * as v from 'valibot';
import { decodeBase64, encodeBase64, padded, utf8 } from '../crypto/bytes.ts';
import { fileKeyText, parseFileKey } from '../crypto/keys/file-key-text.ts';
import { parseSigner } from '../crypto/keys/parcel-signer.ts';
import { orUndefined, SealpinError } from '../errors.ts';
import { cleanFilename, parseFilename } from '../filename.ts';
import { isCid } from '../ipfs/cid.ts';
import { claimFor, type ParcelSignature, type SignatureClaim, type Signing } from './parcel-signature.ts';

/**
 * A file of a parcel: where it is, what opens it, and what it is called. `size` in bytes of
 * plaintext; `modified`: when its content last changed, to the second.
 */
export type ParcelFile = {
  cid: string;
  fileKey: Uint8Array;
  name: string;
  type: string;
  size: number;
  modified?: Date | undefined;
};

/**
 * Parcel that a sender passes on. `note` and `from` are the sender's own words, which prove
 * nothing.
 */
export type Parcel = {
  files: ParcelFile[];
  note?: string | undefined;
  from?: string | undefined;
  /** Its signer; undefined: none. Ignored where it is written. */
  signed?: ParcelSignature | undefined;
};

/**
 * The media type of a parcel that is sealed to an inbox: by it, the owner finds what was handed
 * over.
 */
export const sealedParcelType = 'application/vnd.sealpin.parcel';
/** The most bytes of a parcel before it is sealed. */
export const maxParcelBytes = 48 * 1024;
/** A multiple of this is the size of every parcel, so that it reveals little about the names. */
const padBytes = 256;
const parcelVersion = 1;
const maxTypeLength = 255;
/** A parcel of version 1 as text, with its signature. */
const signedVersion = 2;

/** Characters of control but tab and line feed, which a note may have. */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

/** Text of the sender, in UTF-8 of at most so many bytes. */
const TextOfAtMost = (maxBytes: number) =>
  v.pipe(
    v.string(),
    v.nonEmpty(),
    v.maxBytes(maxBytes),
    v.check((text) => text.isWellFormed() && !controls.test(text)),
  );

const ParcelJson = v.strictObject({
  v: v.literal(parcelVersion),
  files: v.pipe(
    v.array(
      v.strictObject({
        cid: v.pipe(v.string(), v.check(isCid)),
        key: v.pipe(v.string(), v.transform(parseFileKey), v.instance(Uint8Array)),
        name: v.string(),
        type: v.pipe(v.string(), v.maxLength(maxTypeLength), v.regex(/^[ -~]+$/)),
        size: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
      }),
    ),
    v.nonEmpty(),
  ),
  note: v.optional(TextOfAtMost(4096)),
  from: v.optional(
    v.pipe(
      TextOfAtMost(255),
      v.check((text) => !/[\t\n]/.test(text)),
    ),
  ),
});

const SignedJson = v.strictObject({
  v: v.literal(signedVersion),
  service: v.string(),
  id: v.string(),
  recipients: v.array(v.string()),
  signer: v.pipe(
    v.string(),
    v.check((text) => orUndefined(() => parseSigner(text)) !== undefined),
  ),
  signature: v.pipe(v.string(), v.transform(decodeBase64), v.instance(Uint8Array)),
  parcel: v.pipe(v.string(), v.transform(utf8)),
});

/**
 * Writes a parcel, padded with spaces.
 * @param signing signs it
 * @throws SealpinError `parcel_invalid` when it gets too large or has a part that is not allowed,
 * `invalid_filename`
 */
export function encodeParcel({ files, note, from }: Parcel, signing?: Signing): Uint8Array {
  for (const { name } of files) parseFilename(name);
  const text = JSON.stringify({
    v: parcelVersion,
    files: files.map(({ fileKey, ...file }) => {
      const { cid, name, size } = file;
      return { cid, key: fileKeyText(fileKey), name, type: typeWithTime(file), size };
    }),
    note,
    from,
  });
  const json = padded(signing === undefined ? text : signedText(text, signing), padBytes);
  // What a reader would refuse is not written.
  parseSignedParcel(json);
  return json;
}

function signedText(text: string, signing: Signing): string {
  const { parcel: _, signature, ...claim } = claimFor(signing, utf8(text));
  return JSON.stringify({ v: signedVersion, ...claim, signature: encodeBase64(signature), parcel: text });
}

/**
 * Parses a parcel that may be signed.
 * @returns it, and what it says of its signature, which is not checked
 * @throws as `parseParcel`
 */
export function parseSignedParcel(bytes: Uint8Array): { parcel: Parcel; claim?: SignatureClaim } {
  const value = parcelJson(bytes);
  if (versionIn(value) !== signedVersion) return { parcel: parcelOf(value) };
  const claim = partsOf(SignedJson, value);
  return { parcel: parseParcel(claim.parcel), claim };
}

/**
 * Parses a parcel without a signature.
 * @returns names with `_` for the characters that `cleanFilename` changes
 * @throws SealpinError `parcel_invalid`, `unsupported_version`, `invalid_filename` for a name that
 * is unsafe to write or to show
 */
export function parseParcel(bytes: Uint8Array): Parcel {
  return parcelOf(parcelJson(bytes));
}

function parcelOf(value: unknown): Parcel {
  const version = versionIn(value);
  if (Number.isInteger(version) && version !== parcelVersion)
    throw new SealpinError('unsupported_version', 'unsupported parcel version');
  const { files, note, from } = partsOf(ParcelJson, value);
  return {
    files: files.map(({ key, name, type, ...file }) => ({
      ...file,
      ...withTime(type),
      fileKey: key,
      name: cleanFilename(name),
    })),
    note,
    from,
  };
}

/** A media type with the time of a file as a parameter: readers that do not know it skip it. */
const timedType = /^(.+); modified="(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"$/;

function typeWithTime({ type, modified }: Pick<ParcelFile, 'type' | 'modified'>): string {
  if (modified === undefined || Number.isNaN(modified.getTime())) return type;
  const timed = `${type}; modified="${modified.toISOString().replace(/\.\d+Z$/, 'Z')}"`;
  return timedType.test(timed) && timed.length <= maxTypeLength ? timed : type;
}

function withTime(text: string): Pick<ParcelFile, 'type' | 'modified'> {
  const [, type = '', time = ''] = timedType.exec(text) ?? [];
  const modified = new Date(time);
  return Number.isNaN(modified.getTime()) ? { type: text } : { type, modified };
}

function partsOf<S extends v.GenericSchema>(shape: S, value: unknown): v.InferOutput<S> {
  const result = v.safeParse(shape, value, { abortEarly: true });
  if (result.success) return result.output;
  const path = v.getDotPath(result.issues[0]) ?? '';
  // A path may end with a member that the sender made up.
  const where = /^[a-z0-9.]{1,20}$/.test(path) ? `: ${path}` : '';
  throw new SealpinError('parcel_invalid', `a part of the parcel is missing, malformed or unknown${where}`);
}

function versionIn(value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'v' in value ? value.v : undefined;
}

function parcelJson(bytes: Uint8Array): unknown {
  if (bytes.length > maxParcelBytes) throw parcelTooLarge();
  return parseJson(bytes, () => new SealpinError('parcel_invalid', 'the parcel is not JSON in UTF-8'));
}

/** Parses JSON in UTF-8. @throws the error of `invalid` for anything else */
export function parseJson(bytes: Uint8Array, invalid: () => SealpinError): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw invalid();
  }
}

/** The error for a parcel that has more than `maxParcelBytes`. */
export function parcelTooLarge(): SealpinError {
  return new SealpinError('parcel_invalid', `a parcel has at most ${maxParcelBytes / 1024} KiB`, {
    hint: 'pass on fewer files at once, or a shorter note',
  });
}
