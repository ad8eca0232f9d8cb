/** Signers of what is sent and received: one's own key, and those of contacts. */
import { parcelSigner, secretIn, type ParcelSigner } from '../../shared/crypto/index.ts';
import type { Parcel, ParcelSignature } from '../../shared/link/index.ts';
import type { Context } from '../context.ts';
import { readSigners } from './contacts.ts';
import { fingerprint } from './fingerprint.ts';
import { readPrivateText } from './key-files.ts';

/**
 * Signer of the user: it follows from `private.key`.
 * @throws file_not_found, key_invalid, decrypt_failed
 */
export async function ownSigner(context: Context): Promise<ParcelSigner> {
  const { text } = await readPrivateText(undefined, undefined, context);
  return parcelSigner(secretIn(text));
}

/** A signature as people read it. `name`: of the contact; `words`: of a key that is none. */
export type ShownSignature = ParcelSignature & { readonly name?: string; readonly words?: string };

/** Names who signed. */
export async function shownSignature(signed: ParcelSignature, context: Context): Promise<ShownSignature> {
  const [name] = [...(await readSigners(context))].find(([, all]) => all.includes(signed.signer)) ?? [];
  return name === undefined ? { ...signed, words: await fingerprint(signed.signer) } : { ...signed, name };
}

/**
 * Says who sent what came, as they say, who signed it, or why that does not count, and the note.
 * @returns what was said, for other programs
 */
export async function noteWords({ from, note, signed }: Pick<Parcel, 'from' | 'note' | 'signed'>, context: Context) {
  const { output } = context;
  if (from !== undefined) output.note(`from ${from} (as they say${signed ? '' : '; not signed'})`);
  const shown = signed && (await noteSignature(signed, context));
  for (const line of note?.split('\n') ?? []) output.note(`note: ${line}`);
  return { note, from, signed: shown };
}

async function noteSignature(signed: ParcelSignature, context: Context): Promise<ShownSignature> {
  const { output } = context;
  const shown = await shownSignature(signed, context);
  const { name, words = '', state, signer } = shown;
  const who = name ?? `the key ${words}`;
  if (state === 'valid' && name !== undefined) output.note(`signed by ${name}`);
  else if (state === 'valid') {
    output.note(`signed by a key that is none of your contacts: ${words}`);
    output.note('compare these six words with the sender once, by telephone or in person, and then keep the key:', [
      `  sealpin contact add <name> ${signer}`,
    ]);
  } else output.warn(`take it as not signed: ${faults[state](who)}`);
  return shown;
}

const faults: Record<Exclude<ParcelSignature['state'], 'valid'>, (who: string) => string> = {
  wrong: (who) => `the signature is not that of ${who}: somebody changed it, or claims to be somebody else`,
  elsewhere: (who) => `${who} signed it for another link or inbox, and somebody passed it on`,
  others: (who) => `${who} signed it for other recipients, and somebody passed it on`,
  unchecked: (who) => `the signature of ${who} could not be checked`,
};
