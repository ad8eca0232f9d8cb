/**
 * Signatures of parcels (docs/links.md): who passes files on, and to which link, inbox and keys
 * alone.
 */
import { utf8 } from '../crypto/bytes.ts';
import { parseSigner, type ParcelSigner } from '../crypto/keys/parcel-signer.ts';
import { webProvider } from '../crypto/index.ts';
import { concat } from '../streams/concat.ts';

/**
 * Place of a parcel: the URL of its service, and the ID of the share, or of the API key of the
 * inbox.
 */
export type ParcelPlace = { readonly service: string; readonly id: string };

/** The signer of a parcel, and the place and recipients (`age1…`; none: the link) it signs for. */
export type Signing = ParcelPlace & { readonly signer: ParcelSigner; readonly recipients: readonly string[] };

/** Signature of a parcel, not checked yet. `service` is an origin. */
export type SignatureClaim = ParcelPlace & {
  readonly recipients: readonly string[];
  readonly signer: string;
  readonly signature: Uint8Array;
  /** The bytes that were signed. */
  readonly parcel: Uint8Array;
};

/**
 * `valid`: this key passed these files on, here and to these recipients. Otherwise the parcel is no
 * more than an unsigned one. `wrong`: something was changed, or another key claims to be this one;
 * `elsewhere`: it was signed for another link or inbox; `others`: for other recipients;
 * `unchecked`: this browser has no Ed25519, or it is not known where the parcel comes from.
 */
export type SignatureState = 'valid' | 'wrong' | 'elsewhere' | 'others' | 'unchecked';

/** Signer of a parcel (`sealpin-signer1…`), as far as that was checked. */
export type ParcelSignature = { readonly signer: string; readonly state: SignatureState };

const label = 'sealpin/parcel-signature/v1';
/** Stands for no recipients: anyone who has the link. */
const anyone = ['link'];

/** Writes what is signed: each field with its length in 4 bytes, big-endian, before it. */
function signedBytes({ service, id, recipients }: Omit<Signing, 'signer'>, parcel: Uint8Array): Uint8Array {
  const sorted = recipients.length === 0 ? anyone : recipients.toSorted();
  const count = numberOf(sorted.length);
  const fields = [utf8(label), utf8(service), utf8(id), count, ...sorted.map(utf8), webProvider.sha256(parcel)];
  return concat(...fields.flatMap((field) => [numberOf(field.length), field]));
}

function numberOf(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}

/** Signs a parcel. @param parcel the bytes of its JSON */
export function claimFor({ signer, service, ...place }: Signing, parcel: Uint8Array): SignatureClaim {
  const claim = { ...place, service: new URL(service).origin, recipients: place.recipients.toSorted() };
  return { ...claim, signer: signer.text, signature: signer.sign(signedBytes(claim, parcel)), parcel };
}

/**
 * Checks a claim.
 * @param o.place where the parcel was found; undefined: not known
 * @param o.own the recipients of the keys that opened it; undefined: the link alone did
 */
export async function checkClaim(
  claim: SignatureClaim,
  { place, own }: { place: ParcelPlace | undefined; own: readonly string[] | undefined },
): Promise<ParcelSignature> {
  const { signer, service, id, recipients } = claim;
  const isRight = await verify(claim);
  const state = (): SignatureState => {
    if (isRight === false) return 'wrong';
    if (isRight === undefined || place === undefined) return 'unchecked';
    if (service !== new URL(place.service).origin || id !== place.id) return 'elsewhere';
    const isForReader = own === undefined ? recipients.length === 0 : recipients.some((each) => own.includes(each));
    return isForReader ? 'valid' : 'others';
  };
  return { signer, state: state() };
}

/** @returns undefined where the platform has no Ed25519 */
async function verify({ signer, signature, parcel, ...place }: SignatureClaim): Promise<boolean | undefined> {
  const publicKey = parseSigner(signer);
  const { subtle } = crypto;
  const key = await subtle.importKey('raw', publicKey, 'Ed25519', false, ['verify']).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === 'NotSupportedError') return undefined;
    return false as const;
  });
  if (key === undefined || key === false) return key;
  return subtle.verify('Ed25519', key, signature.slice(), signedBytes(place, parcel).slice());
}
