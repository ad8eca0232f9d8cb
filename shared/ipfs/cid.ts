/** CIDs, as strictly as Sealpin accepts them: CIDv1, lower-case base32, sha2-256, raw or dag-pb. */
import { base32 } from 'multiformats/bases/base32';
import { base58btc } from 'multiformats/bases/base58';
import { orUndefined, SealpinError } from '../errors.ts';

/** A CID and its parts; `digest` is the SHA-256 of the block, 32 bytes. */
export type Cid = { readonly text: string; readonly codec: 'raw' | 'dag-pb'; readonly digest: Uint8Array };

/** Codes of the multicodec table (https://github.com/multiformats/multicodec). */
const codecCodes = { raw: 0x55, 'dag-pb': 0x70 } as const;

/** Bytes of a binary CID: version 1, codec, sha2-256 (0x12), length 32, digest. */
export const cidBytes = 36;

/** The binary form, 36 bytes. */
export function bytesOfCid(cid: Cid): Uint8Array {
  const bytes = new Uint8Array(cidBytes);
  bytes.set([1, codecCodes[cid.codec], 0x12, 32]);
  bytes.set(cid.digest, 4);
  return bytes;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The CID of a block with this digest of 32 bytes. */
export function cidOf(codec: Cid['codec'], digest: Uint8Array): Cid {
  const cid = { text: '', codec, digest };
  // By way of bytes, since V8 keeps what `encode` joins one by one as 58 strings: 2 KB.
  return { ...cid, text: decoder.decode(encoder.encode(base32.encode(bytesOfCid(cid)))) };
}

/** A CID from its binary form; undefined when it is of a kind that Sealpin does not accept. */
export function cidFromBytes(bytes: Uint8Array): Cid | undefined {
  if (bytes.length !== cidBytes || bytes[0] !== 1 || bytes[2] !== 0x12 || bytes[3] !== 32) return undefined;
  const codec = bytes[1] === codecCodes.raw ? 'raw' : bytes[1] === codecCodes['dag-pb'] ? 'dag-pb' : undefined;
  return codec && cidOf(codec, bytes.slice(4));
}

/**
 * Parses a CIDv1 in its one spelling: base32, sha2-256, a codec of ours, no path.
 * @throws invalid_cid
 */
export function parseCid(text: string): Cid {
  const cid = readCid(text);
  if (cid !== undefined) return cid;
  // The text is not repeated: somebody may have pasted something else.
  throw new SealpinError('invalid_cid');
}

/**
 * The CIDv1 of the same block as a CIDv0, the older form: the multihash of a dag-pb block with
 * SHA-256, in base58 (https://github.com/multiformats/cid).
 * @returns undefined for any other text
 */
export function cidFromV0(text: string): Cid | undefined {
  if (!/^Qm[1-9A-HJ-NP-Za-km-z]{44}$/.test(text)) return undefined;
  const multihash = base58btc.baseDecode(text);
  return multihash.length === 34 && multihash[0] === 0x12 && multihash[1] === 32
    ? cidOf('dag-pb', multihash.slice(2))
    : undefined;
}

/**
 * The SHA-256 of a file, where its CID is that of one block of its bytes: files up to 1 MiB.
 * @throws invalid_cid
 */
export function digestOfBytes(text: string): Uint8Array | undefined {
  const { codec, digest } = parseCid(text);
  return codec === 'raw' ? digest : undefined;
}

/** Recognizes a CID that `parseCid` accepts. */
export function isCid(text: string): boolean {
  return readCid(text) !== undefined;
}

function readCid(text: string): Cid | undefined {
  return /^b[a-z2-7]{58}$/.test(text) ? cidIn(base32, text) : undefined;
}

/** A base of multibase. */
type Multibase = { decode(text: string): Uint8Array; encode(bytes: Uint8Array): string };

/** The CID of a text in this base; undefined for another one, and for a second spelling. */
export function cidIn(base: Multibase, text: string): Cid | undefined {
  const cid = orUndefined(() => cidFromBytes(base.decode(text)));
  // One text for each base: no padding, no other case, no spare bits that are set.
  return cid && base.encode(bytesOfCid(cid)) === text ? cid : undefined;
}
