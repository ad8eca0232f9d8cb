/** The `file` stanza of a detached header: whose header it is, and what the file is called. */
import { orUndefined, SealpinError } from '../../errors.ts';
import { draw, type CryptoProvider } from '../providers/provider.ts';
import { fromUtf8, padded, utf8 } from '../bytes.ts';
import { concat } from '../../streams/concat.ts';
import { hkdf } from '../providers/kdf.ts';
import type { Stanza } from '../formats/format-row.ts';
import { nonceBytes, tagBytes } from '../payload/chunking.ts';

/**
 * The description of a file, which only the holder of a key can read. `size` in bytes of plaintext.
 */
export type FileInfo = {
  filename: string | null;
  contentType: string;
  size: number;
  /** Pairs of the owner's, where there are any. */
  metadata?: Readonly<Record<string, string>> | undefined;
  /** Words by which the owner finds the file, where there are any. */
  tags?: readonly string[] | undefined;
};

/** The JSON is padded to a multiple of this, so that its length reveals little. */
const padBytes = 256;

function isFileId(text: string): boolean {
  return /^[!-~]{1,255}$/.test(text);
}

/** Parses a file stanza, whose argument names the file; throws `header_invalid`. */
export function parseFileStanza({ args, body }: Stanza): { nonce: Uint8Array; sealed: Uint8Array } {
  const jsonBytes = body.length - nonceBytes - tagBytes;
  if (args.length !== 2 || !isFileId(args[1] ?? '') || jsonBytes < padBytes || jsonBytes % padBytes !== 0)
    throw new SealpinError('header_invalid', 'the file entry of the header is malformed');
  return { nonce: body.subarray(0, nonceBytes), sealed: body.subarray(nonceBytes) };
}

const aeadFor = (provider: CryptoProvider, fileKey: Uint8Array) =>
  provider.aesGcm(hkdf(provider, fileKey, new Uint8Array(0), 'sealpin/v1 file'));

/**
 * Seals the description of a file, bound to its id.
 * @param fileId 1 to 255 visible ASCII characters; `TypeError` for anything else, and for a `size`
 * that is no whole number of at least 0
 */
export async function sealFileStanza(
  provider: CryptoProvider,
  fileKey: Uint8Array,
  fileId: string,
  { filename, contentType, size, metadata, tags }: FileInfo,
): Promise<Stanza> {
  if (!isFileId(fileId)) throw new TypeError('fileId must be 1 to 255 visible ASCII characters');
  if (!Number.isSafeInteger(size) || size < 0) throw new TypeError('size must be a whole number of at least 0');
  const json = padded(JSON.stringify({ filename, contentType, size, metadata, tags }), padBytes);
  const nonce = draw(provider, nonceBytes);
  const aead = await aeadFor(provider, fileKey);
  return { args: ['file', fileId], body: concat(nonce, await aead.seal(nonce, json, utf8(fileId))) };
}

/** Opens a file stanza; throws `decrypt_failed` when it belongs to another file than `fileId`. */
export async function openFileStanza(
  provider: CryptoProvider,
  fileKey: Uint8Array,
  fileId: string,
  stanza: Stanza,
): Promise<FileInfo> {
  const parsed = parseFileStanza(stanza);
  const aead = await aeadFor(provider, fileKey);
  return parseFileInfo(fromUtf8(await aead.open(parsed.nonce, parsed.sealed, utf8(fileId))));
}

function parseFileInfo(json: string): FileInfo {
  const info = orUndefined(() => JSON.parse(json) as Partial<Record<keyof FileInfo, unknown>> | null);
  const { filename, contentType, size, metadata, tags } = info ?? {};
  const isFile =
    (filename === null || typeof filename === 'string') &&
    typeof contentType === 'string' &&
    Number.isSafeInteger(size) &&
    Number(size) >= 0 &&
    (metadata === undefined || (!Array.isArray(metadata) && isTexts(metadata))) &&
    (tags === undefined || (Array.isArray(tags) && isTexts(tags)));
  if (isFile) return { filename, contentType, size, metadata, tags } as FileInfo;
  throw new SealpinError('header_invalid', 'the file entry of the header does not describe a file');
}

/** Checks that the members of an object, or the items of a list, are all text. */
function isTexts(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every((each) => typeof each === 'string');
}
